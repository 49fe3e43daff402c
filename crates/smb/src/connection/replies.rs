//! The replies to a frame, put together to one.

use std::rc::Rc;

use service::memory::Charge;
use smb_proto::sealing::{ByParts, NoNonce};
use smb_wire::compound::Compound;
use smb_wire::framing::{self, MESSAGE_MAX, PREFIX_LEN};
use smb_wire::header::{NEXT_COMMAND, SIGNATURE, flags};
use smb_wire::message::Body;
use smb_wire::transform::TRANSFORM_LEN;
use smb_wire::{Header, Role};

use super::Connection;
use super::send_queue::{OutgoingFrame, Payload};
use crate::session::Channel;

/// Replies that have not left yet.
pub(crate) struct Replies {
    /// Room for prefix and transform header, then the messages.
    out: Vec<u8>,
    /// Offset of each message, and its signer.
    messages: Vec<(usize, Option<Rc<Channel>>)>,
    /// Charge of the memory that they hold.
    charge: Option<Charge>,
}

/// Offset of the first message.
pub(crate) const FRONT: usize = PREFIX_LEN + TRANSFORM_LEN;

impl Replies {
    pub(crate) fn new() -> Self {
        Self { out: Vec::new(), messages: Vec::new(), charge: None }
    }

    /// Appends a message, signed by `signer` in the end if there is one.
    pub(crate) fn push(
        &mut self,
        header: &Header,
        signer: Option<Rc<Channel>>,
        fill: impl FnOnce(&mut Body<'_>),
    ) {
        if self.out.is_empty() {
            self.out.reserve(FRONT + 192);
            self.out.resize(FRONT, 0);
        }
        let header = if signer.is_some() { header.with(flags::SIGNED) } else { *header };
        let last = self.messages.last().map(|(start, _)| *start);
        let mut compound = Compound::going_on(&mut self.out, last);
        fill(&mut compound.begin(&header));
        let start = compound.last().expect("one was begun");
        self.messages.push((start, signer));
    }

    /// Holds the charge for a message's memory until it has left.
    pub(crate) fn hold(&mut self, charge: Option<Charge>) {
        self.charge = match (self.charge.take(), charge) {
            (Some(held), Some(more)) => Some(held.and(more)),
            (held, more) => held.or(more),
        };
    }

    /// Takes those before the last one where they would be too long together; what was appended last has not
    /// been paid for yet, and nothing is signed.
    pub(crate) fn before_the_last(&mut self) -> Option<Self> {
        let (start, _) = *self.messages.last().filter(|_| self.out.len() > FRONT + TOGETHER_MAX)?;
        if self.messages.len() == 1 {
            return None;
        }
        let mut last = vec![0; FRONT];
        last.extend_from_slice(&self.out[start..]);
        let signer = self.messages.pop().expect("there are two").1;
        let mut before =
            std::mem::replace(self, Self { out: last, messages: vec![(FRONT, signer)], charge: None });
        // Nothing follows the one before it any more.
        before.out.truncate(start);
        let (end, _) = before.messages.last().expect("there were two");
        before.out[end + NEXT_COMMAND.start..end + NEXT_COMMAND.end].fill(0);
        Some(before)
    }

    /// Signs the message that was appended last, to which nothing is appended any more.
    pub(crate) fn sign_last(&mut self) {
        let Some((start, signer)) = self.messages.last_mut() else { return };
        if let Some(channel) = signer.take()
            && let Some(key) = &channel.signing
        {
            key.sign_in_place(Role::Server, &mut self.out[*start..]).expect("a message of ours");
        }
    }

    /// Returns the message that was appended last, as it stands.
    pub(crate) fn last(&self) -> &[u8] {
        self.messages.last().map_or(&[], |(start, _)| &self.out[*start..])
    }

    /// Has them leave, sealed by `sealer`, or else signed one by one.
    pub(crate) fn leave(
        &mut self,
        connection: &Rc<Connection>,
        sealer: Option<&Channel>,
    ) -> Result<(), NoNonce> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let mut head = std::mem::take(&mut self.out);
        let messages = std::mem::take(&mut self.messages);
        if messages.len() > 1 {
            // Windows and Samba end every reply of a compound at a multiple of eight bytes, the last one too.
            head.resize(FRONT + (head.len() - FRONT).next_multiple_of(8), 0);
        }
        let from = match sealer {
            Some(channel) => {
                seal(channel, &mut head)?;
                0
            }
            None => {
                let mut end = head.len();
                for (start, signer) in messages.iter().rev() {
                    if let Some(key) = signer.as_ref().and_then(|channel| channel.signing.as_ref()) {
                        key.sign_in_place(Role::Server, &mut head[*start..end]).expect("a message of ours");
                    }
                    end = *start;
                }
                TRANSFORM_LEN
            }
        };
        put_prefix(&mut head[from..], 0);
        let charge = self.charge.take();
        connection.send(OutgoingFrame { head, from, payload: Payload::None, charge, deferred_bytes: 0 });
        Ok(())
    }
}

