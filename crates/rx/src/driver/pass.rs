//! The driver's task: receive a batch, let calls run, send once.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use lane::backend::{Datagram, DatagramBatch};
use lane::socket::reuseport::owner_lane;
use lane::time::Sleep;

use super::handover::{Handed, Links};
use super::state::{Shared, State};
use crate::endpoint::Route;
use crate::header::{Header, PacketType};
use crate::transmit::Transmit;

/// Runs the driver as long as the lane lives.
pub(super) async fn run(shared: Rc<Shared>, links: Links) {
    let mut pass = Pass {
        shared,
        links,
        received: Vec::with_capacity(RECEIVES_PER_PASS),
        handed: Vec::new(),
        blocked: None,
        sleep: lane::time::sleep_until(lane::time::now()),
    };
    loop {
        poll_fn(|cx| pass.poll_work(cx)).await;
        pass.take_in(lane::time::now());
        pass.shared.dispatch();
        // Whoever was woken reads and writes now, before the one transmit pass.
        lane::yield_now().await;
        pass.shared.dispatch();
        if pass.send_out(lane::time::now()) == Sent::Blocked {
            // An error shows again, and is counted, at the next send.
            let _ = pass.shared.socket.writable().await;
        }
        pass.publish();
    }
}

struct Pass {
    shared: Rc<Shared>,
    links: Links,
    received: Vec<Datagram>,
    handed: Vec<Handed>,
    /// What the socket did not take, from this datagram on.
    blocked: Option<(Transmit, usize)>,
    sleep: Sleep,
}

/// How a transmit pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Nothing more to send now.
    All,
    /// The socket takes no more.
    Blocked,
}

/// How one burst ended.
enum Burst {
    Gone,
    /// A path-MTU probe that the interface cannot carry.
    TooLarge,
    /// The socket took only so many datagrams.
    Stuck(usize),
}

impl Pass {
    /// Ready when there are packets, a timer is due, or a call has done something.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ready = self.shared.was_kicked(cx.waker());
        match self.shared.socket.poll_recv(cx, &mut self.received, RECEIVES_PER_PASS) {
            Poll::Ready(Ok(())) => ready = true,
            // An ICMP error about an earlier datagram: the protocol finds out by itself.
            Poll::Ready(Err(_)) => {
                self.shared.counters.receive_errors.increment();
                ready = true;
            }
            Poll::Pending => {}
        }
        ready |= self.links.poll_recv(cx, &mut self.handed, RECEIVES_PER_PASS).is_ready();
        let due = self.shared.state.borrow().deadline();
        if let Some(at) = due {
            if self.sleep.deadline() != at {
                self.sleep.reset(at);
            }
            ready |= Pin::new(&mut self.sleep).poll(cx).is_ready();
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Feeds everything that has come to the endpoint.
    fn take_in(&mut self, now: Instant) {
        self.shared.now.set(now);
        let mut state = self.shared.state.borrow_mut();
        let (mine, lanes) = (self.links.lane(), self.links.lanes());
        for datagram in self.received.drain(..) {
            let Datagram { from, local, segment, .. } = datagram;
            let segment = usize::from(segment.max(1));
            if lanes == 1 {
                datagram.segments().for_each(|bytes| state.endpoint.handle_datagram(now, from, local, bytes));
                continue;
            }
            for (owner, run) in runs_by_owner(&datagram.buf, segment, mine, lanes) {
                if owner == mine {
                    run.chunks(segment)
                        .for_each(|bytes| state.endpoint.handle_datagram(now, from, local, bytes));
                } else {
                    hand_over(&mut self.links, &self.shared, owner, from, local, segment, run);
                }
            }
        }
        for handed in self.handed.drain(..) {
            let Handed { remote, local, segment, bytes } = handed;
            self.shared.counters.handed_in.add(bytes.len().div_ceil(segment) as u64);
            bytes.chunks(segment).for_each(|bytes| state.endpoint.handle_datagram(now, remote, local, bytes));
        }
        if state.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            state.endpoint.handle_timeout(now);
        }
        state.close_due(now);
    }

    /// The transmit pass. A long one pauses for receiving and goes on in the next pass.
    fn send_out(&mut self, now: Instant) -> Sent {
        let mut state = self.shared.state.borrow_mut();
        for _ in 0..TRANSMITS_PER_PASS {
            let next = self.blocked.take().or_else(|| Some((state.endpoint.poll_transmit(now)?, 0)));
            let Some((transmit, done)) = next else { return Sent::All };
            match self.send(&state, &transmit, done) {
                Burst::Gone => state.endpoint.transmit_done(transmit),
                Burst::TooLarge => {
                    state.endpoint.probe_refused(&transmit);
                    state.endpoint.transmit_done(transmit);
                }
                Burst::Stuck(done) => {
                    self.shared.counters.send_blocked.increment();
                    self.blocked = Some((transmit, done));
                    return Sent::Blocked;
                }
            }
        }
        drop(state);
        self.shared.kick();
        Sent::All
    }

