//! StoreData (133) and StoreData64 (65538): the client's packets go to the file as they lie, by one vectored write for as many as have
//! come. Whatever it takes, the data version rises by one; where the client dies in between, what has come by then is there.

use std::time::UNIX_EPOCH;

use afs_wire::code::EFBIG;
use afs_wire::{Fid, Status, StoreStatus};
use lane::fs::{AttributeChange, SetTime, Timestamp};
use rx_lane::CallError;
use vfs::Store;

use super::call_context::CallContext;
use super::status::attribute_change;
use super::{Call, CallFailure, ServedCall, descriptor};

/// Range of bytes that a client stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Length that the file is to have at the end of it.
    pub(super) file_len: u64,
}

impl ServedCall {
    pub(super) async fn store(
        &self,
        call: &mut Call,
        fid: Fid,
        change: &StoreStatus,
        extent: Extent,
    ) -> Result<Status, CallFailure> {
        let take = async |call: &mut Call, store: Store| self.take(call, &store, extent).await;
        self.storing(call, fid, change, extent, take).await
    }

    /// Returns what a store does before and after the client's bytes, which `take` writes.
    pub(super) async fn storing(
        &self,
        call: &mut Call,
        fid: Fid,
        change: &StoreStatus,
        extent: Extent,
        take: impl AsyncFnOnce(&mut Call, Store) -> Result<(), CallFailure>,
    ) -> Result<Status, CallFailure> {
        let context = self.change_context(call, fid).await?;
        let end = extent.offset.checked_add(extent.len).ok_or(EFBIG)?;
        if end.max(extent.file_len) > i64::MAX as u64 {
            return Err(EFBIG.into());
        }
        let _descriptor = descriptor(call.remote())?;
        let writer = self.writer(&context, fid).await?;
        let store = writer.store(&context.caller);
        let size = writer.file().attributes()?.size;
        // What there is no room for changes nothing, neither the bytes nor the length that the file is to have.
        if extent.len > 0 {
            store
                .reserve(extent.offset, extent.len.max(extent.file_len.saturating_sub(extent.offset)))
                .await?;
        }
        if extent.file_len < size || extent.len == 0 {
            store.truncate(extent.file_len).await?;
        }
        take(call, store.clone()).await?;
        // All is here: what is left is done whatever the client does.
        let shield = call.shield();
        if writer.file().attributes()?.size < extent.file_len {
            store.truncate(extent.file_len).await?;
        }
        self.keep_writer(&context, &writer);
        let outcome = self.finish_store(&context, fid, change, &writer).await;
        drop(shield);
        outcome
    }

    /// Writes what the client sends.
    async fn take(&self, call: &mut Call, store: &Store, extent: Extent) -> Result<(), CallFailure> {
        let counters = &self.server.inner.counters;
        let mut done = 0;
        while done < extent.len {
            let max = usize::try_from(extent.len - done).unwrap_or(usize::MAX).min(BURST_MAX);
            let held = call.read_held(max).await?;
            if held.is_empty() {
                counters.stores_short.increment();
                return Err(CallError::Short.into());
            }
            let len = held.len() as u64;
            let (written, bufs) = store.write_vectored_at(extent.offset + done, held.into_bufs()).await;
            // The client's window moves on.
            drop(bufs);
            written?;
            done += len;
            counters.stored_bytes.add(len);
        }
        Ok(())
    }

    async fn finish_store(
        &self,
        context: &CallContext,
        fid: Fid,
        change: &StoreStatus,
        writer: &vfs::Writer,
    ) -> Result<Status, CallFailure> {
        let left =
            AttributeChange { mtime: stamp(attribute_change(change).mtime), ..attribute_change(change) };
        if left != AttributeChange::NONE {
            writer.set_attributes(&context.caller, left).await?;
        }
        if change.mask & afs_wire::SET_FSYNC != 0 {
            writer.sync(lane::fs::SyncOf::All).await?;
        }
        let status = self.status_after_change(context, fid).await?.status;
        self.close_if_executable(context, fid, &status)?;
        Ok(status)
    }
}

/// Returns the client's second, of which the rest is by the clock here. Two stores within a second would else be of one
/// time and perhaps one length, by which others know contents (HTTP's entity tags). What it says of a time without
/// content is kept as it says it.
fn stamp(time: SetTime) -> SetTime {
    let SetTime::At(at) = time else { return time };
    let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    SetTime::At(Timestamp { nanos: now.subsec_nanos().max(1), ..at })
}

//@ limit: bytes of a store on their way to the disk
//@ section: AFS file server
//@ unit: byte
//@ connection: the call's window; {:b} a write
//@ all: lane: as the packets of Rx
//@ empty: the client waits; others feel nothing
//@ counter: rx_packets_in_use
//@ attack: afs-announced-stores
/// Bytes of one write at most.
const BURST_MAX: usize = 1 << 20;
