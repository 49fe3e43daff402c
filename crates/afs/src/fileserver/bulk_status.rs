//! BulkStatus (155) and InlineBulkStatus (65536): up to fifty files at once. Only the first is what the client waits for; of the others
//! none is waited for while it changes.

use afs_wire::code::EAGAIN;
use afs_wire::{CallBack, CallBacks, Fid, Fids, Status, Statuses};
use identity::Rights;
use xdr::List;

use super::asked::Asked;
use super::look::{Size, Told, may_be_link, need_for_status};
use super::{Call, Refused, Serving};

impl Serving {
    /// A refusal of one file is that of the call.
    pub(super) async fn statuses(&self, call: &Call, fids: &Fids) -> Result<(Statuses, CallBacks), Refused> {
        let (mut statuses, mut call_backs) = (Vec::new(), Vec::new());
        for fid in &fids.0 {
            let asked = self.asked(call, *fid).await?;
            let told = self.told(&asked, *fid, Size::AtHand).await?;
            statuses.push(told.status);
            call_backs.push(told.call_back);
        }
        Ok((List(statuses), List(call_backs)))
    }

    /// A refusal of one file is told in its status.
    pub(super) async fn statuses_inline(
        &self,
        call: &Call,
        fids: &Fids,
    ) -> Result<(Statuses, CallBacks), Refused> {
        let (mut statuses, mut call_backs) = (Vec::new(), Vec::new());
        for (at, fid) in fids.0.iter().enumerate() {
            let (status, call_back) = match self.status_inline(call, *fid, at == 0).await {
                Ok(told) => (told.status, told.call_back),
                Err(Refused::Code(code)) => {
                    let status =
                        Status { interface_version: 1, error_code: code as u32, ..Status::default() };
                    (status, CallBack::default())
                }
                Err(refused) => return Err(refused),
            };
            statuses.push(status);
            call_backs.push(call_back);
        }
        Ok((List(statuses), List(call_backs)))
    }

    async fn status_inline(&self, call: &Call, fid: Fid, is_first: bool) -> Result<Told, Refused> {
        let asked = self.asked(call, fid).await?;
        if is_first {
            return self.told(&asked, fid, Size::AtHand).await;
        }
        if let Some(told) = self.try_told(&asked, fid) {
            return Ok(told);
        }
        // What is not at hand is opened; what is just changing is left to be asked for by itself.
        match asked.volume.volume.find(&asked.caller, asked.number(fid)?, Rights::NONE).await {
            Ok(_) => self.try_told(&asked, fid).ok_or_else(|| {
                self.server.inner.counters.bulk_without_promise.increment();
                EAGAIN.into()
            }),
            // A link, perhaps: nobody changes those.
            Err(error) if may_be_link(fid, &error) => self.told(&asked, fid, Size::AtHand).await,
            Err(error) => Err(error.into()),
        }
    }

    /// What may be told of a file that is at hand.
    fn try_told(&self, asked: &Asked, fid: Fid) -> Option<Told> {
        let promise = self.server.inner.hosts.promise();
        let look = self.try_look(asked, fid, need_for_status(fid), promise.until)?;
        let told = look.told(asked, &promise, self.size_at_hand(&look))?;
        self.keep_on_its_way(asked, &look);
        Some(told)
    }
}
