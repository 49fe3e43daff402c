//! Every test of `smb-auth` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod fuzz;
mod sign_in;
