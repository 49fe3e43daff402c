//! Numbers of the lock requests of an open, by which the server knows one that comes again by another channel (MS-SMB2 3.2.4.19).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// `Open.OperationBuckets` (MS-SMB2 3.2.1.6): each is of one request at a time. Requests that others may keep waiting have buckets of
/// their own, so that there is always one for those that end soon: an unlocking, which others may be waiting for, is among them.
#[derive(Debug)]
pub(crate) struct LockSequences {
    prompt: RefCell<Buckets>,
    waiting: RefCell<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    /// The one that was used longest ago first: late copies of its last request have had the most time to come.
    free: VecDeque<Bucket>,
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Number of the bucket, from 1 on.
    index: u32,
    /// Number of its last request, 4 bits.
    number: u8,
}

/// The number of one request. Dropped, its bucket is free again, and its next request has the next number.
pub(crate) struct Sequence<'s> {
    buckets: &'s RefCell<Buckets>,
    bucket: Bucket,
}

impl Default for LockSequences {
    fn default() -> Self {
        Self { prompt: Buckets::of(1..=PROMPT), waiting: Buckets::of(PROMPT + 1..=BUCKETS) }
    }
}

impl LockSequences {
    /// Takes a number, once there is one.
    pub(crate) async fn take(&self, may_wait: bool) -> Sequence<'_> {
        let buckets = if may_wait { &self.waiting } else { &self.prompt };
        let bucket = poll_fn(|cx| {
            let mut buckets = buckets.borrow_mut();
            match buckets.free.pop_front() {
                Some(bucket) => Poll::Ready(bucket),
                None => {
                    buckets.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        Sequence { buckets, bucket: bucket.await }
    }
}

impl Buckets {
    fn of(indices: std::ops::RangeInclusive<u32>) -> RefCell<Self> {
        let free = indices.map(|index| Bucket { index, number: 0 }).collect();
        RefCell::new(Self { free, wakers: Vec::new() })
    }
}

impl Sequence<'_> {
    /// Returns `LockSequenceNumber` and `LockSequenceIndex`, as they are sent (MS-SMB2 2.2.26).
    pub(crate) fn word(&self) -> u32 {
        (self.bucket.index << 4) | u32::from(self.bucket.number)
    }
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        let Bucket { index, number } = self.bucket;
        let mut buckets = self.buckets.borrow_mut();
        // MS-SMB2 3.2.5.13: counted up by 1, modulo 16.
        buckets.free.push_back(Bucket { index, number: (number + 1) % NUMBERS });
        let wakers = std::mem::take(&mut buckets.wakers);
        drop(buckets);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Numbers of a bucket.
const NUMBERS: u8 = 16;
/// Buckets of an open.
const BUCKETS: u32 = 64;
/// Buckets among these for requests that wait for no other client.
const PROMPT: u32 = 32;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_bucket_is_used_again_last_of_all_and_with_the_next_number() {
        let sequences = LockSequences::default();
        for round in 0..20 {
            for index in 1..=PROMPT {
                let sequence = at_once(sequences.take(false)).unwrap();
                assert_eq!(sequence.word(), (index << 4) | (round % 16));
            }
        }
    }

    #[test]
    fn an_unlocking_has_a_number_however_many_wait_for_it() {
        let sequences = LockSequences::default();
        let waiting: Vec<_> = (0..32).map(|_| at_once(sequences.take(true)).unwrap()).collect();
        assert!(at_once(sequences.take(true)).is_none());
        assert!(at_once(sequences.take(false)).is_some());
        drop(waiting);
        assert!(at_once(sequences.take(true)).is_some());
    }
}
