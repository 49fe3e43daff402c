//! Receive buffers of a simulated lane: a ring of as many buffers as a real lane's. The kernel fills them
//! while a receive is armed, and the lane empties them once a turn, by the same rules ([`ReceiveShares`]).

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::stream::Side;
use super::{ConnId, NetEvent, Network, Socket, SocketId, StreamSocket, not_connected};
use crate::backend::receive::{Kept, ReceiveShares, Untaken, datagrams_lent_max};
use crate::backend::sim::config::ReceiveConfig;
use crate::backend::sim::engine::Engine;
use crate::buffer::RecvBuf;
use crate::counters::LaneCounters;

mod recv_paused;

/// Number of a lane of the world.
pub(in crate::backend::sim) type LaneNumber = usize;

/// Receive ring of a lane.
pub(super) struct LaneReceives {
    config: ReceiveConfig,
    /// Buffers that are not with the kernel: filled, untaken or in a task's hands.
    lent: Rc<Cell<usize>>,
    datagrams_lent: Rc<Cell<usize>>,
    shares: ReceiveShares,
    /// Completions since the lane's last look.
    completions: VecDeque<(SocketId, Completion)>,
    starved: VecDeque<SocketId>,
    counters: Arc<LaneCounters>,
}

enum Completion {
    Bytes(RecvBuf),
    NoBuffer,
}

#[derive(Default)]
pub(super) struct StreamReceive {
    lane: LaneNumber,
    state: Receive,
    untaken: Untaken,
    /// Buffers that the kernel has filled and the lane has not seen.
    filled: usize,
    told: bool,
    starved: bool,
    /// True while the stream's task waits for the receive to rest.
    keeps_quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    Off,
    On,
    /// The receive is armed for one buffer.
    Once,
    /// The receive is being cancelled, and may fill more buffers until that is done.
    Pausing,
    /// A receive into memory of the stream's task takes the ring's place.
    Into,
}

impl Network {
    /// Gives a lane a receive ring.
    pub(in crate::backend::sim) fn add_lane(&mut self, lane: LaneNumber, counters: Arc<LaneCounters>) {
        let config = self.config.receive.clone();
        let shares = ReceiveShares::new(config.buffers, config.buffer_bytes);
        let (completions, starved, datagrams_lent) = Default::default();
        let receives = LaneReceives {
            config,
            lent: Rc::default(),
            datagrams_lent,
            shares,
            completions,
            starved,
            counters,
        };
        self.lanes.insert(lane, receives);
    }

    /// Returns whether nothing was ever received or asked for.
    pub(in crate::backend::sim) fn is_untouched(&self, socket: SocketId) -> bool {
        let Some(Socket::Stream(StreamSocket { conn: Some((conn, side)), receive, .. })) =
            self.sockets.get(&socket)
        else {
            return false;
        };
        let asked = self.conns.get(conn).is_none_or(|conn| conn.ends[*side as usize].reader.is_some());
        !asked
            && receive.state == Receive::Off
            && !receive.starved
            && receive.filled == 0
            && receive.untaken.is_empty()
    }

    /// Receives from a stream: bytes, none at the stream's end, `None` when nothing has come and `waker` will be woken.
    pub(in crate::backend::sim) fn receive(
        &mut self,
        socket: SocketId,
        lane: LaneNumber,
        waker: &Waker,
        engine: &mut Engine,
    ) -> io::Result<Option<RecvBuf>> {
        let (id, side) = self.stream_of(socket)?;
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { return Err(not_connected()) };
        let (receive, receives) = (&mut stream.receive, lane_of(&mut self.lanes, lane));
        (receive.lane, receive.told, receive.keeps_quiet) = (lane, false, false);
        if let Some(buf) = receives.shares.take(&mut receive.untaken) {
            return Ok(Some(buf));
        }
        let conn = self.conns.get_mut(&id).ok_or_else(not_connected)?;
        if receive.filled == 0 && conn.flows[side.other() as usize].inbox.is_empty() && conn.ended(side)? {
            return Ok(Some(RecvBuf::empty()));
        }
        let end = &mut conn.ends[side as usize];
        (end.reader, end.socket) = (Some(waker.clone()), Some(socket));
        if receive.state == Receive::Off && !receive.starved {
            receive.state = receives.armed();
            self.fill(id, side, engine);
        }
        Ok(None)
    }

