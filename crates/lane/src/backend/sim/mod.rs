//! A seeded world for tests: hosts with lanes, files and addresses, a network and a virtual clock, all on the
//! calling thread. The lanes run the very code that runs on io_uring.
//!
//! ```
//! use lane::backend::ListenOptions;
//! use lane::backend::sim::{Config, World, seeds};
//! use lane::net::{TcpListener, TcpStream};
//!
//! seeds(20, |seed| {
//!     let world = World::new(seed, Config::default());
//!     let server = world.host("10.0.0.1");
//!     server.spawn(async {
//!         let listener = TcpListener::bind("0.0.0.0:80".parse().unwrap(), &ListenOptions::default()).unwrap();
//!         let stream = listener.accept().await.unwrap();
//!         stream.try_send(&[std::io::IoSlice::new(b"hello")], false).unwrap();
//!     });
//!     let client = world.host("10.0.0.2");
//!     let greeting = world.block_on(&client, async {
//!         let stream = TcpStream::connect("10.0.0.1:80".parse().unwrap()).await.unwrap();
//!         let mut greeting = Vec::new();
//!         loop {
//!             let bytes = stream.recv().await.unwrap();
//!             if bytes.is_empty() {
//!                 return greeting;
//!             }
//!             greeting.extend_from_slice(&bytes);
//!         }
//!     });
//!     assert!(b"hello".starts_with(&greeting[..]));
//! });
//! ```
//!
//! `LANE_SIM_SEED` runs one seed, `LANE_SIM_SEEDS` sets how many, `LANE_SIM_TRACE` prints every event.
//! Code under test keeps its worlds repeatable by not asking the real clock, and by not letting the
//! order of a `HashMap` decide what it does.

mod backend;
mod config;
mod core;
mod engine;
mod fs;
mod helpers;
mod host;
mod net;
mod ops;
mod seeds;
mod world;

pub(crate) use self::core::Access;
pub(crate) use self::net::Unreleased;
pub(crate) use self::ops::{AtFile, Step};

pub use self::config::{
    Config, FsConfig, HelperConfig, JournalKind, LinkConfig, MeshConfig, NetConfig, ReceiveConfig, TcpConfig,
    UdpConfig,
};
pub use self::fs::{ForeignLock, Found, FoundKind, Fs, Image, Unnamed, Writer};
pub use self::host::Host;
pub use self::net::{KernelTls, Net, NetStats, RecordLayer, Steered};
pub use self::seeds::seeds;
pub use self::world::{Remains, World};
