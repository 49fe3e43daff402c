//! Answers DEBUG questions for all lanes of a server. The lane that a question came to asks the others, by mail, and
//! puts their shares together; no lane reads another's state.
//!
//! Clients walk tables by index, one question for each entry, while connections come and go. So the desk remembers how
//! far each asker has come and goes on from that *place*, a page of entries at a time. What lives through the whole
//! walk is reported exactly once; a walk starts over at index 0. Connections are reported lane by lane, peers in the
//! order of their addresses, one entry for an address that several lanes talk with.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;

use rx::Question;

use super::share::{PAGE, Query, Share, Totals};
use super::wire::Writer;
use super::{BAD_TYPE, DebugConn, DebugPeer, DebugRequest, REQUEST_LEN};

/// Questions under way and walks, of one lane.
#[derive(Debug)]
pub(crate) struct Desk {
    lanes: usize,
    tickets: Tickets,
    /// Oldest first.
    sums: VecDeque<Sum>,
    /// Least recently used first.
    walks: VecDeque<Walk>,
}

/// Step that follows from a question or a share.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send this payload to the asker.
    Answer { asker: Question, payload: Vec<u8> },
    /// Ask these lanes, and give their shares to [`Desk::take`] under this ticket.
    Gather { ticket: u64, lanes: Range<usize>, query: Query },
}

/// Counters being added up.
#[derive(Debug)]
struct Sum {
    ticket: u64,
    asker: Question,
    request: DebugRequest,
    /// Lanes that have not answered.
    missing: usize,
    totals: Totals,
}

/// One asker's way through one table.
#[derive(Debug)]
struct Walk {
    remote: SocketAddr,
    table: Table,
    /// Index of the page's first entry.
    first: u32,
    /// Encoded entries, as they were when the page was fetched.
    page: Vec<Vec<u8>>,
    /// Place that follows the page.
    place: Place,
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Connections { interesting: bool },
    Peers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Connection { lane: usize, from: u32 },
    Peer { after: Option<SocketAddr> },
    End,
}

/// A question that waits for the next page.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    asker: Question,
    index: u32,
    missing: usize,
    peers: BTreeMap<SocketAddr, DebugPeer>,
    /// Lanes with more peers may have some right after this address.
    complete_to: Option<SocketAddr>,
}

#[derive(Debug, Default)]
struct Tickets {
    last: u64,
}

impl Desk {
    /// Creates a desk that answers for `lanes` lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes, tickets: Tickets::default(), sums: VecDeque::new(), walks: VecDeque::new() }
    }

    /// Takes a question.
    pub(crate) fn ask(&mut self, asker: Question, request: DebugRequest) -> Step {
        match request {
            DebugRequest::Stats | DebugRequest::RxStats => self.sum(asker, request),
            DebugRequest::InterestingConnection(index) => {
                self.look_up(asker, Table::Connections { interesting: true }, index)
            }
            DebugRequest::Connection(index) => {
                self.look_up(asker, Table::Connections { interesting: false }, index)
            }
            DebugRequest::Peer(index) => self.look_up(asker, Table::Peers, index),
            DebugRequest::Unknown(_) => {
                let mut w = Writer::with_capacity(REQUEST_LEN);
                w.i32(BAD_TYPE);
                w.i32(BAD_TYPE);
                Step::Answer { asker, payload: w.finish() }
            }
        }
    }

    /// Takes a lane's share; `None` while others are missing, or when no question waits for it any more.
    /// After [`Share::Refused`] the question stays unanswered: its client repeats it.
    pub(crate) fn take(&mut self, ticket: u64, share: Share) -> Option<Step> {
        if let Some(at) = self.sums.iter().position(|sum| sum.ticket == ticket) {
            return self.take_totals(at, share);
        }
        let waits = |walk: &&mut Walk| walk.waiting.as_ref().is_some_and(|waiting| waiting.ticket == ticket);
        let walk = self.walks.iter_mut().find(waits)?;
        walk.take(share, self.lanes, &mut self.tickets)
    }

    fn sum(&mut self, asker: Question, request: DebugRequest) -> Step {
        if self.sums.len() >= SUMS_MAX {
            self.sums.pop_front();
        }
        let ticket = self.tickets.next();
        self.sums.push_back(Sum { ticket, asker, request, missing: self.lanes, totals: Totals::default() });
        Step::Gather { ticket, lanes: 0..self.lanes, query: Query::Totals }
    }

    fn take_totals(&mut self, at: usize, share: Share) -> Option<Step> {
        let Share::Totals(totals) = share else {
            self.sums.remove(at);
            return None;
        };
        let sum = &mut self.sums[at];
        sum.totals += *totals;
        sum.missing -= 1;
        if sum.missing > 0 {
            return None;
        }
        let Sum { asker, request, totals, .. } = self.sums.remove(at)?;
        let payload = match request {
            DebugRequest::RxStats => totals.rx_stats().encode(),
            _ => totals.debug_stats().encode(),
        };
        Some(Step::Answer { asker, payload })
    }

    fn look_up(&mut self, asker: Question, table: Table, index: u32) -> Step {
        let known = self.walks.iter().position(|walk| walk.remote == asker.remote && walk.table == table);
        let known = known.and_then(|at| self.walks.remove(at));
        let mut walk = known
            .filter(|walk| index != 0 && index >= walk.first)
            .unwrap_or_else(|| Walk::new(asker.remote, table));
        if self.walks.len() >= WALKS_MAX {
            self.walks.pop_front();
        }
        let step = walk.answer_or_gather(asker, index, self.lanes, &mut self.tickets);
        self.walks.push_back(walk);
        step
    }
}

