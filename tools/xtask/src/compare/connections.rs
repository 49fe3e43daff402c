//! Cost of a byte, and of a small call, to the Rx server by the number of connections that share its lane.

use anyhow::{Context, ensure};

use super::median;
use super::rx::{Args, LOADS, Limit, Load, Run, blast, call, rounded};

/// One row's JSON line.
#[derive(serde::Serialize)]
struct Line {
    load: &'static str,
    connections: u32,
    gbit_per_second: f64,
    calls_per_second: f64,
    server_cpu_s_per_gib: f64,
    blast_gbit_per_second: f64,
    blast_cpu_s_per_gib: f64,
    /// Server CPU per byte beside that of [`FEW`] connections, and beside the bare blast's.
    cpu_ratio_to_few: Option<f64>,
    cpu_ratio_to_blast: f64,
    /// Small calls a second beside those of [`SOME`] connections.
    calls_ratio_to_some: Option<f64>,
    reached: Option<bool>,
    runs: u32,
}

/// Rounds of all rows in turns, so that whatever else the machine does meets each alike.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.seconds > 0, "give at least one run of one second");
    let (binary, counts) = (&args.binary()?, &args.connections);
    let of = |name| LOADS.iter().find(|load: &&Load| load.name.contains(name)).context("a load of that name");
    let (bulk, small) = (of("1 MiB, one lane")?, of("32 bytes")?);
    let (mut limits, mut bulks, mut smalls) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.runs {
        limits.push(blast(binary, bulk, args)?);
        for &count in counts {
            let run = call(binary, bulk, count, args)?;
            eprintln!(
                "{round}/{}: {count} connections, {:.3} CPU s/GiB",
                args.runs, run.server_cpu_s_per_gib
            );
            bulks.push((count, run));
        }
        for &count in counts {
            smalls.push((count, call(binary, small, count, args)?));
        }
    }
    for &count in counts {
        println!("{}", serde_json::to_string(&line(bulk, count, &bulks, &limits, args))?);
    }
    for &count in counts {
        println!("{}", serde_json::to_string(&line(small, count, &smalls, &limits, args))?);
    }
    Ok(())
}

fn line(load: &Load, count: u32, runs: &[(u32, Run)], limits: &[Limit], args: &Args) -> Line {
    let of = |count: u32, field: fn(&Run) -> f64| {
        let rows = runs.iter().filter(|(of, _)| *of == count);
        (rows.clone().count() > 0).then(|| median(rows.map(|(_, run)| field(run))))
    };
    let cpu = of(count, |run| run.server_cpu_s_per_gib).unwrap_or_default();
    let calls = of(count, |run| run.calls_per_second).unwrap_or_default();
    let blast_cpu = median(limits.iter().map(|limit| limit.sender_cpu_s_per_gib));
    let is_bulk = load.calls_least.is_none();
    let to_few = of(FEW, |run| run.server_cpu_s_per_gib).map(|few| cpu / few).filter(|_| is_bulk);
    let to_some = of(SOME, |run| run.calls_per_second).map(|some| calls / some).filter(|_| !is_bulk);
    let judged = if is_bulk { count >= MANY } else { count > SOME };
    let reached = match (to_few, to_some) {
        (Some(few), _) => Some(few <= FEW_RATIO_MOST && cpu / blast_cpu <= BLAST_RATIO_MOST),
        (_, Some(some)) => Some(some >= CALLS_RATIO_LEAST),
        _ => None,
    };
    Line {
        load: load.name,
        connections: count,
        gbit_per_second: rounded(of(count, |run| run.gbit_per_second).unwrap_or_default()),
        calls_per_second: rounded(calls),
        server_cpu_s_per_gib: rounded(cpu),
        blast_gbit_per_second: rounded(median(limits.iter().map(|limit| limit.gbit_per_second))),
        blast_cpu_s_per_gib: rounded(blast_cpu),
        cpu_ratio_to_few: to_few.map(rounded),
        cpu_ratio_to_blast: rounded(cpu / blast_cpu),
        calls_ratio_to_some: to_some.map(rounded),
        reached: reached.filter(|_| judged),
        runs: args.runs,
    }
}

/// Number of connections with which larger numbers are compared.
const FEW: u32 = 4;
/// Least number of connections that is judged.
const MANY: u32 = 100;
/// Number of connections with which small calls over more are compared.
const SOME: u32 = 16;
const FEW_RATIO_MOST: f64 = 1.25;
const BLAST_RATIO_MOST: f64 = 1.5;
const CALLS_RATIO_LEAST: f64 = 0.9;