    /// Puts bytes that have arrived at `side` in buffers while the receive is armed, as the kernel does.
    pub(super) fn fill(&mut self, id: ConnId, side: Side, engine: &mut Engine) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Some(socket) = conn.ends[side as usize].socket else { return };
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { return };
        let receive = &mut stream.receive;
        let lane = receive.lane;
        let receives = lane_of(&mut self.lanes, lane);
        let idle = receives.completions.is_empty();
        while matches!(receive.state, Receive::On | Receive::Once | Receive::Pausing) {
            let Some(conn) = self.conns.get(&id) else { break };
            if conn.flows[side.other() as usize].inbox.is_empty() {
                break;
            }
            if receives.lent.get() == receives.config.buffers {
                receive.state = Receive::Off;
                receives.completions.push_back((socket, Completion::NoBuffer));
                break;
            }
            let most = receives.config.buffer_bytes;
            let conn = self.conns.get_mut(&id).expect("looked at above");
            let mut around =
                super::Around { id, links: &mut self.links, tcp: &self.config.tcp, engine: &mut *engine };
            let bytes = conn.hand_over(side, most, &mut around);
            receive.filled += 1;
            if receive.state == Receive::Once {
                receive.state = Receive::Off;
            }
            receives.completions.push_back((socket, Completion::Bytes(RecvBuf::lent(bytes, &receives.lent))));
        }
        if idle && !receives.completions.is_empty() {
            engine.after(Duration::ZERO, NetEvent::Reap(lane).into());
        }
    }

    /// Takes in what the kernel has filled, keeps to the shares, and lets starved receives begin again, as
    /// the lane does.
    pub(super) fn reap(&mut self, lane: LaneNumber, engine: &mut Engine) {
        self.reclaim(lane);
        let completions = std::mem::take(&mut lane_of(&mut self.lanes, lane).completions);
        for (socket, completion) in completions {
            self.complete(socket, lane, completion, engine);
        }
        self.disarm(lane, engine);
        let receives = lane_of(&mut self.lanes, lane);
        receives.counters.recv_held_bytes.set(receives.shares.copied_bytes() as u64);
        for _ in 0..receives.shares.to_feed(receives.lent.get()) {
            let Some(socket) = lane_of(&mut self.lanes, lane).starved.pop_front() else { return };
            if let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) {
                stream.receive.starved = false;
                self.arm_if_awaited(socket, engine);
            }
        }
    }

    /// Ends a pause, and arms the receive again where a task waits.
    pub(super) fn paused(&mut self, socket: SocketId, engine: &mut Engine) {
        if let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket)
            && stream.receive.state == Receive::Pausing
        {
            stream.receive.state = Receive::Off;
            self.arm_if_awaited(socket, engine);
        }
    }

    /// Returns the memory for a datagram's bytes when the lane takes them.
    pub(super) fn datagram_memory(&mut self, lane: LaneNumber, bytes: Vec<u8>) -> RecvBuf {
        let receives = lane_of(&mut self.lanes, lane);
        if receives.datagrams_lent.get() < datagrams_lent_max(receives.config.datagram_buffers) {
            return RecvBuf::lent(bytes, &receives.datagrams_lent);
        }
        receives.counters.recv_copied.increment();
        RecvBuf::from_vec(bytes)
    }

    /// Frees the untaken bytes of a stream that is closed.
    pub(super) fn drop_untaken(&mut self, receive: &mut StreamReceive) {
        if let Some(receives) = self.lanes.get(&receive.lane) {
            receives.shares.drop_all(&mut receive.untaken);
        }
    }

    fn complete(&mut self, id: SocketId, lane: LaneNumber, completion: Completion, engine: &mut Engine) {
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&id) else { return };
        let StreamSocket { receive, conn: Some((conn, side)), .. } = stream else { return };
        let receives = self.lanes.get_mut(&lane).expect("a lane that reaps");
        let mut end = self.conns.get_mut(conn).map(|conn| &mut conn.ends[*side as usize]);
        let attended = receive.told || end.as_ref().is_some_and(|end| end.reader.is_some());
        match completion {
            Completion::Bytes(buf) => {
                receive.filled -= 1;
                receives.counters.bytes_in.add(buf.len() as u64);
                if receives.shares.keep(&mut receive.untaken, buf, attended, receives.lent.get())
                    == Kept::Copied
                {
                    receives.counters.recv_copied.increment();
                }
                let waker = end.as_mut().and_then(|end| end.reader.take());
                receive.told |= waker.is_some();
                engine.wake(waker);
                let crowded = receives.shares.is_crowded(&receive.untaken, attended);
                if crowded && receive.state == Receive::On {
                    receive.state = Receive::Pausing;
                    receives.counters.recv_paused.increment();
                    engine.after(Duration::ZERO, NetEvent::Paused(id).into());
                }
            }
            Completion::NoBuffer => {
                receives.counters.recv_starved.increment();
                if attended && !std::mem::replace(&mut receive.starved, true) {
                    receives.starved.push_back(id);
                }
            }
        }
    }

    fn reclaim(&mut self, lane: LaneNumber) {
        let receives = lane_of(&mut self.lanes, lane);
        if receives.shares.must_reclaim(receives.lent.get()) {
            let streams = self.sockets.values_mut().filter_map(|socket| match socket {
                Socket::Stream(stream) if stream.receive.lane == lane => Some(&mut stream.receive.untaken),
                _ => None,
            });
            let reclaimed = receives.shares.reclaim(streams);
            receives.counters.recv_reclaimed.add(reclaimed as u64);
        }
    }

    fn disarm(&mut self, lane: LaneNumber, engine: &mut Engine) {
        let receives = lane_of(&mut self.lanes, lane);
        if !receives.shares.must_disarm() {
            return;
        }
        for (&id, socket) in &mut self.sockets {
            let Socket::Stream(StreamSocket { receive, .. }) = socket else { continue };
            if receive.lane == lane && receive.state == Receive::On {
                receive.state = Receive::Pausing;
                receives.counters.recv_disarmed.increment();
                engine.after(Duration::ZERO, NetEvent::Paused(id).into());
            }
        }
    }

    fn arm_if_awaited(&mut self, socket: SocketId, engine: &mut Engine) {
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { return };
        let Some((id, side)) = stream.conn else { return };
        let awaited = self.conns.get(&id).is_some_and(|conn| conn.ends[side as usize].reader.is_some());
        if awaited && stream.receive.keeps_quiet {
            return self.tell_reader(socket, engine);
        }
        if awaited && stream.receive.state == Receive::Off {
            stream.receive.state = lane_of(&mut self.lanes, stream.receive.lane).armed();
            self.fill(id, side, engine);
        }
    }
}

impl LaneReceives {
    /// Returns the state of a receive that begins now.
    fn armed(&self) -> Receive {
        if self.shares.is_tight() { Receive::Once } else { Receive::On }
    }
}

fn lane_of(
    lanes: &mut std::collections::BTreeMap<LaneNumber, LaneReceives>,
    lane: LaneNumber,
) -> &mut LaneReceives {
    lanes.get_mut(&lane).expect("every lane got its ring when it was made")
}
