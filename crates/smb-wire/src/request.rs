//! Any request and any response, by the command of its header.

use crate::body::change_notify::ChangeNotifyRequest;
use crate::body::close::{CloseRequest, CloseResponse};
use crate::body::error::ErrorResponse;
use crate::body::flush::FlushRequest;
use crate::body::ioctl::{IoctlRequest, IoctlResponse, IoctlResponseFixed};
use crate::body::lock::LockRequest;
use crate::body::notification::SessionClosed;
use crate::body::oplock_break::Break;
use crate::body::plain::Empty;
use crate::body::query_directory::{Output, QueryDirectoryRequest};
use crate::body::query_info::QueryInfoRequest;
use crate::body::read::{ReadRequest, ReadResponse};
use crate::body::session_setup::{SessionSetupRequest, SessionSetupResponse};
use crate::body::set_info::{SetInfoRequest, SetInfoResponse};
use crate::body::tree_connect::{TreeConnectRequest, TreeConnectResponse};
use crate::body::write::{WriteRequest, WriteResponse};
use crate::command::Command;
use crate::create::{CreateRequest, CreateResponse};
use crate::fixed::Fixed;
use crate::malformed::Malformed;
use crate::message::Message;
use crate::negotiate::{NegotiateRequest, NegotiateResponse};
use crate::status::Status;

