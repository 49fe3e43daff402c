//! BulkStatus (155) and InlineBulkStatus (65536): up to fifty files at once. Only the first two may be what the client waits for; the
//! others are waited for only for a moment while they change, or while directories are read to tell how large they are.

use std::time::{Duration, Instant};

use afs_wire::code::EAGAIN;
use afs_wire::{CallBack, CallBacks, Fid, Fids, Status, Statuses};
use xdr::List;

use super::call_context::CallContext;
use super::status_and_callback::{StatusAndCallback, need_for_status};
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    /// Answers BulkStatus: a refusal of one file is that of the call.
    pub(super) async fn statuses(
        &self,
        call: &Call,
        fids: &Fids,
    ) -> Result<(Statuses, CallBacks), CallFailure> {
        let (mut statuses, mut call_backs) = (Vec::new(), Vec::new());
        for fid in &fids.0 {
            let found = self.status_of_fid(call, *fid).await?;
            statuses.push(found.status);
            call_backs.push(found.call_back);
        }
        Ok((List(statuses), List(call_backs)))
    }

    /// Answers InlineBulkStatus: a refusal of one file is in its status.
    pub(super) async fn statuses_inline(
        &self,
        call: &Call,
        fids: &Fids,
    ) -> Result<(Statuses, CallBacks), CallFailure> {
        let (mut statuses, mut call_backs) = (Vec::new(), Vec::new());
        let patient_until = lane::time::now() + PATIENCE;
        for (at, fid) in fids.0.iter().enumerate() {
            let until = (at >= ASKED_FOR).then_some(patient_until);
            let (status, call_back) = match self.status_inline(call, *fid, until).await {
                Ok(found) => (found.status, found.call_back),
                Err(CallFailure::Code(code)) => {
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

    /// Returns the status of one file of InlineBulkStatus. A file that is still changing at `until` is left to be asked
    /// for by itself.
    async fn status_inline(
        &self,
        call: &Call,
        fid: Fid,
        until: Option<Instant>,
    ) -> Result<StatusAndCallback, CallFailure> {
        let Some(until) = until else { return self.status_of_fid(call, fid).await };
        if let Some((found, _)) = self.synthetic(call, fid).await? {
            return Ok(found);
        }
        let context = self.call_context(call, fid).await?;
        if let Some(found) = self.try_status_and_callback(&context, fid) {
            return Ok(found);
        }
        let left = until.saturating_duration_since(lane::time::now()).max(TURN);
        match lane::time::timeout(left, self.status_and_callback(&context, fid)).await {
            Ok(found) => found,
            Err(_) => {
                self.server.inner.counters.bulk_without_promise.increment();
                Err(EAGAIN.into())
            }
        }
    }

    /// Returns the status of a file that is at hand, as far as the client may see it.
    fn try_status_and_callback(&self, context: &CallContext, fid: Fid) -> Option<StatusAndCallback> {
        let promise = self.server.inner.hosts.promise();
        let lookup = self.try_lookup(context, fid, need_for_status(fid), promise.until)?;
        let found = lookup.status_and_callback(self, context, &promise, self.cached_size(&lookup)?)?;
        self.hold_in_flight(context, &lookup);
        Some(found)
    }
}

//@ limit: files of one bulk status
//@ section: AFS file server
//@ unit: file
//@ connection: 50 of a call
//@ empty: RXGEN_SS_UNMARSHAL; others feel nothing
//@ counter: none
//@ attack: afs-pools
/// OpenAFS's clients ask first for what they look up; Linux's for its directory first, and then for it.
const ASKED_FOR: usize = 2;
/// Time for which all but the first files of a call are waited for together while they change or are read;
/// and each of them, to be looked up, at least.
const PATIENCE: Duration = Duration::from_millis(200);
const TURN: Duration = Duration::from_millis(20);
