//! Out-of-band TCP on simulated lanes: our client and clients that misbehave.

mod agreement;
mod bad_input;
mod bed;
mod faults;
mod half_open;
mod long_link;