/// The body of a request.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the command of its name")]
pub enum Request<'a> {
    Negotiate(NegotiateRequest<'a>),
    SessionSetup(SessionSetupRequest<'a>),
    Logoff,
    TreeConnect(TreeConnectRequest<'a>),
    TreeDisconnect,
    Create(CreateRequest<'a>),
    Close(&'a CloseRequest),
    Flush(&'a FlushRequest),
    Read(&'a ReadRequest),
    Write(WriteRequest<'a>),
    Lock(LockRequest<'a>),
    Ioctl(IoctlRequest<'a>),
    Cancel,
    Echo,
    QueryDirectory(QueryDirectoryRequest<'a>),
    ChangeNotify(&'a ChangeNotifyRequest),
    QueryInfo(QueryInfoRequest<'a>),
    SetInfo(SetInfoRequest<'a>),
    OplockBreak(Break<'a>),
}

impl<'a> Request<'a> {
    /// Reads a request whole.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        Ok(match message.header().command()? {
            Command::Negotiate => Self::Negotiate(NegotiateRequest::parse(message)?),
            Command::SessionSetup => Self::SessionSetup(SessionSetupRequest::parse(message)?),
            Command::Logoff => message.fixed::<Empty>().map(|_| Self::Logoff)?,
            Command::TreeConnect => Self::TreeConnect(TreeConnectRequest::parse(message)?),
            Command::TreeDisconnect => message.fixed::<Empty>().map(|_| Self::TreeDisconnect)?,
            Command::Create => Self::Create(CreateRequest::parse(message)?),
            Command::Close => Self::Close(message.fixed()?),
            Command::Flush => Self::Flush(message.fixed()?),
            Command::Read => Self::Read(message.fixed()?),
            Command::Write => Self::Write(WriteRequest::parse(message)?),
            Command::Lock => Self::Lock(LockRequest::parse(message)?),
            Command::Ioctl => Self::Ioctl(IoctlRequest::parse(message)?),
            Command::Cancel => message.fixed::<Empty>().map(|_| Self::Cancel)?,
            Command::Echo => message.fixed::<Empty>().map(|_| Self::Echo)?,
            Command::QueryDirectory => Self::QueryDirectory(QueryDirectoryRequest::parse(message)?),
            Command::ChangeNotify => Self::ChangeNotify(message.fixed()?),
            Command::QueryInfo => Self::QueryInfo(QueryInfoRequest::parse(message)?),
            Command::SetInfo => Self::SetInfo(SetInfoRequest::parse(message)?),
            Command::OplockBreak => match Break::parse(message)? {
                Break::Lease(_) => return Err(Malformed::StructureSize),
                answer => Self::OplockBreak(answer),
            },
            // Only a server sends it.
            command @ Command::ServerToClientNotification => return Err(Malformed::Command(command as u16)),
        })
    }
}

/// The body of a response or notification.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the command of its name")]
pub enum Response<'a> {
    Negotiate(NegotiateResponse<'a>),
    SessionSetup(SessionSetupResponse<'a>),
    Logoff,
    TreeConnect(&'a TreeConnectResponse),
    TreeDisconnect,
    Create(CreateResponse<'a>),
    Close(&'a CloseResponse),
    Flush,
    Read(ReadResponse<'a>),
    Write(&'a WriteResponse),
    Lock,
    Ioctl(IoctlResponse<'a>),
    Echo,
    QueryDirectory(Output<'a>),
    ChangeNotify(Output<'a>),
    QueryInfo(Output<'a>),
    SetInfo,
    OplockBreak(Break<'a>),
    SessionClosed(&'a SessionClosed),
    /// The request failed, or goes on (`STATUS_PENDING`).
    Error(ErrorResponse<'a>),
}

impl<'a> Response<'a> {
    /// Reads a response whole.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let command = message.header().command()?;
        let failed = answers_by_error(command, message.header().status());
        // A copy that stopped in the middle, or asked for more than is allowed, says how far it came
        // (MS-SMB2 3.3.5.15.6): a failed IOCTL may have either body.
        let by_size = command == Command::Ioctl
            && message.body().starts_with(&IoctlResponseFixed::STRUCTURE_SIZE.to_le_bytes());
        if failed && !by_size {
            return ErrorResponse::parse(message).map(Self::Error);
        }
        Ok(match command {
            Command::Negotiate => Self::Negotiate(NegotiateResponse::parse(message)?),
            Command::SessionSetup => Self::SessionSetup(SessionSetupResponse::parse(message)?),
            Command::Logoff => message.fixed::<Empty>().map(|_| Self::Logoff)?,
            Command::TreeConnect => Self::TreeConnect(message.fixed()?),
            Command::TreeDisconnect => message.fixed::<Empty>().map(|_| Self::TreeDisconnect)?,
            Command::Create => Self::Create(CreateResponse::parse(message)?),
            Command::Close => Self::Close(message.fixed()?),
            Command::Flush => message.fixed::<Empty>().map(|_| Self::Flush)?,
            Command::Read => Self::Read(ReadResponse::parse(message)?),
            Command::Write => Self::Write(message.fixed()?),
            Command::Lock => message.fixed::<Empty>().map(|_| Self::Lock)?,
            Command::Ioctl => Self::Ioctl(IoctlResponse::parse(message)?),
            // Nothing answers a CANCEL.
            Command::Cancel => return Err(Malformed::Command(command as u16)),
            Command::Echo => message.fixed::<Empty>().map(|_| Self::Echo)?,
            Command::QueryDirectory => Self::QueryDirectory(Output::parse(message)?),
            Command::ChangeNotify => Self::ChangeNotify(Output::parse(message)?),
            Command::QueryInfo => Self::QueryInfo(Output::parse(message)?),
            Command::SetInfo => message.fixed::<SetInfoResponse>().map(|_| Self::SetInfo)?,
            Command::OplockBreak => Self::OplockBreak(Break::parse(message)?),
            Command::ServerToClientNotification => Self::SessionClosed(message.fixed()?),
        })
    }
}

/// Returns whether an answer of this status has the body of an error (MS-SMB2 3.3.4.4): so has the interim
/// response of what goes on, and so has not a sign-in that needs another token.
fn answers_by_error(command: Command, status: Status) -> bool {
    match (command, status) {
        (_, Status::PENDING) => true,
        (Command::SessionSetup, Status::MORE_PROCESSING_REQUIRED) => false,
        _ => status.is_error(),
    }
}
