//! `cargo xtask metrics`: every metric that a server with all services tells, as `docs/reference/metrics.md`. The test that holds the
//! page against a server writes it.

use crate::process;

pub(crate) fn run() -> anyhow::Result<()> {
    let test = "test(=documents::the_page_of_metrics_has_what_a_server_tells)";
    let args = ["nextest", "run", "--workspace", "-E", test];
    process::run_with("cargo", &args, &[("INSTA_UPDATE", "always")])
}
