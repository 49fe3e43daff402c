//! Every test of `http` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod fuzz;
mod interop;
mod programs;
mod sim;
