//! Stock clients of a file server: `load.c`, over the Rx and the stubs of Debian's libopenafs-dev.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::stock_rx::SHIM;

/// Builds the program in `dir`; `None` where the libraries are not installed.
///
/// # Panics
/// When what is installed does not build: that is a defect.
pub fn build(dir: &Path) -> Option<PathBuf> {
    if !LIBRARIES.iter().all(|library| Path::new(library).is_file()) {
        return None;
    }
    let dir = dir.join("stock-files");
    fs::create_dir_all(&dir).expect("the build directory can be written");
    let id = std::process::id();
    let (program, shim) = (dir.join(format!("load-{id}")), dir.join(format!("shim-{id}.c")));
    fs::write(&shim, SHIM).expect("the build directory can be written");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-DAFS_PTHREAD_ENV"]).arg(LOAD).arg(&shim).args(LIBRARIES);
    let built = cc.args(["-lpthread", "-lresolv", "-o"]).arg(&program).stdin(Stdio::null()).output();
    let built = built.expect("a C compiler is there: Rust links with it");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let _ = fs::remove_file(shim);
    // Another run may have its own under way.
    let place = dir.join("load");
    fs::rename(program, &place).expect("both lie in one directory");
    Some(place)
}

const LOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stock_files/load.c");
const LIBRARIES: [&str; 2] = ["/usr/lib/afs/libafsint.a", "/usr/lib/libafsrpc.a"];
