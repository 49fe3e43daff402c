//! LOCK (MS-SMB2 3.3.5.14): ranges of bytes are locked and unlocked; a lock that comes again after a channel was lost is known by its
//! sequence number.

use std::sync::Arc;

use grants::{Range, RangeLock, Refused};
use smb_wire::body::lock::{LockElement, LockRequest, LockSequence, flags};
use smb_wire::create::access::rights::{APPEND_DATA, EXECUTE, READ_DATA, WRITE_DATA};
use smb_wire::{Dialect, Status};
use vfs::OpenError;

use crate::asker::Asker;
use crate::open::Open;
use crate::share::Share;
use crate::status;

/// Which lock requests of an open have been done: the number of each entry of its table.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    numbers: Option<Box<[u8; ENTRIES]>>,
}

/// What a request does with all of its ranges.
#[derive(Debug, PartialEq, Eq)]
enum Does {
    Locks {
        locks: Vec<RangeLock>,
        waits: bool,
    },
    /// Those before the first that makes no sense, if there is such.
    Unlocks {
        ranges: Vec<Range>,
        is_whole: bool,
    },
}

impl Share {
    /// Locks all ranges of the request, or none; or unlocks them one after another. A single lock waits for its turn, unless it is to
    /// fail at once: dropped meanwhile, it waits no more.
    ///
    /// # Errors
    /// `STATUS_LOCK_NOT_GRANTED`, `STATUS_RANGE_NOT_LOCKED`, `STATUS_INVALID_LOCK_RANGE`; `STATUS_FILE_CLOSED` when the open is closed
    /// while it waits; `STATUS_INVALID_PARAMETER` for ranges that are not of one kind.
    pub async fn lock(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        request: &LockRequest<'_>,
    ) -> Result<(), Status> {
        if open.is_directory() {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        let sequence = (asker.dialect >= Dialect::Smb300).then(|| request.fixed.sequence());
        //= MS-SMB2 3.3.5.14
        //# A request whose sequence number is that of its entry was done: it is answered with success, and nothing else.
        if sequence.is_some_and(|sequence| open.state().lock_sequences.begin(sequence)) {
            return Ok(());
        }
        match does(request.locks)? {
            Does::Unlocks { ranges, is_whole } => {
                let unlocked = open.grants().unlock(self.volume(), &ranges);
                // Also where one of them was not locked: those before it are unlocked.
                self.volume().unlocked_for_others(open.grants().object()).await;
                unlocked.map_err(status::of_open)?;
                if !is_whole {
                    return Err(Status::INVALID_PARAMETER);
                }
            }
            Does::Locks { locks, waits } => {
                //= MS-SMB2 3.3.5.14
                //# An open that may neither read nor write locks nothing.
                if !open.may(READ_DATA | EXECUTE | WRITE_DATA | APPEND_DATA) {
                    return Err(Status::ACCESS_DENIED);
                }
                let locked = open.grants().lock(self.volume(), &locks, waits).await;
                locked.map_err(|error| match error {
                    //= MS-SMB2 3.3.5.10
                    //# A lock that waits when its open is closed fails with STATUS_RANGE_NOT_LOCKED.
                    OpenError::Refused(Refused::NotOpen) => Status::RANGE_NOT_LOCKED,
                    error => status::of_open(error),
                })?;
            }
        }
        if let Some(sequence) = sequence {
            open.state().lock_sequences.done(sequence);
        }
        Ok(())
    }
}

//= MS-SMB2 3.3.5.14.1
//# The first element says whether the request unlocks; in one that does, those before the first with another flag are unlocked.
//= MS-SMB2 3.3.5.14.2
//# Elements that lock are SHARED or EXCLUSIVE; more than one of them must all fail at once.
fn does(elements: &[LockElement]) -> Result<Does, Status> {
    let bits = |element: &LockElement| element.flags.get();
    let range = |element: &LockElement| Range { offset: element.offset.get(), len: element.length.get() };
    if elements.first().is_some_and(|first| bits(first) == flags::UNLOCK) {
        let sound = elements.iter().take_while(|element| bits(element) == flags::UNLOCK);
        let ranges: Vec<_> = sound.map(range).collect();
        let is_whole = ranges.len() == elements.len();
        return Ok(Does::Unlocks { ranges, is_whole });
    }
    let mut locks = Vec::with_capacity(elements.len());
    let mut waits = false;
    for element in elements {
        let exclusive = match bits(element) & !flags::FAIL_IMMEDIATELY {
            flags::SHARED => false,
            flags::EXCLUSIVE => true,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        let fails_at_once = bits(element) & flags::FAIL_IMMEDIATELY != 0;
        if elements.len() > 1 && !fails_at_once {
            return Err(Status::INVALID_PARAMETER);
        }
        waits |= !fails_at_once;
        locks.push(RangeLock { range: range(element), exclusive });
    }
    Ok(Does::Locks { locks, waits })
}

impl Sequences {
    /// As they were.
    pub(crate) fn of_numbers(numbers: Option<[u8; ENTRIES]>) -> Self {
        Self { numbers: numbers.map(Box::new) }
    }

    /// What has been done by now.
    pub(crate) fn numbers(&self) -> Option<[u8; ENTRIES]> {
        self.numbers.as_deref().copied()
    }

    /// Whether this request was done before; else the entry holds nothing until it is.
    fn begin(&mut self, sequence: LockSequence) -> bool {
        let Some(at) = entry(sequence) else { return false };
        let Some(numbers) = &mut self.numbers else { return false };
        if numbers[at] == sequence.number {
            return true;
        }
        numbers[at] = NONE;
        false
    }

    fn done(&mut self, sequence: LockSequence) {
        if let Some(at) = entry(sequence) {
            self.numbers.get_or_insert_with(|| Box::new([NONE; ENTRIES]))[at] = sequence.number;
        }
    }
}

/// The table's entries are counted from 1; what is beyond them is not kept.
fn entry(sequence: LockSequence) -> Option<usize> {
    let at = (sequence.index as usize).checked_sub(1)?;
    (at < ENTRIES).then_some(at)
}

/// Of the table of each open.
pub(crate) const ENTRIES: usize = 64;
/// No number, which are of four bits.
const NONE: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    fn element(offset: u64, length: u64, bits: u32) -> LockElement {
        LockElement { offset: offset.into(), length: length.into(), flags: bits.into(), reserved: 0.into() }
    }

    #[test]
    fn a_request_locks_or_unlocks_and_only_a_single_lock_waits() {
        use flags::{EXCLUSIVE, FAIL_IMMEDIATELY, SHARED, UNLOCK};
        let of = |bits: &[u32]| {
            does(&bits.iter().map(|bits| element(1, 2, *bits)).collect::<Vec<_>>()).map(|does| match does {
                Does::Locks { locks, waits } => (locks.len(), waits),
                Does::Unlocks { ranges, is_whole } => (ranges.len() + 100, is_whole),
            })
        };
        for (bits, expected) in [
            (&[SHARED][..], Ok((1, true))),
            (&[EXCLUSIVE | FAIL_IMMEDIATELY], Ok((1, false))),
            (&[SHARED | FAIL_IMMEDIATELY, EXCLUSIVE | FAIL_IMMEDIATELY], Ok((2, false))),
            (&[SHARED, EXCLUSIVE], Err(Status::INVALID_PARAMETER)),
            (&[UNLOCK, UNLOCK], Ok((102, true))),
            (&[UNLOCK, SHARED], Ok((101, false))),
            (&[UNLOCK | FAIL_IMMEDIATELY], Err(Status::INVALID_PARAMETER)),
            (&[SHARED | FAIL_IMMEDIATELY, UNLOCK], Err(Status::INVALID_PARAMETER)),
            (&[SHARED | EXCLUSIVE], Err(Status::INVALID_PARAMETER)),
            (&[0], Err(Status::INVALID_PARAMETER)),
            (&[0x20], Err(Status::INVALID_PARAMETER)),
        ] {
            assert_eq!(of(bits), expected, "{bits:?}");
        }
    }

    #[test]
    fn a_lock_that_comes_again_is_known_by_its_number_until_another_comes() {
        let at = |index, number| LockSequence { index, number };
        let mut sequences = Sequences::default();
        for index in [1, 64] {
            assert!(!sequences.begin(at(index, 5)));
            sequences.done(at(index, 5));
            assert!(sequences.begin(at(index, 5)));
            assert!(!sequences.begin(at(index, 6)), "another request");
            assert!(!sequences.begin(at(index, 5)), "it has failed, and was not done");
        }
        for index in [0, 65, u32::MAX] {
            sequences.done(at(index, 5));
            assert!(!sequences.begin(at(index, 5)), "{index} is not kept");
        }
    }
}
