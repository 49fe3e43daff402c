//! Audit records of each call: the files and names that it asks for, and those that it made.

use afs_wire::Fid;
use afs_wire::rxafs::*;
use rx_lane::{AbortCode, CallError};
use xdr::rpc::Failure;

use super::{Call, CallFailure, ServedCall};
use crate::audit::{AuditIdentity, Event, Trail};

/// A call that the audit log records.
pub(super) trait Audited {
    const EVENT: Event;

    /// Returns what it asks for.
    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a>;
}

/// Answer of a call.
pub(super) trait Answered {
    /// Adds what became known by the answer.
    fn record(&self, trail: &mut Trail<'_>) {
        let _ = trail;
    }
}

impl ServedCall {
    /// Begins to tell of a call.
    pub(super) fn trail<R: Audited>(&self, call: &Call, request: &R) -> Trail<'_> {
        let who = || {
            let connection = call.connection();
            let principal = self.principal(connection);
            // A connection that is gone has no address.
            let peer = connection.remote().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
            // An anonymous user has no name.
            let user = if principal.is_anonymous() { "" } else { principal.name() };
            AuditIdentity { peer, user: user.as_bytes().into(), user_id: principal.id().0 }
        };
        request.record(self.server.inner.audit.begin(R::EVENT, who))
    }
}

impl Trail<'_> {
    /// Tells how a call ended. It is given what came of the work rather than the work: a future that is passed on is
    /// moved, and kept twice.
    pub(super) fn finish<T: Answered>(
        mut self,
        outcome: Result<T, CallFailure>,
    ) -> Result<T, Failure<CallError>> {
        let outcome = outcome.map_err(Failure::from);
        let code = match &outcome {
            Ok(answer) => {
                answer.record(&mut self);
                0
            }
            Err(failure) => AbortCode::from(*failure).0,
        };
        self.end(code);
        outcome
    }
}

/// Calls about one file.
macro_rules! of_a_file {
    ($($request:ty => $event:ident;)*) => {
        $(impl Audited for $request {
            const EVENT: Event = Event::$event;

            fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
                trail.of(self.fid)
            }
        })*
    };
}

of_a_file! {
    FetchData => FetchData;
    FetchData64 => FetchData;
    FetchDataOOB => FetchData;
    FetchACL => FetchAcl;
    FetchStatus => FetchStatus;
    StoreData => StoreData;
    StoreData64 => StoreData;
    StoreDataOOB => StoreData;
    StoreStatus => StoreStatus;
    OldSetLock => SetLock;
    OldExtendLock => ExtendLock;
    OldReleaseLock => ReleaseLock;
    SetLock => SetLock;
    ExtendLock => ExtendLock;
    ReleaseLock => ReleaseLock;
}

/// Calls about a name in a directory.
macro_rules! of_a_name {
    ($($request:ty => $event:ident;)*) => {
        $(impl Audited for $request {
            const EVENT: Event = Event::$event;

            fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
                trail.of(self.directory).name(&self.name)
            }
        })*
    };
}

of_a_name! {
    CreateFile<'_> => CreateFile;
    RemoveFile<'_> => RemoveFile;
    Symlink<'_> => Symlink;
    MakeDir<'_> => MakeDir;
    RemoveDir<'_> => RemoveDir;
}

/// Calls that set an access list.
macro_rules! of_a_list {
    ($($request:ty),*) => {
        $(impl Audited for $request {
            const EVENT: Event = Event::StoreAcl;

            fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
                let mut trail = trail.of(self.fid);
                trail.acl(&self.access_list);
                trail
            }
        })*
    };
}

of_a_list!(OldStoreACL<'_>, StoreACL<'_>);

impl Audited for Rename<'_> {
    const EVENT: Event = Event::Rename;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.of(self.from).name(&self.old_name).of(self.to).name(&self.new_name)
    }
}

impl Audited for Link<'_> {
    const EVENT: Event = Event::Link;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.of(self.directory).name(&self.name).of(self.existing)
    }
}

impl Audited for BulkStatus {
    const EVENT: Event = Event::BulkStatus;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.all(&self.fids)
    }
}

impl Audited for InlineBulkStatus {
    const EVENT: Event = Event::InlineBulkStatus;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.all(&self.fids)
    }
}

impl Audited for GetVolumeStatus {
    const EVENT: Event = Event::GetVolumeStatus;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.of(volume(self.volume))
    }
}

impl Audited for SetVolumeStatus<'_> {
    const EVENT: Event = Event::SetVolumeStatus;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail.of(volume(self.volume))
    }
}

impl Audited for FlushCPS {
    const EVENT: Event = Event::FlushCps;

    fn record<'a>(&self, trail: Trail<'a>) -> Trail<'a> {
        trail
    }
}

fn volume(volume: u32) -> Fid {
    Fid { volume, vnode: 0, uniquifier: 0 }
}

/// Answers that make something known.
macro_rules! that_made {
    ($($reply:ty),*) => {
        $(impl Answered for $reply {
            fn record(&self, trail: &mut Trail<'_>) {
                trail.file(self.fid);
            }
        })*
    };
}

that_made!(CreateFileReply, SymlinkReply, MakeDirReply);

impl Answered for FetchACLReply<'_> {
    fn record(&self, trail: &mut Trail<'_>) {
        trail.acl(&self.access_list);
    }
}

/// Answers that do not.
macro_rules! of_nothing_new {
    ($($reply:ty),* $(,)?) => {
        $(impl Answered for $reply {})*
    };
}

of_nothing_new!(
    FetchDataReply,
    FetchData64Reply,
    FetchDataOOBReply,
    FetchStatusReply,
    StoreDataReply,
    StoreData64Reply,
    StoreDataOOBReply,
    OldStoreACLReply,
    StoreACLReply,
    StoreStatusReply,
    RemoveFileReply,
    RenameReply,
    LinkReply,
    RemoveDirReply,
    OldSetLockReply,
    OldExtendLockReply,
    OldReleaseLockReply,
    SetLockReply,
    ExtendLockReply,
    ReleaseLockReply,
    BulkStatusReply,
    InlineBulkStatusReply,
    GetVolumeStatusReply<'_>,
    SetVolumeStatusReply,
    FlushCPSReply,
);
