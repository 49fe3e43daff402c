//! One task receives: frames are taken apart, opened and checked, and each answer goes to the task that waits
//! for it.

use std::io;
use std::rc::Rc;

use lane::buffer::RecvBuf;
use lane::net::TcpStream;
use smb_wire::body::oplock_break::Break;
use smb_wire::framing::{self, MESSAGE_MAX, PREFIX_LEN};
use smb_wire::header::{UNSOLICITED, flags};
use smb_wire::transform::{TRANSFORM_LEN, TransformHeader};
use smb_wire::{Command, FrameKind, Message, Role, Status, compound};

use super::ConnectionState;
use crate::break_queue::BreakNotification;
use crate::error::Error;
use crate::exchange::{Reply, RequestSlot};
use crate::frame::Frame;
use crate::keys::Keys;

/// Receives until the connection is over.
pub(super) async fn run(shared: &Rc<ConnectionState>) -> Error {
    let mut frames = Frames { rest: RecvBuf::empty(), is_alone: false };
    loop {
        let frame = match frames.next(shared).await {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        if let Err(error) = take(shared, frame) {
            return error;
        }
    }
}

/// Frames out of the stream's bytes.
struct Frames {
    /// Received bytes that are no frame yet.
    rest: RecvBuf,
    /// The last frame was a long one, and so may be the next: prefix and frame are received alone, where they stay.
    is_alone: bool,
}

impl Frames {
    /// Receives the next frame, without its prefix.
    async fn next(&mut self, shared: &ConnectionState) -> Result<Vec<u8>, Error> {
        loop {
            let prefix = self.prefix(&shared.stream).await?;
            let framing::Frame::Message(len) = framing::parse(prefix, MESSAGE_MAX)? else { continue };
            let was_alone = std::mem::replace(&mut self.is_alone, len > SHORT_MAX);
            if self.is_alone {
                // Small answers that came go first; and the reader of the long one before is done with its
                // memory.
                lane::yield_if_due().await;
            }
            let mut bytes = shared.frames.take(len);
            let n = len.min(self.rest.len());
            bytes.extend_from_slice(&self.rest[..n]);
            self.rest.advance(n);
            if n == len {
                return Ok(bytes);
            }
            self.rest = RecvBuf::empty();
            let (result, bytes) = match was_alone {
                true => shared.stream.recv_alone(bytes, len - n).await,
                false => shared.stream.recv_exact(bytes, len - n).await,
            };
            result?;
            return Ok(bytes);
        }
    }

    async fn prefix(&mut self, stream: &TcpStream) -> Result<[u8; PREFIX_LEN], Error> {
        if self.is_alone && self.rest.is_empty() {
            let (result, prefix) = stream.recv_alone(Vec::new(), PREFIX_LEN).await;
            return match result {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::Closed),
                result => {
                    result?;
                    Ok(prefix.try_into().expect("so many were asked for"))
                }
            };
        }
        let (mut prefix, mut have) = ([0; PREFIX_LEN], 0);
        while have < PREFIX_LEN {
            if self.rest.is_empty() {
                self.rest = stream.recv().await?;
                if self.rest.is_empty() {
                    return Err(Error::Closed);
                }
            }
            let n = self.rest.len().min(PREFIX_LEN - have);
            prefix[have..have + n].copy_from_slice(&self.rest[..n]);
            self.rest.advance(n);
            have += n;
        }
        Ok(prefix)
    }
}

fn take(shared: &Rc<ConnectionState>, mut bytes: Vec<u8>) -> Result<(), Error> {
    let opened = match FrameKind::of(&bytes)? {
        FrameKind::Plain => None,
        FrameKind::Sealed => Some(open(shared, &mut bytes)?),
        FrameKind::Compressed | FrameKind::Smb1 => return Err(Error::Unexpected("another protocol")),
    };
    let start = if opened.is_some() { TRANSFORM_LEN } else { 0 };
    let frame = Rc::new(Frame::new(bytes, Rc::clone(&shared.frames)));
    for range in compound::ranges(&frame.bytes()[start..]) {
        let range = range?;
        let reply = Reply::new(Rc::clone(&frame), start + range.start..start + range.end);
        message(shared, reply, opened.as_ref())?;
    }
    Ok(())
}

/// Opens a sealed frame where it lies.
fn open(shared: &ConnectionState, bytes: &mut [u8]) -> Result<Rc<Keys>, Error> {
    let session_id = TransformHeader::parse(bytes)?.0.session_id.get();
    let keys = shared.sealers.borrow().get(&session_id).cloned();
    // A message of a session that there is not, or that cannot be decrypted, is thrown away and the connection ends (MS-SMB2 3.2.5.1.1.1).
    let keys = keys.ok_or(Error::Unexpected("an encrypted message of another session"))?;
    let opened = keys.open(bytes).inspect_err(|_| shared.counters.wrong_signatures.increment())?;
    match FrameKind::of(opened)? {
        FrameKind::Plain => Ok(keys),
        _ => Err(Error::Unexpected("a message that is encrypted twice")),
    }
}

