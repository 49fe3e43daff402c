//! Allowance of a connection: packets it may hold of the pool, and bytes that may leave on it, by shares,
//! credit and rates.

use std::time::Instant;

use super::core::Core;
use super::server::PROBE_LEN_MIN;
use crate::event::Side;
use crate::packet::BufferAccount;
use crate::shared::Shared;
use crate::source::may_take_more;

impl Core {
    /// Notes that the client's address is proved.
    pub(crate) fn set_reached(&mut self, shared: &Shared) {
        self.validation.reached = true;
        self.validation.wanted = false;
        self.validation.probe_at = None;
        if self.side == Side::Server {
            self.account = shared.peers[self.peer].account;
        }
    }

    /// Returns whether an unproved client has sent enough of a request to be asked for a sign of life.
    pub(crate) fn holds_many(&self, held: u32) -> bool {
        self.side == Side::Server && !self.validation.reached && held >= HELD_UNPROVED / 8
    }

    /// Returns whether a call that holds `held` received packets may hold one more. Until its client is
    /// proved a connection holds only what a first burst brings, and all such connections together no more
    /// than an eighth of the pool. A host holds at most as much as is free, and twice that where its calls
    /// hold little each.
    pub(crate) fn may_hold(&self, held: u32, shared: &Shared) -> bool {
        let (pool, account) = (&shared.pool, self.account);
        match account {
            BufferAccount::OWN => true,
            BufferAccount::UNPROVED => {
                held < HELD_UNPROVED && pool.held_by(account) < pool.allocated() / UNPROVED_SHARE
            }
            _ => {
                let (all, free) = (pool.held_by(account), pool.free_count());
                may_take_more(all, free, 0) || held < HELD_MIN && may_take_more(all / 2, free, 0)
            }
        }
    }

    /// Takes `len` bytes from what may be sent to the client's address for a call that the client has not
    /// confirmed.
    ///
    /// That is a few times what came from there and, where the address is proved and has acknowledged
    /// something lately, its credit. What is no `question` leaves enough for one: its answer is what brings
    /// more.
    pub(crate) fn may_send(&mut self, now: Instant, len: usize, question: bool, shared: &mut Shared) -> bool {
        if self.side == Side::Client {
            return true;
        }
        let len = len as u64;
        let has_credit = self.validation.reached && shared.peers[self.peer].has_credit(now);
        let must_ask = self.validation.wanted || self.validation.reached && !has_credit;
        let left = if must_ask && !question { PROBE_LEN_MIN } else { 0 };
        if self.validation.budget >= len + left {
            self.validation.budget -= len;
            return true;
        }
        let peer = &mut shared.peers[self.peer];
        let left = if question { 0 } else { QUESTION_RESERVE };
        if has_credit && u64::from(peer.credit) >= len + left {
            peer.credit -= len as u32;
            self.debt = self.debt.saturating_add(len as u32);
            return true;
        }
        shared.stats.amplification_limited += 1;
        if self.validation.reached {
            shared.wait_for_credit(self);
        } else {
            self.validation.wanted = true;
        }
        false
    }

    /// Returns whether a number of bytes of an unconfirmed call should wait until the client was asked.
    ///
    /// The credit of its address is low, or is about to end for want of an acknowledgement.
    pub(crate) fn should_ask(&self, now: Instant, len: usize, shared: &Shared) -> bool {
        let peer = &shared.peers[self.peer];
        let draws = self.validation.budget < len as u64;
        self.validation.reached
            && peer.has_credit(now)
            && (peer.is_credit_low() || draws && peer.is_credit_ageing(now))
    }

    /// Gives back the debt, as the client knows of this connection and wanted what was sent on it.
    pub(crate) fn settle_debt(&mut self, shared: &mut Shared) {
        let debt = std::mem::take(&mut self.debt);
        if debt > 0 {
            shared.peers[self.peer].give_credit(debt);
            shared.credit_returned();
        }
    }

    /// Checks whether rates let DATA leave now; `Err` holds when to look again, `None` where the endpoint
    /// calls.
    #[inline]
    pub(crate) fn rate_allows(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Option<Instant>> {
        if self.rate.is_none() && !shared.share.is_set() { Ok(()) } else { self.rate_has_room(now, shared) }
    }

    fn rate_has_room(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Option<Instant>> {
        if let Some(rate) = &mut self.rate {
            rate.ready(now).map_err(Some)?;
        }
        if shared.share.is_set() && !shared.share.ready(now, self.index, self.had_share) {
            self.had_share = false;
            shared.stats.share_waits += 1;
            return Err(None);
        }
        Ok(())
    }

    /// Charges DATA of `len` bytes to the rates.
    pub(crate) fn spend_rate(&mut self, now: Instant, len: usize, shared: &mut Shared) {
        if let Some(rate) = &mut self.rate {
            rate.spend(now, len);
        }
        if shared.share.is_set() {
            shared.share.spend(now, len);
            self.had_share = true;
        }
    }
}

/// Credit of an address that is left to questions, in bytes.
const QUESTION_RESERVE: u64 = 2048;
/// Divisor of the pool that gives the packets of all unproved clients together.
const UNPROVED_SHARE: usize = 8;
/// Received packets that a call may hold where its host has its share already.
const HELD_MIN: u32 = 16;
/// Packets that a call may hold before its client's address is proved.
const HELD_UNPROVED: u32 = 32;
