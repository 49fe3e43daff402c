//! The descriptors of the process, of which the kernel gives it so many and no more (`RLIMIT_NOFILE`): one budget for all that
//! clients have it hold open, whatever they speak.

use std::sync::{Arc, OnceLock};

use crate::budget::Budget;

/// The process's descriptors for its clients: without bound until the starter of the process says how many
/// there are.
pub fn budget() -> &'static Arc<Budget> {
    static BUDGET: OnceLock<Arc<Budget>> = OnceLock::new();
    BUDGET.get_or_init(|| Budget::new(usize::MAX / 8))
}
