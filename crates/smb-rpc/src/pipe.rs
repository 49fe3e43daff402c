//! One open of a named pipe: messages in, messages out (MS-SMB2 3.3.5.10, MS-RPCE 2.1.1.2).
//!
//! A pipe is in message mode: each fragment of an answer is one message, a read never takes of two, and one that asks
//! for less than the message has gets [`Status::BUFFER_OVERFLOW`] and the rest with the next.

use std::collections::VecDeque;
use std::fmt;

use smb_wire::Status;

use crate::association::{Association, request};
use crate::facts::Facts;
use crate::interface::Interface;
use crate::lsarpc::Handles;
use crate::pdu::{self, Broken, FRAGMENT_MIN, FRAGMENT_TAKEN_MAX, Fault, HEAD_LEN, Head, flags, kind};

/// Longest arguments of one call, all fragments together, bytes: some 1,800 identifiers. Clients send a few KiB.
pub const CALL_MAX: usize = 64 << 10;
/// Longest answer of one call, bytes.
pub const ANSWER_MAX: usize = 1 << 20;
/// Most bytes of answers that wait to be read: then nothing more is taken.
pub const WAITING_MAX: usize = 64 << 10;

/// Account of the bytes that a pipe keeps. It gives them back when it is dropped.
pub trait Memory: fmt::Debug + Send {
    /// Sets the charge to `bytes`. Returns `false`, and leaves the charge, where that is more than may be had; less always is.
    fn resize(&mut self, bytes: usize) -> bool;
}

/// An open pipe.
#[derive(Debug)]
pub struct Pipe {
    association: Association,
    handles: Handles,
    /// Bytes of an incomplete fragment.
    partial: Vec<u8>,
    call: Option<Call>,
    messages: VecDeque<Vec<u8>>,
    /// Bytes of the first message that have been read.
    read: usize,
    /// Bytes of all messages, read or not.
    waiting: usize,
    is_broken: bool,
    tally: Tally,
    /// Account of what it keeps, if any.
    memory: Option<Box<dyn Memory>>,
    /// Bytes that are charged there.
    charged: usize,
}

/// A call whose fragments are not all there.
#[derive(Debug)]
struct Call {
    id: u32,
    context: u16,
    number: u16,
    stub: Vec<u8>,
}

/// Result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the message, at most as many as were asked for.
    pub data: Vec<u8>,
    /// [`Status::SUCCESS`], or [`Status::BUFFER_OVERFLOW`]: the message has more.
    pub status: Status,
}

/// Counters of a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that were answered, whatever the answer.
    pub calls: u64,
    /// Calls that ended with a fault: no such call, arguments that are none, an unknown handle, too much.
    pub faults: u64,
    /// Binds without one interface that there is.
    pub refused: u64,
    /// Bytes that are no fragment, or one out of order: the pipe was at its end.
    pub broken: u64,
    /// Writes and answers for which there was no memory.
    pub short: u64,
}

