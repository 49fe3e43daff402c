//! The open connections of a service on a lane, for what concerns all of them at once: how they come in, their number,
//! and how they leave.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::backend::SocketOption;
use lane::budget::Share;
use lane::net::{TcpListener, TcpStream};
use lane::time::now;

use crate::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::counters::ConnectionCounters;
use crate::drain::{Cohort, Drain};

/// Open connections, how they leave, and how the kernel is to send what they send.
#[derive(Debug)]
pub struct Connections {
    counters: Arc<ConnectionCounters>,
    places: ConnectionSlots,
    drain: Drain,
    /// Number of connections that the process had descriptors for when it ran out of them, and until when
    /// that is believed.
    fitting: Cell<Option<(usize, Instant)>>,
    /// Bytes per second of each.
    pacing: Cell<Option<u64>>,
    /// Mark of their packets; 0 for none.
    mark: Cell<u32>,
}

/// One connection among the open ones, for as long as this lives.
#[derive(Debug)]
pub struct Open {
    connections: Rc<Connections>,
    place: Rc<ConnectionSlot>,
    cohort: Cohort,
    key: usize,
    /// The connection's socket, among what the process has open for its client.
    _descriptor: Share,
}

impl Connections {
    /// Makes an empty set of connections.
    pub fn new(counters: Arc<ConnectionCounters>) -> Rc<Self> {
        let (places, drain, fitting, pacing, mark) = Default::default();
        Rc::new(Self { counters, places, drain, fitting, pacing, mark })
    }

    /// Returns what they count.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.counters
    }

    /// Returns how they are asked to leave.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts connections for `take` until all connections are asked to leave.
    ///
    /// Where descriptors or memory run out a connection gives way, or it pauses: the kernel keeps those that
    /// wait.
    ///
    /// # Errors
    /// The kernel's, when the socket listens no more though shutdown was not asked for.
    pub async fn accept(&self, listener: &TcpListener, take: impl Fn(TcpStream)) -> io::Result<()> {
        loop {
            match self.drain.unless_asked(listener.accept()).await {
                None => return Ok(()),
                Some(Ok(stream)) => take(stream),
                Some(Err(error)) if is_exhaustion(&error) => {
                    self.counters.accept_pauses.increment();
                    lane::time::sleep(if self.make_room() { LEAVING_PAUSE } else { ACCEPT_PAUSE }).await;
                }
                Some(Err(error)) if is_end_of_listener(&error) => return Err(error),
                // The connection failed before it was taken, not the listener.
                Some(Err(_)) => {}
            }
        }
    }

    /// Takes a new connection in, if there is room for it among at most `max`, or another gives way; else it
    /// is counted as refused.
    pub fn admit(self: &Rc<Self>, stream: TcpStream, max: usize) -> Result<(Rc<TcpStream>, Open), TcpStream> {
        let peer = stream.peer_addr().ip();
        let descriptor = if self.has_room(max, peer) { self.descriptor(peer) } else { None };
        let Some(descriptor) = descriptor else {
            self.counters.connections_refused.increment();
            return Err(stream);
        };
        let stream = Rc::new(stream);
        if let Some(rate) = self.pacing.get() {
            pace(&stream, rate, &self.counters);
        }
        if self.mark.get() != 0 {
            mark(&stream, self.mark.get(), &self.counters);
        }
        self.counters.connections.add(1);
        self.drain.enter();
        let (key, place) = self.places.insert(&stream);
        let (connections, cohort) = (Rc::clone(self), self.drain.cohort());
        Ok((stream, Open { connections, place, cohort, key, _descriptor: descriptor }))
    }

    /// The newcomer's share of the process's descriptors. Where the address has none left, or the process, it is the share of a
    /// connection that gives way.
    fn descriptor(&self, newcomer: IpAddr) -> Option<Share> {
        let budget = lane::descriptors::budget();
        let taken = budget.take(newcomer, 1).ok();
        taken.or_else(|| {
            self.places.make_room(Some(newcomer), &self.counters).then(|| budget.charge(newcomer, 1))
        })
    }

    fn has_room(&self, max: usize, newcomer: IpAddr) -> bool {
        let fitting = self.fitting.get().filter(|(_, until)| now() < *until);
        let max = fitting.map_or(max, |(fitting, _)| fitting.min(max));
        self.places.held() < max || self.places.make_room(Some(newcomer), &self.counters)
    }

    /// Makes a connection give way as descriptors are short, and keeps some descriptors for files from now
    /// on, which newcomers would take again otherwise. `false` when none has to give way.
    pub fn make_room(&self) -> bool {
        let held = self.places.held();
        let spare = (held / SPARE_DIVISOR).max(SPARE_MIN);
        // A few connections are not what has taken them all.
        if held >= FITTING_MIN {
            self.fitting.set(Some((held - spare, now() + FITTING_LASTS)));
        }
        let wanted = if held >= FITTING_MIN { spare } else { 1 };
        (0..wanted).take_while(|_| self.places.make_room(None, &self.counters)).count() > 0
    }

    /// Bounds the rate of each connection, open or to come.
    pub fn set_pacing(&self, rate: Option<u64>) {
        if self.pacing.replace(rate) != rate {
            self.places.for_each(|stream| pace(stream, rate.unwrap_or(u64::MAX), &self.counters));
        }
    }

    /// Marks the packets of every connection, open or to come (SO_MARK), for the machine's routes and filters to tell
    /// which NIC they leave by; 0 takes the mark away.
    pub fn set_mark(&self, new: u32) {
        self.counters.egress_mark.set(u64::from(new));
        if self.mark.replace(new) != new {
            self.places.for_each(|stream| {
                mark(stream, new, &self.counters);
                self.counters.connections_remarked.increment();
            });
        }
    }
}

