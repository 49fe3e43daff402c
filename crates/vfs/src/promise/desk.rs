//! What lanes have to answer, in shared memory: a desk for each, and a bell.

use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use lane::mesh::{AlreadyOpen, Exchange, Limits, Member, Port, Sender};
use smallvec::SmallVec;

use super::{Answer, Answers, Broken, Client, Marks, Spot, What};
use crate::grant::Untold;
use crate::object::Object;

/// The desks of all lanes.
pub(crate) struct Desks {
    desks: Box<[Mutex<Desk>]>,
    /// What lanes remember of names, from the first time that one of that number has sat down.
    marks: Box<[OnceLock<Arc<Marks>>]>,
    hasher: RandomState,
    /// It carries no messages, only rings.
    bells: Exchange<()>,
}

#[derive(Default)]
struct Desk {
    /// Somebody sits there. Until then, and afterwards, whoever is asked has answered.
    is_open: bool,
    /// Who sat there has ended and left promises: whoever is asked answers when their clients have heard that they are void.
    is_mourned: bool,
    /// A service there tells clients.
    tells: bool,
    /// At most as many as there are permits in use.
    breaks: VecDeque<Break>,
    /// Holders on this lane who have something to give back: one for each lease at most, and who was told before.
    leases: VecDeque<Untold>,
    /// Clients to be told, each once.
    calls: VecDeque<Arc<Client>>,
    /// Clients that are to hear that all is void, after the replies on their way to them from here.
    voided: VecDeque<(Arc<Client>, Answer)>,
    /// Answers that who sat there did not come to.
    left: Vec<(Instant, Answer)>,
}

/// How many lanes are asked of what changes, each thing counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) questions: u64,
    /// Not asked, as they remember nothing of it.
    pub(crate) spared: u64,
}

/// One question to one lane. Dropped, it is answered.
pub(crate) struct Break {
    pub(crate) broken: Broken,
    pub(crate) answer: Answer,
    asked: Instant,
}

