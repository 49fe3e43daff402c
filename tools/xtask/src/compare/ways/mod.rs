//! Cost of bringing a message of 1 MiB from the page cache to a socket, or from a socket to the page cache,
//! in each way that the running kernel has: by calls, by the ring, zero-copy, through pipes, with registered
//! buffers. `ways.c` does nothing else, so what a server could win or lose by a way is seen without the
//! server.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::{median, rounded};
use crate::process::{self, Killed};

/// Flags of `cargo xtask compare ways`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Messages of each turn
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,
    /// Turns of each way
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Measures the ways over loopback, to and from a file in memory.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let work = tempfile::Builder::new().prefix("linerate-ways").tempdir_in("/dev/shm")?;
    let program = Program::compile(work.path())?;
    let address = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, PORT);
    let _peer = start_peer(Command::new(program.path()), address)?;
    for way in program.measure(address, args.messages, args.rounds)? {
        println!("{}", serde_json::to_string(&way)?);
    }
    Ok(())
}

/// One way's JSON line.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Way {
    /// Direction and name of the way.
    pub(crate) load: String,
    /// CPU time of a message, the ring's own threads included: the median turn's.
    pub(crate) cpu_us: Option<f64>,
    /// Ratio to the CPU time of the first way of the direction in the same turn: the median one.
    pub(crate) ratio_cpu: Option<f64>,
    /// The error by which the kernel says that it does not have the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lacks: Option<String>,
}

/// `ways.c`, compiled.
pub(crate) struct Program(PathBuf);

impl Program {
    /// Compiles the program into `dir`, where its file will lie as well.
    pub(crate) fn compile(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self(process::compile_c("ways", include_str!("ways.c"), dir)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Measures every way with the peer at `to`, in turns.
    pub(crate) fn measure(&self, to: SocketAddrV4, messages: u32, rounds: u32) -> anyhow::Result<Vec<Way>> {
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let dir = self.0.parent().context("it lies in a directory")?.display().to_string();
        let (messages, rounds) = (messages.to_string(), rounds.to_string());
        let said = process::output(&self.0, &["work", &ip, &port, &dir, &messages, &rounds])?;
        evaluated(&said)
    }
}

/// Returns what takes and gives bytes at the other end. `command`: the program, in whatever namespace.
pub(crate) fn start_peer(mut command: Command, at: SocketAddrV4) -> anyhow::Result<Killed> {
    command.args(["peer", &at.ip().to_string(), &at.port().to_string()]);
    Killed::start(command, "listening")
}

/// Lines of figures and ways, which stand in the same order in each turn.
fn evaluated(said: &str) -> anyhow::Result<Vec<Way>> {
    let mut turns: Vec<(String, Vec<Result<f64, String>>)> = Vec::new();
    for line in said.lines() {
        let (figure, way) = line.split_once(' ').with_context(|| format!("no figure and way: {line:?}"))?;
        let figure = figure.parse().map_err(|_| figure.to_owned());
        match turns.iter_mut().find(|(known, _)| known == way) {
            Some((_, figures)) => figures.push(figure),
            None => turns.push((way.to_owned(), vec![figure])),
        }
    }
    let direction = |way: &str| way.split_once(':').map(|(direction, _)| direction.to_owned());
    let first =
        |way: &str| turns.iter().find(|(first, _)| direction(first) == direction(way)).map(|turn| &turn.1);
    let ways = turns.iter().map(|(way, figures)| {
        let known = figures.iter().filter_map(|figure| figure.as_ref().ok());
        let pairs = first(way).into_iter().flatten().zip(figures);
        let ratios: Vec<f64> =
            pairs.filter_map(|(first, own)| Some(own.as_ref().ok()? / first.as_ref().ok()?)).collect();
        let cpu_us: Vec<f64> = known.copied().collect();
        let of = |values: Vec<f64>| (!values.is_empty()).then(|| rounded(median(values)));
        let lacks = figures.iter().find_map(|figure| figure.as_ref().err().cloned());
        Way { load: way.clone(), cpu_us: of(cpu_us), ratio_cpu: of(ratios), lacks }
    });
    let ways: Vec<Way> = ways.collect();
    ensure!(!ways.is_empty(), "nothing was measured");
    Ok(ways)
}

const PORT: u16 = 7999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_held_against_the_first_of_its_direction_in_the_same_turn() {
        let said = "100.0 read: a\n50.0 read: b\n10.0 write: a\nEINVAL write: b\n\
                    200.0 read: a\n80.0 read: b\n30.0 write: a\nEINVAL write: b\n";
        let ways = evaluated(said).unwrap();
        let told: Vec<_> =
            ways.iter().map(|way| (&*way.load, way.cpu_us, way.ratio_cpu, way.lacks.as_deref())).collect();
        let wanted = [
            ("read: a", Some(150.0), Some(1.0), None),
            ("read: b", Some(65.0), Some(0.45), None),
            ("write: a", Some(20.0), Some(1.0), None),
            ("write: b", None, None, Some("EINVAL")),
        ];
        assert_eq!(told, wanted);
        assert!(evaluated("").is_err() && evaluated("nothing").is_err());
    }
}
