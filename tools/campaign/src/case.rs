//! One case: a world made for it, what a string of decisions has happen in it, and what must hold meanwhile and afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lane::memory::Taken;

use crate::log;
use crate::notes::{Notes, Seen};

/// Protocol of a case's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SMB 2 and 3 over TCP.
    Smb,
    /// RXAFS over Rx.
    Afs,
}

impl Protocol {
    /// Returns the name of the command line and the corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smb => "smb",
            Self::Afs => "afs",
        }
    }
}

/// Bounds that a case must keep to.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// CPU time of one turn of the server's lane.
    pub turn: Duration,
    /// Bytes that all of a case's world takes, its simulated disk and its clients included.
    pub heap_at_most: isize,
    /// Bytes that it has more than before the first client came, when all have gone and all has timed out.
    pub heap_at_rest: isize,
    /// Bytes that stay when the world is gone: what the process makes once and for all.
    pub heap_left: isize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            turn: Duration::from_millis(100),
            heap_at_most: 96 << 20,
            heap_at_rest: 24 << 20,
            heap_left: 64 << 10,
        }
    }
}

/// Runs one case.
pub fn run(protocol: Protocol, input: &[u8], bounds: &Bounds) -> Seen {
    log::take_errors();
    PANIC.take();
    let notes = Notes::default();
    let before = Taken::forget_most().now;
    let ran = catch_unwind(AssertUnwindSafe(|| match protocol {
        Protocol::Smb => crate::smb::run(input, &notes),
        Protocol::Afs => crate::afs::run(input, &notes),
    }));
    let taken = Taken::here();
    let mut seen = notes.0.take();
    seen.heap_most = taken.most - before;
    if let Err(panic) = ran {
        seen.findings.insert(0, format!("panic: {}", PANIC.take().unwrap_or_else(|| text_of(&*panic))));
        return seen;
    }
    if seen.longest_turn > bounds.turn {
        seen.findings.push(format!("stall: a turn of the lane took {:?}", seen.longest_turn));
    }
    if seen.heap_most > bounds.heap_at_most {
        seen.findings.push(format!("growth: the world took {} bytes", seen.heap_most));
    }
    if seen.heap_at_rest > bounds.heap_at_rest {
        seen.findings.push(format!("growth: {} bytes are left at rest", seen.heap_at_rest));
    }
    // What is noted is not the world's.
    let own = (seen.signs.capacity() * 17 + 4096) as isize;
    let left = taken.now - before - own;
    if left > bounds.heap_left {
        seen.findings.push(format!("leak: {left} bytes are left when the world is gone"));
    }
    seen
}

/// Has panics kept for the runner of a case from now on, with their place, and not printed.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = format!("{} at {place}", text_of(info.payload()));
        PANIC.with_borrow_mut(|first| {
            first.get_or_insert(text);
        });
    }));
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "of no text".to_owned())
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}
