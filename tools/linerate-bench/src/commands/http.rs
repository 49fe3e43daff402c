//! `linerate bench http URL`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use bench::http::{ClientError, LoadError, Options, Report, Target};
use tls::ClientTrust;

use super::watch::watched;
use cli::output::{self, bit_rate, rate, say};

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
    let layout = super::layout(args.lanes)?;
    let report = watched(options.duration, |progress| bench::http::run(&options, &layout, progress));
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
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(&args.url, &report);
    }
    let failed = report.errors.values().sum::<u64>() + report.other_statuses;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(url: &str, report: &Report) {
    say!("{url}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["requests".to_owned(), report.requests.to_string()]);
    table.add_row(["requests/s".to_owned(), rate(report.requests_per_second)]);
    table.add_row(["throughput".to_owned(), bit_rate(report.bits_per_second)]);
    table.add_row(["body bytes".to_owned(), output::bytes(report.body_bytes)]);
    super::add_latencies(&mut table, &report.latency);
    if let Some(sha256) = &report.body_sha256 {
        table.add_row(["bodies verified".to_owned(), report.verified.to_string()]);
        say!("{table}\n body sha256 {sha256}");
    } else {
        say!("{table}");
    }
    if report.other_statuses > 0 {
        say!(" {} answers had a status other than 200", report.other_statuses);
    }
    super::tell_errors(&report.errors);
}