impl Desks {
    pub(crate) fn new(lanes_max: usize) -> Self {
        let desks = (0..lanes_max).map(|_| Mutex::default()).collect();
        let marks = (0..lanes_max).map(|_| OnceLock::new()).collect();
        let hasher = RandomState::new();
        Self { desks, marks, hasher, bells: Exchange::new(lanes_max, Limits { messages: 0, calls: 0 }) }
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

    /// What a lane remembers of names, for that lane.
    pub(crate) fn marks(&self, lane: Member) -> &Arc<Marks> {
        self.marks[lane.index()].get_or_init(Marks::new)
    }

    /// Where a name is counted.
    pub(crate) fn spot(&self, directory: &Arc<Object>, name: &[u8]) -> Spot {
        Spot::of(&self.hasher, directory, name)
    }

    /// The lane's bell. Whoever has it looks at the desk before he first waits.
    pub(crate) fn bell(&self, lane: Member) -> Result<Port<()>, AlreadyOpen> {
        self.bells.open(lane)
    }

    pub(crate) fn ringer(&self, lane: Member) -> Sender<()> {
        self.bells.sender(lane)
    }

    /// The lane goes; what it has not answered is answered by that. Gives the clients that others are to tell.
    pub(crate) fn close(&self, lane: Member) -> VecDeque<Arc<Client>> {
        let mut desk = self.lock(lane);
        let is_mourned = desk.is_mourned;
        let gone = std::mem::take(&mut *desk);
        desk.is_mourned = is_mourned;
        drop(desk);
        gone.calls
    }

    /// As [`Desks::close`], of a lane that leaves promises: what it has not answered is answered when the mourning ends.
    pub(crate) fn mourn(&self, lane: Member) -> VecDeque<Arc<Client>> {
        let mut desk = self.lock(lane);
        (desk.is_open, desk.is_mourned, desk.tells) = (false, true, false);
        // What was on its way from there comes now or never.
        let voided = std::mem::take(&mut desk.voided);
        let calls = std::mem::take(&mut desk.calls);
        drop(desk);
        drop(voided);
        calls
    }

    /// Says whether nobody has sat down there since.
    pub(crate) fn end_mourning(&self, lane: Member) -> bool {
        let mut desk = self.lock(lane);
        desk.is_mourned = false;
        if desk.is_open {
            return false;
        }
        let gone = std::mem::take(&mut *desk);
        drop(desk);
        drop(gone);
        true
    }

    /// An answer that a lane will not come to, as it ends; it was asked for at `asked`.
    pub(crate) fn leave(&self, lane: Member, asked: Instant, answer: Answer) {
        let mut desk = self.lock(lane);
        let answered = if desk.is_open || desk.is_mourned {
            desk.left.push((asked, answer));
            None
        } else {
            Some(answer)
        };
        drop(desk);
        drop(answered);
    }

    /// Answers what lanes that have ended were asked for by `asked`: their clients have had their time.
    pub(crate) fn end_waits(&self, asked: Instant) {
        for desk in &self.desks {
            let mut desk = desk.lock().expect("nobody panics while holding it");
            if !desk.is_mourned || desk.is_open {
                continue;
            }
            let (over, breaks) = desk.breaks.drain(..).partition(|question: &Break| question.asked <= asked);
            desk.breaks = breaks;
            let over: VecDeque<Break> = over;
            let left: Vec<_> = desk.left.extract_if(.., |(since, _)| *since <= asked).collect();
            drop(desk);
            drop((over, left));
        }
    }

    /// From now on there is a service on this lane that tells clients.
    pub(crate) fn tells(&self, lane: Member) {
        self.lock(lane).tells = true;
    }

    /// Has a client told on its home lane, or on another where that has ended: on the one that this gives, which is to be rung; `None`
    /// where there is none.
    pub(crate) fn call(&self, home: Member, client: &Arc<Client>) -> Option<Member> {
        let others = (0..self.desks.len()).map(Member::from);
        std::iter::once(home).chain(others).find(|&lane| {
            let mut desk = self.lock(lane);
            let tells = desk.is_open && desk.tells;
            if tells {
                desk.calls.push_back(Arc::clone(client));
            }
            tells
        })
    }

    /// The next client to be told on a lane.
    pub(crate) fn next_call(&self, lane: Member) -> Option<Arc<Client>> {
        self.lock(lane).calls.pop_front()
    }

    /// Asks every lane but the one that asks to answer once no reply is on its way to a client whose promises are void.
    pub(crate) fn ask_for_arrivals(&self, ringer: &Sender<()>, client: &Arc<Client>, answers: &Answers) {
        let others = (0..self.desks.len()).map(Member::from).filter(|&lane| lane != ringer.member());
        for lane in others {
            let mut desk = self.lock(lane);
            if desk.is_open {
                desk.voided.push_back((Arc::clone(client), answers.ask()));
                drop(desk);
                ringer.ring(lane);
            }
        }
    }

    /// The next client of [`Desks::ask_for_arrivals`].
    pub(crate) fn next_voided(&self, lane: Member) -> Option<(Arc<Client>, Answer)> {
        self.lock(lane).voided.pop_front()
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

    /// Asks every lane that something of the objects concerns, but the one that asks. Who calls holds their permits.
    pub(crate) fn ask(
        &self,
        ringer: &Sender<()>,
        all: &[Broken],
        answers: &Answers,
        asked_at: Instant,
    ) -> Asked {
        let mut asked = Asked::default();
        for broken in all {
            let mut spots = None;
            for (lane, is_promised) in concerned(broken).filter(|&(lane, _)| lane != ringer.member()) {
                let spots = spots.get_or_insert_with(|| self.spots(broken));
                if !is_promised && !self.remembers(lane, broken, spots) {
                    asked.spared += 1;
                    continue;
                }
                let mut desk = self.lock(lane);
                if !desk.is_open && !desk.is_mourned {
                    continue;
                }
                desk.breaks.push_back(Break {
                    broken: broken.clone(),
                    answer: answers.ask(),
                    asked: asked_at,
                });
                drop(desk);
                ringer.ring(lane);
                asked.questions += 1;
            }
        }
        asked
    }

    /// Where the names that change are counted.
    fn spots(&self, broken: &Broken) -> SmallVec<[Spot; 2]> {
        match &broken.what {
            What::Names(names) => names.iter().map(|name| self.spot(&broken.object, name)).collect(),
            _ => SmallVec::new(),
        }
    }

    /// Whether a lane that relies on the object, and has promised it to nobody, may have something to forget.
    fn remembers(&self, lane: Member, broken: &Broken, spots: &[Spot]) -> bool {
        let marks = self.marks(lane);
        match &broken.what {
            What::Names(_) => marks.has_any(spots),
            // These are asked of the kernel at every use.
            What::Content | What::Attributes => marks.asks_all(),
            What::Place | What::Subtree | What::Gone | What::Rights | What::Unknown => true,
        }
    }

    fn lock(&self, lane: Member) -> MutexGuard<'_, Desk> {
        self.desks[lane.index()].lock().expect("nobody panics while holding it")
    }
}

/// The lanes that rely on what is about to change, each once, and whether it concerns them whatever they remember: their clients rely on it.
fn concerned(broken: &Broken) -> impl Iterator<Item = (Member, bool)> {
    let object = broken.object.promises();
    let volume = broken.what.is_of_subtree().then(|| broken.object.volume().promises());
    let is_promised = move |lane| object.has(lane) || volume.is_some_and(|volume| volume.has(lane));
    let of_volume = volume.into_iter().flat_map(|volume| volume.iter()).filter(|&lane| !object.has(lane));
    let promised = object.iter().chain(of_volume).map(|lane| (lane, true));
    let relied = broken.object.relied().into_iter().flat_map(|relied| relied.iter());
    promised.chain(relied.filter(move |&lane| !is_promised(lane)).map(|lane| (lane, false)))
}
