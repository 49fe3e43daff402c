//! Tests of whole Rx endpoints over a simulated network: seeded, deterministic, in virtual time.
//!
//! `RX_SIM_SEED=n cargo test -p rx --test all one_seed` runs one scenario again.

mod bulk;
mod host;
mod ideal;
mod links;
mod losses;
mod network;
mod pattern;
mod rivals;
mod scenario;
mod seeds;
mod sharing;
mod socket_buffer;
mod stock;
mod wiretap;
mod world;
