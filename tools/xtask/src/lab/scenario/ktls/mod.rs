//! Kernel TLS: what clients get from it is right to the byte, its key changes and its ends are clean, and without it
//! everything works too.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite as suites;

use self::content::Tree;
use super::Scenario;
use crate::lab::guest::https::{Https, request};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, modprobe, wait_for};
use crate::lab::machine::Machine;

mod bodies;
mod content;
mod ends;
mod keys;
mod large;
mod peer;

pub(crate) use large::KtlsLarge;
pub(crate) use peer::KtlsPeer;

pub(crate) struct Ktls;

impl Scenario for Ktls {
    fn name(&self) -> &'static str {
        "ktls"
    }

    fn about(&self) -> &'static str {
        "HTTPS whose records the kernel makes: every suite, many bodies, key changes, cut ends, fall back"
    }

    fn machines(&self) -> Vec<Machine> {
        // Everything goes over loopback.
        vec![Machine { nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["openssl"]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(480)
    }

    fn on_every_change(&self) -> bool {
        true
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let tree = Tree::create()?;
        without_the_module(guest, &tree)?;
        modprobe(&["tls"])?;
        without_a_cipher(guest, &tree)?;
        let server = guest.serve(CONFIG)?;
        doctor_tells(guest)?;
        with_module(guest, &server, &tree).with_context(|| story(&server))?;
        ends::server_is_killed(guest, server, &tree)
    }
}

fn with_module(guest: &mut Guest, server: &Server, tree: &Tree) -> anyhow::Result<()> {
    bodies::every_suite(guest, server, tree)?;
    bodies::small_files(guest, tree)?;
    bodies::ranges_and_pipelining(guest, tree)?;
    keys::updates(guest, server, tree)?;
    ends::slow_reader(guest, tree)?;
    ends::client_goes(guest, server, tree)?;
    ends::file_is_truncated(guest, server, tree)?;
    kernel_agrees(server)
}

/// Returns the server's view, to find out why a client is not content.
fn story(server: &Server) -> String {
    let Ok(scrape) = server.scrape() else { return format!("the server is gone: {}", server.log()) };
    let names = ["linerate_http_aborted", "linerate_http_closed", "linerate_http_user_tls"];
    let sockets = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let memory = sockets.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    format!("{}; {memory}", names.map(|name| format!("{name} {}", scrape.describe(name))).join("; "))
}

/// Checks that user space makes the records before the module is loaded, and while it may not be, and that the
/// counters say why.
fn without_the_module(guest: &mut Guest, tree: &Tree) -> anyhow::Result<()> {
    let _blocked = Blocked::new("tls")?;
    let server = guest.serve(CONFIG)?;
    for suite in SUITES {
        let mut client = Https::connect(ADDRESS, suite)?;
        client.get("/mid", "", tree.mid())?;
        ensure!(!Path::new(TLS_STAT).exists(), "the module is there all the time");
        counts(&server, "linerate_http_tls_connections", &["user"], 1.0)?;
    }
    counts(&server, "linerate_http_user_tls", &["no_module"], SUITES.len() as f64)?;
    counts(&server, "linerate_http_kernel_tls", &[], 0.0)?;
    guest.note("without the module: user space, and counted as such")
}

/// Checks that one cipher that the kernel's crypto lacks leaves the others to the kernel.
fn without_a_cipher(guest: &mut Guest, tree: &Tree) -> anyhow::Result<()> {
    let _blocked = Blocked::new("chacha20poly1305")?;
    let server = guest.serve(CONFIG)?;
    for _ in 0..2 {
        Https::connect(ADDRESS, CHACHA)?.get("/small/00000", "", tree.small(0))?;
    }
    Https::connect(ADDRESS, AES)?.get("/small/00001", "", tree.small(1))?;
    counts(&server, "linerate_http_user_tls", &["no_cipher"], 2.0)?;
    counts(&server, "linerate_http_kernel_tls", &[], 1.0)?;
    guest.note("without a cipher: user space for that cipher alone")
}

fn doctor_tells(guest: &Guest) -> anyhow::Result<()> {
    let out = guest.linerate().arg("doctor").output()?;
    let out = String::from_utf8_lossy(&out.stdout);
    let line = out.lines().find(|line| line.contains("kernel TLS ")).context("doctor names kernel TLS")?;
    ensure!(line.contains("works"), "doctor says: {line}");
    Ok(())
}

/// Checks that no record was refused or out of order, and every connection was given back.
fn kernel_agrees(server: &Server) -> anyhow::Result<()> {
    for wrong in ["TlsDecryptError", "TlsTxRekeyError"] {
        // Kernels before 6.14 do not count the second.
        ensure!(tls_stat(wrong).unwrap_or(0) == 0, "the kernel counts {wrong}");
    }
    counts(server, "linerate_http_tls_connections", &["kernel"], 0.0)?;
    wait_for("the kernel to let go of all connections", || (tls_stat("TlsCurrTxSw").ok()? == 0).then_some(()))
}

/// A module that cannot be loaded, until this goes.
struct Blocked(&'static str);

impl Blocked {
    fn new(module: &'static str) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/modules")?;
        ensure!(!text.lines().any(|line| line.split(' ').next() == Some(module)), "{module} is loaded");
        std::fs::create_dir_all(MODPROBE_D)?;
        let blocked = Self(module);
        std::fs::write(blocked.file(), format!("install {module} /bin/false\n"))?;
        Ok(blocked)
    }

    fn file(&self) -> std::path::PathBuf {
        Path::new(MODPROBE_D).join(format!("lab-{}.conf", self.0))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // Nothing to undo where it was not written.
        let _ = std::fs::remove_file(self.file());
    }
}

/// Waits until a counter has this value: a server takes a moment to notice that a client has gone.
fn counts(server: &Server, name: &str, labels: &[&str], value: f64) -> anyhow::Result<()> {
    let mut last = server.scrape()?;
    let waited = wait_for("a counter", || {
        last = server.scrape().ok()?;
        (last.sum(name, labels).ok()? == value).then_some(())
    });
    waited.with_context(|| format!("{name}{labels:?} is not {value}: {}", last.describe(name)))
}

fn tls_stat(name: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(TLS_STAT).context(TLS_STAT)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let (_, value) =
        lines.find(|(known, _)| *known == name).with_context(|| format!("{name} is not counted"))?;
    Ok(value.trim().parse()?)
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);
const TLS_STAT: &str = "/proc/net/tls_stat";
const MODPROBE_D: &str = "/run/modprobe.d";
const AES: SupportedCipherSuite = suites::TLS13_AES_128_GCM_SHA256;
/// The cheapest suite by far where processors are emulated.
const CHACHA: SupportedCipherSuite = suites::TLS13_CHACHA20_POLY1305_SHA256;
const SUITES: [SupportedCipherSuite; 6] = [
    AES,
    suites::TLS13_AES_256_GCM_SHA384,
    CHACHA,
    suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = []
[https]
listen = ["127.0.0.1:8443"]
"#;
