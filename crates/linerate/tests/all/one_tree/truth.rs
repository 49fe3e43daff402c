//! Truth about the files: which of the changes that were asked for may show at some moment, and which cannot
//! any more.
//!
//! A file is a register. A change takes effect at some moment between its request and its reply; one that was not answered may do so
//! much later, or never. What is read must be of a change that has begun by then, and of none that another, known to be made before the
//! reading began, is known to have come after.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lane::time;

/// State of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// A file that was just made.
    Empty,
    /// Zeros of a length.
    Zeros,
    /// Content that this change has written.
    Whole(u32),
    /// The beginning of it.
    Cut(u32),
}

/// Effect of a change on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A file of the content of this number, whatever there was.
    Write(u32),
    /// The content, cut to [`CUT`] bytes.
    Cut,
    /// A file where there was none.
    Make,
    /// Nothing.
    Remove,
}

/// A change that was asked for.
#[derive(Clone, Copy, Debug)]
struct Change {
    effect: Effect,
    #[expect(dead_code, reason = "shown when a test fails")]
    who: Who,
    began: Duration,
    /// By when it is made, if it is.
    ended: Duration,
    /// The change was made.
    is_certain: bool,
}

/// A client, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// State before the first client came.
    Nobody,
    Afs(usize),
    Smb(usize),
    Http(usize),
}

/// A change of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    name: &'static str,
    at: usize,
}

/// All that was asked for.
pub(crate) struct Truth {
    began: Instant,
    names: RefCell<BTreeMap<&'static str, Vec<Change>>>,
    numbers: Cell<u32>,
}

impl State {
    /// Returns the state that these bytes are.
    ///
    /// # Panics
    /// When they are of no single change.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let number = || u32::from_le_bytes(bytes[..4].try_into().unwrap());
        match bytes.len() {
            0 => Self::Empty,
            CUT if bytes.iter().all(|byte| *byte == 0) => Self::Zeros,
            CUT if content(number())[..CUT] == *bytes => Self::Cut(number()),
            WHOLE if content(number()) == bytes => Self::Whole(number()),
            len => panic!("{len} bytes that nobody has written"),
        }
    }
}

/// Returns what a change writes.
pub(crate) fn content(number: u32) -> Vec<u8> {
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = (4..WHOLE).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    number.to_le_bytes().into_iter().chain(noise).collect()
}

impl Truth {
    /// Of these names, each of which leads to a file of the content of number 0; on a lane.
    pub(crate) fn new(names: &[&'static str]) -> Self {
        let first = Change {
            effect: Effect::Write(0),
            who: Who::Nobody,
            began: Duration::ZERO,
            ended: Duration::ZERO,
            is_certain: true,
        };
        let names = names.iter().map(|name| (*name, vec![first])).collect();
        Self { began: time::now(), names: RefCell::new(names), numbers: Cell::new(1) }
    }

    /// Since the world began.
    pub(crate) fn now(&self) -> Duration {
        time::now() - self.began
    }

    /// A number for the content of a change.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.replace(self.numbers.get() + 1)
    }

    /// Notes that a client asks for a change from now on.
    pub(crate) fn begins(&self, who: Who, name: &'static str, effect: Effect) -> Ticket {
        let change = Change { effect, who, began: self.now(), ended: Duration::MAX, is_certain: false };
        let mut names = self.names.borrow_mut();
        let changes = names.get_mut(name).expect("all names are known");
        changes.push(change);
        Ticket { name, at: changes.len() - 1 }
    }

    /// Notes that the change is made.
    pub(crate) fn is_done(&self, ticket: Ticket) {
        let now = self.now();
        self.with(ticket, |change| {
            change.ended = change.ended.min(now);
            change.is_certain = true;
        });
    }

    /// The server has said that it is not made, and has ended: some of it may be.
    pub(crate) fn is_refused(&self, ticket: Ticket) {
        let now = self.now();
        self.with(ticket, |change| change.ended = change.ended.min(now));
    }

    /// Notes that the change was not even asked for.
    pub(crate) fn is_off(&self, ticket: Ticket) {
        self.with(ticket, |change| change.began = Duration::MAX);
    }

    /// Notes that there was no answer.
    pub(crate) fn is_lost(&self, ticket: Ticket) {
        let by = self.now() + MAY_TAKE;
        self.with(ticket, |change| change.ended = change.ended.min(by));
    }

