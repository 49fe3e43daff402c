//! What ties a lane's cache to those of other lanes: the objects they share, the lane's promises, and its desk, where others
//! leave what it has to forget before they change it.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lane::mesh::{Member, Sender};
use lane::{Ended, Task};

use super::Inner;
use crate::counters::VfsCounters;
use crate::grant::{ByLease, Told, home_of};
use crate::name::RESERVED;
use crate::object::{Object, Objects};
use crate::promise::{Answers, Break, Broken, Mark, Marks, Promises, Teller, What};

/// One lane's part in the [`Objects`] of its process.
pub(crate) struct Joined {
    pub(crate) objects: Objects,
    pub(crate) promises: Rc<Promises>,
    pub(super) counters: Arc<VfsCounters>,
    me: Member,
    pub(super) ringer: Sender<()>,
    breakers: RefCell<Vec<Weak<dyn Breaker>>>,
    pub(super) tellers: RefCell<Vec<Weak<dyn Teller>>>,
    /// Forgets promises that are over.
    pub(super) sweeper: RefCell<Option<Task<()>>>,
    writers_made: Cell<u64>,
    /// Files made under a name of the server's own.
    made_aside: Cell<u64>,
}

/// Who has promised his clients something of objects, on one lane: a service that lets them cache.
pub trait Breaker {
    /// Something is about to change. Tells those clients who rely on it, all but who is spared; the change waits until what
    /// this returns has ended, so it has a bound of its own. `None` where nobody relies on it.
    fn tell(&self, broken: &Broken) -> Option<Telling>;

    /// Whether it [tells](Breaker::tell) anybody of changes: asked as it is added. A lane that has one which does is asked before every
    /// change of what it looks into, whatever it remembers.
    fn tells(&self) -> bool {
        true
    }

    /// A holder of a lease or an oplock, by a connection on this lane, has something to give back: the word goes into the queue
    /// of what is sent to him before this returns. Of who is not its client a service knows nothing. By default it has none
    /// who hold any.
    fn give_back(&self, _asked: &ByLease) {}
}

/// Clients being told.
pub type Telling = Pin<Box<dyn Future<Output = ()>>>;

impl Joined {
    /// # Panics
    /// When the lane takes part already, or there is no room for it.
    pub(super) fn new(objects: &Objects, counters: &Arc<VfsCounters>) -> Self {
        let me = Member::from(lane::current().id());
        assert!(me.index() < objects.options().lanes_max, "there is room for the lanes that were announced");
        objects.desks().open(me).expect("a lane has one cache that shares");
        Self {
            objects: objects.clone(),
            promises: Promises::new(me, lane::time::now()),
            counters: Arc::clone(counters),
            me,
            ringer: objects.desks().ringer(me),
            breakers: RefCell::default(),
            tellers: RefCell::default(),
            sweeper: RefCell::default(),
            writers_made: Cell::new(0),
            made_aside: Cell::new(0),
        }
    }

    /// Which lane this is.
    pub(crate) fn member(&self) -> Member {
        self.me
    }

    /// A number for somebody who writes; no other of the process has it.
    pub(super) fn number_writer(&self) -> u64 {
        let number = self.writers_made.get();
        self.writers_made.set(number + 1);
        (self.me.index() as u64) << 48 | number
    }

    pub(super) fn name_aside(&self) -> CString {
        let number = self.made_aside.get();
        self.made_aside.set(number + 1);
        let mut name = RESERVED.to_vec();
        name.extend_from_slice(format!("{:x}-{}-{number}", self.objects.mark(), self.me.index()).as_bytes());
        CString::new(name).expect("it holds no zero byte")
    }

    /// Whether a name is one that another process gave to a file aside.
    pub(crate) fn is_anothers_aside(&self, name: &[u8]) -> bool {
        giver_of_aside(name).is_some_and(|mark| mark != self.objects.mark())
    }

    pub(super) fn add_breaker(&self, breaker: &Rc<dyn Breaker>) {
        let mut breakers = self.breakers.borrow_mut();
        breakers.retain(|known| known.strong_count() > 0);
        breakers.push(Rc::downgrade(breaker));
        drop(breakers);
        if breaker.tells() {
            self.marks().ask_all();
        }
    }

    fn marks(&self) -> &Arc<Marks> {
        self.objects.desks().marks(self.me)
    }

    /// Counts the lane in, which is going to look at this name and to remember what it finds.
    pub(super) fn mark(&self, directory: &Arc<Object>, name: &[u8]) -> Mark {
        self.marks().count_in(self.objects.desks().spot(directory, name))
    }

    /// One of this lane's own clients has something to give back.
    fn give_back(&self, asked: &ByLease) {
        let breakers: Vec<_> = self.breakers.borrow().iter().filter_map(Weak::upgrade).collect();
        breakers.iter().for_each(|breaker| breaker.give_back(asked));
    }

    /// Where holders on this lane are told.
    pub(super) fn home(&self) -> grants::Home {
        home_of(self.me)
    }

