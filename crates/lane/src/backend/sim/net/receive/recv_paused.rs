//! Streams at rest, and receives into a task's own memory (see `uring/recv_paused.rs`).

use std::io;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::super::{NetEvent, Network, Socket, SocketId, not_connected};
use super::{LaneNumber, Receive, lane_of};
use crate::backend::sim::engine::Engine;
use crate::backend::sim::ops::OpKey;
use crate::backend::{RecvPaused, StreamToken};
use crate::buffer::RecvBuf;

impl Network {
    /// Pauses a stream's receive (see [`crate::backend::Backend::poll_quiet`]); returns `None` when `waker` will be
    /// woken.
    pub(in crate::backend::sim) fn quieten(
        &mut self,
        socket: SocketId,
        lane: LaneNumber,
        waker: &Waker,
        engine: &mut Engine,
    ) -> io::Result<Option<RecvPaused>> {
        let (id, side) = self.stream_of(socket)?;
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { return Err(not_connected()) };
        let (receive, receives) = (&mut stream.receive, lane_of(&mut self.lanes, lane));
        (receive.lane, receive.told) = (lane, false);
        if let Some(buf) = receives.shares.take(&mut receive.untaken) {
            return Ok(Some(RecvPaused::Bytes(buf)));
        }
        let conn = self.conns.get_mut(&id).ok_or_else(not_connected)?;
        let nothing_filled = receive.filled == 0;
        if nothing_filled && receive.state == Receive::Off {
            let ended = conn.flows[side.other() as usize].inbox.is_empty() && conn.ended(side)?;
            let recv_paused = if ended {
                RecvPaused::Bytes(RecvBuf::empty())
            } else {
                RecvPaused::Resting(StreamToken(socket))
            };
            return Ok(Some(recv_paused));
        }
        if matches!(receive.state, Receive::On | Receive::Once) {
            receive.state = Receive::Pausing;
            engine.after(Duration::ZERO, NetEvent::Paused(socket).into());
        }
        receive.keeps_quiet = true;
        let end = &mut conn.ends[side as usize];
        (end.reader, end.socket) = (Some(waker.clone()), Some(socket));
        Ok(None)
    }

    /// Appends what has come to `into`, until `into` has `wanted` bytes. Ready then, or early: at the end of the
    /// stream, where it fails, and, as a kernel that is interrupted, now and then. `op` is woken when there is more.
    pub(crate) fn receive_into(
        &mut self,
        socket: SocketId,
        op: OpKey,
        into: &mut Vec<u8>,
        wanted: usize,
        engine: &mut Engine,
    ) -> Poll<io::Result<()>> {
        let (id, side) = self.stream_of(socket)?;
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else {
            return Poll::Ready(Err(not_connected()));
        };
        (stream.receive.state, stream.receive.keeps_quiet) = (Receive::Into, false);
        let lane = stream.receive.lane;
        let before = into.len();
        let split = self.config.tcp.split;
        let ended = loop {
            let missing = wanted - (into.len() - before);
            let Some(conn) = self.conns.get_mut(&id) else { break Err(not_connected()) };
            if missing == 0 || (missing < wanted && engine.chance(split)) {
                break Ok(true);
            }
            if conn.flows[side.other() as usize].inbox.is_empty() {
                break conn.ended(side);
            }
            let mut around = super::super::Around {
                id,
                links: &mut self.links,
                tcp: &self.config.tcp,
                engine: &mut *engine,
            };
            into.extend_from_slice(&conn.hand_over(side, missing, &mut around));
        };
        lane_of(&mut self.lanes, lane).counters.bytes_in.add((into.len() - before) as u64);
        if let Ok(false) = ended {
            let conn = self.conns.get_mut(&id).expect("looked at above");
            conn.ends[side as usize].waiting.push(op);
            return Poll::Pending;
        }
        self.receive_into_ended(socket, engine);
        Poll::Ready(ended.map(drop))
    }

    /// Puts bytes back at the head of the stream, and ends a receive into a task's memory if there was one.
    pub(in crate::backend::sim) fn put_back(
        &mut self,
        stream: StreamToken,
        bytes: RecvBuf,
        engine: &mut Engine,
    ) {
        let Some(Socket::Stream(socket)) = self.sockets.get_mut(&stream.0) else { return };
        let receives = lane_of(&mut self.lanes, socket.receive.lane);
        receives.shares.put_back(&mut socket.receive.untaken, bytes);
        if socket.receive.state == Receive::Into {
            self.receive_into_ended(stream.0, engine);
        }
        self.tell_reader(stream.0, engine);
    }

    fn receive_into_ended(&mut self, socket: SocketId, engine: &mut Engine) {
        if let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) {
            stream.receive.state = Receive::Off;
            self.arm_if_awaited(socket, engine);
        }
    }

    /// Wakes the task that waits for the stream.
    pub(super) fn tell_reader(&mut self, socket: SocketId, engine: &mut Engine) {
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { return };
        let Some((id, side)) = stream.conn else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let waker = conn.ends[side as usize].reader.take();
        stream.receive.told |= waker.is_some();
        engine.wake(waker);
    }
}
