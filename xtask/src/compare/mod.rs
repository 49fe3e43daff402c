//! `cargo xtask compare`: Linerate and a peer in turns over the same data, on the same machine, in one run.
//! Every load ends in one JSON line; ratios are the medians of the pairs'.

use clap::Subcommand;

mod connections;
mod h2load;
mod http;
mod rx;
mod stock;
mod wrk;

/// Flags of `cargo xtask compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// HTTP and HTTPS against nginx, by wrk and h2load
    Http(http::Args),
    /// Rx over loopback against bare UDP; with --stock the stock server of OpenAFS and its clients
    Rx(rx::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Http(args) => http::run(args),
        What::Rx(args) => rx::run(args),
    }
}

/// The middle value; of an even number the mean of the two in the middle.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
