//! Lock requests of an open that were done, by their sequence numbers (MS-SMB2 3.3.5.14
//! `Open.LockSequenceArray`): one that comes again after a channel was lost is done once, whether its first
//! is done, under way or late.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use smb_wire::Status;
use smb_wire::body::lock::LockSequence;

use crate::open::Open;

/// The table of an open.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    numbers: Option<Box<[u8; ENTRIES]>>,
    /// The last of each entry.
    under_way: Vec<Arc<UnderWay>>,
}

/// Holds the lock sequence entry of a request while it is served.
pub(crate) struct LockSequenceGuard {
    open: Arc<Open>,
    /// `None` for one without a number.
    under_way: Option<Arc<UnderWay>>,
}

/// A lock request under way that has a number.
#[derive(Debug)]
pub(crate) struct UnderWay {
    entry: usize,
    number: u8,
    /// Waiters may be on other lanes.
    turn: Mutex<UnderWayState>,
}

#[derive(Debug, Default)]
struct UnderWayState {
    is_called_off: bool,
    is_over: bool,
    owner: Option<Waker>,
    followers: Vec<Waker>,
}

enum SequenceStart {
    /// The request is the first, or its first has failed.
    First(Option<Arc<UnderWay>>),
    /// The request with the same number before it is not over yet.
    Behind(Arc<UnderWay>),
    Done,
    Late,
}

impl LockSequenceGuard {
    /// Begins a request; one that is under way by another channel already ends before. `None` where it was done.
    ///
    /// # Errors
    /// `STATUS_FILE_NOT_AVAILABLE`: it comes late, and was asked by another channel again.
    pub(crate) async fn begin(
        open: &Arc<Open>,
        sequence: Option<LockSequence>,
        channel_sequence: u16,
    ) -> Result<Option<Self>, Status> {
        let Some(sequence) = sequence else {
            return Ok(Some(Self { open: Arc::clone(open), under_way: None }));
        };
        loop {
            let is_past = || open.word().is_past(channel_sequence);
            let begun = open.state().lock_sequences.begin(sequence, is_past);
            match begun {
                SequenceStart::First(under_way) => {
                    return Ok(Some(Self { open: Arc::clone(open), under_way }));
                }
                // What waits for others would have its replay wait for it.
                SequenceStart::Behind(first) => first.call_off().await,
                SequenceStart::Done => return Ok(None),
                SequenceStart::Late => return Err(Status::FILE_NOT_AVAILABLE),
            }
        }
    }

    /// Notes that the request was carried out: from now on it is answered with success, whenever it comes.
    pub(crate) fn done(&self) {
        if let Some(under_way) = &self.under_way {
            self.open.state().lock_sequences.done(under_way);
        }
    }

    /// Returns what `locking` comes to.
    ///
    /// # Errors
    /// `STATUS_CANCELLED` when it came again by another channel: nothing was locked.
    pub(crate) async fn unless_called_off<T>(&self, locking: impl Future<Output = T>) -> Result<T, Status> {
        let mut locking = pin!(locking);
        poll_fn(|cx| {
            if self.under_way.as_ref().is_some_and(|under_way| under_way.is_called_off(cx.waker())) {
                return Poll::Ready(Err(Status::CANCELLED));
            }
            locking.as_mut().poll(cx).map(Ok)
        })
        .await
    }
}

impl Drop for LockSequenceGuard {
    fn drop(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            self.open.state().lock_sequences.under_way.retain(|other| !Arc::ptr_eq(other, &under_way));
            under_way.end();
        }
    }
}

