//! Message ids and credits (MS-SMB2 3.3.1.1, 3.3.1.2, 3.3.5.2.3): which ids may come, and how many more are given.

/// Most ids that may be outstanding: what clients have seen of other servers.
pub const WINDOW_MAX: u16 = 8192;

/// Bytes that one credit pays for.
const CREDIT_LEN: u32 = 64 << 10;

/// The ids that a connection's client may use. It starts with id 0 alone, and holds 16 bytes and one bit for each id
/// between the lowest unused and the highest given.
#[derive(Debug)]
pub struct Window {
    /// Every id below was used.
    low: u64,
    /// The first that was not given yet.
    end: u64,
    /// Ids that were used, by their number in a ring.
    used: Box<[u64]>,
    max: u16,
}

/// An id that was not given, or was used before: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message id {0} is not in the window")]
pub struct OutOfWindow(pub u64);

impl Window {
    /// Creates the window of a new connection, which never gives out more than `max` ids at a time (at most
    /// [`WINDOW_MAX`], at least 1).
    pub fn new(max: u16) -> Self {
        //= MS-SMB2 3.3.1.1
        //# The window starts with MessageId 0.
        Self { low: 0, end: 1, used: Box::new([0; 2]), max: max.clamp(1, WINDOW_MAX) }
    }

    /// Uses `charge` ids from `id` on; a charge of 0 is 1. Not called for CANCEL, which uses none.
    pub fn take(&mut self, id: u64, charge: u16) -> Result<(), OutOfWindow> {
        let refused = OutOfWindow(id);
        let end = id.checked_add(u64::from(charge.max(1))).ok_or(refused)?;
        //= MS-SMB2 3.3.5.2.3
        //# All CreditCharge ids from MessageId on are in the window, or the connection ends.
        if id < self.low || end > self.end || (id..end).any(|id| self.bit(id)) {
            return Err(refused);
        }
        for id in id..end {
            let (word, bit) = self.place(id);
            self.used[word] |= bit;
        }
        while self.low < self.end && self.bit(self.low) {
            let (word, bit) = self.place(self.low);
            self.used[word] &= !bit;
            self.low += 1;
        }
        Ok(())
    }

    /// Returns how many credits an answer gives, and gives them: what the request paid, and what it asked for
    /// beyond as far as there is room. `extra` is false while the client is not authenticated.
    pub fn grant(&mut self, asked: u16, charge: u16, extra: bool) -> u16 {
        let paid = charge.max(1);
        let wanted = if extra { paid.max(asked) } else { paid };
        //= MS-SMB2 3.3.1.2
        //# A client is never left without credits. One that leaves low ids unused closes its own window, but those it
        //# has; where it has used all there is room.
        let room = u64::from(self.max) - (self.end - self.low);
        let granted = u64::from(wanted).min(room);
        self.make_room(self.end + granted - self.low);
        self.end += granted;
        granted as u16
    }

    /// Ids that the client may use now.
    pub fn available(&self) -> u32 {
        let used: u32 = self.used.iter().map(|word| word.count_ones()).sum();
        (self.end - self.low) as u32 - used
    }

