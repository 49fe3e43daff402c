//! Every test of `rx` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod fuzz;
mod sim;
