//! Counters of the server under test, as its admin address tells them.

use std::net::SocketAddr;

pub(crate) use testkit::metrics::Scrape;

use crate::process;

/// Reads all counters.
pub(crate) fn scrape(admin: SocketAddr) -> anyhow::Result<Scrape> {
    let url = format!("http://{admin}/metrics");
    let text = process::output("curl", &["--silent", "--show-error", "--fail", "--max-time", "20", &url])?;
    Ok(Scrape::parse(&text)?)
}

/// Pages of its memory that the server has looked up between two scrapes, each of which asks it to.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    pub(crate) before: Scrape,
    pub(crate) now: Scrape,
}

impl Looks {
    /// Returns whether enough pages of each kind were looked up for shares to mean something.
    pub(crate) fn are_enough(&self) -> anyhow::Result<bool> {
        for family in FAMILIES {
            if self.now.grown(&self.before, &counter(family), &[])? < ENOUGH {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the share of pages that are not on the node of the lane that used them, of a kind ("file", "pool",
    /// "state"), percent.
    pub(crate) fn remote_percent(&self, family: &str) -> anyhow::Result<f64> {
        let grown = |placement: &str| {
            self.now.grown(&self.before, &counter(family), &[&format!("placement=\"{placement}\"")])
        };
        let (local, remote) = (grown("local")?, grown("remote")?);
        Ok(100.0 * remote / (local + remote).max(1.0))
    }
}

fn counter(family: &str) -> String {
    format!("linerate_memory_{family}_pages")
}

const FAMILIES: [&str; 3] = ["file", "pool", "state"];
/// Pages of each kind.
const ENOUGH: f64 = 100.0;
