//! Intake of a lane's packets: gives the endpoint its own, and hands over those of connections that other
//! lanes own.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Instant;

use lane::socket::unreachable::Unreachable;

use crate::counters::RxCounters;
use crate::handover::{Handed, LaneGroupLink, Mail, Undelivered};
use rx::{Arrival, Endpoint};
use rxdebug::LaneDesk;

/// Intake of one lane, for one pass.
pub(super) struct Intake<'p> {
    pub(super) now: Instant,
    pub(super) endpoint: &'p mut Endpoint,
    pub(super) desk: &'p mut LaneDesk,
    pub(super) link: &'p mut LaneGroupLink,
    pub(super) counters: &'p RxCounters,
}

/// Datagrams of one sender, as received: equal in size but for the last.
pub(super) struct DatagramRun<'b> {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) segment: usize,
    pub(super) bytes: &'b [u8],
    /// Number of handovers so far.
    pub(super) hops: u8,
}

impl Intake<'_> {
    /// Takes datagrams, the first of which came by `arrival`. Neighbours that another lane owns go to it
    /// together.
    pub(super) fn take(&mut self, run: &DatagramRun<'_>, arrival: Arrival) {
        let mut strays: Option<(usize, Range<usize>)> = None;
        let mut end = 0;
        for datagram in run.bytes.chunks(run.segment) {
            let place = end..end + datagram.len();
            end = place.end;
            let owner = self.endpoint.owner_elsewhere(run.remote, datagram, arrival);
            if let Some((to, range)) = &mut strays
                && owner == Some(*to)
            {
                range.end = place.end;
                continue;
            }
            if let Some((to, range)) = strays.take() {
                self.hand_over(to, run, range);
            }
            match owner {
                None => self.endpoint.handle_datagram(self.now, run.remote, run.local, datagram),
                Some(to) => strays = Some((to, place)),
            }
        }
        if let Some((to, range)) = strays {
            self.hand_over(to, run, range);
        }
    }

    pub(super) fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Packets(handed) => {
                self.counters.handed_in.add(handed.bytes.len().div_ceil(handed.segment) as u64);
                let Handed { remote, local, segment, ref bytes, hops } = handed;
                self.take(&DatagramRun { remote, local, segment, bytes, hops }, Arrival::Handed);
            }
            Mail::Desk(mail) => self.desk.handle_mail(self.now, self.endpoint, mail),
            Mail::Unreachable(report) => {
                let Unreachable { peer, ref quoted, port_closed } = report;
                self.endpoint.handle_unreachable(self.now, peer, quoted, port_closed);
            }
        }
    }

    /// Takes an ICMP report about a packet of ours. The kernel gives it to any lane of a group.
    pub(super) fn take_unreachable(&mut self, report: Unreachable) {
        let Unreachable { peer, ref quoted, port_closed } = report;
        let Some(owner) = self.endpoint.sender_elsewhere(peer, quoted) else {
            return self.endpoint.handle_unreachable(self.now, peer, quoted, port_closed);
        };
        match self.link.send(owner, Mail::Unreachable(report)) {
            Ok(()) => {}
            Err(Undelivered::Full(_)) => self.counters.handover_full.increment(),
            Err(Undelivered::Gone(_)) => self.counters.handover_lost.increment(),
        }
    }

    /// Handles the questions asked of this lane, and sends its messages to other lanes.
    pub(super) fn post(&mut self) {
        self.desk.handle_questions(self.now, self.endpoint);
        while let Some((to, mail)) = self.desk.poll_mail() {
            let (mail, gone) = match self.link.send(to, Mail::Desk(mail)) {
                Err(Undelivered::Full(Mail::Desk(mail))) => (mail, false),
                Err(Undelivered::Gone(Mail::Desk(mail))) => (mail, true),
                _ => continue,
            };
            self.counters.lane_mail_undelivered.increment();
            self.desk.mail_undelivered(self.now, self.endpoint, mail, gone);
        }
        self.counters.shares_limited.set(self.desk.limited());
    }

    fn hand_over(&mut self, to: usize, run: &DatagramRun<'_>, range: Range<usize>) {
        let packets = range.len().div_ceil(run.segment) as u64;
        // Each further handover means that the owner changed on the way, which it does once in a blue moon.
        if run.hops >= HOPS_MAX {
            return self.counters.handover_lost.add(packets);
        }
        let handed = Handed {
            remote: run.remote,
            local: run.local,
            segment: run.segment,
            bytes: run.bytes[range].to_vec(),
            hops: run.hops + 1,
        };
        let own_silo = self.link.lane_map().same_silo(self.link.lane(), to);
        match self.link.send(to, Mail::Packets(handed)) {
            Ok(()) if own_silo => self.counters.handed_over.add(packets),
            Ok(()) => self.counters.handed_across.add(packets),
            Err(Undelivered::Full(_)) => self.counters.handover_full.add(packets),
            Err(Undelivered::Gone(_)) => self.counters.handover_lost.add(packets),
        }
    }
}

//@ limit: lanes of a client
//@ section: Rx
//@ unit: lane
//@ connection: one
//@ address: one for each port, by the hash of address and port
//@ empty: a client's socket has no more than one lane; its packets stay in order
//@ counter: rx_handed_over
//@ attack: none, an assignment, which refuses nothing
//@ reach: server
/// Most handovers of one packet.
const HOPS_MAX: u8 = 4;
