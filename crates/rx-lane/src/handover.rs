//! Mail between the lanes that share an address. Packets that came to the wrong lane (a client on two networks, a burst
//! that the kernel steered by its first packet, a lane that has just come back) go to the lane that owns their
//! connection; so do questions about the whole process and their answers.
//!
//! No lane ever waits for another: a full mailbox drops the packets, which Rx treats as loss in the network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use lane::mailbox::{self, Full, Receiver, Sender};
use lane::socket::reuseport::Steering;
use lane::socket::unreachable::Unreachable;

use rx::Roster;
use rxdebug::DeskMail;

/// What one lane sends another.
#[derive(Debug)]
pub(super) enum Mail {
    Packets(Handed),
    Desk(DeskMail),
    /// About a packet of a connection that the other lane owns.
    Unreachable(Unreachable),
}

/// Datagrams of one sender, equal in size but for the last.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) segment: usize,
    pub(super) bytes: Vec<u8>,
    /// Handovers so far.
    pub(super) hops: u8,
}

/// Mail that did not arrive.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// The other lane has as much as it may.
    Full(Mail),
    /// The other lane has ended.
    Gone(Mail),
}

/// One lane's ends of the mailboxes between the lanes that share an address.
#[derive(Debug)]
pub struct Links {
    lane: usize,
    roster: Arc<Roster>,
    /// By lane; none to itself.
    senders: Vec<Option<Sender<Mail>>>,
    receivers: Vec<Receiver<Mail>>,
}

impl Links {
    /// The links among all lanes of a listener group, in the order of the lanes. `capacity` bounds each mailbox, in
    /// runs of packets.
    ///
    /// Where the group has several silos, a client's connection is owned by a lane of the silo that its packets
    /// reach.
    pub fn over(steering: &Steering, capacity: usize) -> Vec<Self> {
        let silos = steering.silos().iter().map(|silo| silo.lanes.clone()).collect();
        Self::among(Roster::new(silos), capacity)
    }

    /// As [`over`](Self::over) for `lanes` lanes of one silo.
    pub fn between(lanes: usize, capacity: usize) -> Vec<Self> {
        Self::among(Roster::one_silo(lanes), capacity)
    }

    /// Links of a lane that shares its address with nobody.
    pub fn alone() -> Self {
        let roster = Arc::new(Roster::one_silo(1));
        Self { lane: 0, roster, senders: vec![None], receivers: Vec::new() }
    }

    fn among(roster: Roster, capacity: usize) -> Vec<Self> {
        let (lanes, roster) = (roster.lanes(), Arc::new(roster));
        let none =
            |lane| Self { lane, roster: Arc::clone(&roster), senders: Vec::new(), receivers: Vec::new() };
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

    /// Which of the lanes this is.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Lanes that share the address.
    pub fn lanes(&self) -> usize {
        self.senders.len()
    }

    pub(super) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// Sends mail to another lane, at once or not at all.
    pub(super) fn send(&mut self, to: usize, mail: Mail) -> Result<(), Undelivered> {
        let Some(sender) = self.senders.get_mut(to).and_then(Option::as_mut) else {
            return Err(Undelivered::Gone(mail));
        };
        sender.send(mail).map_err(|Full(mail)| {
            if self.roster.is_present(to) { Undelivered::Full(mail) } else { Undelivered::Gone(mail) }
        })
    }

    /// Takes what other lanes sent, at most `max` pieces; registers for more when there is none.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>, out: &mut Vec<Mail>, max: usize) -> Poll<()> {
        for receiver in &mut self.receivers {
            while out.len() < max
                && let Poll::Ready(Some(mail)) = receiver.poll_recv(cx)
            {
                out.push(mail);
            }
        }
        if out.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.roster.leave(self.lane);
    }
}
