//! The rule: no client relies on what is stale while it holds a callback, if it can be reached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, seeds};
use rand::Rng;
use xdr::afs::AfsUuid;

use super::bed::Bed;
use super::client::{Kind, Mode};

/// A thousand histories, in four tests that run beside each other.
#[test]
fn no_client_that_can_be_reached_relies_on_what_is_stale() {
    live_through(0);
}

#[test]
fn no_client_that_can_be_reached_relies_on_what_is_stale_2() {
    live_through(1);
}

#[test]
fn no_client_that_can_be_reached_relies_on_what_is_stale_3() {
    live_through(2);
}

#[test]
fn no_client_that_can_be_reached_relies_on_what_is_stale_4() {
    live_through(3);
}

fn live_through(quarter: u64) {
    let totals: Rc<RefCell<BTreeMap<&'static str, u64>>> = Rc::default();
    let all = 250;
    let counted = Rc::clone(&totals);
    seeds(all, move |seed| {
        let seed = seed + quarter * all;
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        config.mesh.delay = Duration::ZERO..Duration::from_millis(1);
        if seed % 2 == 1 {
            config.net.link.loss = 0.02;
            config.net.link.reorder = 0.02;
            config.net.link.duplicate = 0.02;
            config.net.link.jitter = Duration::from_millis(3);
        }
        for (what, count) in run(seed, config) {
            *counted.borrow_mut().entry(what).or_default() += count;
        }
    });
    let totals = totals.borrow();
    // They were no easy histories; one seed alone need not have all.
    if totals.get("seeds").is_some_and(|seeds| *seeds == all) {
        for what in
            ["kill", "power", "cut off", "moved", "anew", "mode", "writes", "served", "told", "resets"]
        {
            assert!(totals.get(what).is_some_and(|count| *count > 100), "{what}: {totals:?}");
        }
        for what in ["hosts moved", "probes", "refused", "down"] {
            assert!(totals.get(what).is_some_and(|count| *count > 10), "{what}: {totals:?}");
        }
    }
}

fn run(seed: u64, config: Config) -> BTreeMap<&'static str, u64> {
    let is_lossless = config.net.link.loss == 0.0;
    let mut bed = Bed::new(seed, config);
    let mut counts = BTreeMap::<&'static str, u64>::new();
    for n in 0..bed.players.len() {
        bed.begin(n);
    }
    let began = bed.world.now();
    while bed.world.now() - began < Duration::from_secs(16) {
        let pause = bed.rng.random_range(1..150);
        bed.world.run_for(Duration::from_millis(pause));
        bed.check();
        if bed.rng.random_bool(0.1) {
            let what = happen(&mut bed);
            *counts.entry(what).or_default() += 1;
        }
    }
    tally(&bed, &mut counts);
    let process = bed.shared.process.borrow().clone().expect("it runs");
    for lane in &*process.lanes.borrow() {
        let longest = lane.longest_write.get();
        let most = Duration::from_secs(if is_lossless { 5 } else { 6 });
        assert!(longest < most, "a write waited for {longest:?}");
    }
    drop(process);
    bed.end();
    *counts.entry("seeds").or_default() += 1;
    counts
}

/// Something befalls the server, the network or a client.
fn happen(bed: &mut Bed) -> &'static str {
    let n = bed.rng.random_range(0..bed.players.len());
    let now = bed.world.now();
    // All of one machine.
    let machine = bed.players[n].machine;
    let of_machine: Vec<_> = (0..bed.players.len()).filter(|&n| bed.players[n].machine == machine).collect();
    let (net, host) = (bed.world.net(), bed.players[n].client.host().clone());
    match bed.rng.random_range(0..20) {
        by @ 0..2 => {
            bed.fall(by == 1);
            let pause = bed.rng.random_range(0..2000);
            bed.world.run_for(Duration::from_millis(pause));
            bed.start();
            if by == 1 { "power" } else { "kill" }
        }
        2..7 => {
            let is_cut_off = !bed.players[n].is_cut_off.get();
            if is_cut_off {
                net.partition(&host, &bed.server)
            } else {
                net.heal(&host, &bed.server)
            }
            for n in of_machine {
                bed.players[n].is_cut_off.set(is_cut_off);
                bed.players[n].doubt(now);
            }
            "cut off"
        }
        7..10 => {
            // The address translator forgets.
            net.rebind_nat(&host);
            of_machine.into_iter().for_each(|n| bed.players[n].doubt(now));
            "moved"
        }
        10..15 => {
            let modes = [Mode::Good, Mode::Good, Mode::Unknown, Mode::Refuses, Mode::Garbage, Mode::Deaf];
            bed.players[n].client.mode.set(modes[bed.rng.random_range(0..modes.len())]);
            bed.players[n].doubt(now);
            "mode"
        }
        _ => {
            for &n in &of_machine {
                let client = &bed.players[n].client;
                client.end();
                if client.kind != Kind::Nameless && bed.rng.random() {
                    client.uuid.set(AfsUuid(bed.rng.random()));
                }
            }
            host.kill();
            let pause = bed.rng.random_range(0..3000);
            bed.world.run_for(Duration::from_millis(pause));
            host.restart();
            let now = bed.world.now();
            for n in of_machine {
                bed.players[n].doubt(now);
                bed.begin(n);
            }
            "anew"
        }
    }
}

/// Adds what the server of this life has counted.
fn tally(bed: &Bed, counts: &mut BTreeMap<&'static str, u64>) {
    let process = bed.shared.process.borrow().clone().expect("it runs");
    let mut count = |what, more: u64| *counts.entry(what).or_default() += more;
    count("writes", bed.shared.writes.get().into());
    count("served", bed.players.iter().map(|player| u64::from(player.served.get())).sum());
    count("told", process.sum(|hosts| hosts.breaks.get()));
    count("resets", process.sum(|hosts| hosts.resets.get()));
    count("hosts moved", process.sum(|hosts| hosts.hosts_moved.get()));
    count("probes", process.sum(|hosts| hosts.probes.get()));
    count("refused", process.sum(|hosts| hosts.refused_silent.get() + hosts.refused_owes.get()));
    count("down", process.vfs(|vfs| vfs.clients_down.get()));
}
