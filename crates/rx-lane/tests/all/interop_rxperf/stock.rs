//! Stock Rx at the other end, built by `testkit::stock_rx`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Builds or finds the program; `None` where it cannot be had, and the test is skipped.
///
/// # Panics
/// When what is installed does not build: that is a defect, and no reason to skip.
#[track_caller]
pub(crate) fn rxperf() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program =
        PROGRAM.get_or_init(|| testkit::stock_rx::find_or_build(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    if program.is_none() {
        testkit::skip("the Debian package libopenafs-dev is not installed; `cargo xtask test` installs it");
    }
    program.as_deref()
}
