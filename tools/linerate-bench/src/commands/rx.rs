//! `linerate bench rx HOST:PORT` and `linerate bench rx-server`: the load and the service of OpenAFS's rxperf.

use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bench::rx::{Options, Report, ServerOptions};
use clap::ValueEnum;
use lane::backend::UdpOptions;
use rx::congestion::Algorithm;
use rx::{AddressRange, Jumbograms};
use rx_lane::DriverConfig;
use rxperf::{PORT, Work};
use server::metrics::Blocks;

use super::watch::watched;
use cli::output::{self, bit_rate, rate, say};

/// Flags of `linerate bench rx`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rxperf service to call, such as 127.0.0.1:7009; the port may be left out
    server: String,
    /// What a call does: send bytes, receive bytes, or send some and receive some
    #[arg(short, long, value_enum, default_value_t = Mode::Recv)]
    mode: Mode,
    /// Bytes that a call receives (recv, rpc)
    #[arg(long, default_value = "1M", value_parser = cli::size)]
    recv_bytes: u32,
    /// Bytes that a call sends (send, rpc)
    #[arg(long, default_value = "1M", value_parser = cli::size)]
    send_bytes: u32,
    /// Clients: connections in all
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Calls at once on each connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    calls: u32,
    /// Threads: lanes to run the clients on; without it, one for each core
    #[arg(short, long, visible_alias = "lanes")]
    threads: Option<u32>,
    /// How long, in seconds, from when all connections stand
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    #[command(flatten)]
    transport: Transport,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `linerate bench rx-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Address and port to serve
    #[arg(short, long, default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    listen: SocketAddr,
    /// Lanes to serve on; without it, one for each core
    #[arg(long)]
    lanes: Option<u32>,
    #[command(flatten)]
    transport: Transport,
    /// Tell the counters of every lane here, as `linerate serve` does: /metrics, and `linerate stat ADDR`
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Send without protocol to `linerate bench udp`, as a limit to compare with
    #[arg(long)]
    blast: bool,
    /// What a blast sends is read from this file, as by a server of files
    #[arg(long, value_name = "FILE", requires = "blast")]
    blast_file: Option<PathBuf>,
}

/// Flags of `linerate bench udp`.
#[derive(Debug, clap::Args)]
pub(crate) struct UdpArgs {
    /// A `linerate bench rx-server --blast`
    server: String,
    /// How long, in seconds
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    #[command(flatten)]
    transport: Transport,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

/// Options of Rx on every lane.
#[derive(Debug, clap::Args)]
struct Transport {
    /// Receive every datagram alone, as from a NIC or system without UDP GRO
    #[arg(long)]
    no_gro: bool,
    /// Packet buffers of each lane
    #[arg(long, default_value_t = 32 * 1024, value_parser = clap::value_parser!(u32).range(1024..=4_194_304))]
    packets: u32,
    /// Largest packet to discover a path for, bytes with the Rx header
    #[arg(long, default_value_t = 1444, value_parser = clap::value_parser!(u16).range(1444..=16_384))]
    packet_size_max: u16,
    /// What decides how much is under way on paths with losses
    #[arg(long, value_enum, default_value_t = Congestion::Auto)]
    congestion: Congestion,
    /// Jumbograms to stock peers that take them: where the path carries them whole, or as IP fragments too, though nothing
    /// here would notice a wrong one
    #[arg(long, value_enum, default_value_t = JumbogramsArg::Whole)]
    jumbograms: JumbogramsArg,
    /// Packets that a call to a stock peer gathers to send at once; 1 sends as ACKs come
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=255))]
    stock_burst: u32,
    /// Packets under way to one stock address: what the receive buffer of its socket takes
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    stock_in_flight: u32,
    /// Microseconds for which a lane gathers packets of stock peers at most where they come fast; 0 for never
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1000))]
    gather_us: u64,
}

/// Congestion controllers, as `rx::congestion::Algorithm` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Congestion {
    /// NewReno, and BBR where losses come without a queue or with a very long one
    Auto,
    /// RFC 6582, as stock Rx
    NewReno,
    /// RFC 9438
    Cubic,
    /// By delivery rate and round trip: BBR v3's rules
    Bbr,
}

impl From<Congestion> for Algorithm {
    fn from(congestion: Congestion) -> Self {
        match congestion {
            Congestion::Auto => Self::Auto,
            Congestion::NewReno => Self::NewReno,
            Congestion::Cubic => Self::Cubic,
            Congestion::Bbr => Self::Bbr,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Send,
    Recv,
    Rpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JumbogramsArg {
    Off,
    Whole,
    Fragments,
}

impl Transport {
    fn socket(&self) -> UdpOptions {
        UdpOptions { gro: !self.no_gro, ..UdpOptions::default() }
    }

    fn driver(&self) -> DriverConfig {
        let mut config = DriverConfig { socket: self.socket(), ..DriverConfig::default() };
        config.endpoint.packets = self.packets as usize;
        config.endpoint.packet_size_max = self.packet_size_max;
        config.endpoint.congestion = self.congestion.into();
        config.endpoint.jumbograms = match self.jumbograms {
            JumbogramsArg::Off => Jumbograms::Off,
            JumbogramsArg::Whole => Jumbograms::Whole,
            JumbogramsArg::Fragments => Jumbograms::Fragments,
        };
        config.endpoint.checked_paths = vec![
            AddressRange::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            AddressRange::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        ];
        config.endpoint.stock_burst = self.stock_burst;
        config.endpoint.stock_in_flight = self.stock_in_flight;
        config.gather = Duration::from_micros(self.gather_us);
        config
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        server: resolve(&args.server)?,
        connections: args.clients as usize,
        calls: args.calls as usize,
        work: match args.mode {
            Mode::Send => Work::Send { bytes: args.send_bytes },
            Mode::Recv => Work::Receive { bytes: args.recv_bytes },
            Mode::Rpc => Work::Rpc { send: args.send_bytes, receive: args.recv_bytes },
        },
        duration: Duration::from_secs(args.seconds.into()),
        driver: args.transport.driver(),
    };
    let layout = super::layout(args.threads)?;
    let report = watched(options.duration, |progress| bench::rx::run(&options, &layout, progress));
    let report = report.with_context(|| format!("cannot measure {}", args.server))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(&args.server, &report);
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Serves until the process is stopped.
pub(crate) fn serve(args: &ServerArgs) -> anyhow::Result<ExitCode> {
    if args.blast {
        let listening = |at| say!("blasting whoever asks at {at}; try: linerate bench udp {at}");
        let open =
            |path: &PathBuf| File::open(path).with_context(|| format!("cannot read {}", path.display()));
        let file = args.blast_file.as_ref().map(open).transpose()?;
        bench::rx::serve_blast(args.listen, args.transport.socket(), file, listening)??;
        return Ok(ExitCode::SUCCESS);
    }
    let options = ServerOptions { listen: args.listen, driver: args.transport.driver() };
    let serving = bench::rx::serve(&options, &super::layout(args.lanes)?)?;
    if let Some(addr) = args.admin {
        let blocks = Blocks::default();
        for (lane, counters) in serving.lanes().zip(&serving.counters) {
            blocks.add("rx", lane.id.0, lane.silo.0, Arc::clone(counters) as _);
            blocks.add("lane", lane.id.0, lane.silo.0, Arc::clone(&lane.counters) as _);
        }
        let admin = server::tell_of(addr, blocks, serving.lanes().cloned());
        let admin = admin.with_context(|| format!("cannot listen at {addr}"))?;
        say!("counters at http://{admin}/metrics; try: linerate stat {admin}");
    }
    let at = serving.address;
    say!("rxperf service at {at}; try: linerate bench rx {at}");
    serving.wait();
    Ok(ExitCode::SUCCESS)
}

/// Receives a blast.
pub(crate) fn udp(args: &UdpArgs) -> anyhow::Result<ExitCode> {
    let server = resolve(&args.server)?;
    let duration = Duration::from_secs(args.seconds.into());
    let report = bench::rx::blast(server, duration, args.transport.socket())?
        .with_context(|| format!("no blast from {server}"))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("{} in datagrams of 1444 bytes", bit_rate(report.bits_per_second));
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses `HOST:PORT`, or `HOST` with the port of rxperf.
pub(crate) fn resolve(server: &str) -> anyhow::Result<SocketAddr> {
    cli::cell::resolve(server, PORT)
}

fn print(server: &str, report: &Report) {
    say!("{server}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["calls".to_owned(), report.calls.to_string()]);
    table.add_row(["calls/s".to_owned(), rate(report.calls_per_second)]);
    table.add_row(["throughput".to_owned(), bit_rate(report.bits_per_second)]);
    table.add_row(["sent".to_owned(), output::bytes(report.bytes_sent)]);
    table.add_row(["received".to_owned(), output::bytes(report.bytes_received)]);
    table.add_row(["resends".to_owned(), report.resends.to_string()]);
    super::add_latencies(&mut table, &report.latency);
    say!("{table}");
    super::tell_errors(&report.errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_may_be_left_out() {
        assert_eq!(resolve("127.0.0.1").unwrap(), ([127, 0, 0, 1], PORT).into());
        assert_eq!(resolve("127.0.0.1:80").unwrap(), ([127, 0, 0, 1], 80).into());
        assert!(resolve("nowhere.invalid:99999").is_err());
    }
}
