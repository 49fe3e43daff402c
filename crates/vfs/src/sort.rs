//! Sorting that lets others of the lane run: a directory of 100,000 names takes longer to put in order than a
//! request may hold up its neighbours.

use std::cmp::Ordering;

/// Returns the places of `items` in ascending order; equals keep theirs. Other tasks of the lane run meanwhile.
///
/// Costs eight bytes for each item while it works, four of which stay.
pub async fn order_in_turns<T>(items: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Vec<u32> {
    let count = u32::try_from(items.len()).expect("listings are bounded far below 2^32 entries");
    let mut order: Vec<u32> = (0..count).collect();
    let by_item = |a: &u32, b: &u32| compare(&items[*a as usize], &items[*b as usize]);
    for (index, run) in order.chunks_mut(RUN).enumerate() {
        run.sort_by(by_item);
        if (index + 1).is_multiple_of(RUNS_PER_TURN) {
            lane::yield_if_due().await;
        }
    }
    let mut merged = Vec::with_capacity(if order.len() > RUN { order.len() } else { 0 });
    let mut run = RUN;
    while run < order.len() {
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
                if by_item(second, first).is_lt() {
                    merged.push(*second);
                    right = right_rest;
                } else {
                    merged.push(*first);
                    left = left_rest;
                }
                if merged.len().is_multiple_of(MERGED_PER_TURN) {
                    lane::yield_if_due().await;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        merged.clear();
        run *= 2;
    }
    order
}

/// Number of names that are sorted in one go.
const RUN: usize = 256;
/// Runs that are sorted before other tasks of the lane run: some 100 µs.
const RUNS_PER_TURN: usize = 4;
const MERGED_PER_TURN: usize = 2048;

#[cfg(test)]
mod tests {
    use lane::backend::sim::{Config, World};

    use super::*;

    #[test]
    fn order_is_that_of_a_stable_sort_whatever_the_length() {
        for len in [0, 1, 2, RUN - 1, RUN, RUN + 1, 3 * RUN + 7, 5000] {
            let items: Vec<u64> =
                (0..len as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55).collect();
            let world = World::new(1, Config::default());
            let host = world.host("10.0.0.1");
            let sorted = items.clone();
            let order = world.block_on(&host, async move { order_in_turns(&sorted, u64::cmp).await });
            let mut expected: Vec<u32> = (0..len as u32).collect();
            expected.sort_by_key(|at| items[*at as usize]);
            assert_eq!(order, expected, "{len} items");
        }
    }
}
