//! The stock Rx at the other end: `peer.c`, which speaks rxperf's protocol over the Rx library of Debian's
//! libopenafs-dev and is built here. Debian packages no rxperf; `LINERATE_RXPERF` names one where there is one, and takes
//! its place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The program; `None` where it cannot be had: the test is skipped.
#[track_caller]
pub(crate) fn rxperf() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(find_or_build);
    if program.is_none() {
        testkit::skip("the Debian package libopenafs-dev is not installed; `cargo xtask test` installs it");
    }
    program.as_deref()
}

/// # Panics
/// When what is installed does not build: that is a defect, and no reason to skip.
fn find_or_build() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("LINERATE_RXPERF") {
        return Some(program.into());
    }
    if !Path::new(LIBRARY).is_file() {
        return None;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stock-rx");
    fs::create_dir_all(&dir).expect("the build directory can be written");
    let (program, shim) = (dir.join(format!("peer-{}", std::process::id())), dir.join("shim.c"));
    fs::write(&shim, SHIM).expect("the build directory can be written");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-DAFS_PTHREAD_ENV"]).arg(PEER).arg(shim).arg(LIBRARY);
    let built = cc.args(["-lpthread", "-lresolv", "-o"]).arg(&program).stdin(Stdio::null()).output();
    let built = built.expect("a C compiler is there: Rust links with it");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // Another run of the tests may have its own under way.
    let place = dir.join("peer");
    fs::rename(program, &place).expect("both lie in one directory");
    Some(place)
}

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop_rxperf/peer.c");
const LIBRARY: &str = "/usr/lib/libafsrpc.a";
/// What the static Rx library wants of libraries that Debian does not package in a form to link with.
const SHIM: &str = "#include <sys/random.h>\n#include <sys/socket.h>\n\
     int hc_RAND_bytes(void *to, int count) { return getrandom(to, count, 0) == count; }\n\
     int rk_socket(int domain, int type, int protocol) { return socket(domain, type, protocol); }\n";
