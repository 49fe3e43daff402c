//! Whether a volume is counted, and the account that is kept of it now.
//!
//! An account is exchanged for a new one while no change is inside the volume's gate, so that each change
//! begins and ends with the same. Where usage is not counted, a change reads one word that never changes.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use index::{Quota, Usage};

use super::{Account, LaneAccount, Space};

/// The accounts of one volume, one after another.
pub(crate) struct Ledger {
    /// Counts the accounts that there were; 0 as long as there was none.
    epoch: AtomicU32,
    is_wanted: AtomicBool,
    lanes: usize,
    now: Mutex<Now>,
}

struct Now {
    quota: Quota,
    account: Option<Arc<Account>>,
}

/// Guard of a change: if it is dropped before the change is over, what that added to the volume is not known.
pub(crate) struct UncertainChange(Option<Rc<LaneAccount>>);

impl Ledger {
    /// Makes the ledger of a volume with the usage `known`, if any is known.
    pub(crate) fn new(lanes: usize, is_wanted: bool, quota: Quota, known: Option<Usage>) -> Self {
        let account = is_wanted.then(|| Arc::new(Account::new(lanes, quota, known)));
        Self {
            epoch: AtomicU32::new(is_wanted.into()),
            is_wanted: AtomicBool::new(is_wanted),
            lanes,
            now: Mutex::new(Now { quota, account }),
        }
    }

    /// Returns the number of the account that is kept now, for comparison with an earlier look: 0 where there
    /// never was one.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the account that is kept now.
    pub(crate) fn account(&self) -> Option<Arc<Account>> {
        self.now().account.clone()
    }

    /// Checks whether it is counted from now on, and what the volume may hold. What it holds already stays.
    pub(crate) fn set(&self, is_wanted: bool, quota: Quota) {
        let mut now = self.now();
        now.quota = quota;
        self.is_wanted.store(is_wanted, Ordering::SeqCst);
        if !is_wanted && now.account.take().is_some() {
            self.epoch.fetch_add(1, Ordering::Release);
        }
        if let Some(account) = &now.account {
            account.set_quota(quota);
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// Returns whether a new account is to be begun.
    pub(super) fn wants_renewal(&self) -> bool {
        let is_good = |account: &Arc<Account>| !account.is_uncertain();
        self.is_wanted() && !self.now().account.as_ref().is_some_and(is_good)
    }

    /// Begins a new account, while no change is under way.
    pub(super) fn renew(&self) {
        let mut now = self.now();
        now.account = Some(Arc::new(Account::new(self.lanes, now.quota, None)));
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Returns what the volume holds and may hold; `None` where usage is not counted.
    pub(crate) fn space(&self) -> Option<Space> {
        Some(self.account()?.space())
    }

    /// Returns what it holds, where that is known for certain.
    pub(crate) fn settled(&self) -> Option<Usage> {
        self.space().filter(Space::is_counted).map(|space| space.used)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("nobody panics while holding it")
    }
}

impl UncertainChange {
    /// Begins a change of what this account is of, if one is kept.
    pub(crate) fn of(account: Option<Rc<LaneAccount>>) -> Self {
        Self(account)
    }

    /// Ends the change: what it came to was said, or it came to nothing.
    pub(crate) fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for UncertainChange {
    fn drop(&mut self) {
        if let Some(of) = &self.0 {
            of.account.mark_uncertain();
        }
    }
}