    /// Sends a burst from its datagram `done` on.
    fn send(&self, state: &State, transmit: &Transmit, mut done: usize) -> Burst {
        let parts = transmit.slices(state.endpoint.pool());
        while done < parts.len() {
            let batch = DatagramBatch {
                to: transmit.destination,
                from: transmit.src_ip,
                segment: u16::try_from(transmit.segment_size).unwrap_or(u16::MAX),
                dont_fragment: transmit.dont_fragment,
                parts: &parts[done..],
            };
            match self.shared.socket.try_send(&batch) {
                Ok(Some(sent)) => done += sent.div_ceil(transmit.segment_size.max(1)).max(1),
                Ok(None) => return Burst::Stuck(done),
                Err(error) if transmit.dont_fragment && error.raw_os_error() == Some(EMSGSIZE) => {
                    return Burst::TooLarge;
                }
                Err(_) => {
                    self.shared.counters.send_errors.increment();
                    return Burst::Gone;
                }
            }
        }
        Burst::Gone
    }

    fn publish(&self) {
        let state = self.shared.state.borrow();
        let endpoint = &state.endpoint;
        self.shared.counters.publish(endpoint.stats(), endpoint.pool(), endpoint.connection_count());
    }
}

/// Cuts coalesced datagrams into runs whose connections have one owner.
fn runs_by_owner(
    bytes: &[u8],
    segment: usize,
    mine: usize,
    lanes: usize,
) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let first = rest.get(..segment.min(rest.len())).filter(|first| !first.is_empty())?;
        let owner = owner_of(first, mine, lanes);
        let mut end = first.len();
        while let Some(next) = rest.get(end..).filter(|next| !next.is_empty()) {
            let next = &next[..segment.min(next.len())];
            if owner_of(next, mine, lanes) != owner {
                break;
            }
            end += next.len();
        }
        let run = &rest[..end];
        rest = &rest[end..];
        Some((owner, run))
    })
}

/// The lane that owns a datagram's connection; packets without one are served where they come.
fn owner_of(datagram: &[u8], mine: usize, lanes: usize) -> usize {
    match Route::of(datagram) {
        Some(route) if !is_question(datagram, &route) => owner_lane(route.epoch, route.cid, lanes),
        _ => mine,
    }
}

/// VERSION and DEBUG questions concern no connection.
fn is_question(datagram: &[u8], route: &Route) -> bool {
    let kind = Header::parse(datagram).map(|(header, _)| header.kind);
    route.from_client && matches!(kind, Ok(PacketType::Version | PacketType::Debug))
}

fn hand_over(
    links: &mut Links,
    shared: &Shared,
    owner: usize,
    remote: SocketAddr,
    local: Option<IpAddr>,
    segment: usize,
    run: &[u8],
) {
    let packets = run.len().div_ceil(segment) as u64;
    let handed = Handed { remote, local, segment, bytes: run.to_vec() };
    if links.send(owner, handed) {
        shared.counters.handed_over.add(packets);
    } else {
        shared.counters.handover_full.add(packets);
    }
}

/// Receive buffers, each with up to 64 KiB of coalesced datagrams, taken in one pass.
const RECEIVES_PER_PASS: usize = 64;
/// Bursts sent before the socket is looked at again.
const TRANSMITS_PER_PASS: usize = 64;
/// errno of a datagram larger than the path's MTU.
const EMSGSIZE: i32 = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_and_kernel_selector_agree_on_owners() {
        for (epoch, cid) in [(0, 0), (0x8000_0001, 0x1234_5678), (u32::MAX, 4), (0xdead_beef, !3)] {
            for lanes in [1, 2, 3, 64, 255] {
                let route = Route { epoch, cid, from_client: true };
                assert_eq!(route.lane(lanes) as usize, owner_lane(epoch, cid, lanes as usize));
            }
        }
    }

    #[test]
    fn runs_end_where_the_owner_changes() {
        let packet = |cid: u32, len: usize| {
            let mut bytes = vec![0; len];
            bytes[4..8].copy_from_slice(&cid.to_be_bytes());
            bytes[20] = 2;
            bytes
        };
        // Owners of two lanes: cid >> 2 is even or odd.
        let bytes = [packet(0, 40), packet(8, 40), packet(4, 40), packet(0, 33)].concat();
        let runs: Vec<_> = runs_by_owner(&bytes, 40, 0, 2).map(|(owner, run)| (owner, run.len())).collect();
        assert_eq!(runs, [(0, 80), (1, 40), (0, 33)]);
        assert_eq!(runs_by_owner(&[1, 2, 3], 40, 1, 2).map(|(owner, _)| owner).collect::<Vec<_>>(), [1]);
        assert_eq!(runs_by_owner(&[], 1, 0, 2).count(), 0);
    }
}
