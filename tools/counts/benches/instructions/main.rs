//! Instructions of the hot paths of all crates: one program, so that what they share is compiled and linked once.
//! `cargo xtask counts` runs it and compares the counts with `tools/xtask/counts.toml`.
#![allow(missing_docs)] // gungraun's macros make public items of their own.

mod of_afs;
mod of_http;
mod of_lane;
mod of_rx;
mod of_smb;
mod of_tls;
mod of_vfs;

use gungraun::main;
use of_afs::in_afs;
use of_http::in_http;
use of_lane::in_lane;
use of_rx::in_rx;
use of_smb::in_smb;
use of_tls::in_tls;
use of_vfs::in_vfs;

main!(library_benchmark_groups = in_afs, in_http, in_lane, in_rx, in_smb, in_tls, in_vfs);
