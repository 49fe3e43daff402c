//! Sealed frames.

use std::rc::Rc;

use smb_wire::transform::{TRANSFORM_LEN, TransformHeader};
use smb_wire::{FrameKind, Malformed};

use super::Connection;
use super::inbox::{End, Frame};
use crate::session::Channel;

/// Opens a sealed frame where it lies, and says by whose keys.
pub(super) fn open(connection: &Connection, mut frame: Frame) -> Result<(Frame, Rc<Channel>), End> {
    let counters = &connection.lane.counters;
    let refused = |_| {
        counters.ended_sealed.increment();
        End::Gone
    };
    let (header, _) = TransformHeader::parse(&frame).map_err(refused)?;
    //= MS-SMB2 3.3.5.2.1.1
    //# A SessionId that is not in the table, or a session without keys, disconnects.
    let channel = connection.channels.borrow().get(&header.session_id.get()).cloned();
    let channel = channel.ok_or(Malformed::Protocol).map_err(refused)?;
    //= MS-SMB2 3.3.5.2.1.1
    //# Before somebody has proved who he is by the connection it is constrained: what is sealed disconnects, even where nobody's keys
    //# open it.
    let is_proved = connection.channels.borrow().values().any(|channel| channel.session.is_proved());
    let sealing = channel.sealing().filter(|_| is_proved).ok_or(Malformed::Protocol).map_err(refused)?;
    sealing.to_server.open(&mut frame).map_err(refused)?;
    frame.skip(TRANSFORM_LEN);
    // Sealed within sealed is no message, and neither is SMB1.
    match FrameKind::of(&frame).map_err(refused)? {
        FrameKind::Plain => Ok((frame, channel)),
        _ => Err(refused(Malformed::Protocol)),
    }
}
