//! The bytes of a transfer: each stream in a task of its own, which ends its frame though the call is gone.

use std::rc::Rc;
use std::time::Duration;

use afs_wire::code::oob::{OOB_BROKEN, OOB_FRAME, OOB_STALLED};
use afs_wire::code::{EIO, VBUSY};
use oob::{Part, Receiving, Sending};
use oob_lane::{Broken, NoPace, Pace, Received, Sent, discard, receive_part, send_part};
use service::pacer::Ticket;
use vfs::{OpenFile, Store};

use super::LaneOob;
use super::connection::ClaimedConnection;
use super::transfer::{GrantedStream, GrantedTransfer, RunningTransfer, TransferSlot, TransferState};

/// The task of one stream: its transfer, and how it ends the frame.
struct StreamTask {
    oob: LaneOob,
    transfer: u64,
    state: Rc<TransferState>,
    stop: oob_lane::Stop,
    /// Taken until the last stream is done with it.
    _place: Rc<TransferSlot>,
}

impl GrantedTransfer {
    /// Begins to send.
    pub(crate) fn send(self, file: &Rc<OpenFile>) -> RunningTransfer {
        self.run(|mover, stream| {
            let file = Rc::clone(file);
            async move { mover.send(stream, &file).await }
        })
    }

    /// Begins to receive, into a file as one change.
    pub(crate) fn receive(
        self,
        store: &Rc<Store>,
        refused: impl Fn(&vfs::Error) -> i32 + Clone + 'static,
    ) -> RunningTransfer {
        self.run(|mover, stream| {
            let (store, refused) = (Rc::clone(store), refused.clone());
            async move { mover.receive(stream, store, refused).await }
        })
    }

    fn run<F: Future<Output = ()> + 'static>(
        self,
        work: impl Fn(StreamTask, GrantedStream) -> F,
    ) -> RunningTransfer {
        let running = RunningTransfer::new(self.streams.len(), &self.stop);
        for stream in self.streams {
            let mover = StreamTask {
                oob: self.oob.clone(),
                transfer: self.number,
                state: running.state(),
                stop: self.stop.clone(),
                _place: Rc::clone(&self.slot),
            };
            lane::spawn(work(mover, stream)).detach();
        }
        running
    }
}

impl StreamTask {
    async fn send(self, GrantedStream { part, source }: GrantedStream, file: &OpenFile) {
        let outcome = match source.connection(&self.stop).await {
            Ok(connection) => self.send_over(connection, part, file).await,
            Err(code) => Err(code),
        };
        self.state.ended(outcome);
    }

    async fn send_over(&self, connection: ClaimedConnection, part: Part, file: &OpenFile) -> Result<(), i32> {
        connection.busy();
        let (counters, patience) = (&self.oob.inner.counters, self.oob.options().patience);
        let mut sending = Sending::new(self.transfer, part, FRAME_BYTES);
        let mut pace = Paced(self.oob.ticket());
        let progress = |bytes| counters.fetched_bytes.add(bytes);
        let stream = Rc::clone(&connection.stream);
        let sent =
            send_part(&stream, file.lane_file(), &mut sending, &self.stop, &mut pace, &patience, progress)
                .await;
        match sent {
            Ok(Sent::Whole { short }) => {
                self.oob.keep(connection);
                // The call tells that these were not the file's bytes.
                if short { Err(VBUSY) } else { Ok(()) }
            }
            Ok(Sent::Stopped(code)) => {
                counters.stopped.increment();
                self.oob.keep(connection);
                Err(code)
            }
            Ok(Sent::Unreadable(error)) => {
                counters.unreadable.increment();
                file.note_failure(part.offset, &error);
                self.oob.keep(connection);
                Err(EIO)
            }
            Err(broken) => Err(self.broken(connection, &broken)),
        }
    }

    async fn receive(
        self,
        GrantedStream { part, source }: GrantedStream,
        store: Rc<Store>,
        refused: impl Fn(&vfs::Error) -> i32,
    ) {
        let connection = match source.connection(&self.stop).await {
            Ok(connection) => connection,
            Err(code) => return self.state.ended(Err(code)),
        };
        connection.busy();
        let (counters, patience) = (Rc::clone(&self.oob.inner), self.oob.options().patience);
        let counters = &counters.counters;
        let mut receiving = Receiving::new(self.transfer, part);
        let (memory, stream) = (self.oob.memory(), Rc::clone(&connection.stream));
        let take = async |offset, bytes: lane::buffer::Buf| {
            let len = bytes.len() as u64;
            let (written, bytes) = store.write_vectored_at(offset, vec![bytes]).await;
            drop(bytes);
            written.map_err(|error| refused(&error))?;
            counters.stored_bytes.add(len);
            Ok(())
        };
        let received = receive_part(&stream, &mut receiving, &self.stop, &memory, &patience, take).await;
        drop(store);
        let mut connection = Some(connection);
        match received {
            Ok(Received::Whole) => {
                self.keep(&mut connection);
                self.state.ended(Ok(()));
            }
            Ok(Received::Stopped(_)) => {
                counters.stopped.increment();
                self.keep(&mut connection);
                self.state.ended(Err(OOB_FRAME));
            }
            Ok(Received::Over(code) | Received::Refused(code)) => {
                counters.stopped.increment();
                // The call hears of it at once, the connection may be of use again later.
                self.state.ended(Err(code));
                if discard(&stream, &mut receiving, &memory, DISCARDED_MAX, DISCARDED_WITHIN).await.is_ok() {
                    self.keep(&mut connection);
                }
            }
            Err(broken) => {
                let code =
                    connection.take().map_or(OOB_BROKEN, |connection| self.broken(connection, &broken));
                self.state.ended(Err(code));
            }
        }
        self.oob.put_memory(memory);
    }

    fn keep(&self, connection: &mut Option<ClaimedConnection>) {
        if let Some(connection) = connection.take() {
            self.oob.keep(connection);
        }
    }

    /// Closes a connection that is of no use, and says what that is to the call.
    fn broken(&self, connection: ClaimedConnection, broken: &Broken) -> i32 {
        connection.reset();
        let counters = &self.oob.inner.counters;
        let (counter, code) = match broken {
            // The word that it is over came first.
            _ if self.stop.code().is_some() => (&counters.stopped, self.stop.code().unwrap_or(OOB_BROKEN)),
            Broken::Stream(_) => (&counters.broken, OOB_BROKEN),
            Broken::Frame(_) => (&counters.frames_refused, OOB_FRAME),
            Broken::Stalled => (&counters.stalled, OOB_STALLED),
        };
        counter.increment();
        code
    }
}

/// Turns at the server's rate, where it has one.
struct Paced(Option<Ticket>);

impl Pace for Paced {
    async fn grant(&mut self, want: usize) -> usize {
        match &mut self.0 {
            Some(ticket) => ticket.grant(want).await,
            None => NoPace.grant(want).await,
        }
    }

    fn give_back(&self, bytes: usize) {
        if let Some(ticket) = &self.0 {
            ticket.give_back(bytes);
        }
    }
}

/// Bytes of a frame that is sent: the least that is sent of a call that has died.
const FRAME_BYTES: u32 = 1 << 20;
//@ limit: bytes thrown away of a store whose call has failed
//@ section: Out-of-band TCP
//@ unit: byte
//@ connection: {:b}, {DISCARDED_WITHIN}
//@ empty: the connection is closed; others feel nothing
//@ counter: oob_stopped
//@ attack: oob-pools
/// Bytes that are thrown away of a store whose call has failed, before its connection is closed.
const DISCARDED_MAX: u64 = 4 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(2);
