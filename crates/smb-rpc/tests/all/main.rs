//! Every test of `smb-rpc` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod fuzz;
mod interop;
mod pipes;