fn message(shared: &Rc<ConnectionState>, reply: Reply, opened: Option<&Rc<Keys>>) -> Result<(), Error> {
    let message = reply.message();
    let header = message.header();
    if !header.has(flags::SERVER_TO_REDIR) {
        return Err(Error::Unexpected("a request"));
    }
    if header.message_id.get() == UNSOLICITED {
        return unasked(shared, &message, opened);
    }
    let pending = shared.pending.borrow().get(&header.message_id.get()).cloned();
    let Some(slot) = pending.filter(|slot| header.command() == Ok(slot.command)) else {
        shared.counters.unasked.increment();
        return Err(Error::Unexpected("an answer to nothing that was asked"));
    };
    let checked = check(&slot, &reply, opened);
    match &checked {
        Ok(()) => {}
        Err(Error::WrongSignature) => shared.counters.wrong_signatures.increment(),
        Err(Error::Unsigned) => shared.counters.unsigned.increment(),
        Err(_) => shared.counters.unsealed.increment(),
    }
    let mut credits = shared.credits.borrow_mut();
    credits.give(header.credits.get());
    if header.status() == Status::PENDING
        && let Some(async_id) = header.async_id()
        && checked.is_ok()
    {
        shared.counters.interim.increment();
        // What the request had paid is paid back with its interim answer: the last brings nothing.
        if slot.goes_on(async_id) {
            credits.answered(slot.charge);
        }
        return Ok(());
    }
    if !slot.is_async() {
        credits.answered(slot.charge);
    }
    drop(credits);
    shared.pending.borrow_mut().remove(&header.message_id.get());
    shared.counters.answers.increment();
    slot.answer(checked.map(|()| reply.clone()));
    Ok(())
}

/// Checks whether the answer is whole and from a holder of the session's keys.
fn check(slot: &RequestSlot, reply: &Reply, opened: Option<&Rc<Keys>>) -> Result<(), Error> {
    let Some(keys) = &slot.keys else { return Ok(()) };
    if let Some(opened) = opened {
        return if Rc::ptr_eq(opened, keys) { Ok(()) } else { Err(Error::WrongSignature) };
    }
    if slot.sealed {
        return Err(Error::Unsealed);
    }
    let header = reply.header();
    // A signed message is verified; an unsigned one is thrown away where signing is required, but for interim responses (MS-SMB2 3.2.5.1.3).
    match &keys.signing {
        Some(signing) if header.has(flags::SIGNED) => {
            let right = signing.verify(Role::Server, &[reply.bytes()]);
            if right { Ok(()) } else { Err(Error::WrongSignature) }
        }
        Some(_) if keys.must_sign && header.status() != Status::PENDING => Err(Error::Unsigned),
        _ => Ok(()),
    }
}

/// Handles a message that the server sends unasked. Notifications of breaks are not signed (MS-SMB2 3.3.4.6).
fn unasked(shared: &ConnectionState, message: &Message<'_>, opened: Option<&Rc<Keys>>) -> Result<(), Error> {
    match message.header().command()? {
        Command::OplockBreak => {
            let broken = match Break::parse(message)? {
                Break::Oplock(broken) => {
                    BreakNotification::Oplock { file: broken.file_id, level: broken.oplock_level }
                }
                Break::Lease(broken) => BreakNotification::lease(broken),
                Break::LeaseAck(_) => return Err(Error::Unexpected("an acknowledgment of a lease's break")),
            };
            shared.counters.breaks.increment();
            if !shared.break_queue.put(broken) {
                shared.counters.breaks_lost.increment();
            }
            Ok(())
        }
        Command::ServerToClientNotification => {
            let session_id = message.header().session_id.get();
            let Some(keys) = shared.sealers.borrow().get(&session_id).cloned() else { return Ok(()) };
            shared.counters.notifications.increment();
            if is_of_server(shared, message, &keys, opened)
                && !shared.break_queue.put(BreakNotification::SessionClosed { session_id })
            {
                shared.counters.breaks_lost.increment();
            }
            Ok(())
        }
        _ => {
            shared.counters.unasked.increment();
            Err(Error::Unexpected("something unasked"))
        }
    }
}

/// Returns whether a notification is from a holder of the session's keys, as far as the session asks for
/// that: encrypted or signed where it must be (MS-SMB2 4.11.1). Nothing but a hint is lost with one that is
/// not.
fn is_of_server(
    shared: &ConnectionState,
    message: &Message<'_>,
    keys: &Rc<Keys>,
    opened: Option<&Rc<Keys>>,
) -> bool {
    let is_right = match (opened, &keys.signing) {
        (Some(opened), _) => Rc::ptr_eq(opened, keys),
        (None, _) if keys.must_seal => {
            shared.counters.unsealed.increment();
            return false;
        }
        (None, Some(signing)) if message.header().has(flags::SIGNED) => {
            signing.verify(Role::Server, &[message.bytes()])
        }
        (None, _) if keys.must_sign => {
            shared.counters.unsigned.increment();
            return false;
        }
        (None, _) => true,
    };
    if !is_right {
        shared.counters.wrong_signatures.increment();
    }
    is_right
}

/// Longest frame that is copied; a longer one is received where it stays.
const SHORT_MAX: usize = 64 << 10;