impl Walk {
    fn new(remote: SocketAddr, table: Table) -> Self {
        let place = match table {
            Table::Connections { .. } => Place::Connection { lane: 0, from: 0 },
            Table::Peers => Place::Peer { after: None },
        };
        Self { remote, table, first: 0, page: Vec::new(), place, waiting: None }
    }

    /// Answers from the page, or asks for the next one. A question that still waits gives way to this one, which is
    /// mostly the same question again.
    fn answer_or_gather(&mut self, asker: Question, index: u32, lanes: usize, tickets: &mut Tickets) -> Step {
        self.waiting = None;
        if let Some(entry) = self.page.get((index - self.first) as usize) {
            return Step::Answer { asker, payload: entry.clone() };
        }
        let (lanes, query) = match (self.place, self.table) {
            (Place::Connection { lane, from }, Table::Connections { interesting }) => {
                (lane..lane + 1, Query::Connections { from, interesting })
            }
            (Place::Peer { after }, Table::Peers) => (0..lanes, Query::Peers { after }),
            _ => return Step::Answer { asker, payload: self.table.end() },
        };
        self.first += self.page.len() as u32;
        self.page.clear();
        let ticket = tickets.next();
        let (missing, peers) = (lanes.len(), BTreeMap::new());
        self.waiting = Some(Waiting { ticket, asker, index, missing, peers, complete_to: None });
        Step::Gather { ticket, lanes, query }
    }

    fn take(&mut self, share: Share, lanes: usize, tickets: &mut Tickets) -> Option<Step> {
        let mut waiting = self.waiting.take()?;
        match (share, self.place) {
            (Share::Connections { entries, next }, Place::Connection { lane, .. }) => {
                let shown =
                    |entry: DebugConn| if waiting.asker.sees_ids { entry } else { entry.without_ids() };
                self.page =
                    entries.into_iter().map(|entry| DebugConn::encode_entry(Some(shown(entry)))).collect();
                self.place = match next {
                    Some(from) => Place::Connection { lane, from },
                    None if lane + 1 < lanes => Place::Connection { lane: lane + 1, from: 0 },
                    None => Place::End,
                };
            }
            (Share::Peers { entries, more }, Place::Peer { .. }) => {
                waiting.add_peers(entries, more);
                if waiting.missing > 0 {
                    self.waiting = Some(waiting);
                    return None;
                }
                self.turn_to(std::mem::take(&mut waiting.peers), waiting.complete_to);
            }
            _ => return None,
        }
        Some(self.answer_or_gather(waiting.asker, waiting.index, lanes, tickets))
    }

    /// Makes a page of the peers that are known to follow each other without a gap.
    fn turn_to(&mut self, peers: BTreeMap<SocketAddr, DebugPeer>, complete_to: Option<SocketAddr>) {
        let complete = |address: &SocketAddr| complete_to.is_none_or(|to| *address <= to);
        let count = peers.keys().take_while(|address| complete(address)).count();
        let last = peers.keys().take(PAGE.min(count)).next_back().copied();
        let all = complete_to.is_none() && count <= PAGE;
        self.place = if all { Place::End } else { Place::Peer { after: last } };
        let page = peers.into_values().take(PAGE.min(count));
        self.page = page.map(|peer| DebugPeer::encode_entry(Some(peer))).collect();
    }
}

impl Waiting {
    fn add_peers(&mut self, entries: Vec<(SocketAddr, DebugPeer)>, more: bool) {
        self.missing -= 1;
        if more && let Some((last, _)) = entries.last() {
            self.complete_to = Some(self.complete_to.map_or(*last, |known| known.min(*last)));
        }
        for (address, peer) in entries {
            match self.peers.get_mut(&address) {
                Some(known) => known.merge(peer),
                None => {
                    self.peers.insert(address, peer);
                }
            }
        }
    }
}

impl Table {
    fn end(self) -> Vec<u8> {
        match self {
            Self::Connections { .. } => DebugConn::encode_entry(None),
            Self::Peers => DebugPeer::encode_entry(None),
        }
    }
}

impl Tickets {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Questions about totals under way; the oldest gives way.
const SUMS_MAX: usize = 64;
/// Walks remembered. One that was forgotten is repeated from its start, unseen by its asker.
const WALKS_MAX: usize = 16;

#[cfg(test)]
mod tests;
