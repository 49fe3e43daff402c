//! Test of a thousand random scenarios: every call ends well with the right bytes, and every packet goes
//! back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rx::Endpoint;

use crate::sim::host::{Client, Host, Server};
use crate::sim::network::Network;
use crate::sim::scenario::{CLIENT, SERVER, Scenario, client_address, server_address};
use crate::sim::wiretap::Counts;
use crate::sim::world::{Fault, World};

/// Trace of a run, for comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    elapsed: Duration,
    wire: Counts,
    fates: crate::sim::network::Fates,
}

/// Runs a scenario to the end; panics when a rule is broken.
fn run(scenario: &Scenario) -> Trace {
    let start = Instant::now();
    let Scenario { seed, client, server, to_server, to_client, faults, connections, calls } = scenario;
    let hosts = vec![
        Host::client(start, client.clone(), *seed, server_address(), *connections, calls),
        Host::server(start, server.clone(), *seed),
    ];
    let mut network = Network::new(*seed, vec![client_address(10_000), server_address()], to_server);
    *network.link_mut(SERVER, CLIENT) = to_client.clone();
    let mut world = World::new(hosts, network, start);
    for (at, fault) in faults {
        world.schedule(*at, fault.clone());
    }

    let in_time = world.run_until(TIME_LIMIT, |hosts| hosts.iter().all(Host::is_idle));
    for (name, host) in ["client", "server"].iter().zip(&world.nodes) {
        assert!(host.failures().is_empty(), "{name}: {:#?}", host.failures());
    }
    assert!(in_time, "calls not finished after {TIME_LIMIT:?}: {:#?}", world.nodes[CLIENT].role);
    let Client { finished, given_up, .. } = world.nodes[CLIENT].as_client();
    assert_eq!(finished + given_up, calls.len());
    assert!(*given_up <= calls.iter().filter(|call| call.abort_after.is_some()).count());
    let Server { finished: answered, unheard, aborted, abandoned, .. } = world.nodes[SERVER].as_server();
    let executed = answered + unheard + aborted + abandoned;
    assert!((*finished..=calls.len()).contains(&executed), "{executed} calls executed of {}", calls.len());
    assert!(aborted + abandoned <= *given_up);
    // A client that has its reply and then moves, or whose address was never proved so that nothing more may
    // be sent there, cannot be told apart from one that died.
    let out_of_reach = faults.iter().any(|(_, fault)| matches!(fault, Fault::Rebind(..)))
        || world.nodes[SERVER].endpoint.stats().amplification_limited > 0;
    assert!(*unheard == 0 || out_of_reach, "{unheard} replies without an ACK");

    // Late duplicates and last timers must find nothing to hold on to.
    let limit = world.elapsed() + DRAIN_TIME;
    world.run_until(limit, |_| false);
    for (name, host) in ["client", "server"].iter().zip(&world.nodes) {
        assert_no_leak(name, &host.endpoint);
    }
    Trace { elapsed: world.elapsed(), wire: world.wiretap.counts, fates: world.network.fates }
}

fn assert_no_leak(name: &str, endpoint: &Endpoint) {
    let pool = endpoint.pool();
    assert_eq!(pool.allocated(), pool.free_count() + pool.in_use(), "{name}: packets unaccounted for");
    assert_eq!(pool.in_use(), 0, "{name}: packets leaked");
}

/// Runs one seed, and names the seed in a failure.
fn run_seed(seed: u64) -> Result<Trace, String> {
    let scenario = Scenario::draw(seed);
    catch_unwind(AssertUnwindSafe(|| run(&scenario))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("{scenario:#?}\n{}", text.unwrap_or_default())
    })
}

fn run_range(seeds: std::ops::Range<u64>) {
    let mut failed = Vec::new();
    for seed in seeds {
        if let Err(why) = run_seed(seed) {
            failed.push(seed);
            eprintln!("seed {seed}: {}", why.lines().last().unwrap_or_default());
            if failed.len() >= FAILURES_SHOWN {
                break;
            }
        }
    }
    let repro: Vec<_> = failed
        .iter()
        .map(|seed| format!("RX_SIM_SEED={seed} cargo test -p rx --test all one_seed"))
        .collect();
    assert!(failed.is_empty(), "run one of these again:\n{}", repro.join("\n"));
}

#[test]
fn seeds_0_to_499_finish_every_call_and_leak_nothing() {
    run_range(0..500);
}

/// Tests five hundred seeds more: of the day that `LANE_SIM_DAY` names, or the next ones.
#[test]
fn five_hundred_other_seeds_finish_every_call_and_leak_nothing() {
    let day = std::env::var("LANE_SIM_DAY").ok().map(|day| day.parse::<u64>().expect("a day is a number"));
    let first = day.map_or(500, |day| day * 10_000);
    run_range(first..first + 500);
}

/// Runs the seed of `RX_SIM_SEED`, for a look at a failure; seed 0 without the variable.
#[test]
fn one_seed_runs_alone() {
    let seed = std::env::var("RX_SIM_SEED").map_or(0, |seed| seed.parse().expect("RX_SIM_SEED is a number"));
    match run_seed(seed) {
        Ok(trace) => println!("seed {seed}: {trace:#?}"),
        Err(why) => panic!("seed {seed}: {why}"),
    }
}

#[test]
fn same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
    }
}

/// Virtual time that the calls of a scenario may take.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Virtual time for which the pair is left alone after the last call.
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// Failures after which the rest is not run.
const FAILURES_SHOWN: usize = 10;
