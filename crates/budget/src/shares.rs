//! Shares of the free part of a pool.

/// Multiples of a pool's free part that a network or a user may hold: dynamic thresholds (Choudhury and Hahne
/// 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Multiple for an IPv4 address, an IPv6 /64, or a user.
    pub address: usize,
    /// Multiple for an IPv6 /56.
    pub of_56: usize,
    /// Multiple for an IPv6 /48.
    pub of_48: usize,
    /// Number that an address or a user may hold as long as that number is free; wider networks may hold more
    /// in proportion.
    pub min: usize,
}

impl Shares {
    /// Shares of three times what is free: one client takes three quarters at most, two take three sevenths
    /// each.
    pub const THRICE: Self = Self { address: ADDRESS_TIMES, of_56: OF_56_TIMES, of_48: OF_48_TIMES, min: 0 };
    /// Shares of as much as is free: one client takes half at most, two take a third each.
    pub const ONCE: Self = Self { address: 1, of_56: 2, of_48: 3, min: 0 };

    /// Returns the shares with `min` as the number that each may hold as long as that number is free.
    pub const fn with_min(self, min: usize) -> Self {
        Self { min, ..self }
    }

    /// Returns the weight of `held` for a claimant that may have `times` what is free, scaled to the share of
    /// an address.
    pub const fn weight(&self, held: usize, times: usize) -> usize {
        held * self.address / times
    }

    /// Returns how much a claimant of the multiple `times` may hold while `free` are free.
    pub fn may_hold(&self, times: usize, free: usize) -> usize {
        free.saturating_mul(times).max(self.min * times / self.address)
    }
}

//@ limit: descriptors that clients have the process hold
//@ section: Logs, control and descriptors
//@ unit: descriptor: connection 1, SMB open 2 and more, HTTP body or AFS reply of more than 64 KiB, or one that waits, and AFS store 1
//@ address: {} times what is free; of IPv6 that for a /64, {OF_56_TIMES} for a /56, {OF_48_TIMES} for a /48
//@ all: process: what the hard limit of open files leaves beside the server's own and files that it can open again
//@ empty: SMB: STATUS_TOO_MANY_OPENED_FILES; HTTP: 503; AFS: VBUSY; a quarter at least is for others
//@ counter: descriptors_held, descriptors_refused
//@ attack: http-places-taken
/// Multiple of what is free that an address may hold, so that others always find some.
const ADDRESS_TIMES: usize = 3;
/// Multiple of what is free that an IPv6 /56 may hold.
const OF_56_TIMES: usize = 4;
/// Multiple of what is free that an IPv6 /48 may hold.
const OF_48_TIMES: usize = 6;
