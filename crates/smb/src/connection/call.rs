//! A request as its command sees it, and what the command answers.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use lane::time::timeout;
use service::memory::Charge;
use smb_proto::related::CompoundContext;
use smb_proto::window;
use smb_wire::body::plain::Empty;
use smb_wire::body::read::DATA_OFFSET;
use smb_wire::fixed::Fixed;
use smb_wire::message::Body;
use smb_wire::{Header, Message, Status};
use vfs::OpenFile;

use super::replies::FRONT;
use super::{Connection, Negotiated, at_once};
use crate::audit::Trail;
use crate::session::{Channel, LaneTree};

/// Offset of a READ's data in a message that is put together in one piece.
pub(crate) const DATA_AT: usize = FRONT + DATA_OFFSET as usize;

/// One request.
pub(crate) struct Call<'a> {
    pub(crate) connection: &'a Rc<Connection>,
    pub(crate) message: Message<'a>,
    /// Compound context that it is processed with; a command puts in what is new.
    pub(crate) context: Cell<CompoundContext>,
    /// Channel of its session, once that is signed in.
    pub(crate) channel: Option<Rc<Channel>>,
    pub(crate) tree: Option<Rc<LaneTree>>,
    /// The request came sealed.
    pub(crate) is_sealed: bool,
    /// The request's reply is to be signed or sealed.
    pub(crate) protects_reply: bool,
    /// The request's frame holds other requests too.
    pub(crate) is_compounded: bool,
    /// Bytes of memory that its frame was granted and keeps.
    pub(crate) held: usize,
    /// The request is about to wait for memory: replies before it must not, as what it waits for may be
    /// theirs.
    pub(crate) is_short: Cell<bool>,
}

/// Reply of a command.
pub(crate) struct Reply {
    pub(crate) status: Status,
    pub(crate) content: Content,
    pub(crate) charge: Option<Charge>,
}

/// The body of an answer.
pub(crate) enum Content {
    /// A body that says nothing.
    Empty,
    /// Data that goes with an error's status.
    Error(Vec<u8>),
    Body(Box<dyn FnOnce(&mut Body<'_>)>),
    /// READ, alone in its frame and unprotected: these bytes of a file, page cache to socket.
    File {
        file: Rc<OpenFile>,
        offset: u64,
        len: u32,
    },
    /// READ of little, alone in its frame: its whole message in memory of its own, with room for [`DATA_AT`] bytes of headers.
    Short {
        message: Vec<u8>,
        charge: Charge,
    },
    /// READ, alone in its frame, of what is long and will be signed or sealed: read when it can be sent.
    Later {
        file: Rc<OpenFile>,
        offset: u64,
        len: u32,
        /// Record for the audit log.
        trail: Option<Trail>,
    },
}

impl Call<'_> {
    pub(crate) fn header(&self) -> &Header {
        self.message.header()
    }

    /// Returns what was negotiated.
    pub(crate) fn negotiated(&self) -> Result<&Negotiated, Status> {
        self.connection.negotiated.get().ok_or(Status::INVALID_PARAMETER)
    }

    /// Returns the session that it is of.
    pub(crate) fn channel(&self) -> Result<&Rc<Channel>, Status> {
        self.channel.as_ref().ok_or(Status::USER_SESSION_DELETED)
    }

    /// Returns the tree that it is of.
    pub(crate) fn tree(&self) -> Result<&Rc<LaneTree>, Status> {
        self.tree.as_ref().ok_or(Status::NETWORK_NAME_DELETED)
    }

    /// Checks whether it pays for a payload of `sent` bytes and an answer of up to `received`.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER`.
    pub(crate) fn pays(&self, sent: u32, received: u32) -> Result<(), Status> {
        let charge = self.header().credit_charge.get();
        let pays = window::pays(charge, self.negotiated()?.multi_credit(), sent, received);
        if pays { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }

    /// Takes memory for a reply of up to `bytes`: at once, or when others have let go of theirs.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES`: there was none for a while, and the request itself holds some that others may be waiting for.
    pub(crate) async fn memory(&self, bytes: usize) -> Result<Charge, Status> {
        let connection = self.connection;
        let asking = async {
            let mut asking = pin!(connection.account.acquire_beside(bytes, self.held));
            if let Some(charge) = at_once(&mut asking).await {
                return charge;
            }
            self.is_short.set(true);
            asking.await
        };
        if self.held == 0 {
            return Ok(asking.await);
        }
        timeout(HOLDING, asking).await.map_err(|_| {
            connection.lane.counters.requests_refused_memory.increment();
            Status::INSUFFICIENT_RESOURCES
        })
    }

    /// Updates the session, tree and file that later requests of the compound go on with.
    pub(crate) fn update_context(&self, change: impl FnOnce(&mut CompoundContext)) {
        let mut context = self.context.get();
        change(&mut context);
        self.context.set(context);
    }
}

impl Reply {
    /// Success, with a body that says nothing.
    pub(crate) fn empty() -> Self {
        Self { status: Status::SUCCESS, content: Content::Empty, charge: None }
    }

    /// Success, with a body.
    pub(crate) fn of(fill: impl FnOnce(&mut Body<'_>) + 'static) -> Self {
        Self::with(Status::SUCCESS, fill)
    }

    /// Creates a body with a status that is none of an error.
    pub(crate) fn with(status: Status, fill: impl FnOnce(&mut Body<'_>) + 'static) -> Self {
        Self { status, content: Content::Body(Box::new(fill)), charge: None }
    }

    /// Creates a failure with what goes with it.
    pub(crate) fn error(status: Status, data: Vec<u8>) -> Self {
        Self { status, content: Content::Error(data), charge: None }
    }

    /// Keeps a charge until the reply has left.
    pub(crate) fn paid_by(self, charge: Option<Charge>) -> Self {
        Self { charge, ..self }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::error(status, Vec::new())
    }
}

/// Time for which a request that holds memory waits for more.
const HOLDING: Duration = Duration::from_secs(5);

/// Appends a body that says nothing.
pub(crate) fn put_empty(body: &mut Body<'_>) {
    body.push(&Empty::blank());
}
