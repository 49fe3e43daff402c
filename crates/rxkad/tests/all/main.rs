//! Both ends of rxkad: a proof by itself, and whole calls over a network in memory.

mod calls;
mod forge;
mod pair;
mod proofs;
mod stock;
mod tickets;
