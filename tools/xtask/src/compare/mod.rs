//! `cargo xtask compare`: Linerate and a peer in turns over the same data, on the same machine, in one run.
//! Every load ends in one JSON line; ratios are the medians of the pairs'.

use clap::Subcommand;

use self::wrk::Run;

mod afs;
mod connections;
mod floor;
mod h2load;
mod http;
mod long_link;
mod oob;
mod programs;
mod rx;
mod smb;
mod stock;
mod turns;
pub(crate) mod ways;
mod write;
mod wrk;

/// Flags of `cargo xtask compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// AFS beside OpenAFS's file server, by stock clients and by `linerate bench afs`
    Afs(afs::Args),
    /// HTTP and HTTPS against nginx, by wrk and h2load
    Http(http::Args),
    /// AFS over a long way that loses packets, beside OpenAFS's file server, by Linerate's client
    LongLink(long_link::Args),
    /// Files over out-of-band TCP beside bare sendfile and receive, and beside nginx
    Oob(oob::Args),
    /// Rx over loopback against bare UDP; with --stock the stock server of OpenAFS and its clients
    Rx(rx::Args),
    /// SMB against Debian's smbd, by `linerate bench smb` and smbclient
    Smb(smb::Args),
    /// What 1 MiB between page cache and socket costs in each way that the running kernel has
    Ways(ways::Args),
    /// Names made and taken away beside bare system calls, and uploads against nginx, by wrk
    Write(write::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Afs(args) => afs::run(args),
        What::Http(args) => http::run(args),
        What::LongLink(args) => long_link::run(args),
        What::Oob(args) => oob::run(args),
        What::Rx(args) if args.counts_connections() => connections::run(args),
        What::Rx(args) => rx::run(args),
        What::Smb(args) => smb::run(args),
        What::Ways(args) => ways::run(args),
        What::Write(args) => write::run(args),
    }
}

/// Returns the median; of an even number the mean of the two values in the middle.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Returns the median of each figure.
fn medians(runs: impl Iterator<Item = Run> + Clone) -> Run {
    let of = |field: fn(&Run) -> f64| rounded(median(runs.clone().map(|run| field(&run))));
    Run {
        requests_per_second: of(|run| run.requests_per_second),
        gbit_per_second: of(|run| run.gbit_per_second),
        cpu_us_per_request: of(|run| run.cpu_us_per_request),
        cpu_s_per_gib: of(|run| run.cpu_s_per_gib),
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
