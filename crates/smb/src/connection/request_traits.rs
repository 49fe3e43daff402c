//! Traits of a request that decide how it is waited for: its file, its patience, and if it outlives its connection.

use std::time::Duration;

use smb_wire::body::change_notify::ChangeNotifyRequest;
use smb_wire::create::context::CreateContext;
use smb_wire::header::HEADER_LEN;
use smb_wire::{Command, FileId, Message, Request};
use zerocopy::FromBytes;

use super::call::Call;
use crate::session::TreeKind;

/// Returns the file that a request is about.
pub(super) fn named_file(message: &Message<'_>, command: Command) -> Option<FileId> {
    let at = command.file_id_offset()?;
    let bytes = message.body().get(at..at + size_of::<FileId>())?;
    FileId::read_from_bytes(bytes).ok()
}

/// Returns whether a request goes on when its connection is lost and its session has others: it may be
/// replayed by one of them, and what the replay repeats has to be under way or done. What only waits or reads
/// is asked for anew.
pub(super) fn outlives_connection(message: &Message<'_>, command: Command) -> bool {
    match command {
        // Without a CreateGuid its client could never name what it has opened.
        Command::Create => match Request::parse(message) {
            Ok(Request::Create(request)) => {
                let is_named = |context| matches!(context, Ok(CreateContext::DurableRequestV2(_)));
                request.contexts.iter().any(is_named)
            }
            _ => false,
        },
        command => command.modifies() || command == Command::Close,
    }
}

/// Returns whether a request is one for a file's data: a read or write that the kernel has begun is not
/// cancelled, so its client hears how it ended, as with Windows.
pub(super) fn is_data_of_file(call: &Call<'_>, command: Command) -> bool {
    let is_file = call.tree.as_ref().is_some_and(|tree| matches!(tree.kind, TreeKind::Disk { .. }));
    is_file && matches!(command, Command::Read | Command::Write | Command::Flush)
}

/// Returns the number of bytes of a message that its request needs, for one that may wait without a limit of time.
/// `None` for any other, and for a malformed one.
pub(super) fn needed_len(message: &Message<'_>) -> Option<usize> {
    if !matches!(message.header().command(), Ok(Command::Create | Command::Lock | Command::ChangeNotify)) {
        return None;
    }
    let end = match Request::parse(message).ok()? {
        Request::Create(request) => request.end(),
        Request::Lock(request) => request.end(),
        Request::ChangeNotify(_) => HEADER_LEN + size_of::<ChangeNotifyRequest>(),
        _ => return None,
    };
    Some(end.min(message.bytes().len()))
}

/// Returns what an IOCTL asks for.
pub(super) fn control_code(message: &Message<'_>) -> Option<u32> {
    let bytes = message.body().get(4..8)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Delays after which a request that waits costs its connection something, or is answered for the first time.
pub(super) struct WaitDelays {
    /// Delay after which the connection is charged for what the request keeps.
    pub(super) charge: Duration,
    /// Delay after which an interim reply is sent.
    pub(super) interim: Duration,
}

impl WaitDelays {
    pub(super) fn of(command: Command) -> Self {
        match command {
            // They wait for others, and may do so for ever.
            Command::Lock | Command::ChangeNotify => Self { charge: Duration::ZERO, interim: Duration::ZERO },
            Command::Create => Self { charge: Duration::from_millis(2), interim: INTERIM_DELAY },
            _ => Self { charge: Duration::from_millis(100), interim: INTERIM_DELAY },
        }
    }
}

/// Delay of the interim reply to a request that waits for a disk, or for a lease to be acknowledged.
///
/// Long, because some clients take an unsigned interim reply for a forged one and fail (rclone up to 1.71). Short beside the minute that
/// clients wait for an answer.
pub(crate) const INTERIM_DELAY: Duration = Duration::from_secs(1);
