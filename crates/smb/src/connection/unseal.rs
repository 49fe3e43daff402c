//! Decrypts sealed frames (MS-SMB2 3.3.5.2.1.1).

use std::rc::Rc;

use smb_wire::compound::Messages;
use smb_wire::header::flags;
use smb_wire::transform::{TRANSFORM_LEN, TransformHeader};
use smb_wire::{FrameKind, Malformed};

use super::Connection;
use super::frame_reader::{Frame, ReceiveEnd};
use crate::session::Channel;

/// Decrypts a sealed frame in place, and returns it with the channel whose keys it had.
pub(super) fn open(connection: &Connection, mut frame: Frame) -> Result<(Frame, Rc<Channel>), ReceiveEnd> {
    let counters = &connection.lane.counters;
    let refused = |_| {
        counters.ended_sealed.increment();
        ReceiveEnd::Gone
    };
    let (header, _) = TransformHeader::parse(&frame).map_err(refused)?;
    //= MS-SMB2 3.3.5.2.1.1
    //# A SessionId that is not in the table, or a session without keys, disconnects.
    let session = header.session_id.get();
    let channel = connection.channels.borrow().get(&session).cloned();
    let channel = channel.ok_or(Malformed::Protocol).map_err(refused)?;
    //= MS-SMB2 3.3.5.2.1.1
    //# Before a user has authenticated by the connection it is constrained: what is sealed disconnects, even where anonymous keys
    //# open it.
    let is_proved = connection.channels.borrow().values().any(|channel| channel.session.is_proved());
    let sealing = channel.sealing().filter(|_| is_proved).ok_or(Malformed::Protocol).map_err(refused)?;
    sealing.to_server.open(&mut frame).map_err(refused)?;
    frame.skip(TRANSFORM_LEN);
    // Sealed within sealed is no message, and neither is SMB1.
    match FrameKind::of(&frame).map_err(refused)? {
        FrameKind::Plain if is_of(session, &frame) => Ok((frame, channel)),
        _ => Err(refused(Malformed::Protocol)),
    }
}

/// Returns whether the messages of a frame are of the session that has sealed it. What is no message is refused by the
/// receiver.
fn is_of(session: u64, frame: &[u8]) -> bool {
    //= MS-SMB2 3.3.5.2.1.1
    //# The first request names the session of the transform header and goes on with none before it; of those that follow each names it
    //# too, or goes on.
    Messages::new(frame).map_while(Result::ok).enumerate().all(|(at, message)| {
        let header = message.header();
        let (goes_on, names) = (header.has(flags::RELATED_OPERATIONS), header.session_id.get() == session);
        if at == 0 { names && !goes_on } else { names || goes_on }
    })
}
