//! What a look at an object shows beside the last look of the same lane.

use std::sync::Arc;

use coherence::{Observation, spread};

use super::CallbackTable;
use crate::attributes::Attributes;
use crate::object::{Judgement, LookMark, Object};

/// Returns what follows from a look at an object that was begun with this mark. A look that shows what the last on
/// this lane has shown says nothing new, and takes no lock; any other is judged by [`Object::judge`].
pub(crate) fn judge(
    callbacks: &CallbackTable,
    object: &Arc<Object>,
    mark: LookMark,
    now: &Attributes,
) -> Judgement {
    let observation =
        Observation { fingerprint: fingerprint(now), count: mark.version.count, is_linked: now.nlink > 1 };
    let mut judgement = Judgement::Known;
    callbacks.is_known(object, observation, || {
        judgement = object.judge(mark, now);
        judgement == Judgement::Known
    });
    judgement
}

/// Returns the hash of change time and size.
fn fingerprint(of: &Attributes) -> u32 {
    let time = of.ctime.secs.cast_unsigned() << 30 ^ u64::from(of.ctime.nanos);
    (spread(time ^ spread(of.size)) >> 32) as u32
}
