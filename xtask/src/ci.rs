//! `cargo xtask ci`: what must hold before a change lands, as CI runs it.

use crate::process;

pub(crate) fn run() -> anyhow::Result<()> {
    process::run("bash", &[".ci/run"])
}
