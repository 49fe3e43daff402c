//! An instance of an application that comes from another client than before takes over what it had open (MS-SMB2 3.3.5.9.13).

use std::sync::Arc;

use smb_wire::Status;

use super::params::CreateParams;
use crate::app_instances::AppInstance;
use crate::names;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;

impl Share {
    /// Closes the opens of the file that the same application instance has made by another client.
    ///
    /// # Errors
    /// `STATUS_FILE_FORCED_CLOSED` where that belongs to a newer version of it.
    pub(super) async fn take_over_app_instance(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        app_instance: AppInstance,
    ) -> Result<(), Status> {
        let opens = self.opens();
        let members = opens.app_instances().of(app_instance.id).into_iter();
        let others: Vec<_> = members
            .filter_map(|volatile| opens.find_any(volatile))
            .filter(|open| open.client() != ctx.client && open.share_name() == self.name())
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let lookup = names::find(self, &ctx.caller, &params.name, params.case()).await?;
        let is_same =
            |open: &Arc<Open>| open.grants().path(self.volume()).is_some_and(|path| path == lookup.path);
        for open in others.into_iter().filter(is_same) {
            //= MS-SMB2 3.3.5.9.13
            //# A version that is not newer than that of the open, or none where that has one: STATUS_FILE_FORCED_CLOSED.
            let old = open.app_instance.as_ref().map(|member| member.app_instance);
            if old.is_some_and(|old| !app_instance.may_succeed(&old)) {
                return Err(Status::FILE_FORCED_CLOSED);
            }
            // Only a user that may have read it all may take it from another user.
            if open.user() != ctx.caller.principal.name() {
                return Err(Status::ACCESS_DENIED);
            }
            opens.disconnected().claim(&open);
            self.lane_state().closer().close(open).await;
            self.counters().durable_taken_over.increment();
        }
        Ok(())
    }
}
