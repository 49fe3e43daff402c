//! The HTTP service and clients of it in one simulated world: seeded network, disk and clock.
//! A failing seed prints the line that repeats it.

mod client;
mod connections;
mod content;
#[path = "../../../../tls/src/tests/fake_kernel.rs"]
mod fake_kernel;
mod hostile;
mod http2;
mod kernel_tls;
mod listings;
mod logins;
mod mounts;
mod negotiation;
mod places;
mod rates;
mod server;
mod shutdown;
mod slow;
mod tls_client;
mod uploads;
mod validators;

/// Seeds that each rule is tried with.
const SEEDS: u64 = 200;
