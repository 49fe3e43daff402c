//! The open connections of a lane, for what concerns all of them at once: their number, and how they leave.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::backend::SocketOption;
use lane::net::TcpStream;
use lane::time::now;

use crate::counters::ConnectionCounters;
use crate::places::{Place, Places};

/// Open connections, and how the kernel is to send what they send.
#[derive(Debug)]
pub struct Connections {
    counters: Arc<ConnectionCounters>,
    places: Places,
    /// How many the process had descriptors for when it ran out of them, and until when that is believed.
    fitting: Cell<Option<(usize, Instant)>>,
    /// Bytes per second of each.
    pacing: Cell<Option<u64>>,
    /// Mark of their packets; 0 for none.
    mark: Cell<u32>,
}

impl Connections {
    /// None yet.
    pub fn new(counters: Arc<ConnectionCounters>) -> Self {
        let (places, fitting, pacing, mark) = Default::default();
        Self { counters, places, fitting, pacing, mark }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is room for `newcomer` among at most `max`, if need be because somebody gives way.
    pub fn has_room(&self, max: usize, newcomer: IpAddr) -> bool {
        let fitting = self.fitting.get().filter(|(_, until)| now() < *until);
        let max = fitting.map_or(max, |(fitting, _)| fitting.min(max));
        self.places.held() < max || self.places.make_room(Some(newcomer), &self.counters)
    }

    /// Descriptors are short: makes somebody give way, and keeps some descriptors for files from now on, which
    /// newcomers would take again otherwise. `false` when nobody has to give way.
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

    /// Takes a new connection in, which leaves as all do. The key is for [`Connections::remove`].
    pub fn insert(&self, stream: &Rc<TcpStream>) -> (usize, Rc<Place>) {
        if let Some(rate) = self.pacing.get() {
            pace(stream, rate, &self.counters);
        }
        if self.mark.get() != 0 {
            mark(stream, self.mark.get(), &self.counters);
        }
        self.counters.connections.add(1);
        self.places.insert(stream)
    }

    /// The connection of this key is gone.
    pub fn remove(&self, key: usize) {
        self.places.remove(key);
        self.counters.connections.sub(1);
    }

    /// Bounds the rate of each connection, open or to come.
    pub fn set_pacing(&self, rate: Option<u64>) {
        if self.pacing.replace(rate) != rate {
            self.places.for_each(|stream| pace(stream, rate.unwrap_or(u64::MAX), &self.counters));
        }
    }

    /// Marks the packets of every connection, open or to come; 0 takes the mark away.
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

/// One of so many descriptors is left to files, and so many at least.
const SPARE_DIVISOR: usize = 16;
const SPARE_MIN: usize = 2;
/// Fewer are never held to a number.
const FITTING_MIN: usize = 8;
/// Others than connections may have taken the descriptors, and given them back.
const FITTING_LASTS: Duration = Duration::from_secs(10);
