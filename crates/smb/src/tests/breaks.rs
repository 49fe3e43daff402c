//! Breaks of a lease on ways that are cut or long: where the first channel is silent the next one is told, and no sooner than the way of the
//! first allows.

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{LinkConfig, Net, seeds};
use lane::time::{now, sleep, timeout};
use smb_client::{BreakNotification, Channel, Connection, Open, OpenParams, Options as ClientOptions, Tree};
use smb_wire::Guid;
use smb_wire::create::lease::{Lease, LeaseV2, state};
use zerocopy::FromZeros;

use super::bed::{Bed, Clients, bind, rules, run_in, sign_in, until};

/// Makes parameters of an open with a lease: no other client has the file in its cache.
fn leased() -> OpenParams {
    let all = state::READ | state::WRITE | state::HANDLE;
    let wanted = LeaseV2 { lease_key: KEY, lease_state: all.into(), ..LeaseV2::new_zeroed() };
    OpenParams::overwrite().lease(&Lease::V2(&wanted))
}

/// Host 0 is so far away.
fn far(world: &Clients, bed: &Bed, net: &Net, round_trip: Duration, jitter: Duration) {
    let usual = net.link(&world.hosts[0], &bed.host);
    net.set_link(&world.hosts[0], &bed.host, LinkConfig { latency: round_trip / 2, jitter, ..usual });
}

/// On host 0: a client that has the file leased.
async fn holder(world: &Clients, bed: &Bed, options: ClientOptions) -> Tree {
    let address = bed.address;
    world
        .on(0, async move {
            let tree = sign_in(address, options).await.unwrap();
            let file = Open::create(&tree, "held", &leased()).await.unwrap();
            assert_eq!(file.lease().map(|(state, _)| state), Some(7));
            tree
        })
        .await
}

/// Makes a client on host 2 that opens the file, once it is told to.
async fn opener(world: &Clients, bed: &Bed) -> Tree {
    let (address, options) = (bed.address, bed.client());
    world.on(2, async move { sign_in(address, options).await.unwrap() }).await
}

fn opens(world: &Clients, tree: &Tree) -> lane::Task<()> {
    let tree = tree.clone();
    world.hosts[2]
        .start_on(0, async move { drop(Open::create(&tree, "held", &OpenParams::read()).await.unwrap()) })
}

/// Returns what a client hears within twenty seconds, and when; it gives back what it is asked for.
async fn hears(tree: &Tree) -> std::time::Instant {
    let broken = timeout(Duration::from_secs(20), tree.channel().connection().next_break()).await;
    let at = now();
    let Ok(Ok(BreakNotification::Lease { key, new, acknowledge: true, .. })) = broken else {
        panic!("{broken:?}")
    };
    assert_eq!((key, new), (KEY, state::READ | state::HANDLE));
    tree.acknowledge_lease(key, new).await.unwrap();
    at
}

#[test]
fn a_channel_that_is_cut_off_is_waited_for_as_its_way_is_long_and_the_next_one_is_told() {
    seeds(24, |seed| {
        run_in(seed, rules(), async move |bed, world, net| {
            let other = bed.add_lane().await;
            let round_trip = Duration::from_millis([0, 50, 150, 400, 3000][seed as usize % 5]);
            far(&world, &bed, &net, round_trip, Duration::ZERO);
            let options = bed.client();
            let one = holder(&world, &bed, options.clone()).await;
            let theirs = opener(&world, &bed).await;
            let (anchor, address) = (one.clone(), if seed % 2 == 0 { bed.address } else { other.address });
            let two = world.on(1, async move { bind(&anchor, address, options).await.unwrap() }).await;
            // At any moment of the server's.
            sleep(2 * round_trip + Duration::from_millis(seed % 50 * 7)).await;
            net.partition(&world.hosts[0], &bed.host);
            let began = now();
            let opening = opens(&world, &theirs);
            let heard = world.on(1, async move { (hears(&two).await, two) });
            let (heard, two) = heard.await;
            opening.await;
            let patience = 6 * (round_trip + Duration::from_millis(200)).min(Duration::from_secs(1));
            let took = heard - began;
            let within = patience..patience + Duration::from_millis(700);
            assert!(within.contains(&took), "{took:?} is not in {within:?}, seed {seed}");
            let all = |of: fn(&crate::SmbCounters) -> u64| of(bed.counters()) + of(&other.counters);
            assert_eq!(all(|counters| counters.ended_unacknowledged.get()), 1);
            assert_eq!(all(|counters| counters.breaks_sent.get()), 2);
            assert_eq!(all(|counters| counters.breaks_sent_again.get()), 1);
            assert_eq!(all(|counters| counters.breaks_undelivered.get()), 0);
            net.heal(&world.hosts[0], &bed.host);
            world.on(0, async move { drop(one) }).await;
            world.on(1, async move { two.channel().log_off().await.unwrap() }).await;
        });
    });
}

