//! HTTP and HTTPS against nginx: small and large bodies, plain and TLS, HTTP/1.1 and HTTP/2.

use std::path::Path;

use anyhow::ensure;

use super::turns::{self, Bar, Line};
use super::{h2load, wrk};
use crate::server::{self, Subject, Uploads};
use crate::{packages, process};

/// Flags of `cargo xtask compare http`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Runs of each server and load
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Only loads whose name contains this
    #[arg(long)]
    load: Option<String>,
    /// Measure the `release` build beside the `dist` build in place of nginx
    #[arg(long)]
    release: bool,
}

/// A body, a transport, and what the ratios must reach.
struct Load {
    bar: Bar,
    file: &'static str,
    body: u64,
    transport: Transport,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Plain,
    Tls,
    /// HTTP/2, over TLS.
    Http2,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.pairs > 0 && args.seconds > 0, "give at least one pair of one second");
    packages::install(packages::COMPARE)?;
    // Files in memory: the network path is what is compared.
    let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
    let tree = work.path().join("tree");
    std::fs::create_dir(&tree)?;
    for load in LOADS {
        write_random(&tree.join(load.file), load.body)?;
    }
    let (cert, key) = server::make_certificate(work.path())?;
    let (linerate, peer) = if args.release {
        let of_dist = work.path().join("dist");
        std::fs::create_dir(&of_dist)?;
        let start =
            |program: &Path, work| server::linerate_of(program, work, &tree, &cert, &key, Uploads::Refused);
        let dist = Subject { name: "linerate of dist", ..start(&process::dist_binary()?, &of_dist)? };
        (start(&process::release_binary()?, work.path())?, dist)
    } else {
        let peer = server::nginx(work.path(), &tree, &cert, &key, Uploads::Refused)?;
        (server::linerate(work.path(), &tree, &cert, &key, Uploads::Refused)?, peer)
    };
    for load in LOADS.iter().filter(|load| args.load.as_ref().is_none_or(|part| load.bar.load.contains(part)))
    {
        for subject in [&linerate, &peer] {
            check_body(subject, load, &tree)?;
        }
        println!("{}", serde_json::to_string(&compare(load, args, &linerate, &peer)?)?);
    }
    Ok(())
}

fn compare(load: &Load, args: &Args, linerate: &Subject, peer: &Subject) -> anyhow::Result<Line> {
    let measure = |subject: &Subject, seconds| {
        let url = subject.url(load.transport != Transport::Plain, load.file);
        match load.transport {
            Transport::Http2 => h2load::run(subject, &url, seconds, load.body),
            Transport::Plain | Transport::Tls => wrk::run(subject, &url, CONNECTIONS, seconds, load.body),
        }
    };
    // Warm-up: page cache, connection tables, the frequency governor.
    measure(linerate, 1)?;
    measure(peer, 1)?;
    let bar = if args.release { load.bar.of_release() } else { load.bar };
    turns::compare(bar, args.pairs, linerate, peer, peer.name, |subject| measure(subject, args.seconds))
}

/// Checks that both serve the same bytes, else there is nothing to compare.
fn check_body(subject: &Subject, load: &Load, tree: &Path) -> anyhow::Result<()> {
    let copy = tree.with_file_name("copy");
    let url = subject.url(load.transport != Transport::Plain, load.file);
    let args = ["--silent", "--show-error", "--fail", "--insecure", "--output"];
    let mut args: Vec<&Path> = args.iter().map(Path::new).collect();
    args.extend([copy.as_path(), Path::new(&url)]);
    process::output("curl", &args)?;
    let same = std::fs::read(&copy)? == std::fs::read(tree.join(load.file))?;
    ensure!(same, "{} served other bytes than the file's for {url}", subject.name);
    Ok(())
}

fn write_random(path: &Path, len: u64) -> anyhow::Result<()> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open("/dev/urandom")?.take(len).read_to_end(&mut bytes)?;
    Ok(std::fs::write(path, bytes)?)
}

const CONNECTIONS: u32 = 100;

const LOADS: &[Load] = &[
    load("1 MiB plain", Transport::Plain, LARGE, 1.0, 1.0),
    load("1 KiB plain", Transport::Plain, SMALL, 1.15, 0.75),
    load("1 MiB TLS", Transport::Tls, LARGE, 1.2, 0.7),
    load("1 KiB TLS", Transport::Tls, SMALL, 1.1, 0.8),
    load("1 MiB HTTP/2", Transport::Http2, LARGE, 1.1, 0.8),
    load("1 KiB HTTP/2", Transport::Http2, SMALL, 1.1, 0.8),
];

/// A file and its length.
const LARGE: (&str, u64) = ("1m", 1 << 20);
const SMALL: (&str, u64) = ("1k", 1 << 10);

const fn load(
    name: &'static str,
    transport: Transport,
    (file, body): (&'static str, u64),
    throughput_least: f64,
    cpu_most: f64,
) -> Load {
    Load {
        bar: Bar { load: name, throughput_least: Some(throughput_least), cpu_most: Some(cpu_most) },
        file,
        body,
        transport,
    }
}