    /// What this lane's own clients have to be told.
    fn telling(&self, broken: &Broken) -> Vec<Telling> {
        let breakers: Vec<_> = self.breakers.borrow().iter().filter_map(Weak::upgrade).collect();
        breakers.iter().filter_map(|breaker| breaker.tell(broken)).collect()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.end();
    }
}

impl Inner {
    /// Has everybody forget what is about to change, on this lane and all others, and their clients told. Who calls holds
    /// the permits of these objects.
    pub(super) async fn break_everywhere(self: &Rc<Self>, all: &[Broken]) {
        let joined = self.joined.get().expect("changes are made on volumes that share");
        let answers = Answers::default();
        let asked = joined.objects.desks().ask(&joined.ringer, all, &answers, lane::time::now());
        self.counters.invalidations_sent.add(asked.questions);
        self.counters.invalidations_filtered.add(asked.spared);
        for broken in all {
            self.forget_broken(broken);
            for telling in joined.telling(broken) {
                spawn_telling(telling, answers.ask());
            }
            joined.tell_clients(broken, || answers.ask());
        }
        let patience = joined.objects.options().promises.patience;
        let (mut answers, mut wait) = (pin!(answers), patience);
        // Lanes answer. Of those that have ended the clients have as long as of any other.
        while lane::time::timeout(wait, answers.as_mut()).await.is_err() {
            wait = ANOTHER_LOOK;
            joined.objects.desks().end_waits(lane::time::now() - patience);
        }
    }

    /// Tells holders of leases on their lanes.
    pub(super) fn tell_holders(&self, mut told: Told) {
        told.unlock();
        let Some(joined) = self.joined.get() else { return };
        self.counters.grants_expired.add(told.expired());
        for untold in told.into_breaks() {
            self.counters.grants_broken.increment();
            let lane = Member::from(usize::from(untold.asked.told.home.0));
            if lane == joined.me {
                joined.give_back(&untold.asked);
            } else {
                joined.objects.desks().tell(&joined.ringer, lane, untold);
            }
        }
    }

    /// Answers one question of another lane.
    fn answer(self: &Rc<Self>, question: Break) {
        let joined = self.joined.get().expect("lanes that share are asked");
        self.counters.invalidations_acked.increment();
        self.forget_broken(&question.broken);
        let telling = joined.telling(&question.broken);
        joined.tell_clients(&question.broken, || question.answer.clone());
        let question = Rc::new(question);
        telling.into_iter().for_each(|telling| spawn_telling(telling, Rc::clone(&question)));
    }

    fn forget_broken(self: &Rc<Self>, broken: &Broken) {
        match &broken.what {
            What::Names(names) => {
                for watched in self.watches.of_object(&broken.object) {
                    watched.note_change();
                    self.note_told(&watched);
                    names.iter().for_each(|name| self.forget_in(&watched, name));
                }
            }
            What::Unknown => {
                for watched in self.watches.of_object(&broken.object) {
                    watched.note_change();
                    self.forget_within(watched.key());
                }
            }
            What::Place | What::Gone | What::Rights | What::Subtree => {
                for watched in self.watches.of_object(&broken.object) {
                    watched.retire();
                    self.watches.forget_subtree(watched.key());
                }
            }
            // Attributes and content are asked of the kernel at every use.
            What::Content | What::Attributes => {}
        }
    }
}

/// The mark of the process that gave a file aside its name; `None` for a name of another kind.
pub(crate) fn giver_of_aside(name: &[u8]) -> Option<u64> {
    let rest = std::str::from_utf8(name.strip_prefix(RESERVED)?).ok()?;
    let mut parts = rest.split('-');
    let [mark, lane, number] = [parts.next()?, parts.next()?, parts.next()?];
    let are_numbers = lane.parse::<u32>().is_ok() && number.parse::<u64>().is_ok();
    if !are_numbers || parts.next().is_some() {
        return None;
    }
    u64::from_str_radix(mark, 16).ok()
}

/// Has clients told, all at once, while the lane goes on; `until` is dropped when they have been.
fn spawn_telling<T: 'static>(telling: Telling, until: T) {
    lane::spawn(async move {
        telling.await;
        drop(until);
    })
    .detach();
}

/// Answers other lanes for as long as the cache lives.
pub(super) async fn answer_others(inner: Weak<Inner>, objects: Objects, me: Member) -> Ended {
    let Ok(mut bell) = objects.desks().bell(me) else { return Ended::Unexpectedly };
    loop {
        loop {
            let Some(inner) = inner.upgrade() else { return Ended::Done };
            if let Some(lease) = objects.desks().next_lease(me) {
                inner.joined.get().expect("lanes that share are told").give_back(&lease.asked);
                continue;
            }
            let Some(question) = objects.desks().next(me) else { break };
            inner.answer(question);
        }
        if let Some(joined) = inner.upgrade().and_then(|inner| inner.joined.get().cloned()) {
            joined.wait_for_those_who_are_voided();
            joined.tell_those_who_wait();
        }
        if bell.recv().await.is_none() {
            return Ended::Unexpectedly;
        }
    }
}

/// How often a change that has waited long looks whether it is a lane that has ended which does not answer.
const ANOTHER_LOOK: std::time::Duration = std::time::Duration::from_millis(50);
