//! Descriptors of the process, of which the kernel allows a limited number (`RLIMIT_NOFILE`). One budget
//! counts those that clients have it hold open, over all protocols.

use std::sync::{Arc, OnceLock};

use crate::budget::Budget;

/// Returns the process's budget of descriptors for clients: without bound until the starter of the process
/// sets the number.
pub fn budget() -> &'static Arc<Budget> {
    static BUDGET: OnceLock<Arc<Budget>> = OnceLock::new();
    BUDGET.get_or_init(|| Budget::new(usize::MAX / 8))
}
