//! Counters of the server under test, as its admin address tells them.

use std::net::SocketAddr;

pub(crate) use testkit::metrics::Scrape;

use crate::process;

/// All counters now.
pub(crate) fn scrape(admin: SocketAddr) -> anyhow::Result<Scrape> {
    let url = format!("http://{admin}/metrics");
    let text = process::output("curl", &["--silent", "--show-error", "--fail", "--max-time", "20", &url])?;
    Ok(Scrape::parse(&text)?)
}
