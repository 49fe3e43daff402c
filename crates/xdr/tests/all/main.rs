//! Every test of `xdr` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod fuzz;
mod round_trip;
