//! How many packets a call may have queued.

/// Limit of the packets that a call may have queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimit {
    /// Most packets held, without those that have arrived behind a gap.
    pub(crate) held: u32,
    /// Most held packets that are not yet sent.
    pub(crate) ahead: u32,
}
