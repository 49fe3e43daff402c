//! Keeps what a volume holds counted: counts it where the usage is unknown, anew where it is in doubt, and
//! has the index remember.

use std::time::Duration;

use index::Usage;

use super::Space;
use crate::spec::VolumeSpec;
use crate::volume::{Volume, WeakVolume};

impl Volume {
    /// Sets what the volume may hold from now on, and whether it is counted at all, as `spec` has it; what it
    /// holds already stays. Then counts it where that is wanted and no other lane does, as long as the lane
    /// has it open and the specification stays. For each lane that opens it, and again when a configuration
    /// changes.
    pub fn keep_counted(&self, spec: &VolumeSpec) -> impl Future<Output = ()> + 'static {
        if let Some(shared) = self.shared() {
            shared.ledger().set(spec.is_counted(), spec.quota);
        }
        let is_wanted = spec.is_counted();
        let is_first = is_wanted && self.root().begin_keeping();
        let volume = self.downgrade();
        async move {
            let mut next = if is_wanted { keep_once(&volume).await } else { None };
            while is_first && let Some(pause) = next {
                lane::time::sleep(pause).await;
                next = keep_once(&volume).await;
            }
            if is_first && let Some(volume) = volume.upgrade() {
                volume.root().end_keeping();
            }
        }
    }
}

/// Does what is due; says when to look again, `None` when that is wanted no longer, or the lane has it open no longer.
async fn keep_once(volume: &WeakVolume) -> Option<Duration> {
    let volume = volume.upgrade()?;
    if !volume.shared()?.ledger().is_wanted() {
        return None;
    }
    // Nothing is added where no client can write, as where a configuration is only tried.
    if volume.shared()?.trouble().is_some() {
        return Some(PERIOD);
    }
    let name = volume.name();
    let told = |Space { used: Usage { bytes, files }, .. }: Space| {
        tracing::info!(volume = %name, files, bytes, "files are being counted");
    };
    let counted = volume.count(told).await;
    if let Err(error) = &counted {
        //@ cause: What a volume with a quota holds has to be counted once, and its directories could not be walked to the end. The line
        //@ names the directory, or what else was in the way.
        //@ remedy: Let the server read the directory. The count begins again within five minutes.
        tracing::error!(
            volume = %name,
            "volume {name}: its files cannot be counted: {error}; until it is, its quota counts only what was found so far; it is \
             tried again in five minutes [volume-not-counted]"
        );
    }
    volume.shared()?.remember_usage();
    Some(if counted.is_ok() { PERIOD } else { AFTER_FAILURE })
}

/// Time between two looks for something to count; the index is updated as often.
const PERIOD: Duration = Duration::from_secs(5);
/// Time after which counting a tree is tried again that could not be counted.
const AFTER_FAILURE: Duration = Duration::from_secs(300);