#[test]
fn a_channel_on_a_long_way_is_not_taken_for_one_that_is_cut_off() {
    for (seed, jitter) in [(1, 0), (2, 40), (3, 80)] {
        run_in(seed, rules(), async move |bed, world, net| {
            far(&world, &bed, &net, Duration::from_millis(1400), Duration::from_millis(jitter));
            let options = bed.client();
            let one = holder(&world, &bed, options.clone()).await;
            let theirs = opener(&world, &bed).await;
            let (anchor, address) = (one.clone(), bed.address);
            let two = world.on(1, async move { bind(&anchor, address, options).await.unwrap() }).await;
            let opening = opens(&world, &theirs);
            world.on(0, async move { drop((hears(&one).await, one)) }).await;
            opening.await;
            assert_eq!(bed.counters().ended_unacknowledged.get(), 0);
            assert_eq!((bed.counters().breaks_sent.get(), bed.counters().breaks_sent_again.get()), (1, 0));
            world.on(1, async move { drop(two) }).await;
        });
    }
}

#[test]
fn who_has_not_signed_in_is_no_way_to_a_client() {
    run_in(1, rules(), async move |bed, world, net| {
        let (options, address) = (bed.client(), bed.address);
        let one = holder(&world, &bed, options.clone()).await;
        let theirs = opener(&world, &bed).await;
        let waiting = world.on(1, async move { Connection::open(address, options).await.unwrap() }).await;
        net.partition(&world.hosts[0], &bed.host);
        let began = now();
        let opening = opens(&world, &theirs);
        let lane = Rc::clone(&bed);
        until("it is given up", || lane.counters().ended_unacknowledged.get() == 1).await;
        let took = now() - began;
        assert!((Duration::from_secs(6)..Duration::from_millis(6700)).contains(&took), "{took:?}");
        // No client holds the file any more.
        opening.await;
        assert_eq!((bed.counters().breaks_sent.get(), bed.counters().breaks_undelivered.get()), (1, 1));
        net.heal_all();
        world.on(0, async move { drop(one) }).await;
        world.on(1, async move { drop(waiting) }).await;
    });
}

#[test]
fn a_channel_that_comes_while_another_is_silent_is_told() {
    for delay in [500, 2500, 4000].map(Duration::from_millis) {
        run_in(1, rules(), async move |bed, world, net| {
            let (options, address) = (bed.client(), bed.address);
            let one = holder(&world, &bed, options.clone()).await;
            let theirs = opener(&world, &bed).await;
            net.partition(&world.hosts[0], &bed.host);
            let began = now();
            let opening = opens(&world, &theirs);
            sleep(delay).await;
            let anchor = one.clone();
            let heard = world.on(1, async move {
                let connection = Connection::open(address, options).await.unwrap();
                let channel = Channel::bind(&connection, &anchor.channel().ticket()).await.unwrap();
                let two = anchor.over(&channel);
                (hears(&two).await, two)
            });
            let (heard, two) = heard.await;
            opening.await;
            let (took, soonest) = (heard - began, delay.max(Duration::from_millis(1200)));
            let within = soonest..soonest + Duration::from_millis(700);
            assert!(within.contains(&took), "{took:?} is not in {within:?}");
            assert_eq!(bed.counters().breaks_undelivered.get(), 0);
            net.heal_all();
            world.on(0, async move { drop(one) }).await;
            world.on(1, async move { drop(two) }).await;
        });
    }
}

const KEY: Guid = Guid::new([7; 16]);
