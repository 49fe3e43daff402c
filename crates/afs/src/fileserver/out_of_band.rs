//! GetOutOfBand, FetchDataOOB, StoreDataOOB: as FetchData64 and StoreData64, with the bytes beside the call (docs/design/oob.md).

use std::rc::Rc;

use afs_wire::code::EFBIG;
use afs_wire::code::oob::OOB_UNSUITABLE;
use afs_wire::rxafs::{FetchDataOOB, GetOutOfBand, StoreDataOOB};
use afs_wire::{OobWish, Status};
use rx_lane::AbortCode;
use xdr::Writer;
use xdr::rpc::Fault;

use super::call_context::Reply;
use super::fetch_data::FetchContent;
use super::status_and_callback::StatusAndCallback;
use super::store_data::Extent;
use super::{Call, CallFailure, ServedCall, descriptor};
use crate::code;
use crate::oob::{Direction, GrantedTransfer, LaneOob, Requester};

impl ServedCall {
    pub(super) fn out_of_band(&self) -> Result<Reply<GetOutOfBand>, CallFailure> {
        let opcode = afs_wire::rxafs::opcode::GET_OUT_OF_BAND;
        Ok(Reply::<GetOutOfBand> { facts: self.oob(opcode)?.facts() })
    }

    pub(super) async fn fetch_out_of_band(
        &self,
        call: &mut Call,
        request: &FetchDataOOB,
    ) -> Result<StatusAndCallback, CallFailure> {
        let oob = self.oob(afs_wire::rxafs::opcode::FETCH_DATA_OOB)?;
        let context = self.call_context(call, request.fid).await?;
        let fetch = self.begin_fetch(&context, request.fid).await?;
        let FetchContent::File(file) = &fetch.content else { return Err(OOB_UNSUITABLE.into()) };
        let len = request.length.min(fetch.size.saturating_sub(request.offset));
        let _descriptor = descriptor(call.remote())?;
        let transfer = begin(&oob, call, &request.wish, Direction::Fetch, (request.offset, len))?;
        let grant = encoded(&transfer);
        // Over idle connections bytes leave before the grant does: they have no round trip to wait for.
        let running = transfer.send(file);
        call.write(&grant).await?;
        call.flush().await?;
        running.ended().await?;
        self.server.inner.counters.fetched_bytes.add(len);
        Ok(self.end_fetch(&context, &fetch))
    }

    pub(super) async fn store_out_of_band(
        &self,
        call: &mut Call,
        request: &StoreDataOOB,
    ) -> Result<Status, CallFailure> {
        let oob = self.oob(afs_wire::rxafs::opcode::STORE_DATA_OOB)?;
        let StoreDataOOB { fid, change, offset, length, file_length, ref wish } = *request;
        let extent = Extent { offset, len: length, file_len: file_length };
        self.storing(call, fid, &change, extent, async |call, store| {
            offset.checked_add(length).ok_or(EFBIG)?;
            let transfer = begin(&oob, call, wish, Direction::Store, (offset, length))?;
            let grant = encoded(&transfer);
            let running = transfer.receive(&Rc::new(store), code::of);
            call.write(&grant).await?;
            call.flush().await?;
            running.ended().await?;
            self.server.inner.counters.stored_bytes.add(length);
            Ok(())
        })
        .await
    }

    /// Returns out-of-band TCP, if a listener is open: else there are no such procedures.
    fn oob(&self, opcode: u32) -> Result<LaneOob, CallFailure> {
        let offered = self.server.inner.oob.borrow().clone().filter(LaneOob::is_listening);
        offered.ok_or(AbortCode(Fault::UnknownOpcode { opcode }.abort_code()).into())
    }
}

fn begin(
    oob: &LaneOob,
    call: &Call,
    wish: &OobWish,
    way: Direction,
    range: (u64, u64),
) -> Result<GrantedTransfer, CallFailure> {
    // A connection that is gone has no address, and no client to grant anything to.
    let address = call.remote().ok_or(rx::abort::CALL_DEAD)?.ip();
    Ok(oob.begin(&Requester { address, principal: call.principal() }, wish, way, range)?)
}

/// Returns the grant as it stands in front of a reply: how many bytes it has, and these.
fn encoded(transfer: &GrantedTransfer) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    Writer::new(&mut bytes).value(transfer.grant()).expect("it is within the interface's bounds");
    let len = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}
