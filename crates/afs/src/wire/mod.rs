//! What goes over the wire: types and stubs that `rxgen` makes of `xg/*.xg`, names and order of whose fields are the
//! interfaces' own.

// What is generated may serve clients alone, and its names are the interfaces'.
#![allow(clippy::large_enum_variant)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));
