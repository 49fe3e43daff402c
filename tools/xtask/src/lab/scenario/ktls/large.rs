//! One body of a gibibyte: what goes wrong only after hundreds of megabytes.

use std::time::Instant;

use anyhow::{Context, ensure};

use super::content::{BIG_BYTES, Tree};
use super::{ADDRESS, CHACHA, CONFIG, Duration, Guest, Https, Machine, Scenario, modprobe, request, story};

pub(crate) struct KtlsLarge;

impl Scenario for KtlsLarge {
    fn name(&self) -> &'static str {
        "ktls-large"
    }

    fn about(&self) -> &'static str {
        "a body of 1 GiB whose records the kernel makes, compared byte by byte"
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(480)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        modprobe(&["tls"])?;
        let tree = Tree::create()?;
        let server = guest.serve(CONFIG)?;
        let mut client = Https::connect(ADDRESS, CHACHA)?;
        let begun = Instant::now();
        client.send(&request("/big", ""))?;
        let head = client.head()?;
        ensure!(head.length()? == BIG_BYTES, "big has {} bytes", head.length()?);
        let whole = client.body(BIG_BYTES, |at, bytes| tree.is_big_at(at, bytes));
        whole.with_context(|| story(&server))?;
        drop(client);
        super::kernel_agrees(&server)?;
        guest.note(format!("1 GiB in one body, in {:.0} s", begun.elapsed().as_secs_f64()))
    }
}
