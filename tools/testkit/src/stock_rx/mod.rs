//! Peer of OpenAFS's own Rx: `peer.c`, which speaks rxperf's protocol over the library of Debian's
//! libopenafs-dev. Debian packages no rxperf; `LINERATE_RXPERF` names one where there is one, and takes its
//! place.

mod stubs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the program in `dir`, or finds the one that the environment names; `None` where the library is not installed.
///
/// # Panics
/// When what is installed does not build: that is a defect.
pub fn find_or_build(dir: &Path) -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("LINERATE_RXPERF") {
        return Some(program.into());
    }
    build(dir)
}

/// Builds the program in `dir`; `None` where the library is not installed. It has more than the stock tool: runs of a
/// given time (`-D`), which `cargo xtask compare` needs.
///
/// # Panics
/// As [`find_or_build`].
pub fn build(dir: &Path) -> Option<PathBuf> {
    if !Path::new(LIBRARY).is_file() {
        return None;
    }
    let dir = dir.join("stock-rx");
    fs::create_dir_all(&dir).expect("the build directory can be written");
    let id = std::process::id();
    let (program, shim) = (dir.join(format!("peer-{id}")), dir.join(format!("shim-{id}.c")));
    fs::write(&shim, SHIM).expect("the build directory can be written");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-DAFS_PTHREAD_ENV"]).arg(PEER).arg(&shim).arg(LIBRARY);
    let built = cc.args(["-lpthread", "-lresolv", "-o"]).arg(&program).stdin(Stdio::null()).output();
    let built = built.expect("a C compiler is there: Rust links with it");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let _ = fs::remove_file(shim);
    // Another run may have its own under way.
    let place = dir.join("peer");
    fs::rename(program, &place).expect("both lie in one directory");
    Some(place)
}

pub use stubs::build_stubs;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stock_rx/peer.c");
const LIBRARY: &str = "/usr/lib/libafsrpc.a";
/// Functions that the static Rx library needs from libraries that Debian does not package in a form to link
/// with.
pub(crate) const SHIM: &str = "#include <sys/random.h>\n#include <sys/socket.h>\n\
     int hc_RAND_bytes(void *to, int count) { return getrandom(to, count, 0) == count; }\n\
     int rk_socket(int domain, int type, int protocol) { return socket(domain, type, protocol); }\n";
