//! On whose behalf a change is made.

use crate::promise::Holder;

/// Who asks for a change.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Whose promises and grants are spared: he knows what he does.
    pub holder: Option<Holder>,
}
