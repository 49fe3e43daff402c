//! Every test of `rx-lane` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod driver;
mod interop_rxdebug;
mod interop_rxperf;
mod interop_stubs;
