//! Pipes of a lane, for pages on their way from files to streams. They are made as they are wanted, few at
//! most, and kept; one that still holds bytes is never used again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::counters::LaneCounters;

/// Pipes of one lane, lent one at a time.
pub(super) struct Pipes {
    free: RefCell<Vec<(Ends, usize)>>,
    lent: Cell<usize>,
    counters: Arc<LaneCounters>,
}

/// Pipe in use. Dropped empty, it goes back to its lane; dropped with bytes in it, it is closed.
pub(crate) struct Pipe {
    pub(super) ends: Ends,
    capacity: usize,
    held: usize,
    home: Rc<Pipes>,
}

/// Descriptors of the pipe.
pub(crate) enum Ends {
    Kernel {
        read: OwnedFd,
        write: OwnedFd,
    },
    /// Bytes in a simulated host's pipe.
    Simulated(VecDeque<u8>),
}

impl Pipes {
    pub(super) fn new(counters: Arc<LaneCounters>) -> Rc<Self> {
        Rc::new(Self { free: RefCell::default(), lent: Cell::new(0), counters })
    }

    /// Takes an empty pipe, from `make` if none is kept; `None` when too many are lent.
    ///
    /// # Errors
    /// `EMFILE` and `ENFILE`.
    pub(super) fn take(
        self: &Rc<Self>,
        make: impl FnOnce() -> io::Result<(Ends, usize)>,
    ) -> io::Result<Option<Pipe>> {
        if self.lent.get() == PIPES_MAX {
            self.counters.pipes_short.increment();
            return Ok(None);
        }
        let kept = self.free.borrow_mut().pop();
        let (ends, capacity) = kept.map_or_else(make, Ok)?;
        self.lent.set(self.lent.get() + 1);
        Ok(Some(Pipe { ends, capacity, held: 0, home: Rc::clone(self) }))
    }
}

impl Pipe {
    /// Returns the number of bytes in the pipe.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn fill(&mut self, n: usize) {
        self.held += n;
    }

    pub(super) fn drain(&mut self, n: usize) {
        self.held -= n;
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.home.lent.set(self.home.lent.get() - 1);
        if self.held > 0 {
            self.home.counters.pipes_closed.increment();
            return;
        }
        let ends = std::mem::replace(&mut self.ends, Ends::Simulated(VecDeque::new()));
        self.home.free.borrow_mut().push((ends, self.capacity));
    }
}

/// Makes a pipe of the kernel's, with [`PIPE_BYTES`] if allowed.
pub(super) fn of_the_kernel() -> io::Result<(Ends, usize)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let capacity = fcntl_setpipe_size(&write, PIPE_BYTES).unwrap_or(PIPE_BYTES_MIN);
    Ok((Ends::Kernel { read, write }, capacity))
}

pub(super) fn simulated() -> io::Result<(Ends, usize)> {
    Ok((Ends::Simulated(VecDeque::new()), PIPE_BYTES_MIN))
}

/// Most pipes lent at a time; each is two descriptors and up to 256 KiB of page references.
pub(super) const PIPES_MAX: usize = 16;
const PIPE_BYTES: usize = 256 << 10;
/// Capacity of a pipe by default (pipe(7)).
const PIPE_BYTES_MIN: usize = 64 << 10;
