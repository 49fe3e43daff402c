//! Whole Rx endpoints over a simulated network: seeded, deterministic, in virtual time.
//!
//! `RX_SIM_SEED=n cargo test -p rx --test sim seeds` runs one seed again.

mod network;
mod wiretap;
mod world;
