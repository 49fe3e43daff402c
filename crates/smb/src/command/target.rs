//! The open that a request is about.

use std::sync::Arc;

use service::memory::Charge;
use smb_proto::channel_word::Ticket;
use smb_tree::{ANSWER_MAX, Open, RequestContext, Share};
use smb_wire::body::query_directory::Output;
use smb_wire::header::flags;
use smb_wire::{FileId, Status};

use crate::connection::{Call, Reply};
use crate::pipe::PipeOpen;
use crate::session::TreeKind;

/// Object of an open.
pub(crate) enum Target {
    File { share: Share, ctx: RequestContext, open: Arc<Open> },
    Pipe(Arc<PipeOpen>),
}

impl Target {
    /// Returns the file; `None` for a pipe.
    pub(crate) fn into_file(self) -> Option<(Share, RequestContext, Arc<Open>)> {
        match self {
            Self::File { share, ctx, open } => Some((share, ctx, open)),
            Self::Pipe(_) => None,
        }
    }
}

/// A request that its open counts until this is dropped.
#[must_use = "the request is counted as long as this lives"]
pub(crate) struct Entered {
    open: Arc<Open>,
    ticket: Option<Ticket>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.open.word().leave(ticket);
        }
    }
}

impl Call<'_> {
    /// Returns the file that the request names, or the operation before it opened.
    pub(crate) fn file_id(&self) -> Result<FileId, Status> {
        self.context.get().file_id.ok_or(Status::FILE_CLOSED)
    }

    /// Returns what is open by that id.
    ///
    /// # Errors
    /// `STATUS_FILE_CLOSED`: nothing in this tree of this session.
    pub(crate) fn target(&self) -> Result<Target, Status> {
        let (tree, channel, id) = (self.tree()?, self.channel()?, self.file_id()?);
        match &tree.kind {
            TreeKind::Disk { share, ctx } => {
                //= MS-SMB2 3.3.5.10
                //# An open that is not in the session's table, or of another tree, fails with STATUS_FILE_CLOSED.
                let open = self.connection.lane.opens().find(channel.session.id, id)?;
                if open.tree() != tree.connect.id {
                    return Err(Status::FILE_CLOSED);
                }
                Ok(Target::File { share: share.clone(), ctx: ctx.clone(), open })
            }
            TreeKind::Pipes => {
                let pipe =
                    self.connection.lane.server_state.pipes.find(channel.session.id, tree.connect.id, id)?;
                Ok(Target::Pipe(pipe))
            }
        }
    }

    /// Returns the channel sequence of the request; 0 before 3.0, where there is none.
    pub(crate) fn sequence(&self) -> u16 {
        let has_one = self.negotiated().is_ok_and(|negotiated| negotiated.dialect.is_smb3());
        if has_one { self.header().channel_sequence() } else { 0 }
    }

    /// Returns whether its client says that it has sent it before.
    pub(crate) fn replays(&self) -> bool {
        let has_flag = self.negotiated().is_ok_and(|negotiated| negotiated.dialect.is_smb3());
        has_flag && self.header().has(flags::REPLAY_OPERATION)
    }

    /// Counts the request of its open, if it does not come too late.
    ///
    /// # Errors
    /// `STATUS_FILE_NOT_AVAILABLE`, and `STATUS_INSUFFICIENT_RESOURCES` beyond half a million.
    pub(crate) fn enter(&self, open: &Arc<Open>) -> Result<Entered, Status> {
        //= MS-SMB2 3.3.5.2.10
        //# Before 3.0 no sequence is looked at.
        if !self.negotiated()?.dialect.is_smb3() {
            return Ok(Entered { open: Arc::clone(open), ticket: None });
        }
        let modifies = self.header().command().is_ok_and(|command| command.modifies());
        let ticket = open.word().enter(self.sequence(), self.replays(), modifies)?;
        Ok(Entered { open: Arc::clone(open), ticket: Some(ticket) })
    }

    /// Checks that an answer may have up to `room` bytes, and takes the memory for it where it is much.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER` for more than `MaxTransactSize`, or than was paid for; as [`Call::memory`].
    pub(crate) async fn output_room(&self, room: u32) -> Result<Option<Charge>, Status> {
        //= MS-SMB2 3.3.5.18
        //# More than MaxTransactSize fails with STATUS_INVALID_PARAMETER.
        if room > self.negotiated()?.transact_max {
            return Err(Status::INVALID_PARAMETER);
        }
        self.pays(0, room)?;
        let room = room.min(ANSWER_MAX);
        if room <= SMALL_MAX {
            return Ok(None);
        }
        Ok(Some(self.memory(room as usize).await?))
    }
}

impl Reply {
    /// Creates an answer in the class that was asked for.
    pub(crate) fn output(status: Status, output: Vec<u8>) -> Self {
        Self::with(status, move |body| Output::write(body, |out| out.extend_from_slice(&output)))
    }
}

/// Answers up to this length are not on the books.
const SMALL_MAX: u32 = 16 << 10;
