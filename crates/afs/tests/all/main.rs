//! Every test of `afs` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod cell;
mod fileserver;
mod hosts;
mod interop;
mod oob;
