//! Makes a failing run shorter: drops steps for as long as what is left fails.

use std::time::{Duration, Instant};

use crate::operation::Step;

/// Returns a part of `steps` that still fails, as short as one is found within a time. `fails` says whether a sequence
/// does.
pub(crate) fn reduce(steps: &[Step], within: Duration, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let give_up = Instant::now() + within;
    let mut kept = steps.to_vec();
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < kept.len() {
            if Instant::now() > give_up {
                return kept;
            }
            let without = [&kept[..at], &kept[(at + chunk).min(kept.len())..]].concat();
            if fails(&without) {
                kept = without;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Looks, Operation};

    #[test]
    fn a_run_is_reduced_to_the_steps_that_it_fails_by() {
        let step = |index| Step { index, operation: Operation::AfsGiveUp { client: 0 }, looks: Looks::ALL };
        let steps: Vec<_> = (0..200).map(step).collect();
        let needs = [17, 18, 143];
        let fails = |steps: &[Step]| needs.iter().all(|need| steps.iter().any(|step| step.index == *need));
        let kept: Vec<_> =
            reduce(&steps, Duration::from_secs(60), fails).iter().map(|step| step.index).collect();
        assert_eq!(kept, needs);
    }
}
