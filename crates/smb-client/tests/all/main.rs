//! Every test of `smb-client` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod interop;
mod sim;
