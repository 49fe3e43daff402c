//! Cost of a gibibyte in kernel TLS, beside nginx, in turns.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

use super::content::{ROOT, Tree};
use super::{ADDRESS, AES, CHACHA, CONFIG, Https, Scenario, SupportedCipherSuite, request, tls_stat};
use crate::cpu;
use crate::lab::guest::{Guest, modprobe};
use crate::lab::machine::Machine;
use crate::server;

pub(crate) struct KtlsPeer;

impl Scenario for KtlsPeer {
    fn name(&self) -> &'static str {
        "ktls-peer"
    }

    fn about(&self) -> &'static str {
        "CPU time per GiB of HTTPS, Linerate and nginx in turns in one guest, with kernel TLS where they have it"
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["nginx-light", "openssl"]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        modprobe(&["tls"])?;
        let tree = Tree::create()?;
        let work = Path::new("/tmp/peer");
        std::fs::create_dir_all(work)?;
        let (cert, key) = server::make_certificate(work)?;
        let (cert_path, key_path) = (cert.display(), key.display());
        let certificate = format!("[[https.certificate]]\ncert = '{cert_path}'\nkey = '{key_path}'\n");
        let linerate = guest.serve(&format!("{CONFIG}{certificate}"))?;
        let nginx = server::nginx(work, Path::new(ROOT), &cert, &key, server::Uploads::Refused)?;
        let ours = Subject { name: "linerate", pid: linerate.pid(), address: ADDRESS };
        let theirs = Subject { name: "nginx", pid: nginx.server.pid(), address: nginx.https };
        ours.fetch(AES, "/mid", 4 << 20, &tree)?;
        for subject in [&ours, &theirs] {
            let before = tls_stat("TlsTxSw")?;
            subject.fetch(AES, "/mid", 4 << 20, &tree)?;
            let kernel = if tls_stat("TlsTxSw")? > before { "kernel" } else { "user" };
            guest.note(format!("{}: {kernel} TLS", subject.name))?;
        }
        for (suite, path, len) in [(CHACHA, "/big", 256 << 20), (AES, "/wide", 32 << 20)] {
            let mut ratios = Vec::new();
            for _ in 0..TURNS {
                let (ours, theirs) =
                    (ours.fetch(suite, path, len, &tree)?, theirs.fetch(suite, path, len, &tree)?);
                guest.note(format!(
                    "{:?}: Linerate {ours:.2} s/GiB, nginx {theirs:.2} s/GiB",
                    suite.suite()
                ))?;
                ratios.push(ours / theirs);
            }
            ratios.sort_by(f64::total_cmp);
            let name = format!("CPU of Linerate, {:?}", suite.suite());
            guest.figure(&name, ratios[TURNS / 2], "of nginx")?;
        }
        Ok(())
    }
}

/// A server.
struct Subject {
    name: &'static str,
    pid: u32,
    address: SocketAddr,
}

impl Subject {
    /// Fetches the first `len` bytes and compares them; gives the server's CPU seconds per GiB. What the kernel does
    /// for its sends is in them: over loopback that is all of TCP.
    fn fetch(&self, suite: SupportedCipherSuite, path: &str, len: u64, tree: &Tree) -> anyhow::Result<f64> {
        let mut client = Https::connect(self.address, suite)?;
        let before = cpu::of_tree(self.pid)?;
        client.send(&request(path, &format!("Range: bytes=0-{}\r\n", len - 1)))?;
        let head = client.head()?;
        ensure!(head.status == 206 && head.length()? == len, "{}: {head:?}", self.name);
        client.body(len, |at, bytes| {
            if path == "/big" {
                return tree.is_big_at(at, bytes);
            }
            ensure!(tree.wide()[at as usize..].starts_with(bytes), "wrong bytes after {at}");
            Ok(())
        })?;
        Ok((cpu::of_tree(self.pid)? - before) * (1_u64 << 30) as f64 / len as f64)
    }
}

/// Odd, for a median.
const TURNS: usize = 3;
