//! Every test of `index` that stands outside its sources: one program, so that what they share is compiled and linked once.

mod crashes;
mod rules;