impl UnderWay {
    /// Has its owner give it up, and waits until it is over.
    async fn call_off(&self) {
        let owner = {
            let mut turn = self.turn();
            turn.is_called_off = true;
            turn.owner.take()
        };
        owner.into_iter().for_each(Waker::wake);
        poll_fn(|cx| {
            let mut turn = self.turn();
            if turn.is_over {
                return Poll::Ready(());
            }
            turn.followers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn is_called_off(&self, owner: &Waker) -> bool {
        let mut turn = self.turn();
        turn.owner = Some(owner.clone());
        turn.is_called_off
    }

    fn end(&self) {
        let followers = {
            let mut turn = self.turn();
            turn.is_over = true;
            std::mem::take(&mut turn.followers)
        };
        followers.into_iter().for_each(Waker::wake);
    }

    fn turn(&self) -> MutexGuard<'_, UnderWayState> {
        self.turn.lock().expect("nobody panics while holding it")
    }
}

impl Sequences {
    /// Restores the numbers as they were.
    pub(crate) fn of_numbers(numbers: Option<[u8; ENTRIES]>) -> Self {
        Self { numbers: numbers.map(Box::new), under_way: Vec::new() }
    }

    /// Returns what has been done by now.
    pub(crate) fn numbers(&self) -> Option<[u8; ENTRIES]> {
        self.numbers.as_deref().copied()
    }

    /// Returns what is to be done with a request that has come; `is_past` says whether its header is of a
    /// time before a channel was lost.
    fn begin(&mut self, sequence: LockSequence, is_past: impl FnOnce() -> bool) -> SequenceStart {
        let Some(entry) = entry(sequence) else { return SequenceStart::First(None) };
        let number = sequence.number;
        let last = &mut self.numbers.get_or_insert_with(|| Box::new([NONE; ENTRIES]))[entry];
        if *last == number {
            return SequenceStart::Done;
        }
        // Stricter than MS-SMB2 3.3.5.14. A client counts an entry up by one with each request (MS-SMB2 3.2.4.19), so what is of the past
        // and is not the next one has been here before, by another channel.
        let is_next = *last == NONE || number == (*last & NUMBER).wrapping_add(1) & NUMBER;
        if !is_next && is_past() {
            return SequenceStart::Late;
        }
        let of_entry = self.under_way.iter().position(|other| other.entry == entry);
        if let Some(at) = of_entry {
            if self.under_way[at].number == number {
                return SequenceStart::Behind(Arc::clone(&self.under_way[at]));
            }
            self.under_way.swap_remove(at);
        }
        *last = number | UNDONE;
        let under_way = Arc::new(UnderWay { entry, number, turn: Mutex::default() });
        self.under_way.push(Arc::clone(&under_way));
        SequenceStart::First(Some(under_way))
    }

    /// Records that a request was done, if no other has its entry by now.
    fn done(&mut self, under_way: &Arc<UnderWay>) {
        let is_last = self.under_way.iter().any(|other| Arc::ptr_eq(other, under_way));
        if let Some(numbers) = self.numbers.as_mut().filter(|_| is_last) {
            numbers[under_way.entry] = under_way.number;
        }
    }
}

/// Returns the place of a sequence's entry. Entries are counted from 1; what is beyond them is not kept.
fn entry(sequence: LockSequence) -> Option<usize> {
    let at = (sequence.index as usize).checked_sub(1)?;
    (at < ENTRIES).then_some(at)
}

//@ limit: lock sequences of an open
//@ section: SMB
//@ unit: number
//@ connection: {}
//@ empty: others are not kept
//@ counter: none
//@ attack: smb-trees
/// Entries of the table of each open.
pub(crate) const ENTRIES: usize = 64;
/// Bits of a number.
const NUMBER: u8 = 0xf;
/// Flag beside the number of a request that was begun and is not done.
const UNDONE: u8 = 0x10;
/// No number.
const NONE: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u32, number: u8) -> LockSequence {
        LockSequence { index, number }
    }

    fn first(sequences: &mut Sequences, sequence: LockSequence, is_past: bool) -> Option<Arc<UnderWay>> {
        match sequences.begin(sequence, || is_past) {
            SequenceStart::First(under_way) => under_way,
            _ => None,
        }
    }

    #[test]
    fn a_lock_that_comes_again_is_known_by_its_number_until_another_comes() {
        let mut sequences = Sequences::default();
        for index in [1, 64] {
            let five = first(&mut sequences, at(index, 5), false).expect("nothing was before");
            assert!(matches!(sequences.begin(at(index, 5), || false), SequenceStart::Behind(_)));
            sequences.done(&five);
            assert!(matches!(sequences.begin(at(index, 5), || true), SequenceStart::Done));
            let six = first(&mut sequences, at(index, 6), true).expect("another request");
            assert!(first(&mut sequences, at(index, 5), false).is_some(), "it has failed, and was not done");
            sequences.done(&six);
            assert!(
                matches!(sequences.begin(at(index, 6), || true), SequenceStart::First(_)),
                "nobody has it any more"
            );
        }
        for index in [0, 65, u32::MAX] {
            for _ in 0..2 {
                assert!(
                    matches!(sequences.begin(at(index, 5), || true), SequenceStart::First(None)),
                    "{index} is not kept"
                );
            }
        }
    }

    #[test]
    fn what_is_of_the_past_and_not_the_next_of_its_entry_comes_late() {
        let mut sequences = Sequences::default();
        let fifteen = first(&mut sequences, at(3, 15), true).expect("its entry is empty");
        assert!(
            matches!(sequences.begin(at(3, 15), || true), SequenceStart::Late),
            "its replay is under way"
        );
        sequences.done(&fifteen);
        for number in 1..15 {
            assert!(matches!(sequences.begin(at(3, number), || true), SequenceStart::Late), "{number}");
        }
        assert!(first(&mut sequences, at(3, 0), true).is_some(), "the next one");
    }
}
