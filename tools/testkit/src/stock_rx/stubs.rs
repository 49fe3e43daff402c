//! Client and server of `rxgen/tests/xg/files.xg` in `stubs.c`, with the stubs that the stock rxgen makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{LIBRARY, SHIM};

/// Builds the program in `dir`; `None` where the library and its generator are not installed.
///
/// # Panics
/// When what is installed does not build: that is a defect.
pub fn build_stubs(dir: &Path) -> Option<PathBuf> {
    if !Path::new(LIBRARY).is_file() || !Path::new(GENERATOR).is_file() {
        return None;
    }
    // Another run may have its own under way.
    let dir = dir.join("stock-rx");
    let work = dir.join(format!("stubs-{}", std::process::id()));
    let headers = work.join("headers");
    for (name, text) in HEADERS {
        write(&headers.join(name), text);
    }
    write(&work.join("shim.c"), SHIM);
    let generated = [("-C", "client.c"), ("-S", "server.c"), ("-c", "types.c"), ("-h", "files.h")];
    for (what, file) in generated {
        // Procedures of the server have a prefix, so that one program can hold both sides.
        let prefix: &[&str] = if what == "-S" { &["-PS"] } else { &[] };
        run(Command::new(GENERATOR).args(prefix).arg(what).args([INTERFACE, "-o"]).arg(work.join(file)));
    }
    // The header's prototypes are not those of the functions.
    let header = fs::read_to_string(work.join("files.h")).expect("rxgen wrote it");
    write(&work.join("files.h"), &header.replace("const char", "char"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-w", "-std=gnu99", "-DAFS_PTHREAD_ENV", "-I"])
        .arg(&headers)
        .arg("-I")
        .arg(&work)
        .arg(PROGRAM);
    cc.args(["client.c", "server.c", "types.c", "shim.c"].map(|file| work.join(file)));
    run(cc.args([LIBRARY, "-lpthread", "-lresolv", "-o"]).arg(work.join("stubs")));
    let place = dir.join("stubs");
    fs::rename(work.join("stubs"), &place).expect("both lie in one directory");
    // What is left of it is not used.
    let _ = fs::remove_dir_all(work);
    Some(place)
}

fn write(file: &Path, text: &str) {
    let parent = file.parent().expect("it lies in a directory");
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(file, text))
        .expect("the build directory can be written");
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const GENERATOR: &str = "/usr/bin/rxgen";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stock_rx/stubs.c");
const INTERFACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/rxgen/tests/xg/files.xg");
/// Headers that generated code includes and Debian does not package.
const HEADERS: [(&str, &str); 4] = [
    ("roken.h", "#include <stdlib.h>\n#include <string.h>\n"),
    ("afsconfig.h", ""),
    ("afs/opr.h", ""),
    ("opr/lock.h", ""),
];
