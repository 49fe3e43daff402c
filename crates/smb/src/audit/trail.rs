//! One request on its way: what is known of it so far, recorded when it is answered.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use identity::Principal;
use service::log::LaneLog;
use service::log::audit::Act;
use smb_tree::Share;
use smb_wire::body::ioctl::IoctlRequestFixed;
use smb_wire::body::lock::LockRequest;
use smb_wire::body::query_directory::QueryDirectoryRequestFixed;
use smb_wire::body::query_info::QueryInfoRequestFixed;
use smb_wire::body::read::ReadRequest;
use smb_wire::body::set_info::SetInfoRequest;
use smb_wire::body::tree_connect::TreeConnectRequest;
use smb_wire::body::write::WriteRequestFixed;
use smb_wire::create::CreateRequest;
use smb_wire::info::file::Rename;
use smb_wire::text::Text;
use smb_wire::{Command, FileId, Message, Status};

use super::{Event, Record};
use crate::connection::{Call, Connection};
use crate::session::TreeKind;

/// A lane's end of the audit log, or none where none is configured.
#[derive(Default)]
pub(crate) struct Audit {
    log: Option<Rc<RefCell<LaneLog>>>,
}

/// Record of a request, written when it is answered: by [`Trail::end`], by [`Trail::ended`] where the answer was
/// deferred, or, where its connection ends before, as one that was cancelled. Costs nothing where there is no log.
pub(crate) struct Trail {
    // On the heap, as few servers have one and each request would carry it.
    inner: Option<Box<TrailInner>>,
}

struct TrailInner {
    log: Rc<RefCell<LaneLog>>,
    event: Event,
    begun: Instant,
    status: Status,
    peer: SocketAddr,
    session: u64,
    who: Option<Principal>,
    about: About,
}

/// Object of the request.
#[derive(Default)]
struct About {
    share: Option<Arc<str>>,
    path: String,
    other: String,
    file: Option<FileId>,
    offset: u64,
    length: u64,
    code: u32,
}

/// Outcome of a sign-in.
pub(crate) struct SignIn<'a> {
    /// Time when its last message came.
    pub(crate) begun: Instant,
    pub(crate) status: Status,
    pub(crate) session: u64,
    /// Name of the user, or the name that was given.
    pub(crate) user: &'a str,
    /// AFS number of the user; 0 without a sign-in.
    pub(crate) user_id: i32,
    /// Reason why the sign-in failed, or the kind of session.
    pub(crate) how: &'a str,
}

impl Audit {
    /// Creates an audit that writes to this log; without a log it writes nothing.
    pub(crate) fn new(log: Option<LaneLog>) -> Self {
        Self { log: log.map(|log| Rc::new(RefCell::new(log))) }
    }

    /// Begins the record of a request: its session and tree are known, and nothing is done yet.
    pub(crate) fn begin(&self, command: Command, call: &Call<'_>) -> Trail {
        let inner = self.log.as_ref().and_then(|log| {
            let (event, context) = (Event::of(command, &call.message)?, call.context.get());
            let mut about = About { file: context.file_id, ..About::default() };
            about.take(command, &call.message);
            about.find(call);
            Some(Box::new(TrailInner {
                log: Rc::clone(log),
                event,
                begun: lane::time::now(),
                status: Status::CANCELLED,
                peer: call.connection.stream.peer_addr(),
                session: context.session_id,
                who: principal_of(call),
                about,
            }))
        });
        Trail { inner }
    }

    /// Records a sign-in that has ended.
    pub(crate) fn signed_in(&self, connection: &Connection, told: &SignIn<'_>) {
        let Some(log) = &self.log else { return };
        let (peer, user) = (connection.stream.peer_addr(), told.user.as_bytes());
        push(
            log,
            &Record {
                act: Act::ended(told.begun, told.status.0.into(), peer, user, told.user_id),
                event: Event::SignIn,
                session: told.session,
                share: b"",
                path: b"",
                other: told.how.as_bytes(),
                file: None,
                offset: 0,
                length: 0,
                code: 0,
            },
        );
    }

    /// Hands over what there is: a quiet server's log is not late.
    pub(crate) fn flush(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().flush();
        }
    }
}

impl Trail {
    /// Writes the record of an answered request.
    pub(crate) fn end(self, call: &Call<'_>, status: Status) {
        self.found(call, status).ended(status);
    }

    /// Ends the record of a request whose data came late, or failed.
    pub(crate) fn ended(mut self, status: Status) {
        if let Some(inner) = &mut self.inner {
            inner.status = status;
        }
    }

