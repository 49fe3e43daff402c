//! The sockets of a lane: what has arrived, which tasks wait, and which multishot receives and accepts the
//! kernel holds.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Waker};

use super::key::GENERATION_MASK;
use crate::backend::receive::Untaken;
use crate::backend::{Datagram, SocketKind};
use crate::socket::unreachable::Unreachable;

/// Sockets of a lane by descriptor number.
#[derive(Default)]
pub(super) struct Sockets {
    slots: Vec<Option<Box<Socket>>>,
    generation: u32,
    open: usize,
    udp: usize,
}

/// State of a socket that a lane has open.
pub(super) struct Socket {
    pub(super) generation: u32,
    pub(super) arrived: Arrived,
    pub(super) waker: Option<Waker>,
    /// True once the socket's task was woken and has not asked since.
    pub(super) told: bool,
    /// True while the socket waits in a line for buffers.
    pub(super) starved: bool,
    /// Error that ends the stream, or one accept, once earlier arrivals are taken.
    pub(super) error: Option<io::Error>,
    pub(super) receive: Receive,
    /// True while the stream's task waits for the receive to rest.
    pub(super) keeps_quiet: bool,
    /// True where the kernel makes TLS records of the bytes sent.
    pub(super) kernel_tls: bool,
    /// Reports of datagrams that did not arrive, where the owner asked for reports.
    pub(super) unreachable: Option<VecDeque<Unreachable>>,
}

/// Arrivals that the kernel has handed over and no task has taken.
pub(super) enum Arrived {
    Connections(VecDeque<OwnedFd>),
    Bytes(Untaken),
    Datagrams(VecDeque<Datagram>),
}

/// State of a socket's multishot operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// No receive is in the kernel.
    Off,
    /// The receive is armed in the kernel.
    On,
    /// The receive is being cancelled because too much lies untaken, or because the task wants the stream for
    /// itself.
    Pausing,
    /// A receive into memory of the socket's task takes the place of the multishot one.
    Into,
    Ended,
}

impl Sockets {
    pub(super) fn insert(&mut self, fd: i32, arrived: Arrived) {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let is_udp = matches!(arrived, Arrived::Datagrams(_));
        let socket = Socket {
            generation: self.generation,
            arrived,
            waker: None,
            told: false,
            starved: false,
            error: None,
            receive: Receive::Off,
            keeps_quiet: false,
            kernel_tls: false,
            unreachable: None,
        };
        let index = usize::try_from(fd).expect("descriptors are not negative");
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        let before = self.slots[index].replace(Box::new(socket));
        assert!(before.is_none(), "descriptor {fd} was closed behind the lane's back");
        self.open += 1;
        self.udp += usize::from(is_udp);
    }

    pub(super) fn remove(&mut self, fd: i32) -> Option<Box<Socket>> {
        let removed = self.slots.get_mut(usize::try_from(fd).ok()?)?.take();
        self.open -= usize::from(removed.is_some());
        let is_udp = removed.as_ref().is_some_and(|socket| matches!(socket.arrived, Arrived::Datagrams(_)));
        self.udp -= usize::from(is_udp);
        removed
    }

    /// Returns whether the stream is as accepted: nothing arrived, nothing asked of the kernel.
    pub(super) fn is_untouched(&mut self, fd: i32) -> bool {
        self.get_mut(fd).is_some_and(|socket| {
            let empty = matches!(&socket.arrived, Arrived::Bytes(untaken) if untaken.is_empty());
            empty && socket.receive == Receive::Off && socket.error.is_none()
        })
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut Socket> {
        self.slots.get_mut(usize::try_from(fd).ok()?)?.as_deref_mut()
    }

    /// Returns the socket that a completion was meant for, unless closed or replaced under the same number.
    pub(super) fn of_completion(&mut self, index: u32, generation: u32) -> Option<&mut Socket> {
        self.slots.get_mut(index as usize)?.as_deref_mut().filter(|s| s.generation == generation)
    }

    /// Fails where the receive beside a send has met an error. It takes a reset off the socket before a send
    /// can see it, and a socket with kernel TLS (seen on Linux 6.1) then goes on taking bytes that are lost.
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

    /// Returns the flags that make a ring send wait until all is sent. Kernel TLS refuses them (EOPNOTSUPP).
    pub(super) fn wait_all(&mut self, fd: i32) -> libc::c_int {
        if self.has_kernel_tls(fd) { 0 } else { libc::MSG_WAITALL }
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }

    /// Returns the number of UDP sockets, which share the ring of datagram buffers.
    pub(super) fn udp(&self) -> usize {
        self.udp
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (i32, &mut Socket)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(fd, slot)| {
            let fd = i32::try_from(fd).expect("was a descriptor");
            Some((fd, slot.as_deref_mut()?))
        })
    }

    pub(super) fn descriptors(&self) -> Vec<i32> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        open.map(|(fd, _)| i32::try_from(fd).expect("was a descriptor")).collect()
    }
}

impl Socket {
    /// Returns whether the socket's task waits for an arrival, or is about to take one.
    pub(super) fn is_attended(&self) -> bool {
        self.waker.is_some() || self.told
    }

    /// Makes the task of `cx` the one to wake.
    pub(super) fn wait(&mut self, cx: &mut Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }

    /// Returns the task to wake for an arrival.
    pub(super) fn tell(&mut self) -> Option<Waker> {
        let waker = self.waker.take();
        self.told |= waker.is_some();
        waker
    }
}

impl From<SocketKind> for Arrived {
    fn from(kind: SocketKind) -> Self {
        match kind {
            SocketKind::Listener => Self::Connections(VecDeque::new()),
            SocketKind::Udp => Self::Datagrams(VecDeque::new()),
            SocketKind::Stream => Self::Bytes(Untaken::default()),
        }
    }
}

/// Most connections accepted ahead of the service; the rest wait in the kernel's backlog.
pub(super) const CONNECTIONS_UNTAKEN_MAX: usize = 64;
