//! Locked ranges as one open of a file has them: each byte is locked one way or not at all (fcntl(2)), however many clients
//! have locked it.

use grants::RangeLock;

/// Bytes that are locked the same way, from `from` on and before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) exclusive: bool,
}

/// Bytes that are to be locked another way than they are; `None`: not at all. An exclusive lock is more than a shared
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanChange {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) before: Option<bool>,
    pub(super) after: Option<bool>,
}

/// Behind the last byte that a file can have. What clients lock beyond it no other program can lock.
pub(super) const END: u64 = 1 << 63;

impl Span {
    fn meets(&self, other: &Span) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl SpanChange {
    /// Returns whether the change gives a lock up, which nothing can conflict with.
    pub(super) fn is_less(&self) -> bool {
        self.after < self.before
    }

    pub(super) fn meets(&self, spans: &[Span]) -> bool {
        let here = Span { from: self.from, to: self.to, exclusive: false };
        spans.iter().any(|span| span.meets(&here))
    }

    /// Returns the length as fcntl(2) takes it: 0 bytes are all there will ever be.
    pub(super) fn len(&self) -> u64 {
        if self.to == END { 0 } else { self.to - self.from }
    }
}

/// Returns what the locks come to, in order; none touches another of its kind.
pub(super) fn spans(locks: impl IntoIterator<Item = RangeLock>) -> Vec<Span> {
    let mut steps = Vec::new();
    for RangeLock { range, exclusive } in locks {
        let (from, to) = (range.offset.min(END), range.offset.saturating_add(range.len).min(END));
        if from < to {
            steps.extend([(from, exclusive, true), (to, exclusive, false)]);
        }
    }
    steps.sort_unstable_by_key(|&(at, ..)| at);
    let mut counts = [0_usize; 2];
    let (mut spans, mut begun): (Vec<Span>, Option<(u64, bool)>) = (Vec::new(), None);
    let mut steps = steps.into_iter().peekable();
    while let Some((at, exclusive, begins)) = steps.next() {
        let count = &mut counts[usize::from(exclusive)];
        *count = if begins { *count + 1 } else { *count - 1 };
        if steps.peek().is_some_and(|&(next, ..)| next == at) {
            continue;
        }
        let now = match counts {
            [0, 0] => None,
            [_, 0] => Some(false),
            _ => Some(true),
        };
        if begun.map(|(_, exclusive)| exclusive) == now {
            continue;
        }
        if let Some((from, exclusive)) = begun.take() {
            spans.push(Span { from, to: at, exclusive });
        }
        begun = now.map(|exclusive| (at, exclusive));
    }
    spans
}

/// Returns what makes the one the other, in order.
pub(super) fn changes(before: &[Span], after: &[Span]) -> Vec<SpanChange> {
    let ends = |spans: &[Span]| spans.iter().flat_map(|span| [span.from, span.to]).collect::<Vec<_>>();
    let mut borders = [ends(before), ends(after)].concat();
    borders.sort_unstable();
    borders.dedup();
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut changes: Vec<SpanChange> = Vec::new();
    for pair in borders.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let kind = |spans: &mut std::iter::Peekable<std::slice::Iter<'_, Span>>| {
            while spans.next_if(|span| span.to <= from).is_some() {}
            spans.peek().filter(|span| span.from <= from).map(|span| span.exclusive)
        };
        let (before, after) = (kind(&mut before), kind(&mut after));
        match changes.last_mut() {
            _ if before == after => {}
            Some(last) if (last.to, last.before, last.after) == (from, before, after) => last.to = to,
            _ => changes.push(SpanChange { from, to, before, after }),
        }
    }
    changes
}

/// Applies a change that is made.
pub(super) fn apply(spans: &mut Vec<Span>, change: SpanChange, kind: Option<bool>) {
    let SpanChange { from, to, .. } = change;
    let mut kept = Vec::with_capacity(spans.len() + 2);
    for span in spans.drain(..) {
        kept.extend((span.from < from).then(|| Span { to: span.to.min(from), ..span }));
        kept.extend((span.to > to).then(|| Span { from: span.from.max(to), ..span }));
    }
    kept.extend(kind.map(|exclusive| Span { from, to, exclusive }));
    kept.sort_unstable_by_key(|span| span.from);
    *spans = kept;
}

#[cfg(test)]
mod tests {
    use grants::Range;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn lock(offset: u64, len: u64, exclusive: bool) -> RangeLock {
        RangeLock { range: Range { offset, len }, exclusive }
    }

    /// Returns how each of the first bytes is locked.
    fn bytes(spans: &[Span]) -> Vec<Option<bool>> {
        let at = |byte: u64| spans.iter().find(|span| (span.from..span.to).contains(&byte));
        (0..40).map(|byte| at(byte).map(|span| span.exclusive)).collect()
    }

    #[test]
    fn each_byte_is_locked_as_strongly_as_anybody_has_locked_it() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut set: Vec<Span> = Vec::new();
        for _ in 0..2_000 {
            let locks: Vec<_> = (0..rng.random_range(0..6))
                .map(|_| lock(rng.random_range(0..30), rng.random_range(0..10), rng.random()))
                .collect();
            let wanted = spans(locks.iter().copied());
            let is_locked = |byte: &u64, exclusive: bool| {
                let has = |lock: &&RangeLock| {
                    lock.exclusive == exclusive
                        && (lock.range.offset..lock.range.offset + lock.range.len).contains(byte)
                };
                locks.iter().any(|lock| has(&lock))
            };
            let strongest = |byte| {
                if is_locked(&byte, true) { Some(true) } else { is_locked(&byte, false).then_some(false) }
            };
            assert_eq!(bytes(&wanted), (0..40).map(strongest).collect::<Vec<_>>(), "{locks:?}");
            for change in changes(&set, &wanted) {
                assert_ne!(change.before, change.after);
                apply(&mut set, change, change.after);
            }
            assert_eq!(bytes(&set), bytes(&wanted));
            assert!(changes(&set, &wanted).is_empty());
        }
    }

    #[test]
    fn what_no_other_program_can_lock_is_left_out() {
        let all = spans([lock(0, u64::MAX, false), lock(END, 5, true), lock(3, 0, true)]);
        assert_eq!(all, [Span { from: 0, to: END, exclusive: false }]);
        let change = changes(&[], &all)[0];
        assert_eq!((change.len(), change.is_less()), (0, false));
        assert!(changes(&all, &[])[0].is_less());
        assert!(spans([lock(u64::MAX, 1, true)]).is_empty());
    }
}