/// Sends a message alone in its frame, neither signed nor sealed.
pub(crate) fn send_alone(connection: &Rc<Connection>, header: &Header, fill: impl FnOnce(&mut Body<'_>)) {
    let mut replies = Replies::new();
    replies.push(header, None, fill);
    replies.leave(connection, None).expect("nothing is sealed");
}

/// Sends an unsolicited message: sealed where all of the session's is, else signed by `signer` if there is
/// one.
pub(crate) fn send_unasked(
    connection: &Rc<Connection>,
    header: &Header,
    channel: &Channel,
    signer: Option<Rc<Channel>>,
    fill: impl FnOnce(&mut Body<'_>),
) {
    let mut replies = Replies::new();
    let seals = channel.session.signed_in().is_some_and(|signed_in| signed_in.sealing_required);
    replies.push(header, signer.filter(|signer| !seals && signer.signing.is_some()), fill);
    if replies.leave(connection, seals.then_some(channel)).is_err() {
        connection.end();
    }
}

/// Sends a message alone in its frame, which begins with [`FRONT`] bytes of room; sealed or signed where it lies. It
/// may leave with others.
pub(crate) fn leave_short(
    connection: &Rc<Connection>,
    mut head: Vec<u8>,
    charge: Charge,
    signer: Option<&Channel>,
    sealer: Option<&Channel>,
) -> Result<(), NoNonce> {
    let from = protect(&mut head, signer, sealer)?;
    connection.send(OutgoingFrame {
        head,
        from,
        payload: Payload::None,
        charge: Some(charge),
        deferred_bytes: 0,
    });
    Ok(())
}

/// Seals or signs the message behind [`FRONT`]; says where its frame begins.
fn protect(frame: &mut [u8], signer: Option<&Channel>, sealer: Option<&Channel>) -> Result<usize, NoNonce> {
    if let Some(channel) = sealer {
        seal(channel, frame)?;
    } else if let Some(key) = signer.and_then(|channel| channel.signing.as_ref()) {
        key.sign_in_place(Role::Server, &mut frame[FRONT..]).expect("a message of ours");
    }
    Ok(front(frame, sealer.is_some()))
}

/// Puts the prefix in front of a frame of one message; says where it begins.
pub(super) fn front(frame: &mut [u8], is_sealed: bool) -> usize {
    let from = if is_sealed { 0 } else { TRANSFORM_LEN };
    put_prefix(&mut frame[from..], 0);
    from
}

/// Sends a message alone in its frame whose data leaves behind it by itself: neither signed nor sealed.
pub(crate) fn leave_before(connection: &Rc<Connection>, replies: &mut Replies, payload: Payload, len: u32) {
    let mut head = std::mem::take(&mut replies.out);
    replies.messages.clear();
    put_prefix(&mut head[TRANSFORM_LEN..], len as usize);
    connection.send(OutgoingFrame { head, from: TRANSFORM_LEN, payload, charge: None, deferred_bytes: 0 });
}

/// Seals what lies behind the prefix.
pub(super) fn seal(channel: &Channel, frame: &mut [u8]) -> Result<(), NoNonce> {
    let (Some(sealing), Some(nonces)) = (channel.sealing(), &channel.nonces) else { return Err(NoNonce) };
    sealing.to_client.seal(channel.session.id, &mut nonces.borrow_mut(), &mut frame[PREFIX_LEN..])
}

/// Begins to seal by parts what lies behind [`FRONT`]; `None` where the cipher takes it whole.
pub(super) fn begin_sealing<'a>(channel: &'a Channel, frame: &[u8]) -> Result<Option<ByParts<'a>>, NoNonce> {
    let (Some(sealing), Some(nonces)) = (channel.sealing(), &channel.nonces) else { return Err(NoNonce) };
    sealing.to_client.begin(channel.session.id, &mut nonces.borrow_mut(), frame.len() - FRONT)
}

/// Says how long the frame is that begins with room for the prefix, and goes on for `behind` bytes elsewhere.
fn put_prefix(frame: &mut [u8], behind: usize) {
    let prefix = framing::prefix(frame.len() - PREFIX_LEN + behind).expect("replies are bounded");
    frame[..PREFIX_LEN].copy_from_slice(&prefix);
}

/// Bytes of replies that one frame holds, but for a longer one that is alone: sealing and signing take it whole.
const TOGETHER_MAX: usize = 4 << 20;

const _: () = assert!(TOGETHER_MAX < MESSAGE_MAX);
const _: () = assert!(SIGNATURE.end <= smb_wire::header::HEADER_LEN);
