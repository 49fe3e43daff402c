//! Hosts and callbacks over Rx, in a seeded world: clients that keep what they read until they are told, that move, begin anew, answer
//! garbage or never, and a server of two lanes that is killed under them.

mod bed;
mod client;
mod coherence;
mod directed;
mod server;
mod storm;
