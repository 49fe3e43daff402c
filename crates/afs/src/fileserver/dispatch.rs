//! Each call to its procedure. What is not here is refused as RXGEN_OPCODE.

use afs_wire::rxafs::*;
use rx_lane::CallError;
use xdr::rpc::Failure;

use super::call_context::Reply;
use super::fetch_data::Length;
use super::store_data::Extent;
use super::{Call, ServedCall};

type DispatchOutcome<P> = Result<Reply<P>, Failure<CallError>>;

impl Server<Call> for ServedCall {
    async fn fetch_data(&self, call: &mut Call, request: FetchData) -> DispatchOutcome<FetchData> {
        let trail = self.trail(call, &request);
        let range = (i64::from(request.offset), i64::from(request.length));
        let outcome = self.fetch(call, request.fid, range, Length::Word).await;
        trail.finish(outcome.map(|reply| FetchDataReply {
            status: reply.status,
            call_back: reply.call_back,
            sync: self.sync(call),
        }))
    }

    async fn fetch_data64(&self, call: &mut Call, request: FetchData64) -> DispatchOutcome<FetchData64> {
        let trail = self.trail(call, &request);
        let range = (request.offset, request.length);
        let outcome = self.fetch(call, request.fid, range, Length::Long).await;
        trail.finish(outcome.map(|reply| FetchData64Reply {
            status: reply.status,
            call_back: reply.call_back,
            sync: self.sync(call),
        }))
    }

    async fn fetch_acl(&self, call: &Call, request: FetchACL) -> DispatchOutcome<FetchACL> {
        let trail = self.trail(call, &request);
        trail.finish(self.list(call, request).await)
    }

    async fn fetch_status(&self, call: &Call, request: FetchStatus) -> DispatchOutcome<FetchStatus> {
        let trail = self.trail(call, &request);
        trail.finish(self.status_of(call, request).await)
    }

    async fn store_data(&self, call: &mut Call, request: StoreData) -> DispatchOutcome<StoreData> {
        let trail = self.trail(call, &request);
        let extent = Extent {
            offset: request.offset.into(),
            len: request.length.into(),
            file_len: request.file_length.into(),
        };
        let outcome = self.store(call, request.fid, &request.change, extent).await;
        trail.finish(outcome.map(|status| StoreDataReply { status, sync: self.sync(call) }))
    }

    async fn store_data64(&self, call: &mut Call, request: StoreData64) -> DispatchOutcome<StoreData64> {
        let trail = self.trail(call, &request);
        let extent = Extent { offset: request.offset, len: request.length, file_len: request.file_length };
        let outcome = self.store(call, request.fid, &request.change, extent).await;
        trail.finish(outcome.map(|status| StoreData64Reply { status, sync: self.sync(call) }))
    }

