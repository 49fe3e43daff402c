//! Random bytes for keys, tokens and numbers of connections.

use std::io;

use crate::backend::kernel_random;
use crate::context;

/// Fills `bytes` with unpredictable random bytes of the kernel. On a simulated lane they are from the seed of
/// its world, so that a history repeats.
///
/// # Errors
/// What getrandom(2) says; nothing, once the kernel has started.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    if context::on_lane() { context::with(|lane| lane.backend().random(bytes)) } else { kernel_random(bytes) }
}

/// Returns an array of random bytes.
///
/// # Panics
/// Where the kernel has no randomness, which it has for every process once it has started.
pub fn array<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes).expect("the kernel has random bytes");
    bytes
}
