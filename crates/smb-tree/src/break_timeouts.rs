//! Clients that did not answer a break in time. For some minutes they are granted no write and no handle caching, so that a silent
//! client has others wait once and not again and again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use budget::give_back;
use grants::Limits;
use identity::Id;
use lane::time::now;
use smb_wire::Guid;
use vfs::RelPath;

use crate::breaks::BreakTarget;
use crate::request_context::RequestContext;
use crate::tree::guid_bytes;

/// The client and user that hold a lease or oplock, and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantHolder {
    user: UserAtAddress,
    client: Guid,
    /// A hash of the file's path.
    file: u64,
}

/// A user at a client address. Neither is the client's to choose, as its GUID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UserAtAddress {
    address: IpAddr,
    user: Id,
}

/// The keys by which a client that was late before is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LateKey {
    /// A client by its GUID, whatever it opens.
    Client(UserAtAddress, Guid),
    /// The user's clients, whatever they call themselves, by the file.
    File(UserAtAddress, u64),
    /// The user's clients, whatever they call themselves and open.
    User(UserAtAddress),
}

/// The lease or oplock that is being broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum BrokenGrant {
    Lease([u8; 16], [u8; 16]),
    Oplock(u64),
}

/// Breaks that wait for their acknowledgement, and the clients that were late with one.
#[derive(Debug, Default)]
pub(crate) struct BreakTimeouts {
    /// Set if there is anything in it: most requests look at nothing else.
    is_used: AtomicBool,
    all: Mutex<BreakTimes>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct BreakTimes {
    /// Time when the time of a break is over.
    asked: HashMap<BrokenGrant, Instant>,
    /// Breaks that are under way, by the time at which they are over.
    by_time: BTreeMap<(Instant, BrokenGrant), GrantHolder>,
    /// Late holders, and until when that counts, in the order of time.
    late: VecDeque<(Instant, GrantHolder)>,
    /// Number of times that each was in [`Self::late`].
    late_keys: HashMap<LateKey, usize>,
}

impl GrantHolder {
    fn late_keys(&self) -> [(LateKey, usize); 3] {
        [
            (LateKey::Client(self.user, self.client), 1),
            (LateKey::File(self.user, self.file), 1),
            (LateKey::User(self.user), TIMES_MAX),
        ]
    }
}

impl From<BreakTarget> for BrokenGrant {
    fn from(target: BreakTarget) -> Self {
        match target {
            BreakTarget::Lease { client, key } => Self::Lease(guid_bytes(client), guid_bytes(key)),
            BreakTarget::Oplock { open, .. } => Self::Oplock(open.volatile.get()),
        }
    }
}

impl BreakTimeouts {
    /// Returns the holder that an open of `path` by `ctx` would be.
    pub(crate) fn grant_holder(&self, ctx: &RequestContext, path: RelPath<'_>) -> GrantHolder {
        let user = UserAtAddress { address: ctx.address, user: ctx.caller.principal.id() };
        GrantHolder { user, client: ctx.client, file: self.hasher.hash_one(path) }
    }

    /// Notes that a break was sent which the client has to acknowledge in time.
    pub(crate) fn break_sent(&self, of: BrokenGrant, grant_holder: GrantHolder) {
        let mut all = self.lock();
        all.settle();
        all.forget(of);
        let until = now() + Limits::DEFAULT.acknowledge;
        all.asked.insert(of, until);
        all.by_time.insert((until, of), grant_holder);
        self.is_used.store(true, Ordering::Release);
    }

    /// Has the client's answer to a break taken by `acknowledge`: where that succeeds the break is over, and its client was in time.
    pub(crate) fn acknowledged<T, E>(
        &self,
        of: BrokenGrant,
        acknowledge: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let asked = self.asked(of);
        let left = acknowledge();
        if left.is_ok() {
            self.answered(of, asked);
        }
        left
    }

    /// Notes that the client has closed all that a break was of.
    pub(crate) fn closed(&self, of: BrokenGrant) {
        self.answered(of, self.asked(of));
    }

    /// Returns the time of the break that is under way, to be [answered](Self::answered).
    fn asked(&self, of: BrokenGrant) -> Option<Instant> {
        self.is_used.load(Ordering::Acquire).then(|| self.lock().asked.get(&of).copied()).flatten()
    }

    fn answered(&self, of: BrokenGrant, asked: Option<Instant>) {
        if asked.is_none() {
            return;
        }
        let mut all = self.lock();
        all.settle();
        // An answer may bring the next break with it.
        if all.asked.get(&of).copied() == asked {
            all.forget(of);
        }
        self.note(&all);
    }

    /// Returns whether the client was late in the last minutes, or its user was with this file or too often.
    pub(crate) fn is_late(&self, ctx: &RequestContext, path: RelPath<'_>) -> bool {
        if !self.is_used.load(Ordering::Acquire) {
            return false;
        }
        let mut all = self.lock();
        all.settle();
        self.note(&all);
        let late_keys = self.grant_holder(ctx, path).late_keys();
        late_keys
            .iter()
            .any(|(late_key, times)| all.late_keys.get(late_key).is_some_and(|counted| counted >= times))
    }

    fn note(&self, all: &BreakTimes) {
        self.is_used.store(!all.asked.is_empty() || !all.late.is_empty(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BreakTimes> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakTimes {
    fn forget(&mut self, of: BrokenGrant) {
        if let Some(until) = self.asked.remove(&of) {
            self.by_time.remove(&(until, of));
        }
    }

    /// Parties that have not answered by now are late.
    fn settle(&mut self) {
        let now = now();
        while let Some(first) = self.by_time.first_entry()
            && first.key().0 <= now
        {
            let ((until, of), grant_holder) = first.remove_entry();
            self.asked.remove(&of);
            if self.late.len() >= LATE_MAX {
                self.forget_oldest();
            }
            for (late_key, _) in grant_holder.late_keys() {
                *self.late_keys.entry(late_key).or_default() += 1;
            }
            self.late.push_back((until + LATE_FOR, grant_holder));
        }
        while self.late.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, grant_holder)) = self.late.pop_front() else { return };
        for (late_key, _) in grant_holder.late_keys() {
            give_back(&mut self.late_keys, late_key, 1);
        }
    }
}

/// Time for which a client that was late is granted less.
const LATE_FOR: Duration = Duration::from_secs(300);
/// Largest number of late breaks of a user's clients at one address in that time, before all of them count as
/// late.
const TIMES_MAX: usize = 64;
//@ limit: clients that did not answer a break in time
//@ section: SMB
//@ unit: client
//@ connection: 35 s to answer; then no write or handle caching for {LATE_FOR}
//@ address: the same user's others: the same for that file, and for all files after {TIMES_MAX} times
//@ all: process: {} times remembered
//@ empty: opens get read caching at most; others wait 35 s once
//@ counter: smb_caching_withheld, vfs_grants_waited
//@ attack: smb-pools
/// Times that are remembered: the first is forgotten.
const LATE_MAX: usize = 4096;