    async fn old_store_acl(
        &self,
        call: &Call,
        request: OldStoreACL<'_>,
    ) -> DispatchOutcome<OldStoreACL<'static>> {
        let trail = self.trail(call, &request);
        let outcome = self.set_list(call, request.fid, &request.access_list).await;
        trail.finish(outcome.map(|status| OldStoreACLReply { status, sync: self.sync(call) }))
    }

    async fn store_acl(&self, call: &Call, request: StoreACL<'_>) -> DispatchOutcome<StoreACL<'static>> {
        let trail = self.trail(call, &request);
        let outcome = self.set_list(call, request.fid, &request.access_list).await;
        trail.finish(outcome.map(|status| StoreACLReply { status, sync: self.sync(call) }))
    }

    async fn store_status(&self, call: &Call, request: StoreStatus) -> DispatchOutcome<StoreStatus> {
        let trail = self.trail(call, &request);
        trail.finish(self.set_status(call, request).await)
    }

    async fn remove_file(
        &self,
        call: &Call,
        request: RemoveFile<'_>,
    ) -> DispatchOutcome<RemoveFile<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.remove(call, request).await)
    }

    async fn create_file(
        &self,
        call: &Call,
        request: CreateFile<'_>,
    ) -> DispatchOutcome<CreateFile<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.create(call, request).await)
    }

    async fn rename(&self, call: &Call, request: Rename<'_>) -> DispatchOutcome<Rename<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.move_name(call, request).await)
    }

    async fn symlink(&self, call: &Call, request: Symlink<'_>) -> DispatchOutcome<Symlink<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.make_symlink(call, request).await)
    }

    async fn link(&self, call: &Call, request: Link<'_>) -> DispatchOutcome<Link<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.make_link(call, request).await)
    }

    async fn make_dir(&self, call: &Call, request: MakeDir<'_>) -> DispatchOutcome<MakeDir<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.make_directory(call, request).await)
    }

    async fn remove_dir(&self, call: &Call, request: RemoveDir<'_>) -> DispatchOutcome<RemoveDir<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(self.remove_directory(call, request).await)
    }

    async fn old_set_lock(&self, call: &Call, request: OldSetLock) -> DispatchOutcome<OldSetLock> {
        let trail = self.trail(call, &request);
        let outcome = self.lock(call, request.fid, request.r#type).await;
        trail.finish(outcome.map(|()| OldSetLockReply))
    }

    async fn old_extend_lock(&self, call: &Call, request: OldExtendLock) -> DispatchOutcome<OldExtendLock> {
        let trail = self.trail(call, &request);
        let outcome = self.extend(call, request.fid).await;
        trail.finish(outcome.map(|()| OldExtendLockReply))
    }

    async fn old_release_lock(
        &self,
        call: &Call,
        request: OldReleaseLock,
    ) -> DispatchOutcome<OldReleaseLock> {
        let trail = self.trail(call, &request);
        let outcome = self.release(call, request.fid).await;
        trail.finish(outcome.map(|()| OldReleaseLockReply))
    }

    async fn set_lock(&self, call: &Call, request: SetLock) -> DispatchOutcome<SetLock> {
        let trail = self.trail(call, &request);
        let outcome = self.lock(call, request.fid, request.r#type).await;
        trail.finish(outcome.map(|()| SetLockReply { sync: self.sync(call) }))
    }

    async fn extend_lock(&self, call: &Call, request: ExtendLock) -> DispatchOutcome<ExtendLock> {
        let trail = self.trail(call, &request);
        let outcome = self.extend(call, request.fid).await;
        trail.finish(outcome.map(|()| ExtendLockReply { sync: self.sync(call) }))
    }

    async fn release_lock(&self, call: &Call, request: ReleaseLock) -> DispatchOutcome<ReleaseLock> {
        let trail = self.trail(call, &request);
        let outcome = self.release(call, request.fid).await;
        trail.finish(outcome.map(|()| ReleaseLockReply { sync: self.sync(call) }))
    }

    async fn get_statistics(&self, _: &Call, _: GetStatistics) -> DispatchOutcome<GetStatistics> {
        Ok(GetStatisticsReply { statistics: self.statistics() })
    }

    async fn get_statistics64(&self, _: &Call, request: GetStatistics64) -> DispatchOutcome<GetStatistics64> {
        Ok(GetStatistics64Reply { statistics: self.statistics64(request.count) })
    }

    async fn x_stats_version(&self, _: &Call, _: XStatsVersion) -> DispatchOutcome<XStatsVersion> {
        Ok(XStatsVersionReply { version: super::statistics::VERSION })
    }

    async fn get_x_stats(&self, _: &Call, request: GetXStats) -> DispatchOutcome<GetXStats> {
        Ok(self.collection(&request))
    }

    async fn give_up_call_backs(
        &self,
        call: &Call,
        request: GiveUpCallBacks,
    ) -> DispatchOutcome<GiveUpCallBacks> {
        self.give_up(call, &request).await?;
        Ok(GiveUpCallBacksReply)
    }

    async fn give_up_all_call_backs(
        &self,
        call: &Call,
        _: GiveUpAllCallBacks,
    ) -> DispatchOutcome<GiveUpAllCallBacks> {
        self.give_up_all(call).await?;
        Ok(GiveUpAllCallBacksReply)
    }

    async fn get_capabilities(&self, call: &Call, _: GetCapabilities) -> DispatchOutcome<GetCapabilities> {
        Ok(self.capabilities(call).await)
    }

    /// Clients say by it by which of their addresses they want to be called: they are called where they call from.
    async fn call_back_rx_conn_addr(
        &self,
        call: &Call,
        _: CallBackRxConnAddr,
    ) -> DispatchOutcome<CallBackRxConnAddr> {
        self.host(call).await?;
        Ok(CallBackRxConnAddrReply)
    }

    async fn get_volume_status(
        &self,
        call: &Call,
        request: GetVolumeStatus,
    ) -> DispatchOutcome<GetVolumeStatus> {
        let trail = self.trail(call, &request);
        trail.finish(self.volume_status(call, request).await)
    }

    async fn set_volume_status(
        &self,
        call: &Call,
        request: SetVolumeStatus<'_>,
    ) -> DispatchOutcome<SetVolumeStatus<'static>> {
        let trail = self.trail(call, &request);
        trail.finish(ServedCall::set_volume_status(self, &request))
    }

    async fn get_root_volume(&self, _: &Call, _: GetRootVolume) -> DispatchOutcome<GetRootVolume> {
        Ok(self.root_volume()?)
    }

    /// Answers that there are no tokens: every caller is anonymous.
    async fn check_token(&self, _: &Call, _: CheckToken<'_>) -> DispatchOutcome<CheckToken<'static>> {
        Err(Failure::Refused(afs_wire::code::EACCES))
    }

    async fn get_time(&self, _: &Call, _: GetTime) -> DispatchOutcome<GetTime> {
        Ok(self.time())
    }

    async fn bulk_status(&self, call: &Call, request: BulkStatus) -> DispatchOutcome<BulkStatus> {
        let trail = self.trail(call, &request);
        let outcome = self.statuses(call, &request.fids).await;
        trail.finish(outcome.map(|(statuses, call_backs)| BulkStatusReply {
            statuses,
            call_backs,
            sync: self.sync(call),
        }))
    }

    async fn inline_bulk_status(
        &self,
        call: &Call,
        request: InlineBulkStatus,
    ) -> DispatchOutcome<InlineBulkStatus> {
        let trail = self.trail(call, &request);
        let outcome = self.statuses_inline(call, &request.fids).await;
        trail.finish(outcome.map(|(statuses, call_backs)| InlineBulkStatusReply {
            statuses,
            call_backs,
            sync: self.sync(call),
        }))
    }

    async fn get_out_of_band(&self, _: &Call, _: GetOutOfBand) -> DispatchOutcome<GetOutOfBand> {
        Ok(self.out_of_band()?)
    }

    async fn fetch_data_oob(&self, call: &mut Call, request: FetchDataOOB) -> DispatchOutcome<FetchDataOOB> {
        let trail = self.trail(call, &request);
        let outcome = self.fetch_out_of_band(call, &request).await;
        trail.finish(outcome.map(|reply| FetchDataOOBReply {
            status: reply.status,
            call_back: reply.call_back,
            sync: self.sync(call),
        }))
    }

    async fn store_data_oob(&self, call: &mut Call, request: StoreDataOOB) -> DispatchOutcome<StoreDataOOB> {
        let trail = self.trail(call, &request);
        let outcome = self.store_out_of_band(call, &request).await;
        trail.finish(outcome.map(|status| StoreDataOOBReply { status, sync: self.sync(call) }))
    }

    async fn flush_cps(&self, call: &Call, request: FlushCPS) -> DispatchOutcome<FlushCPS> {
        let trail = self.trail(call, &request);
        trail.finish(Ok(self.flush_groups()))
    }
}
