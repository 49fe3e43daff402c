//! Tests of the crate from outside: vectors of stock software, what is refused, anything at all.

mod acceptor;
mod certificates;
mod forge;
mod fuzz;
mod refused;
mod replay;
mod stock;
mod tickets;
mod vectors;