impl Pipe {
    /// Opens the pipe of that name, as CREATE on `IPC$` has it: `srvsvc`, with a backslash in front or not.
    ///
    /// # Errors
    /// [`Status::OBJECT_NAME_NOT_FOUND`]: there is none of that name.
    pub fn open(name: &str) -> Result<Self, Status> {
        let interface = Interface::of_pipe(name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        Ok(Self {
            association: Association::new(interface),
            handles: Handles::default(),
            partial: Vec::new(),
            call: None,
            messages: VecDeque::new(),
            read: 0,
            waiting: 0,
            is_broken: false,
            tally: Tally::default(),
            memory: None,
            charged: 0,
        })
    }

    /// Charges what the pipe keeps to `memory`, before it is kept.
    pub fn charged_to(self, memory: impl Memory + 'static) -> Self {
        Self { memory: Some(Box::new(memory)), ..self }
    }

    /// Returns whether there is a pipe of that name, which is then to be had.
    pub fn is_there(name: &str) -> bool {
        Interface::of_pipe(name).is_some()
    }

    /// Takes all of `bytes`, which are a fragment, a part of one, or several.
    ///
    /// # Errors
    /// [`Status::PIPE_BUSY`]: answers wait to be read, and nothing more is taken until they are.
    /// [`Status::PIPE_DISCONNECTED`]: what came before was no DCE/RPC, or this is not.
    /// [`Status::INSUFFICIENT_RESOURCES`]: there is no memory for it; nothing was taken, and the client may try again.
    pub fn write(&mut self, bytes: &[u8], facts: &Facts<'_>) -> Result<(), Status> {
        if self.is_broken {
            return Err(Status::PIPE_DISCONNECTED);
        }
        if self.waiting > WAITING_MAX {
            return Err(Status::PIPE_BUSY);
        }
        // What would keep more breaks the pipe.
        let kept_max = bytes.len().min(CALL_MAX + FRAGMENT_TAKEN_MAX) + 2 * GROWTH;
        if !self.has_memory(self.kept() + kept_max) {
            self.tally.short += 1;
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let taken = self.take(bytes, facts).map_err(|Broken| self.tally.broken += 1);
        if taken.is_err() {
            (self.is_broken, self.partial, self.call) = (true, Vec::new(), None);
        }
        if !self.settle() {
            // Many short answers to one write.
            self.tally.short += 1;
            self.end();
        }
        if self.is_broken { Err(Status::PIPE_DISCONNECTED) } else { Ok(()) }
    }

    /// Ends the pipe: what it keeps is dropped, and its memory given back.
    pub fn end(&mut self) {
        (self.is_broken, self.partial, self.call) = (true, Vec::new(), None);
        (self.messages, self.read, self.waiting) = (VecDeque::new(), 0, 0);
        self.settle();
    }

    /// Reads at most `max` bytes of the next message; `None`: there is none yet, and the answer has to wait for a write.
    ///
    /// # Errors
    /// [`Status::PIPE_DISCONNECTED`]: there is none, and none will come.
    pub fn read(&mut self, max: usize) -> Option<Result<Answer, Status>> {
        let Some(message) = self.messages.front() else {
            return self.is_broken.then_some(Err(Status::PIPE_DISCONNECTED));
        };
        let rest = &message[self.read..];
        let data = rest[..rest.len().min(max)].to_vec();
        let status = if data.len() < rest.len() { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
        self.read += data.len();
        if self.read == message.len() {
            self.waiting -= message.len();
            self.messages.pop_front();
            self.read = 0;
            if self.messages.is_empty() {
                self.messages = VecDeque::new();
            }
            self.settle();
        }
        Some(Ok(Answer { data, status }))
    }

    /// Writes, and reads what is answered (`FSCTL_PIPE_TRANSCEIVE`); `None` as with [`read`](Self::read).
    ///
    /// # Errors
    /// As of [`write`](Self::write) and [`read`](Self::read); [`Status::PIPE_BUSY`] too where an answer waits to be
    /// read, which would be taken for that of this call.
    pub fn transact(
        &mut self,
        input: &[u8],
        max: usize,
        facts: &Facts<'_>,
    ) -> Option<Result<Answer, Status>> {
        //= MS-SMB2 3.3.5.15.3
        //# A transceive on a pipe with unread data fails.
        if !self.messages.is_empty() {
            return Some(Err(Status::PIPE_BUSY));
        }
        match self.write(input, facts) {
            Ok(()) => self.read(max),
            Err(status) => Some(Err(status)),
        }
    }

    /// Returns the number of bytes that are left of the next message.
    pub fn available(&self) -> usize {
        self.messages.front().map_or(0, |message| message.len() - self.read)
    }

    /// Returns what has happened since it was last asked.
    pub fn tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Returns the number of bytes that it keeps.
    fn kept(&self) -> usize {
        let call = self.call.as_ref().map_or(0, |call| call.stub.capacity());
        self.partial.capacity() + call + self.waiting + self.messages.len() * MESSAGE_OVERHEAD
    }

    /// Has `bytes` charged at least; `false`: there is less.
    fn has_memory(&mut self, bytes: usize) -> bool {
        bytes <= self.charged || self.charge(bytes)
    }

    /// Charges what is kept; `false`: there is less, which may be where that has grown.
    fn settle(&mut self) -> bool {
        self.charge(self.kept())
    }

    fn charge(&mut self, bytes: usize) -> bool {
        let is_charged = self.memory.as_mut().is_none_or(|memory| memory.resize(bytes));
        if is_charged {
            self.charged = bytes;
        }
        is_charged
    }

    fn take(&mut self, mut bytes: &[u8], facts: &Facts<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            // A fragment is put together only if it does not lie in one piece.
            let have = self.partial.len();
            if have > 0 || fragment_len(bytes)?.is_none_or(|len| len > bytes.len()) {
                let whole = match have < HEAD_LEN {
                    true => HEAD_LEN,
                    false => fragment_len(&self.partial)?.expect("its head is there"),
                };
                let (part, rest) = bytes.split_at(bytes.len().min(whole - have));
                append(&mut self.partial, part);
                bytes = rest;
                if fragment_len(&self.partial)? == Some(self.partial.len()) {
                    let fragment = std::mem::take(&mut self.partial);
                    self.fragment(&fragment, facts)?;
                }
            } else {
                let len = fragment_len(bytes)?.expect("it is all there");
                let (fragment, rest) = bytes.split_at(len);
                bytes = rest;
                self.fragment(fragment, facts)?;
            }
        }
        Ok(())
    }

    /// Obeys one whole fragment.
    fn fragment(&mut self, fragment: &[u8], facts: &Facts<'_>) -> Result<(), Broken> {
        let head = *Head::parse(fragment)?.ok_or(Broken)?;
        // A write may hold many fragments, and each may be answered at length.
        if self.waiting > WAITING_MAX {
            return Err(Broken);
        }
        match head.kind {
            kind::BIND | kind::ALTER_CONTEXT => {
                // Neither is ever in parts, nor amid a call.
                if self.call.is_some() || !head.has(flags::FIRST) || !head.has(flags::LAST) {
                    return Err(Broken);
                }
                let answer = self.association.bind(&head, &fragment[HEAD_LEN..])?;
                self.tally.refused += u64::from(!self.association.is_bound());
                self.say(answer);
                Ok(())
            }
            kind::REQUEST => self.request(&head, fragment, facts),
            // Calls are over before their cancellation comes; one that is not all there is given up.
            kind::CO_CANCEL => Ok(()),
            kind::ORPHANED => {
                self.call = None;
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    fn request(&mut self, head: &Head, fragment: &[u8], facts: &Facts<'_>) -> Result<(), Broken> {
        let (context, number, stub) = request(head, fragment)?;
        let id = head.call.get();
        // Requests carry no verifier, for no bind of theirs was accepted with one.
        if head.auth_len.get() != 0 {
            return Err(Broken);
        }
        match &mut self.call {
            None if head.has(flags::FIRST) => {
                self.call = Some(Call { id, context, number, stub: stub.to_vec() });
            }
            Some(call) if !head.has(flags::FIRST) && call.id == id && call.context == context => {
                append(&mut call.stub, stub);
            }
            _ => return Err(Broken),
        }
        let call = self.call.as_ref().expect("just put");
        if call.stub.len() > CALL_MAX {
            // What is left of it could not be distinguished from a new call: the pipe is at its end, with a reason.
            self.fault(id, context, Fault::TOO_MUCH);
            return Err(Broken);
        }
        if head.has(flags::LAST) {
            let call = self.call.take().expect("just looked at");
            self.obey(&call, facts);
        }
        Ok(())
    }

    /// Answers a call that is all there.
    fn obey(&mut self, call: &Call, facts: &Facts<'_>) {
        let interface = self.association.interface(call.context);
        let answer =
            interface.and_then(|interface| interface.call(call.number, &call.stub, &mut self.handles, facts));
        match answer {
            Ok(stub) if stub.len() <= ANSWER_MAX => {
                let fragments = stub.len() / ANSWER_BYTES_MIN + 1;
                let kept = stub.len() + fragments * (HEAD_LEN + 8 + MESSAGE_OVERHEAD);
                if !self.has_memory(self.kept() + kept) {
                    self.tally.short += 1;
                    return self.fault(call.id, call.context, Fault::TOO_MUCH);
                }
                self.tally.calls += 1;
                let fragment_max = self.association.fragment_max();
                for fragment in pdu::responses(call.id, call.context, &stub, fragment_max) {
                    self.say(fragment);
                }
            }
            Ok(_) => self.fault(call.id, call.context, Fault::TOO_MUCH),
            Err(fault) => self.fault(call.id, call.context, fault),
        }
    }

    fn fault(&mut self, id: u32, context: u16, fault: Fault) {
        self.tally.faults += 1;
        self.say(pdu::fault(id, context, fault));
    }

    fn say(&mut self, message: Vec<u8>) {
        self.waiting += message.len();
        self.messages.push_back(message);
    }
}

/// Appends bytes; what is reserved beyond them is less than [`GROWTH`].
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    let len = to.len() + bytes.len();
    if len > to.capacity() {
        to.reserve_exact(len.next_multiple_of(GROWTH) - to.len());
    }
    to.extend_from_slice(bytes);
}

/// Returns how long the fragment is that `bytes` begin with; `None`: its head is not all there.
fn fragment_len(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    Ok(Head::parse(bytes)?.map(|head| head.fragment_len.get().into()))
}

/// Bytes by which memory for a request grows.
const GROWTH: usize = 1 << 10;
/// Fewest bytes of an answer in each of its fragments but the last.
const ANSWER_BYTES_MIN: usize = FRAGMENT_MIN - HEAD_LEN - 16;
/// Bytes that a message costs beside its own.
const MESSAGE_OVERHEAD: usize = 48;