impl Open {
    /// Returns the connection's place.
    pub fn slot(&self) -> &Rc<ConnectionSlot> {
        &self.place
    }

    /// Returns the cohort with which the connection leaves.
    pub fn cohort(&self) -> Cohort {
        self.cohort
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let connections = &self.connections;
        connections.places.remove(self.key);
        connections.counters.connections.sub(1);
        connections.drain.leave();
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE | ENOBUFS))
}

/// accept(2) of a socket that was shut down or closed behind its lane's back.
fn is_end_of_listener(error: &io::Error) -> bool {
    const EBADF: i32 = 9;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EBADF | EINVAL))
}

/// A connection that could not be bounded or marked works, so it goes on; the count tells.
fn pace(stream: &TcpStream, rate: u64, counters: &ConnectionCounters) {
    if stream.set_option(SocketOption::PacingRate(rate)).is_err() {
        counters.pacing_failed.increment();
    }
}

fn mark(stream: &TcpStream, mark: u32, counters: &ConnectionCounters) {
    if stream.set_option(SocketOption::Mark(mark)).is_err() {
        counters.marks_failed.increment();
    }
}

//@ limit: descriptors of connections
//@ section: HTTP
//@ unit: descriptor
//@ connection: one, and those of its open files
//@ all: process: the hard limit of open files
//@ empty: a part of {} of the lane's connections gives way, and so many fewer are taken for {FITTING_LASTS}
//@ counter: http_accept_pauses, http_connections_evicted
//@ attack: http-places-taken
/// Part of the descriptors that is left to files: one of so many, and so many at least.
const SPARE_DIVISOR: usize = 16;
const SPARE_MIN: usize = 2;
/// Fewer are never held to a number.
const FITTING_MIN: usize = 8;
/// Time for which a refusal counts: others than connections may have taken the descriptors, and given them
/// back.
const FITTING_LASTS: Duration = Duration::from_secs(10);
/// For the connection that gives way to close.
const LEAVING_PAUSE: Duration = Duration::from_millis(1);
/// Long enough for some connection to end, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