    fn place(&self, id: u64) -> (usize, u64) {
        let bits = 64 * self.used.len() as u64;
        let at = id % bits;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn bit(&self, id: u64) -> bool {
        let (word, bit) = self.place(id);
        self.used[word] & bit != 0
    }

    /// Widens the ring to at least `ids`.
    fn make_room(&mut self, ids: u64) {
        if ids <= 64 * self.used.len() as u64 {
            return;
        }
        let words = (ids.div_ceil(64) as usize).next_power_of_two();
        let used: Vec<u64> = (self.low..self.end).filter(|id| self.bit(*id)).collect();
        self.used = vec![0; words].into();
        for id in used {
            let (word, bit) = self.place(id);
            self.used[word] |= bit;
        }
    }
}

/// Credits that a request of `sent` bytes of payload, whose answer has up to `received`, must pay.
pub fn charge(sent: u32, received: u32) -> u32 {
    //= MS-SMB2 3.1.5.2
    //# (max(SendPayloadSize, Expected ResponsePayloadSize) - 1) / 65536 + 1
    sent.max(received).saturating_sub(1) / CREDIT_LEN + 1
}

/// Returns whether a request pays enough. Without multi-credit requests nothing beyond 64 KiB is allowed.
pub fn pays(credit_charge: u16, multi_credit: bool, sent: u32, received: u32) -> bool {
    //= MS-SMB2 3.3.5.2.5
    //# A charge of zero pays for 64 KiB; a larger one is held against the calculated.
    let paid = if multi_credit { u32::from(credit_charge.max(1)) } else { 1 };
    charge(sent, received) <= paid
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_connection_begins_with_one_id_and_each_is_used_once() {
        let mut window = Window::new(WINDOW_MAX);
        assert_eq!(window.take(1, 1), Err(OutOfWindow(1)));
        assert_eq!(window.take(0, 0), Ok(()));
        assert_eq!(window.take(0, 1), Err(OutOfWindow(0)));
        assert_eq!(window.available(), 0);
        assert_eq!(window.grant(0, 0, false), 1);
        assert_eq!(window.take(1, 2), Err(OutOfWindow(1)), "one of the two was not given");
        assert_eq!(window.take(u64::MAX, 1), Err(OutOfWindow(u64::MAX)));
        assert_eq!(window.take(1, 1), Ok(()));
    }

    #[test]
    fn nothing_extra_before_sign_in_and_never_more_than_the_window() {
        let mut window = Window::new(512);
        window.take(0, 1).unwrap();
        assert_eq!(window.grant(u16::MAX, 1, false), 1);
        window.take(1, 1).unwrap();
        assert_eq!(window.grant(u16::MAX, 1, true), 512);
        window.take(2, 4).unwrap();
        assert_eq!(window.grant(100, 4, true), 4);
        // The lowest stays unused: there is no room, however much is asked for.
        window.take(100, 1).unwrap();
        assert_eq!(window.grant(u16::MAX, 1, true), 0);
        assert_eq!(window.available(), 511);
    }

    /// Against a set of numbers.
    #[test]
    fn any_history_of_requests_is_that_of_a_set() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let max = rng.random_range(1..=1024);
            let mut window = Window::new(max);
            let mut free = BTreeSet::from([0u64]);
            let mut end = 1u64;
            for _ in 0..1000 {
                let low = free.first().copied().unwrap_or(end);
                let id = low.saturating_sub(2) + rng.random_range(0..u64::from(max) + 4);
                let charge = rng.random_range(0..6);
                let ids = id..id + u64::from(charge.max(1));
                let allowed = ids.clone().all(|id| free.contains(&id));
                assert_eq!(window.take(id, charge).is_ok(), allowed, "seed {seed}");
                if allowed {
                    free.retain(|id| !ids.contains(id));
                    let granted = window.grant(rng.random_range(0..300), charge, rng.random());
                    free.extend(end..end + u64::from(granted));
                    end += u64::from(granted);
                }
                assert_eq!(window.available() as usize, free.len(), "seed {seed}");
                assert!(!free.is_empty() && free.len() <= usize::from(max), "seed {seed}");
                let span = end - free.first().expect("never empty");
                assert!(span <= max.into(), "seed {seed}");
            }
        }
    }

    #[test]
    fn large_requests_pay_by_the_64_kib() {
        assert_eq!([0, 1, 65536, 65537, 8 << 20].map(|len| charge(len, 0)), [1, 1, 1, 2, 128]);
        assert!(pays(0, true, 65536, 0) && !pays(0, true, 0, 65537));
        assert!(pays(2, true, 10, 65537) && !pays(2, false, 10, 65537));
    }
}