    /// Adds the open and name that a CREATE has led to.
    fn found(mut self, call: &Call<'_>, status: Status) -> Self {
        if let Some(inner) = &mut self.inner
            && inner.event == Event::Create
            && !status.is_error()
        {
            // By the name that it has in the tree, which may be written in other letters than it was asked for.
            inner.about.file = call.context.get().file_id;
            inner.about.find(call);
        }
        self
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        let TrailInner { log, event, begun, status, peer, session, who, about } = *inner;
        // An anonymous user has no name.
        let user = who.as_ref().filter(|who| !who.is_anonymous()).map_or("", Principal::name);
        let user_id = who.as_ref().map_or(0, |who| who.id().0);
        push(
            &log,
            &Record {
                act: Act::ended(begun, status.0.into(), peer, user.as_bytes(), user_id),
                event,
                session,
                share: about.share.as_deref().unwrap_or_default().as_bytes(),
                path: about.path.as_bytes(),
                other: about.other.as_bytes(),
                file: about.file.filter(|file| *file != FileId::RELATED),
                offset: about.offset,
                length: about.length,
                code: about.code,
            },
        );
    }
}

/// Adds a record: of what failed not as many as a client likes.
fn push(log: &RefCell<LaneLog>, record: &Record<'_>) {
    let mut log = log.borrow_mut();
    // Those with data, as at the end of a listing, are no failures.
    match record.status().0 >> 30 == ERROR {
        true => log.push_failed(record.act.peer.ip(), lane::time::now(), record),
        false => log.push(record),
    }
}

impl About {
    /// Takes what the message says by itself; what is wrong with it shows in its status.
    fn take(&mut self, command: Command, message: &Message<'_>) {
        match command {
            Command::TreeConnect => {
                let request = TreeConnectRequest::parse(message).ok();
                self.share = request.map(|request| request.path.lossy().into());
            }
            Command::Create => {
                if let Ok(request) = CreateRequest::parse(message) {
                    self.path = as_stored(request.name);
                    self.code = request.fixed.desired_access.get();
                }
            }
            Command::Read => {
                if let Ok(fixed) = message.fixed::<ReadRequest>() {
                    (self.offset, self.length) = (fixed.offset.get(), fixed.length.get().into());
                }
            }
            Command::Write => {
                if let Ok(fixed) = message.fixed::<WriteRequestFixed>() {
                    (self.offset, self.length) = (fixed.offset.get(), fixed.length.get().into());
                }
            }
            Command::Lock => {
                let first =
                    LockRequest::parse(message).ok().and_then(|request| request.locks.first().copied());
                if let Some(first) = first {
                    (self.offset, self.length) = (first.offset.get(), first.length.get());
                }
            }
            Command::Ioctl => {
                let fixed = message.fixed::<IoctlRequestFixed>();
                self.code = fixed.map_or(0, |fixed| fixed.ctl_code.get());
            }
            Command::QueryDirectory => {
                let fixed = message.fixed::<QueryDirectoryRequestFixed>();
                self.code = fixed.map_or(0, |fixed| fixed.file_information_class.into());
            }
            Command::QueryInfo => {
                let fixed = message.fixed::<QueryInfoRequestFixed>();
                self.code = fixed.map_or(0, |fixed| fixed.file_info_class.into());
            }
            Command::SetInfo => {
                if let Ok(request) = SetInfoRequest::parse(message) {
                    self.take_set_info(&request);
                }
            }
            _ => {}
        }
    }

    fn take_set_info(&mut self, request: &SetInfoRequest<'_>) {
        self.code = request.fixed.file_info_class.into();
        match Event::of_set_info(request.fixed) {
            Event::Rename | Event::Link => {
                self.other =
                    Rename::parse(request.data).map_or_else(|_| String::new(), |to| as_stored(to.name));
            }
            Event::SetLength => {
                self.length = request.data.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            }
            _ => {}
        }
    }

    /// Records the share, and the path of what is open.
    fn find(&mut self, call: &Call<'_>) {
        let Some(tree) = &call.tree else { return };
        self.share = Some(Arc::clone(&tree.connect.share));
        if let (TreeKind::Disk { share, .. }, Some(file)) = (&tree.kind, self.file) {
            self.path = path_of(call, share, file).unwrap_or(std::mem::take(&mut self.path));
        }
    }
}

/// Returns the path of an open of the request's own session.
fn path_of(call: &Call<'_>, share: &Share, file: FileId) -> Option<String> {
    let open = call.connection.lane.opens().seen(call.context.get().session_id, file)?;
    share.stored_path(&open)
}

/// Returns the principal that a request acts for.
fn principal_of(call: &Call<'_>) -> Option<Principal> {
    match call.tree.as_ref().map(|tree| &tree.kind) {
        Some(TreeKind::Disk { ctx, .. }) => Some(ctx.caller.principal.clone()),
        _ => call.channel.as_ref()?.session.principal(),
    }
}

/// Returns a name as a client wrote it, in the way that paths of the tree are shown.
fn as_stored(name: Text<'_>) -> String {
    format!("/{}", name.lossy().replace('\\', "/"))
}

/// Severity of statuses of what failed (MS-ERREF 2.3).
const ERROR: u32 = 3;
