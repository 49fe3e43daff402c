//! Code that `rxgen` makes of the interface files.

include!(concat!(env!("OUT_DIR"), "/wire.rs"));
