//! Granting of caching that a client wants, beside the opens and caching of others (MS-SMB2 3.3.5.9, MS-FSA
//! 2.1.5.18).

use crate::caching::{Caching, HeldCaching, Kind};
use crate::conflict::{BreakAction, FileOperation, break_action};

/// Opens, caching and locks of others that limit what a request for caching gets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtherGrants {
    /// Set if another open is for more than attributes.
    pub(crate) opens: bool,
    /// Set if another holder caches reads.
    pub(crate) readers: bool,
    /// Set if another holder caches writes.
    pub(crate) writer: bool,
    /// Set if another open has an oplock.
    pub(crate) oplocks: bool,
    /// Set if another holder caches handles.
    pub(crate) handles: bool,
    /// Set if a range is locked, by any owner.
    pub(crate) ranges: bool,
}

/// Returns the caching of `wanted` that can be granted.
pub(crate) fn granted(kind: Kind, wanted: Caching, is_directory: bool, other_grants: OtherGrants) -> Caching {
    let mut caching = wanted;
    if other_grants.writer || other_grants.ranges || (is_directory && kind.is_oplock()) {
        return Caching::NONE;
    }
    if other_grants.opens || other_grants.readers || is_directory {
        caching = caching.without(Caching::W);
    }
    match kind {
        // No client knows an oplock that keeps opens and does not write; and one beside leases that keep opens would break
        // them for nothing.
        Kind::Oplock if other_grants.handles => Caching::NONE,
        Kind::Oplock if caching.contains(Caching::W) => caching,
        Kind::Oplock => caching.and(Caching::R),
        Kind::Lease { .. } if other_grants.oplocks => caching.without(Caching::H),
        Kind::Lease { .. } => caching,
    }
}

/// Returns the caching that a waiting operation would leave, above which none is granted.
pub(crate) fn left_after(kind: Kind, caching: Caching, operation: FileOperation) -> Caching {
    let Some(held) = HeldCaching::of(kind, caching) else { return caching };
    match break_action(operation, held) {
        BreakAction::Keep => caching,
        BreakAction::Notify(to) | BreakAction::AwaitAck(to) => left_after(kind, to, operation),
    }
}

/// Returns whether an open with a lease's key that wants `wanted` upgrades it from `now` to `granted`: all or
/// nothing.
pub(crate) fn is_upgrade(now: Caching, wanted: Caching, granted: Caching) -> bool {
    wanted.contains(now) && granted == wanted && granted != now
}
