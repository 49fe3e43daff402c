//! The client's side of message ids and credits (MS-SMB2 3.2.4.1.2, 3.2.4.1.5): which ids the next request takes, and how
//! many more are asked for.

use std::collections::VecDeque;
use std::task::Waker;

/// Credits of one connection. A new one has one.
#[derive(Debug)]
pub struct Credits {
    next: u64,
    available: u32,
    /// Credits paid with requests that are not answered yet.
    spent: u32,
    /// Credits that are wanted in all.
    wanted: u16,
    waiting: VecDeque<(u64, Option<Waker>)>,
    tickets: u64,
}

/// The server gave fewer credits than the request needs, and nothing under way brings more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server gives no more credits")]
pub struct OutOfCredits;

impl Credits {
    /// Creates the credits of a new connection that asks for so many.
    pub fn new(wanted: u16) -> Self {
        Self { next: 0, available: 1, spent: 0, wanted: wanted.max(1), waiting: VecDeque::new(), tickets: 0 }
    }

    /// Credits that no request has.
    pub fn available(&self) -> u32 {
        self.available
    }

    /// Takes `charge` ids that follow one another, and says the first; `None` where there are not as many, or others wait.
    ///
    /// # Errors
    /// [`OutOfCredits`] where waiting would never end.
    pub fn take(&mut self, charge: u16) -> Result<Option<u64>, OutOfCredits> {
        if !self.waiting.is_empty() {
            return Ok(None);
        }
        self.take_now(charge)
    }

    fn take_now(&mut self, charge: u16) -> Result<Option<u64>, OutOfCredits> {
        let charge = u32::from(charge.max(1));
        if self.available < charge {
            return if self.spent == 0 { Err(OutOfCredits) } else { Ok(None) };
        }
        let first = self.next;
        self.next += u64::from(charge);
        self.available -= charge;
        self.spent += charge;
        Ok(Some(first))
    }

    /// Returns how many credits a request that paid `charge` asks for: what it paid, and what is missing of
    /// those that are wanted.
    pub fn to_request(&self, charge: u16) -> u16 {
        let missing = u32::from(self.wanted).saturating_sub(self.available + self.spent);
        charge.max(1).saturating_add(u16::try_from(missing).unwrap_or(u16::MAX))
    }

    /// Notes that a request that had paid `charge` was answered; an interim answer has paid for it.
    pub fn answered(&mut self, charge: u16) {
        self.spent = self.spent.saturating_sub(u32::from(charge.max(1)));
        self.wake();
    }

    /// Adds the `count` credits of an answer.
    pub fn give(&mut self, count: u16) {
        self.available = self.available.saturating_add(count.into());
        self.wake();
    }

    /// Stands in line: those that come first are served first, so that large requests are not starved by
    /// small ones.
    pub(crate) fn queue(&mut self) -> u64 {
        self.tickets += 1;
        self.waiting.push_back((self.tickets, None));
        self.tickets
    }

    /// Takes ids if it is this one's turn; else its waker is kept.
    pub(crate) fn take_in_turn(
        &mut self,
        ticket: u64,
        charge: u16,
        waker: &Waker,
    ) -> Result<Option<u64>, OutOfCredits> {
        if self.waiting.front().is_some_and(|(first, _)| *first == ticket)
            && let Some(id) = self.take_now(charge)?
        {
            return Ok(Some(id));
        }
        if let Some((_, kept)) = self.waiting.iter_mut().find(|(waiting, _)| *waiting == ticket) {
            *kept = Some(waker.clone());
        }
        Ok(None)
    }

    /// Leaves the line.
    pub(crate) fn leave(&mut self, ticket: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != ticket);
        self.wake();
    }

    /// Wakes all waiting tasks: the connection is over.
    pub(crate) fn wake_all(&mut self) {
        self.waiting.iter_mut().filter_map(|(_, waker)| waker.take()).for_each(Waker::wake);
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waiting.front_mut().and_then(|(_, waker)| waker.take()) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_one_another_and_charges_take_several() {
        let mut credits = Credits::new(64);
        assert_eq!(credits.to_request(1), 64);
        assert_eq!(credits.take(1), Ok(Some(0)));
        assert_eq!(credits.take(1), Ok(None));
        credits.give(64);
        credits.answered(1);
        assert_eq!(credits.take(16), Ok(Some(1)));
        assert_eq!(credits.take(16), Ok(Some(17)));
        assert_eq!((credits.available(), credits.to_request(16)), (32, 16));
        assert_eq!(credits.take(33), Ok(None));
    }

    #[test]
    fn who_waits_is_served_before_who_comes_later() {
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(1), Ok(Some(0)));
        let large = credits.queue();
        let small = credits.queue();
        credits.give(4);
        let waker = Waker::noop();
        assert_eq!(credits.take(1), Ok(None));
        assert_eq!(credits.take_in_turn(small, 1, waker), Ok(None));
        assert_eq!(credits.take_in_turn(large, 8, waker), Ok(None));
        credits.give(4);
        assert_eq!(credits.take_in_turn(large, 8, waker), Ok(Some(1)));
        credits.leave(large);
        credits.give(1);
        assert_eq!(credits.take_in_turn(small, 1, waker), Ok(Some(9)));
    }

    #[test]
    fn a_request_that_no_answer_will_pay_for_fails() {
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(2), Err(OutOfCredits));
        assert_eq!(credits.take(1), Ok(Some(0)));
        credits.answered(1);
        assert_eq!(credits.take(1), Err(OutOfCredits));
    }
}
