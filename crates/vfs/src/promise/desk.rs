//! What lanes have to answer, in shared memory: a desk for each, and a bell.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use lane::mesh::{AlreadyOpen, Exchange, Limits, Member, Port, Sender};

use super::{Answer, Answers, Broken};
use crate::grant::Untold;

/// The desks of all lanes.
pub(crate) struct Desks {
    desks: Box<[Mutex<Desk>]>,
    /// It carries no messages, only rings.
    bells: Exchange<()>,
}

#[derive(Default)]
struct Desk {
    /// Somebody sits there. Until then, and afterwards, whoever is asked has answered.
    is_open: bool,
    /// At most as many as there are permits in use.
    breaks: VecDeque<Break>,
    /// Holders on this lane who have something to give back: one for each lease at most, and who was told before.
    leases: VecDeque<Untold>,
}

/// One question to one lane. Dropped, it is answered.
pub(crate) struct Break {
    pub(crate) broken: Broken,
    _answer: Answer,
}

impl Desks {
    pub(crate) fn new(lanes_max: usize) -> Self {
        let desks = (0..lanes_max).map(|_| Mutex::default()).collect();
        Self { desks, bells: Exchange::new(lanes_max, Limits { messages: 0, calls: 0 }) }
    }

    /// A lane sits down at its desk: from now on it is asked.
    ///
    /// # Errors
    /// [`AlreadyOpen`].
    pub(crate) fn open(&self, lane: Member) -> Result<(), AlreadyOpen> {
        let mut desk = self.lock(lane);
        if std::mem::replace(&mut desk.is_open, true) {
            return Err(AlreadyOpen(lane));
        }
        Ok(())
    }

    /// The lane's bell. Whoever has it looks at the desk before he first waits.
    pub(crate) fn bell(&self, lane: Member) -> Result<Port<()>, AlreadyOpen> {
        self.bells.open(lane)
    }

    pub(crate) fn ringer(&self, lane: Member) -> Sender<()> {
        self.bells.sender(lane)
    }

    /// The lane goes; what it has not answered is answered by that.
    pub(crate) fn close(&self, lane: Member) {
        let mut desk = self.lock(lane);
        desk.is_open = false;
        let left = (std::mem::take(&mut desk.breaks), std::mem::take(&mut desk.leases));
        drop(desk);
        drop(left);
    }

    /// The next question to a lane.
    pub(crate) fn next(&self, lane: Member) -> Option<Break> {
        self.lock(lane).breaks.pop_front()
    }

    /// The next holder to be told on a lane.
    pub(crate) fn next_lease(&self, lane: Member) -> Option<Untold> {
        self.lock(lane).leases.pop_front()
    }

    /// Has a holder told on his lane, if that is there.
    pub(crate) fn tell(&self, ringer: &Sender<()>, lane: Member, untold: Untold) {
        let mut desk = self.lock(lane);
        if desk.is_open {
            desk.leases.push_back(untold);
            drop(desk);
            ringer.ring(lane);
        }
    }

    /// Asks every lane that has its bit in one of the objects, but the one that asks. Gives how many questions these are.
    pub(crate) fn ask(&self, ringer: &Sender<()>, all: &[Broken], answers: &Answers) -> usize {
        let mut asked = 0;
        for broken in all {
            for lane in broken.object.promises().iter().filter(|&lane| lane != ringer.member()) {
                let mut desk = self.lock(lane);
                if !desk.is_open {
                    continue;
                }
                desk.breaks.push_back(Break { broken: broken.clone(), _answer: answers.ask() });
                drop(desk);
                ringer.ring(lane);
                asked += 1;
            }
        }
        asked
    }

    fn lock(&self, lane: Member) -> MutexGuard<'_, Desk> {
        self.desks[lane.index()].lock().expect("nobody panics while holding it")
    }
}
