//! Packets that came to the wrong lane: a multihomed client, a burst that the kernel steered by its first packet,
//! a lane that has just come back. They go to the lane that owns their connection through bounded mailboxes.
//!
//! No lane ever waits for another: a full mailbox drops the packets, which Rx treats as loss in the network.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use lane::mailbox::{self, Receiver, Sender};

/// Datagrams of one sender, equal in size but for the last.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) segment: usize,
    pub(super) bytes: Vec<u8>,
}

/// One lane's ends of the mailboxes between the lanes that share an address.
#[derive(Debug)]
pub struct Links {
    lane: usize,
    /// By lane; none to itself.
    senders: Vec<Option<Sender<Handed>>>,
    receivers: Vec<Receiver<Handed>>,
}

impl Links {
    /// The links of `lanes` lanes among each other, in the order of the lanes. `capacity` bounds each mailbox,
    /// in runs of packets.
    pub fn between(lanes: usize, capacity: usize) -> Vec<Self> {
        let none = |lane| Self { lane, senders: Vec::new(), receivers: Vec::new() };
        let mut links: Vec<Self> = (0..lanes).map(none).collect();
        for from in 0..lanes {
            for to in 0..lanes {
                if from == to {
                    links[from].senders.push(None);
                    continue;
                }
                let (sender, receiver) = mailbox::mailbox(capacity);
                links[from].senders.push(Some(sender));
                links[to].receivers.push(receiver);
            }
        }
        links
    }

    /// Links of a lane that shares its address with nobody.
    pub fn alone() -> Self {
        Self { lane: 0, senders: vec![None], receivers: Vec::new() }
    }

    /// Which of the lanes this is.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Lanes that share the address.
    pub fn lanes(&self) -> usize {
        self.senders.len()
    }

    /// Hands packets to another lane; false if its mailbox is full.
    pub(super) fn send(&mut self, to: usize, handed: Handed) -> bool {
        self.senders[to].as_mut().is_some_and(|sender| sender.send(handed).is_ok())
    }

    /// Takes what other lanes handed over, at most `max` runs; registers for more when there is none.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>, out: &mut Vec<Handed>, max: usize) -> Poll<()> {
        for receiver in &mut self.receivers {
            while out.len() < max
                && let Poll::Ready(Some(handed)) = receiver.poll_recv(cx)
            {
                out.push(handed);
            }
        }
        if out.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}
