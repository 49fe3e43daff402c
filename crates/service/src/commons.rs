//! Resources that the services of one lane share, so that no service can take them from the others.

use std::rc::Rc;
use std::sync::Arc;

use lane::buffer::BufClass;

use crate::memory::ReplyMemory;
use crate::pacer::{Pacer, RateShare};

/// Rate and memory of one lane. Clones share them.
#[derive(Clone)]
pub struct Commons {
    /// Turns at the lane's part of the server's rate.
    pub pacer: Rc<Pacer>,
    /// Memory that replies hold: the lane's small buffers, without those of disk reads.
    pub memory: Rc<ReplyMemory>,
    /// The lane's large buffers.
    pub large_buffers: Rc<ReplyMemory>,
}

impl Commons {
    /// Makes the commons of the current lane, which sends at most at the rate of `share`, if that has one.
    pub fn new(share: Arc<RateShare>) -> Self {
        let pool = |class: BufClass| lane::current().buffers().usage(class).allocated * class.bytes();
        Self {
            pacer: Pacer::new(share),
            // What waits for the disk takes buffers too, and puts nothing on these books.
            memory: ReplyMemory::new(pool(BufClass::Small) / 16 * 15),
            large_buffers: ReplyMemory::new(pool(BufClass::Large)),
        }
    }
}
