//! The order of mark, look and change, in every way in which their steps can come one after another.

use std::cell::Cell;

use super::*;

/// A lane that looks at a name to remember it, and one that changes the name. Steps of either are single
/// accesses to what they share, and all of these are in one order that all see (`SeqCst`), so going through
/// every order of the steps goes through all that can happen.
struct Both {
    marks: Arc<SnoopFilter>,
    slot: FilterSlot,
    /// The change lock of the directory is held.
    is_held: Cell<bool>,
    /// Target of the name.
    tree: Cell<u32>,
    looker: Looker,
    changer: Changer,
    /// The change asks the lane, which has not answered yet.
    is_asked: bool,
}

#[derive(Default)]
struct Looker {
    step: usize,
    mark: Option<PresenceToken>,
    is_doubtful: bool,
    /// A question came since the look began.
    was_asked: bool,
    seen: u32,
    remembered: Option<u32>,
}

#[derive(Default)]
struct Changer {
    step: usize,
    asks: bool,
    is_acknowledged: bool,
}

/// Next step where there is a choice.
#[derive(Clone, Copy, Debug)]
enum Next {
    Look,
    Change,
    /// The lane serves its queue between two of its steps.
    Ack,
}

/// A fault that the test has to find.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The lane counts itself in after it has looked.
    MarksLate,
    /// The lane does not look whether the lock is held.
    NeverDoubts,
    /// The change reads the counts before it has its lock.
    AsksEarly,
    /// The lane counts itself out before it has forgotten.
    LeavesEarly,
}

const LOOKS: usize = 7;
const CHANGES: usize = 6;

impl Both {
    fn new(marks: &Arc<SnoopFilter>) -> Self {
        let (looker, changer) = (Looker::default(), Changer::default());
        let (is_held, tree) = (Cell::new(false), Cell::new(1));
        Self {
            marks: Arc::clone(marks),
            slot: FilterSlot(7),
            is_held,
            tree,
            looker,
            changer,
            is_asked: false,
        }
    }

    /// Returns what may come next.
    fn open(&self) -> Vec<Next> {
        let mut open = Vec::new();
        if self.looker.step < LOOKS {
            open.push(Next::Look);
        }
        let waits = self.changer.step == 3 && self.is_asked;
        if self.changer.step < CHANGES && !waits {
            open.push(Next::Change);
        }
        if self.is_asked {
            open.push(Next::Ack);
        }
        open
    }

    fn go(&mut self, next: Next, fault: Fault) {
        match next {
            Next::Look => self.look(fault),
            Next::Change => self.change(fault),
            Next::Ack => {
                self.is_asked = false;
                self.looker.was_asked = true;
                (self.looker.remembered, self.looker.mark) = (None, None);
            }
        }
    }

    fn look(&mut self, fault: Fault) {
        let looker = &mut self.looker;
        looker.step += 1;
        let counts_in = if fault == Fault::MarksLate { 4 } else { 1 };
        match looker.step {
            step if step == counts_in => looker.mark = Some(self.marks.count_in(self.slot)),
            2 => looker.is_doubtful = self.is_held.get() && fault != Fault::NeverDoubts,
            3 => looker.seen = self.tree.get(),
            // Kept and believed in one step of the lane.
            5 if !looker.is_doubtful && !looker.was_asked => looker.remembered = Some(looker.seen),
            5 => looker.mark = None,
            // Forgotten by itself: first that, then the mark.
            6 if fault == Fault::LeavesEarly => looker.mark = None,
            6 => looker.remembered = None,
            7 if fault == Fault::LeavesEarly => looker.remembered = None,
            7 => looker.mark = None,
            _ => {}
        }
    }

    fn change(&mut self, fault: Fault) {
        let changer = &mut self.changer;
        changer.step += 1;
        let (take, read) = if fault == Fault::AsksEarly { (2, 1) } else { (1, 2) };
        match changer.step {
            step if step == take => self.is_held.set(true),
            step if step == read => changer.asks = self.marks.has_any(&[self.slot]),
            3 => self.is_asked = changer.asks,
            4 => self.tree.set(2),
            5 => changer.is_acknowledged = true,
            6 => self.is_held.set(false),
            _ => {}
        }
    }

    /// Checks that no lane remembers what a change that has been acknowledged made untrue.
    fn is_true(&self) -> bool {
        !self.changer.is_acknowledged || self.looker.remembered.is_none_or(|seen| seen == self.tree.get())
    }
}

/// Goes through every order from here on; says how many there are and in how many something untrue was remembered.
fn explore(marks: &Arc<SnoopFilter>, path: &mut Vec<Next>, fault: Fault) -> (u64, u64) {
    let mut both = Both::new(marks);
    let mut is_true = true;
    for next in &*path {
        both.go(*next, fault);
        is_true &= both.is_true();
    }
    let open = both.open();
    if open.is_empty() {
        drop(both.looker.mark.take());
        assert!(!both.marks.has_any(&[both.slot]), "who counts itself in counts itself out");
        return (1, u64::from(!is_true));
    }
    // The next of them counts in the same table.
    drop(both);
    let (mut orders, mut untrue) = (0, 0);
    for next in open {
        path.push(next);
        let (further, further_untrue) = explore(marks, path, fault);
        path.pop();
        (orders, untrue) = (orders + further, untrue + further_untrue);
    }
    (orders, untrue)
}

#[test]
fn in_every_order_a_change_asks_the_lane_or_the_lane_remembers_nothing() {
    let (orders, untrue) = explore(&SnoopFilter::new(), &mut Vec::new(), Fault::None);
    assert_eq!(untrue, 0);
    assert!(orders > 1_000, "{orders} orders");
}

#[test]
fn each_step_out_of_its_order_would_be_found() {
    for fault in [Fault::MarksLate, Fault::NeverDoubts, Fault::AsksEarly, Fault::LeavesEarly] {
        let (_, untrue) = explore(&SnoopFilter::new(), &mut Vec::new(), fault);
        assert!(untrue > 0);
    }
}

#[test]
fn names_are_counted_apart_and_as_often_as_they_are_remembered() {
    let marks = SnoopFilter::new();
    let [one, other] = [3, 4].map(FilterSlot);
    let first = marks.count_in(one);
    let second = first.clone();
    assert!(marks.has_any(&[other, one]) && !marks.has_any(&[other]));
    drop(first);
    assert!(marks.has_any(&[one]));
    drop(second);
    assert!(!marks.has_any(&[one]));
    marks.match_all();
    assert!(marks.has_any(&[other]));
}
