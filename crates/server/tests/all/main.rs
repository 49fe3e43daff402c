//! Every test of `server` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod assertions;
mod circles;
mod dependencies;
mod plug;
mod volumes;