    fn with(&self, ticket: Ticket, change: impl FnOnce(&mut Change)) {
        change(&mut self.names.borrow_mut().get_mut(ticket.name).expect("it is known")[ticket.at]);
    }

    /// Returns whether something may have been changed in this time.
    pub(crate) fn may_have_changed(&self, name: &str, from: Duration, to: Duration) -> bool {
        self.names.borrow()[name].iter().any(|change| change.began <= to && change.ended >= from)
    }

    /// Checks what a client has read, by a request that began and ended then.
    ///
    /// # Panics
    /// When it is stale.
    pub(crate) fn is_read(
        &self,
        who: Who,
        name: &'static str,
        state: State,
        (began, ended): (Duration, Duration),
    ) {
        let mut names = self.names.borrow_mut();
        let changes = names.get_mut(name).expect("all names are known");
        let source = sources(changes, state, (began, ended));
        let Some(source) = source else {
            let latest: Vec<_> = changes.iter().rev().take(16).rev().collect();
            panic!("{who:?} read {state:?} of {name} between {began:?} and {ended:?}; of late: {latest:#?}");
        };
        // A read of what one change alone writes proves that it is made.
        if matches!(state, State::Whole(_) | State::Cut(_)) {
            let source = &mut changes[source];
            (source.ended, source.is_certain) = (source.ended.min(ended), true);
        }
    }
}

/// A change by which this may be read at that time.
fn sources(changes: &[Change], state: State, (began, ended): (Duration, Duration)) -> Option<usize> {
    let is_over = |source: &Change, by: &dyn Fn(Effect) -> bool| {
        let is_after =
            |later: &&Change| later.is_certain && source.ended < later.began && later.ended < began;
        changes.iter().filter(is_after).any(|later| by(later.effect))
    };
    let may_be = |wanted: &dyn Fn(Effect) -> bool, over: &dyn Fn(Effect) -> bool| {
        let is_it =
            |change: &Change| wanted(change.effect) && change.began <= ended && !is_over(change, over);
        changes.iter().position(is_it)
    };
    let is_cut = |effect| effect == Effect::Cut;
    match state {
        // What is written in place implies that there was a file.
        State::Absent => may_be(&|effect| effect == Effect::Remove, &|effect| effect != Effect::Remove),
        State::Empty => may_be(&|effect| effect == Effect::Make, &|_| true),
        State::Zeros => may_be(&is_cut, &|effect| !is_cut(effect)),
        State::Whole(number) => may_be(&|effect| effect == Effect::Write(number), &|_| true),
        State::Cut(number) => {
            may_be(&is_cut, &|effect| !is_cut(effect))?;
            may_be(&|effect| effect == Effect::Write(number), &|effect| !is_cut(effect))
        }
    }
}

/// Bytes of a file that a client has written,
pub(crate) const WHOLE: usize = 900;
/// and of one that was cut.
pub(crate) const CUT: usize = 100;
/// Time after which an abandoned change may still be made: a server waits for holders of leases for 75 s.
const MAY_TAKE: Duration = Duration::from_secs(100);

#[test]
fn what_was_overwritten_before_a_reading_began_is_stale_and_what_may_be_there_is_not() {
    let at = Duration::from_secs;
    let change = |effect, began, ended, is_certain| Change {
        effect,
        who: Who::Nobody,
        began: at(began),
        ended: at(ended),
        is_certain,
    };
    let changes = [
        change(Effect::Write(1), 0, 1, true),
        change(Effect::Write(2), 2, 4, true),
        change(Effect::Write(3), 3, 9, false),
        change(Effect::Cut, 6, 7, true),
        change(Effect::Remove, 10, 11, true),
    ];
    let is_right = |state, from, to| sources(&changes, state, (at(from), at(to))).is_some();
    assert!(is_right(State::Whole(1), 3, 3) && is_right(State::Whole(1), 4, 9), "the other may come last");
    assert!(!is_right(State::Whole(1), 5, 5) && !is_right(State::Whole(2), 1, 1));
    assert!(is_right(State::Whole(3), 8, 8) && !is_right(State::Whole(2), 8, 8), "it may have come late");
    assert!(is_right(State::Cut(2), 8, 8) && !is_right(State::Cut(2), 5, 5) && !is_right(State::Zeros, 5, 5));
    assert!(is_right(State::Absent, 10, 10) && !is_right(State::Absent, 9, 9));
    assert!(!is_right(State::Cut(2), 12, 12) && !is_right(State::Empty, 12, 12));
}
