//! Every test of `rxgen` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod generate;
mod service;
mod stubs;
