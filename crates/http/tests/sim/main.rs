//! The HTTP service and clients of it in one simulated world: seeded network, disk and clock.
//! A failing seed prints the line that repeats it.

mod client;
mod connections;
mod content;
mod hostile;
mod rates;
mod server;
mod shutdown;

/// Seeds that each rule is tried with.
const SEEDS: u64 = 200;
