//! `linerate bench http URL`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bench::http::{ClientError, LoadError, Options, Progress, Report, Target};
use http::tls::ClientTrust;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lane::layout::{LaneCount, Layout, Wishes};
use lane::topology::Topology;

use crate::output::{self, bit_rate, rate};

/// Flags of `linerate bench http`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to ask for, such as http://127.0.0.1:8080/file
    url: String,
    /// Connections in all
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// How long, in seconds
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Lanes to run the clients on; without it, one for each core
    #[arg(short, long)]
    lanes: Option<u32>,
    /// Compare every body with the first one fetched
    #[arg(long)]
    verify: bool,
    /// A new connection for every request
    #[arg(long)]
    reconnect: bool,
    /// Believe any TLS certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file with the certificates to believe
    #[arg(long, default_value = "/etc/ssl/certs/ca-certificates.crt")]
    cacert: PathBuf,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        target: Target::parse(&args.url)?,
        connections: args.connections as usize,
        duration: Duration::from_secs(args.seconds.into()),
        verify: args.verify,
        trust: if args.insecure {
            ClientTrust::AnyCertificate
        } else {
            ClientTrust::Roots(args.cacert.clone())
        },
        reconnect: args.reconnect,
    };
    let layout = layout(args.lanes)?;
    let progress = Arc::new(Progress::default());
    let watcher = watch(&progress, options.duration);
    let report = bench::http::run(&options, &layout, &progress);
    watcher.stop();
    let report = report.map_err(|error| {
        let advice = match error {
            LoadError::First(ClientError::Tls(_)) if !args.insecure => {
                "; --cacert FILE names a certificate to believe, --insecure believes any"
            }
            _ => "",
        };
        anyhow!("cannot measure {}: {error}{advice}", args.url)
    })?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&args.url, &report);
    }
    let failed = report.errors.values().sum::<u64>() + report.other_statuses;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lanes for a load generator: it may share the server's machine, so no NUMA node is left out.
pub(crate) fn layout(lanes: Option<u32>) -> anyhow::Result<Layout> {
    let topology = Topology::read(Path::new("/"))?;
    let lanes = lanes.map_or(LaneCount::All, |lanes| LaneCount::Total(lanes as usize));
    Ok(Layout::new(&topology, &Wishes { lanes, ..Wishes::default() })?)
}

fn print(url: &str, report: &Report) {
    println!("{url}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["requests".to_owned(), report.requests.to_string()]);
    table.add_row(["requests/s".to_owned(), rate(report.requests_per_second)]);
    table.add_row(["throughput".to_owned(), bit_rate(report.bits_per_second)]);
    table.add_row(["body bytes".to_owned(), output::bytes(report.body_bytes)]);
    let latency = report.latency;
    for (name, us) in [
        ("latency min", latency.min_us),
        ("latency 50 %", latency.p50_us),
        ("latency 90 %", latency.p90_us),
        ("latency 99 %", latency.p99_us),
        ("latency 99.9 %", latency.p999_us),
        ("latency max", latency.max_us),
    ] {
        table.add_row([name.to_owned(), duration(us)]);
    }
    if let Some(sha256) = &report.body_sha256 {
        table.add_row(["bodies verified".to_owned(), report.verified.to_string()]);
        println!("{table}\n body sha256 {sha256}");
    } else {
        println!("{table}");
    }
    if report.other_statuses > 0 {
        println!(" {} answers had a status other than 200", report.other_statuses);
    }
    for (reason, count) in &report.errors {
        println!(" {count} failed: {reason}");
    }
}

pub(crate) fn duration(us: u64) -> String {
    match us {
        us if us < 1000 => format!("{us} us"),
        us if us < 1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        us => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// Draws the progress bar while the load runs.
struct Watcher {
    done: Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Watcher {
    fn stop(self) {
        self.done.store(true, Ordering::Relaxed);
        // The bar is decoration: the report does not depend on it.
        let _ = self.thread.join();
    }
}

fn watch(progress: &Arc<Progress>, duration: Duration) -> Watcher {
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (progress, ended) = (Arc::clone(progress), Arc::clone(&done));
    let thread = std::thread::spawn(move || {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let began = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            let seconds = began.elapsed().as_secs_f64();
            let requests = progress.requests.load(Ordering::Relaxed) as f64 / seconds;
            let bits = progress.bytes.load(Ordering::Relaxed) as f64 * 8.0 / seconds;
            let errors = progress.errors.load(Ordering::Relaxed);
            bar.set_position((seconds * 1000.0) as u64);
            bar.set_message(format!("{}/s  {}  {errors} failed", rate(requests), bit_rate(bits)));
        }
        bar.finish_and_clear();
    });
    Watcher { done, thread }
}
