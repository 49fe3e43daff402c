//! Open connections of a service on a lane: acceptance, number and end.

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

/// Open connections of a service on a lane, with how they leave and how the kernel sends their packets.
#[derive(Debug)]
pub struct Connections {
    counters: Arc<ConnectionCounters>,
    places: ConnectionSlots,
    drain: Drain,
    /// Number of connections that the process had descriptors for when it ran out, and the time until which
    /// this counts.
    fitting: Cell<Option<(usize, Instant)>>,
    /// Rate of each connection, in bytes per second.
    pacing: Cell<Option<u64>>,
    /// Mark of the connections' packets; 0 for none.
    mark: Cell<u32>,
}

/// Registration of an open connection, for as long as this lives.
#[derive(Debug)]
pub struct Open {
    connections: Rc<Connections>,
    place: Rc<ConnectionSlot>,
    cohort: Cohort,
    key: usize,
    /// Share of the process's descriptors that the connection's socket takes for its client.
    _descriptor: Share,
}

impl Connections {
    /// Makes an empty set of connections.
    pub fn new(counters: Arc<ConnectionCounters>) -> Rc<Self> {
        let (places, drain, fitting, pacing, mark) = Default::default();
        Rc::new(Self { counters, places, drain, fitting, pacing, mark })
    }

    /// Returns the counters of the connections.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.counters
    }

    /// Returns the drain by which the connections are asked to leave.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Returns the number of open connections.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether no connection is open.
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

    /// Admits a new connection if there are fewer than `max` or another is evicted; else counts it as refused
    /// and returns its stream.
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

    /// Takes the newcomer's share of the process's descriptors. Where the address or the process has none
    /// left, a connection is evicted for its share.
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

    /// Evicts a connection as descriptors are short, and from now on keeps some descriptors for files, which
    /// newcomers would take otherwise. Returns `false` when none has to be evicted.
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

    /// Sets the mark of every connection's packets, open or to come (SO_MARK), which the machine's routes and
    /// filters use to choose the NIC; 0 removes it.
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
    /// Returns the connection's slot.
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

/// Returns whether accept(2) failed as the socket was shut down or closed by another task.
fn is_end_of_listener(error: &io::Error) -> bool {
    const EBADF: i32 = 9;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EBADF | EINVAL))
}

/// Sets a stream's pacing rate; a failure is counted, and the connection goes on.
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
/// Divisor for the part of the descriptors that is left to files, and the least number of those.
const SPARE_DIVISOR: usize = 16;
const SPARE_MIN: usize = 2;
/// Least number of connections that a shortage of descriptors limits a lane to.
const FITTING_MIN: usize = 8;
/// Time for which a shortage counts: others than connections may have taken the descriptors, and given them
/// back.
const FITTING_LASTS: Duration = Duration::from_secs(10);
/// Pause for the evicted connection to close.
const LEAVING_PAUSE: Duration = Duration::from_millis(1);
/// Pause after a failed accept: long enough for some connection to end, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
