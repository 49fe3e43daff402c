//! Every test of `vfs` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod beside;
mod images;
mod local_locks;
mod real;
mod reopened;
mod sim;
mod writable;
