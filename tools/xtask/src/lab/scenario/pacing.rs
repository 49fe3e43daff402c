//! Rates hold: of each connection, whatever queueing discipline lies below, and of all of them together.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::Scenario;
use crate::lab::guest::net::{self, Namespace, ip};
use crate::lab::guest::{Guest, modprobe, wait_for};
use crate::lab::machine::Machine;
use crate::process;

pub(crate) struct Pacing;

impl Scenario for Pacing {
    fn name(&self) -> &'static str {
        "pacing"
    }

    fn about(&self) -> &'static str {
        "each connection and the server as a whole send at the rate they are told, within 5 %"
    }

    fn machines(&self) -> Vec<Machine> {
        // Cards in software emulation are slower than what is to be paced; the clients are behind a veth link.
        vec![Machine { nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        modprobe(&["veth", "sch_fq", "sch_fq_codel", "tls"])?;
        let clients = Namespace::new("clients")?;
        ip(&format!("link add {LINK} type veth peer name client"))?;
        net::set_up(LINK, &format!("{SERVER}/24"))?;
        clients.take("client", "10.73.0.2/24")?;
        process::output("sh", &["-c", "mkdir -p /tmp/tree && truncate -s 4G /tmp/tree/big"])?;
        let rate = rate_for_this_host(guest, clients)?;
        // Without fq, TCP paces by itself.
        for (discipline, kernel_tls) in [("fq", true), ("fq", false), ("fq_codel", true), ("noqueue", false)]
        {
            process::output("tc", &["qdisc", "replace", "dev", LINK, "root", discipline])?;
            each_connection_keeps_its_rate(guest, clients, rate, (discipline, kernel_tls))?;
        }
        all_connections_together_keep_the_servers_rate(guest, clients, rate)
    }
}

/// Returns 50 Mb/s where the host has time for it beside its other work, else what leaves it time: records of TLS cost
/// most.
fn rate_for_this_host(guest: &mut Guest, namespace: Namespace) -> anyhow::Result<u64> {
    let _server = guest.serve(CONFIG)?;
    let client = Client::start(namespace, &HTTPS)?;
    wait_for("the first bytes", || (client.received() > 0).then_some(()))?;
    std::thread::sleep(START_UP);
    let (before, begun) = (client.received(), Instant::now());
    std::thread::sleep(WINDOW);
    let unpaced = (client.received() - before) as f64 / begun.elapsed().as_secs_f64();
    let rate = RATE.min((0.6 * unpaced) as u64);
    guest.note(format!("HTTPS unpaced: {:.1} Mb/s; paced: {:.1} Mb/s", mbit(unpaced), mbit(rate as f64)))?;
    ensure!(rate > RATE / 50, "this host is too busy to show anything");
    Ok(rate)
}

/// Checks the rates over HTTP and HTTPS, from the start and after reloads that change the rate of open connections.
fn each_connection_keeps_its_rate(
    guest: &mut Guest,
    namespace: Namespace,
    rate: u64,
    (discipline, kernel_tls): (&str, bool),
) -> anyhow::Result<()> {
    let records = if kernel_tls { "kernel TLS" } else { "user TLS" };
    let config = |rate: u64| {
        format!("{CONFIG}kernel_tls = {kernel_tls}\n[http.limits]\npacing_bytes_per_second = {rate}\n")
    };
    let server = guest.serve(&config(rate))?;
    let clients = Client::start_all(namespace, &[HTTP, HTTP, HTTPS])?;
    let flows: Vec<Vec<&Client>> = clients.iter().map(|client| vec![client]).collect();
    // A reload does the same to a connection whichever side seals its records.
    for (rate, when) in steps(rate).into_iter().take(if kernel_tls { 3 } else { 1 }) {
        let what = format!("{discipline}, {records}, {when}");
        server.reload(&config(rate))?;
        let rates = settle(&flows, rate).with_context(|| what.clone())?;
        for (client, rate) in clients.iter().zip(rates) {
            guest.figure(&format!("{what}: {}", client.url.scheme), mbit(rate), "Mb/s")?;
        }
    }
    let sealed = server.scrape()?.sum("linerate_http_kernel_tls", &[])?;
    ensure!((sealed > 0.0) == kernel_tls, "{sealed} connections in kernel TLS, wanted: {kernel_tls}");
    if discipline == "fq" {
        let told = process::output("tc", &["-s", "qdisc", "show", "dev", LINK])?;
        let packets = told.rsplit("throttled ").next().and_then(|rest| rest.split_whitespace().next());
        let packets: u64 = packets.and_then(|count| count.parse().ok()).unwrap_or(0);
        ensure!(packets > 0, "fq paced nothing: {told}");
    }
    Ok(())
}

fn all_connections_together_keep_the_servers_rate(
    guest: &mut Guest,
    namespace: Namespace,
    rate: u64,
) -> anyhow::Result<()> {
    let config = |rate: u64| format!("{CONFIG}[server]\negress_rate = {rate}\n");
    for count in [1, 10] {
        let server = guest.serve(&config(rate))?;
        let urls = [HTTP, HTTPS, HTTP2].into_iter().chain(std::iter::repeat(HTTP));
        let urls: Vec<Url> = urls.take(count).collect();
        let clients = Client::start_all(namespace, &urls)?;
        for (rate, when) in steps(rate) {
            let what = format!("server's rate, {count} connections, {when}");
            server.reload(&config(rate))?;
            let rates = settle(&[clients.iter().collect()], rate).with_context(|| what.clone())?;
            guest.figure(&what, mbit(rates[0]), "Mb/s")?;
        }
    }
    Ok(())
}

/// Rates that a server has one after the other. The last change goes up again: what the kernel lowered at once it
/// must raise as well.
fn steps(rate: u64) -> [(u64, &'static str); 3] {
    [(rate, "from the start"), (rate / 2, "halved"), (rate, "doubled")]
}

/// Returns the rate of each of `flows`, in bytes per second over a while, once it held. No flow is ever faster. One
/// may be slower where software emulation or a busy host keep a client or the server from their work. That is no fault
/// of the pacing, so a while in which a flow was kept back is followed by another.
fn settle(flows: &[Vec<&Client>], wanted: u64) -> anyhow::Result<Vec<f64>> {
    for client in flows.iter().flatten() {
        wait_for("the first bytes", || (client.received() > 0).then_some(()))?;
    }
    std::thread::sleep(START_UP);
    let received = |flow: &Vec<&Client>| flow.iter().map(|client| client.received()).sum::<u64>();
    let (begun, first): (_, Vec<u64>) = (Instant::now(), flows.iter().map(received).collect());
    let (mut held, mut seen) = (vec![None; flows.len()], Vec::new());
    for _ in 0..TRIES {
        let (cpu, from) = (cpu_time()?, Instant::now());
        let before: Vec<u64> = flows.iter().map(received).collect();
        std::thread::sleep(WINDOW);
        let (seconds, now) = (from.elapsed().as_secs_f64(), flows.iter().map(received).collect::<Vec<u64>>());
        let rates: Vec<f64> =
            now.iter().zip(&before).map(|(now, before)| (now - before) as f64 / seconds).collect();
        let most = wanted as f64 * (1.0 + TOLERANCE) * begun.elapsed().as_secs_f64() + BUFFERED;
        for (at, &rate) in rates.iter().enumerate() {
            let sum = (now[at] - first[at]) as f64;
            ensure!(sum <= most, "flow {at} is too fast: {sum} bytes in {:?}", begun.elapsed());
            if (rate / wanted as f64 - 1.0).abs() <= TOLERANCE {
                held[at] = held[at].or(Some(rate));
            }
        }
        if let Some(held) = held.iter().copied().collect() {
            return Ok(held);
        }
        let rates: Vec<String> = rates.into_iter().map(|rate| format!("{:.1}", mbit(rate))).collect();
        let idle = cpu_time()?.idle_since(cpu);
        seen.push(format!("{} Mb/s with {idle:.0} % idle", rates.join(" ")));
    }
    bail!("{:.1} Mb/s are not reached: {}", mbit(wanted as f64), seen.join("; "))
}

fn mbit(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e6
}

/// A download that goes on until it is dropped.
struct Client {
    url: Url,
    curl: Child,
    received: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct Url {
    scheme: &'static str,
    version: &'static str,
    port: u16,
}

impl Client {
    fn start_all(namespace: Namespace, urls: &[Url]) -> anyhow::Result<Vec<Self>> {
        urls.iter().map(|url| Self::start(namespace, url)).collect()
    }

    fn start(namespace: Namespace, url: &Url) -> anyhow::Result<Self> {
        let Url { scheme, version, port } = url;
        let protocol = scheme.split(' ').next().unwrap_or_default();
        let mut curl = namespace.command("curl");
        curl.args(["-sS", "--insecure", version, "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"]);
        curl.arg(format!("{protocol}://{SERVER}:{port}/big"));
        let mut curl = curl.stdout(Stdio::piped()).spawn().context("curl")?;
        let mut body = curl.stdout.take().context("its output")?;
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            while let Ok(n @ 1..) = body.read(&mut buffer) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { url: *url, curl, received, reader: Some(reader) })
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// The machine's CPU time so far, in ticks.
#[derive(Clone, Copy)]
struct CpuTime {
    idle: f64,
    all: f64,
}

impl CpuTime {
    /// Returns the percentage of the time from `before` on in which CPUs had nothing to do.
    fn idle_since(self, before: Self) -> f64 {
        100.0 * (self.idle - before.idle) / (self.all - before.all).max(1.0)
    }
}

fn cpu_time() -> anyhow::Result<CpuTime> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks: Vec<f64> =
        stat.lines().next().unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect();
    ensure!(ticks.len() > 4, "/proc/stat: {stat}");
    Ok(CpuTime { idle: ticks[3] + ticks[4], all: ticks.iter().sum() })
}

const LINK: &str = "paced";
const SERVER: &str = "10.73.0.1";
/// 50 Mb/s.
const RATE: u64 = 6_250_000;
const TOLERANCE: f64 = 0.05;
/// The first packets of a connection are not paced, and clients have them in their buffers.
const START_UP: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(3);
const TRIES: usize = 12;
/// Bytes that a client may have had in its buffers when the counting began.
const BUFFERED: f64 = 1e6;
const HTTP: Url = Url { scheme: "http", version: "--http1.1", port: 8080 };
const HTTPS: Url = Url { scheme: "https", version: "--http1.1", port: 8443 };
const HTTP2: Url = Url { scheme: "https (HTTP/2)", version: "--http2", port: 8443 };
/// Ends in the section of HTTPS.
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = ["0.0.0.0:8080"]
[https]
listen = ["0.0.0.0:8443"]
"#;
