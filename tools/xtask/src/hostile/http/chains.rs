//! A thousand links to the head of a chain of links with detours, in a directory that changes while it is listed again and again.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::hostile::arena::owned;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::HTTP;

pub(crate) struct Chains;

impl Scenario for Chains {
    fn name(&self) -> &'static str {
        "http-link-chains"
    }

    fn about(&self) -> &'static str {
        "listings of 1,000 links to a chain of 39 with detours, anew after each change, and GETs of them"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let directory = field.tree.join("chains");
        std::fs::create_dir_all(directory.join("side"))?;
        let detours = "side/../".repeat(DETOURS);
        symlink("../small", directory.join(format!("hop-{HOPS}")))?;
        for n in 0..HOPS {
            symlink(format!("{detours}hop-{}", n + 1), directory.join(format!("hop-{n}")))?;
        }
        for n in 0..LINKS {
            symlink(format!("{detours}hop-0"), directory.join(format!("link-{n}")))?;
        }
        let [listed, fetched, unanswered] = [const { AtomicU64::new(0) }; 3];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (listed, fetched, unanswered, directory) = (&listed, &fetched, &unanswered, &directory);
                scope.spawn(move || {
                    for n in (thread..).step_by(THREADS) {
                        if field.is_over() {
                            return;
                        }
                        // A name that comes has what was remembered of the directory forgotten.
                        let is_listing = n % 8 == thread;
                        let target = match is_listing {
                            true => {
                                // That the tree is full would be no fault of the server here.
                                let _ = std::fs::write(directory.join(format!("new-{}", n % 100)), b"");
                                "/chains/".to_owned()
                            }
                            false => format!("/chains/link-{}", n % LINKS),
                        };
                        match get(n, &target) {
                            Ok(()) if is_listing => listed.fetch_add(1, Ordering::Relaxed),
                            Ok(()) => fetched.fetch_add(1, Ordering::Relaxed),
                            Err(_) => unanswered.fetch_add(1, Ordering::Relaxed),
                        };
                    }
                });
            }
        });
        std::fs::remove_dir_all(&directory)?;
        let [listed, fetched, unanswered] = [listed, fetched, unanswered].map(AtomicU64::into_inner);
        Ok(Findings::default()
            .with("listings", listed)
            .with("other answers", fetched)
            .expect(listed > 0, || "no listing was answered".to_owned())
            .expect(unanswered == 0, || format!("{unanswered} requests were not answered")))
    }
}

/// Asks, and takes all of an answer of any status.
fn get(n: usize, target: &str) -> anyhow::Result<()> {
    let mut stream = connect_from(owned(n), HTTP)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("no answer")?;
    ensure!(answer.starts_with(b"HTTP/1.1 "), "not an answer");
    Ok(())
}

const LINKS: usize = 1000;
const HOPS: usize = 38;
const DETOURS: usize = 20;
const THREADS: usize = 2;
/// Without a byte of an answer: ten times what the slowest build takes, a third of what links without a budget took.
const PATIENCE: Duration = Duration::from_secs(20);
