//! The sockets of one lane: what has arrived on each, who waits for it, and whether the kernel holds a
//! multishot receive or accept for it.

use std::collections::VecDeque;
use std::io;
use std::task::Waker;

use super::key::GENERATION_MASK;
use crate::backend::{Datagram, SocketKind};
use crate::buffer::RecvBuf;

/// Sockets by descriptor number.
#[derive(Default)]
pub(super) struct Sockets {
    slots: Vec<Option<Box<Socket>>>,
    generation: u32,
    open: usize,
}

/// One socket.
pub(super) struct Socket {
    pub(super) generation: u32,
    pub(super) arrived: Arrived,
    pub(super) waker: Option<Waker>,
    /// Ends the stream, or one accept, once what arrived before is taken.
    pub(super) error: Option<io::Error>,
    pub(super) receive: Receive,
    /// The kernel makes TLS records of what is sent.
    pub(super) kernel_tls: bool,
}

/// What the kernel has handed over and nobody has taken.
pub(super) enum Arrived {
    Connections(VecDeque<i32>),
    Bytes(VecDeque<RecvBuf>),
    Datagrams(VecDeque<Datagram>),
}

/// The state of a socket's multishot operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// None in the kernel.
    Off,
    /// Armed.
    On,
    /// Being cancelled because too much has arrived untaken.
    Pausing,
    /// The stream has ended.
    Ended,
}

impl Sockets {
    pub(super) fn insert(&mut self, fd: i32, arrived: Arrived) {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let socket = Socket {
            generation: self.generation,
            arrived,
            waker: None,
            error: None,
            receive: Receive::Off,
            kernel_tls: false,
        };
        let index = usize::try_from(fd).expect("descriptors are not negative");
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        let before = self.slots[index].replace(Box::new(socket));
        assert!(before.is_none(), "descriptor {fd} was closed behind the lane's back");
        self.open += 1;
    }

    pub(super) fn remove(&mut self, fd: i32) -> Option<Box<Socket>> {
        let removed = self.slots.get_mut(usize::try_from(fd).ok()?)?.take();
        self.open -= usize::from(removed.is_some());
        removed
    }

    /// Whether the stream is as it was accepted: nothing arrived, nothing asked of the kernel.
    pub(super) fn is_untouched(&mut self, fd: i32) -> bool {
        self.get_mut(fd).is_some_and(|socket| {
            let empty = matches!(&socket.arrived, Arrived::Bytes(queue) if queue.is_empty());
            empty && socket.receive == Receive::Off && socket.error.is_none()
        })
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut Socket> {
        self.slots.get_mut(usize::try_from(fd).ok()?)?.as_deref_mut()
    }

    /// The socket a completion was meant for, unless it is gone or its number was reused.
    pub(super) fn of_completion(&mut self, index: u32, generation: u32) -> Option<&mut Socket> {
        self.slots.get_mut(index as usize)?.as_deref_mut().filter(|s| s.generation == generation)
    }

    /// Fails where the receive that runs beside has met an error. It takes a reset off the socket before a send can
    /// see it, and a socket with kernel TLS (seen on Linux 6.1) then goes on taking bytes for nobody.
    pub(super) fn check_alive(&mut self, fd: i32) -> io::Result<()> {
        match self.get_mut(fd).and_then(|socket| socket.error.as_ref()) {
            Some(error) => {
                Err(error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error))
            }
            None => Ok(()),
        }
    }

    pub(super) fn has_kernel_tls(&mut self, fd: i32) -> bool {
        self.get_mut(fd).is_some_and(|socket| socket.kernel_tls)
    }

    /// Flags that make a ring send wait until all is sent. Kernel TLS refuses them (EOPNOTSUPP).
    pub(super) fn wait_all(&mut self, fd: i32) -> libc::c_int {
        if self.has_kernel_tls(fd) { 0 } else { libc::MSG_WAITALL }
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }

    pub(super) fn descriptors(&self) -> Vec<i32> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        open.map(|(fd, _)| i32::try_from(fd).expect("was a descriptor")).collect()
    }
}

impl Socket {
    /// Whether so much lies untaken that the kernel should stop handing over.
    pub(super) fn is_crowded(&self) -> bool {
        match &self.arrived {
            Arrived::Connections(queue) => queue.len() >= CONNECTIONS_UNTAKEN_MAX,
            Arrived::Bytes(queue) => queue.len() >= BUFFERS_UNTAKEN_MAX,
            Arrived::Datagrams(queue) => queue.len() >= DATAGRAMS_UNTAKEN_MAX,
        }
    }
}

impl From<SocketKind> for Arrived {
    fn from(kind: SocketKind) -> Self {
        match kind {
            SocketKind::Listener => Self::Connections(VecDeque::new()),
            SocketKind::Udp => Self::Datagrams(VecDeque::new()),
            SocketKind::Stream => Self::Bytes(VecDeque::new()),
        }
    }
}

/// Connections accepted ahead of the service: the rest waits in the kernel's backlog.
const CONNECTIONS_UNTAKEN_MAX: usize = 64;
/// Provided buffers one stream may fill ahead of its task.
const BUFFERS_UNTAKEN_MAX: usize = 8;
/// Provided buffers a UDP socket may fill ahead of its task: most of its ring, less a batch in work.
const DATAGRAMS_UNTAKEN_MAX: usize = 192;
