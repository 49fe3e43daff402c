//! One rule each: which client is taken for a host, what a host is told, and what others wait for.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs::host::HostOptions;
use index::Memory;
use lane::backend::sim::{Config, Host, World};
use lane::time;
use rx_lane::CallError;
use xdr::afs::AfsUuid;

use super::client::{Client, Kind, Mode};
use super::server::{FILES, GIVE_UP_ALL, LANES, Process};

/// A server, and clients that do as they are told.
struct Scene {
    process: Option<Process>,
    clients: Vec<Rc<Client>>,
    memory: Memory,
    options: HostOptions,
    server: Host,
    world: World,
}

impl Scene {
    fn new(options: HostOptions) -> Self {
        let mut config = Config::clean();
        config.descriptors_max = 4096;
        let world = World::new(7, config);
        let server = world.host("10.0.0.1");
        server.fs().create_dir_all("/srv").unwrap();
        for _ in 1..LANES {
            server.add_lane();
        }
        let mut scene =
            Self { world, server, memory: Memory::default(), options, process: None, clients: Vec::new() };
        scene.start(1);
        scene
    }

    fn start(&mut self, boot: u8) {
        let process = Process::start(&self.world, &self.server, &self.memory, boot, self.options, |_| {});
        self.process = Some(process);
        self.world.run_for(Duration::from_millis(50));
    }

    /// A server that is killed.
    fn fall(&mut self) {
        let process = self.process.take().expect("it runs");
        process.lanes.borrow_mut().clear();
        drop(process);
        self.server.kill();
        self.memory = self.memory.parted();
        self.server.restart();
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// A client on a host of this address, at this port.
    fn client(&mut self, ip: &str, port: u16, kind: Kind) -> Rc<Client> {
        self.client_that(ip, port, kind, true)
    }

    /// Makes a client ([`Scene::client`]); one that is not careful would lose a break that overtakes a reply.
    fn client_that(&mut self, ip: &str, port: u16, kind: Kind, is_careful: bool) -> Rc<Client> {
        let host = self.world.host(ip);
        let number = self.clients.len() as u8 + 1;
        let client = Client::new(Some(host.clone()), kind, number, is_careful);
        let begins = Rc::clone(&client);
        self.on(&host, async move { begins.begin(port, u64::from(number)) });
        self.clients.push(Rc::clone(&client));
        client
    }

    fn on<T: 'static>(&self, host: &Host, work: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(host, work)
    }

    fn read(&self, client: &Rc<Client>, file: &'static str) -> Result<u8, CallError> {
        let me = Rc::clone(client);
        self.on(client.host(), async move { me.read(0, file).await.map(|kept| kept.content) })
    }

    /// Reads a file that it keeps then: what a client asked for before it was told that it relies on nothing it does not.
    fn keep(&self, client: &Rc<Client>, file: &'static str) {
        self.read(client, file).unwrap();
        self.read(client, file).unwrap();
        assert!(client.cache.borrow().contains_key(file));
    }

    /// Has the client open other connections.
    fn reconnect(&self, client: &Rc<Client>) {
        let me = Rc::clone(client);
        self.on(client.host(), async move { me.connect() });
    }

    /// Returns how long it took.
    fn write(&self, client: &Rc<Client>, file: &'static str, content: u8) -> Result<Duration, CallError> {
        let me = Rc::clone(client);
        self.on(client.host(), async move {
            let began = time::now();
            me.write(0, file, content).await.map(|_| time::now() - began)
        })
    }

    fn end(mut self) {
        if let Some(process) = self.process.take() {
            process.lanes.borrow_mut().clear();
        }
        self.clients.iter().for_each(|client| client.end());
        self.clients.clear();
        self.world.end();
    }
}

/// Time that a message over the network takes at most.
const AT_ONCE: Duration = Duration::from_millis(20);

#[test]
fn a_client_is_told_that_it_relies_on_nothing_before_it_is_served_first() {
    for kind in [Kind::Today, Kind::Volumes, Kind::Older, Kind::Nameless] {
        let mut scene = Scene::new(HostOptions::default());
        let client = scene.client("10.0.1.1", 7001, kind);
        assert_eq!(scene.read(&client, "a"), Ok(0));
        let calls = |index: usize| client.tally.of(index).replied;
        // In the order of the interface: 205, 212, 213, 65538.
        let expected = match kind {
            Kind::Today | Kind::Volumes => [0, 0, 1, 1],
            Kind::Older => [0, 1, 1, 0],
            Kind::Nameless => [1, 0, 0, 0],
        };
        assert_eq!([calls(1), calls(3), calls(4), calls(6)], expected, "{kind:?}");
        // Other connections of the same client need not ask.
        for which in 0..4 {
            let me = Rc::clone(&client);
            scene.on(client.host(), async move { me.read(which, "b").await.unwrap() });
        }
        assert_eq!([calls(1), calls(3), calls(4), calls(6)], expected, "{kind:?}");
        assert_eq!(scene.process().hosts.len(), 1);
        scene.end();
    }
}

#[test]
fn a_change_is_told_to_who_relies_on_the_file_and_not_to_who_makes_it() {
    let mut scene = Scene::new(HostOptions::default());
    let [one, two] = ["10.0.1.1", "10.0.1.2"].map(|ip| scene.client(ip, 7001, Kind::Today));
    for file in FILES {
        scene.keep(&one, file);
        scene.keep(&two, file);
    }
    assert!(scene.write(&one, "b", 1).unwrap() < AT_ONCE);
    assert_eq!((one.files_told.get(), two.files_told.get()), (0, 1));
    assert_eq!((one.cache.borrow().len(), two.cache.borrow().len()), (3, 2));
    // It is told once: it relies on it no more.
    scene.write(&one, "b", 2).unwrap();
    assert_eq!(two.files_told.get(), 1);
    assert_eq!(scene.read(&two, "b"), Ok(2));
    scene.end();
}

#[test]
fn who_does_not_answer_when_he_is_called_is_no_host_and_holds_up_nobody() {
    let mut scene = Scene::new(HostOptions::default());
    let good = scene.client("10.0.1.1", 7001, Kind::Today);
    scene.read(&good, "a").unwrap();
    for (n, mode) in [Mode::Deaf, Mode::Garbage, Mode::Refuses].into_iter().cycle().take(60).enumerate() {
        let bad = scene.client(&format!("10.0.3.{n}"), 7001, Kind::Today);
        bad.mode.set(mode);
    }
    let all: Vec<_> = scene.clients[1..]
        .iter()
        .map(|bad| {
            let bad = Rc::clone(bad);
            bad.host().clone().start_on(0, async move { bad.read(0, "a").await.map(drop) })
        })
        .collect();
    // While they are asked, too.
    assert!(scene.write(&good, "a", 1).unwrap() < AT_ONCE);
    let refused = scene.on(good.host(), async move {
        let mut refused = Vec::new();
        for one in all {
            refused.push(one.await);
        }
        refused
    });
    assert!(
        refused.iter().all(|answer| *answer == Err(CallError::Aborted(rx::abort::CALL_DEAD))),
        "{refused:?}"
    );
    assert!(scene.write(&good, "a", 2).unwrap() < AT_ONCE);
    let process = scene.process();
    assert_eq!(process.hosts.len(), 1);
    assert_eq!(process.sum(|hosts| hosts.refused_silent.get()), 60);
    // A client that answers after all is one, once it is asked again.
    scene.world.run_for(Duration::from_secs(5));
    scene.clients[1].mode.set(Mode::Good);
    assert_eq!(scene.read(&scene.clients[1], "a"), Ok(2));
    scene.end();
}

#[test]
fn hosts_that_fall_silent_hold_up_a_write_for_four_seconds_however_many_they_are_and_then_nobody() {
    let options = HostOptions { silent_per_address_max: 16, ..HostOptions::default() };
    let mut scene = Scene::new(options);
    let good = scene.client("10.0.1.1", 7001, Kind::Today);
    for n in 0..120 {
        let ip = format!("10.0.3.{}", n / 40);
        let client = scene.client(&ip, 7001 + n % 40, Kind::Today);
        scene.read(&client, "a").unwrap();
        client.mode.set(Mode::Deaf);
    }
    let took = scene.write(&good, "a", 1).unwrap();
    assert!(took > Duration::from_secs(3) && took < Duration::from_millis(4100), "{took:?}");
    // They have been told three times by then.
    scene.world.run_for(Duration::from_secs(9));
    for content in 2..5 {
        assert!(scene.write(&good, "a", content).unwrap() < AT_ONCE);
    }
    // No client of these addresses is taken any more, until they answer again or have been silent for a
    // while.
    let other = scene.client("10.0.3.0", 9000, Kind::Today);
    assert_eq!(scene.read(&other, "a"), Err(CallError::Aborted(afs_wire::code::VBUSY)));
    scene.world.run_for(options.silence);
    assert_eq!(scene.read(&other, "a"), Ok(4), "one of them has left");
    for client in &scene.clients[1..41] {
        client.mode.set(Mode::Good);
        assert_eq!(scene.read(client, "a"), Ok(4), "it hears first what it has missed");
    }
    scene.end();
}

#[test]
fn who_gives_up_everything_is_told_nothing() {
    let mut scene = Scene::new(HostOptions::default());
    let [one, two] = ["10.0.1.1", "10.0.1.2"].map(|ip| scene.client(ip, 7001, Kind::Today));
    scene.read(&two, "a").unwrap();
    let me = Rc::clone(&two);
    scene.on(two.host(), async move { me.call(1, &[GIVE_UP_ALL]).await.unwrap() });
    two.mode.set(Mode::Deaf);
    assert!(scene.write(&one, "a", 1).unwrap() < AT_ONCE);
    assert_eq!(scene.process().sum(|hosts| hosts.callbacks_given_up_all.get()), 1);
    two.mode.set(Mode::Good);
    assert_eq!(scene.read(&two, "a"), Ok(1));
    scene.end();
}

#[test]
fn a_stop_waits_for_nobody_who_gave_up_everything_or_is_down_and_for_who_relies_again() {
    let mut scene = Scene::new(HostOptions::default());
    let clients: Vec<_> = (1..=4).map(|n| scene.client(&format!("10.0.1.{n}"), 7001, Kind::Today)).collect();
    let [gone, relies, down, writer] = &clients[..] else { panic!("there are four") };
    for client in [gone, relies, down] {
        scene.read(client, "a").unwrap();
    }
    down.mode.set(Mode::Deaf);
    scene.write(writer, "a", 1).unwrap();
    scene.world.run_for(Duration::from_secs(20));
    for client in [gone, relies, writer] {
        scene.read(client, "a").unwrap();
        let me = Rc::clone(client);
        scene.on(client.host(), async move { me.call(1, &[GIVE_UP_ALL]).await.unwrap() });
    }
    gone.mode.set(Mode::Deaf);
    writer.mode.set(Mode::Deaf);
    scene.keep(relies, "a");
    let hosts = Rc::clone(&scene.process().lanes.borrow()[0].hosts);
    let took = scene.on(&scene.server, async move {
        let began = lane::time::now();
        hosts.release_all().await;
        lane::time::now() - began
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(relies.cache.borrow().is_empty(), "who relies on something is told");
    scene.end();
}

#[test]
fn a_client_whose_port_is_closed_holds_up_no_change_no_stop_and_no_start_and_hears_when_it_comes_again() {
    let mut scene = Scene::new(HostOptions::default());
    let [writer, gone, deaf] =
        ["10.0.1.1", "10.0.1.2", "10.0.1.3"].map(|ip| scene.client(ip, 7001, Kind::Today));
    scene.keep(&gone, "a");
    scene.read(&writer, "b").unwrap();
    gone.host().kill();
    assert!(scene.write(&writer, "a", 1).unwrap() < AT_ONCE);
    assert_eq!(scene.process().vfs(|vfs| vfs.clients_down.get()), 1);
    assert!(scene.write(&writer, "a", 2).unwrap() < AT_ONCE, "nobody tells it again");
    // A client that is there and does not answer is waited for beside it.
    scene.keep(&deaf, "a");
    deaf.mode.set(Mode::Deaf);
    let took = scene.write(&writer, "a", 3).unwrap();
    assert!(took > Duration::from_secs(3), "{took:?}");
    deaf.mode.set(Mode::Good);
    assert_eq!(scene.read(&deaf, "a"), Ok(3));
    // It begins anew where it was, and is a host as before.
    gone.end();
    gone.host().restart();
    let begins = Rc::clone(&gone);
    scene.on(gone.host(), async move { begins.begin(7001, 77) });
    scene.keep(&gone, "a");
    scene.write(&writer, "a", 4).unwrap();
    assert!(gone.cache.borrow().is_empty(), "it is told again");
    scene.keep(&gone, "a");
    gone.host().kill();
    let hosts = Rc::clone(&scene.process().lanes.borrow()[0].hosts);
    let (silent, took) = scene.on(&scene.server, async move {
        let began = time::now();
        (hosts.release_all().await, time::now() - began)
    });
    assert!(silent == 1 && took < AT_ONCE, "{silent}, {took:?}");
    scene.process().index.flush().unwrap();
    scene.fall();
    scene.start(1);
    let resets = scene.process().resets.get().expect("nobody is waited for");
    assert_eq!((resets.heard, resets.silent), (0, 1));
    scene.end();
}

#[test]
fn clients_that_are_gone_keep_no_other_of_their_address_out() {
    let options = HostOptions { silent_per_address_max: 16, ..HostOptions::default() };
    let mut scene = Scene::new(options);
    let writer = scene.client("10.0.1.1", 7001, Kind::Today);
    scene.read(&writer, "b").unwrap();
    for n in 0..40 {
        let client = scene.client("10.0.3.1", 7001 + n, Kind::Today);
        scene.keep(&client, "a");
    }
    let host = scene.clients[1].host().clone();
    host.kill();
    assert!(scene.write(&writer, "a", 1).unwrap() < AT_ONCE);
    scene.clients[1..].iter().for_each(|client| client.end());
    host.restart();
    let other = scene.client("10.0.3.1", 9000, Kind::Today);
    assert_eq!(scene.read(&other, "a"), Ok(1));
    scene.end();
}

#[test]
fn a_reply_to_a_client_that_is_gone_holds_up_what_breaks_its_promise_for_a_moment_only() {
    let mut scene = Scene::new(HostOptions::default());
    let [writer, gone] = ["10.0.1.1", "10.0.1.2"].map(|ip| scene.client_that(ip, 7001, Kind::Today, false));
    scene.keep(&gone, "a");
    scene.read(&writer, "b").unwrap();
    scene.world.run_for(Duration::from_secs(1));
    scene.read(&gone, "a").unwrap();
    // It has not acknowledged the reply.
    gone.host().kill();
    let took = scene.write(&writer, "a", 1).unwrap();
    assert!(Duration::from_millis(50) < took && took < Duration::from_millis(200), "{took:?}");
    scene.end();
}

#[test]
fn a_client_that_answers_at_another_of_its_addresses_is_not_gone() {
    let mut scene = Scene::new(HostOptions::default());
    let writer = scene.client("10.0.1.1", 7001, Kind::Today);
    // The second is where the first says that it is too.
    let [first, second] = ["10.0.1.2", "10.0.1.0"].map(|ip| scene.client(ip, 7001, Kind::Today));
    second.uuid.set(first.uuid.get());
    scene.read(&writer, "c").unwrap();
    scene.keep(&first, "a");
    scene.keep(&second, "a");
    scene.keep(&second, "b");
    assert_eq!(scene.process().hosts.len(), 2, "the writer, and one client at two places");
    first.host().kill();
    assert!(scene.write(&writer, "a", 1).unwrap() < AT_ONCE);
    assert!(!second.cache.borrow().contains_key("a"), "it is told where it is");
    assert_eq!(scene.process().vfs(|vfs| vfs.clients_down.get()), 0);
    second.host().kill();
    assert!(scene.write(&writer, "b", 1).unwrap() < AT_ONCE);
    assert_eq!(scene.process().vfs(|vfs| vfs.clients_down.get()), 1, "it is at neither");
    scene.end();
}

#[test]
fn after_a_crash_hosts_are_told_before_the_first_change_and_after_a_stop_in_order_before_it_ends() {
    let mut scene = Scene::new(HostOptions::default());
    let [one, two, deaf] = ["10.0.1.1", "10.0.1.2", "10.0.1.3"].map(|ip| scene.client(ip, 7001, Kind::Today));
    for client in [&one, &two, &deaf] {
        scene.keep(client, "a");
    }
    deaf.mode.set(Mode::Deaf);
    scene.fall();
    scene.start(1);
    assert!(scene.process().resets.get().is_none(), "it waits for who does not answer");
    assert!(one.cache.borrow().is_empty() && two.cache.borrow().is_empty(), "they have heard");
    scene.world.run_for(Duration::from_secs(5));
    let resets = scene.process().resets.get().unwrap();
    assert_eq!((resets.heard, resets.silent, resets.over), (2, 1, 0));
    scene.clients.iter().for_each(|client| scene.reconnect(client));
    scene.keep(&one, "a");
    deaf.mode.set(Mode::Good);
    scene.keep(&deaf, "a");
    deaf.mode.set(Mode::Deaf);
    let hosts = Rc::clone(&scene.process().lanes.borrow()[0].hosts);
    let silent = scene.on(&scene.server, async move { hosts.release_all().await });
    assert_eq!(silent, 1);
    assert!(one.cache.borrow().is_empty());
    assert_eq!(scene.process().hosts.len(), 1, "who has heard is no host any more");
    scene.process().index.flush().unwrap();
    scene.fall();
    deaf.mode.set(Mode::Good);
    scene.start(1);
    let resets = scene.process().resets.get().unwrap();
    assert_eq!(
        (resets.heard, resets.silent, resets.over),
        (1, 0, 0),
        "who has not is told by the next server"
    );
    assert!(deaf.cache.borrow().is_empty());
    scene.end();
}

#[test]
fn what_was_promised_long_before_a_crash_is_over() {
    let mut scene = Scene::new(HostOptions::default());
    let one = scene.client("10.0.1.1", 7001, Kind::Today);
    scene.read(&one, "a").unwrap();
    scene.fall();
    one.mode.set(Mode::Deaf);
    scene.world.run_for(Duration::from_secs(3 * 3600));
    scene.start(1);
    let resets = scene.process().resets.get().unwrap();
    assert_eq!((resets.heard, resets.silent, resets.over), (0, 0, 1), "nobody is waited for");
    scene.end();
}

#[test]
fn when_places_are_short_the_oldest_host_is_told_and_leaves() {
    let options = HostOptions { hosts_max: 2, ..HostOptions::default() };
    let mut scene = Scene::new(options);
    let all: Vec<_> = (1..4).map(|n| scene.client(&format!("10.0.1.{n}"), 7001, Kind::Today)).collect();
    for client in &all {
        scene.keep(client, "a");
        scene.world.run_for(Duration::from_secs(2));
    }
    assert_eq!(scene.process().hosts.len(), 2);
    let kept: Vec<_> = all.iter().map(|client| client.cache.borrow().len()).collect();
    assert_eq!(kept, [0, 1, 1]);
    // It comes again by the connection that it has, and another one leaves.
    scene.keep(&all[0], "a");
    scene.world.run_for(Duration::from_secs(1));
    let kept: Vec<_> = all.iter().map(|client| client.cache.borrow().len()).collect();
    assert_eq!(kept, [1, 0, 1]);
    scene.end();
}

#[test]
fn hosts_that_ask_for_nothing_any_more_are_forgotten_everywhere() {
    let mut scene = Scene::new(HostOptions::default());
    let one = scene.client("10.0.1.1", 7001, Kind::Today);
    scene.read(&one, "a").unwrap();
    // A client that asks now and then stays, and the index hears of it.
    for _ in 0..3 {
        scene.world.run_for(Duration::from_secs(3000));
        scene.reconnect(&one);
        scene.read(&one, "a").unwrap();
        assert_eq!(scene.process().sum(|hosts| hosts.hosts_made.get()), 1);
    }
    scene.world.run_for(Duration::from_secs(2 * 3600));
    assert_eq!(scene.process().hosts.len(), 0);
    assert_eq!(scene.process().sum(|hosts| hosts.hosts_idle.get()), 1);
    scene.process().index.flush().unwrap();
    scene.fall();
    scene.start(1);
    assert_eq!(scene.process().resets.get().unwrap(), afs::host::Resets::default());
    scene.end();
}

#[test]
fn who_voids_a_volume_as_one_relies_after_a_kill_on_what_it_asked_for_since_alone() {
    let mut scene = Scene::new(HostOptions::default());
    let [one, two] = ["10.0.1.1", "10.0.1.2"].map(|ip| scene.client(ip, 7001, Kind::Volumes));
    for file in FILES {
        scene.keep(&one, file);
    }
    scene.fall();
    scene.start(1);
    assert!(!one.relies() && one.cache.borrow().len() == FILES.len());
    scene.write(&two, "b", 1).unwrap();
    scene.keep(&one, "a");
    assert!(one.relies());
    assert_eq!(one.cache.borrow().keys().copied().collect::<Vec<_>>(), ["a"]);
    scene.end();
}

#[test]
fn a_host_whose_home_lane_ends_is_told_by_another() {
    let mut scene = Scene::new(HostOptions::default());
    let [one, two] = ["10.0.1.1", "10.0.1.2"].map(|ip| scene.client(ip, 7001, Kind::Today));
    // Its first connection is on one of the lanes, which is its home.
    scene.keep(&two, "a");
    let home =
        scene.process().lanes.borrow().iter().position(|lane| lane.hosts.counters().hosts_made.get() > 0);
    let home = home.unwrap();
    scene.process().lanes.borrow_mut().remove(home);
    scene.server.end_lane(home);
    scene.world.run_for(Duration::from_secs(1));
    assert!(two.cache.borrow().is_empty(), "what a lane has promised is void with it");
    let served = Rc::new(Cell::new(0));
    for which in 0..4 {
        let (me, served) = (Rc::clone(&one), Rc::clone(&served));
        let reading = async move {
            let read = time::timeout(Duration::from_secs(3), me.read(which, "a")).await;
            served.set(served.get() + u32::from(matches!(read, Ok(Ok(_)))));
        };
        scene.on(one.host(), reading);
    }
    assert!(served.get() > 0, "by connections to the other lane");
    scene.end();
}

#[test]
fn two_clients_behind_one_address_are_two_hosts_and_one_that_changes_its_port_stays_one() {
    let mut scene = Scene::new(HostOptions::default());
    let writer = scene.client("10.0.1.9", 7001, Kind::Today);
    let [one, two] = [7001, 7002].map(|port| scene.client("10.0.1.1", port, Kind::Today));
    scene.world.net().put_behind_nat(one.host(), "10.0.2.1");
    scene.read(&one, "a").unwrap();
    scene.read(&two, "a").unwrap();
    assert_eq!(scene.process().hosts.len(), 2);
    scene.world.net().rebind_nat(one.host());
    scene.reconnect(&one);
    scene.keep(&one, "b");
    assert_eq!(scene.process().hosts.len(), 2, "it is where it was not before");
    assert_eq!(scene.process().sum(|hosts| hosts.hosts_moved.get()), 1);
    assert_eq!(one.cache.borrow().len(), 1, "where it was nobody could tell it");
    let took = scene.write(&writer, "b", 1).unwrap();
    assert!(took < AT_ONCE, "{took:?}");
    assert!(one.cache.borrow().is_empty());
    scene.end();
}

#[test]
fn who_says_that_he_is_another_has_no_part_in_what_that_one_is_told() {
    let mut scene = Scene::new(HostOptions::default());
    let [writer, one, other] =
        ["10.0.1.1", "10.0.1.2", "10.0.1.3"].map(|ip| scene.client(ip, 7001, Kind::Today));
    scene.read(&one, "a").unwrap();
    other.uuid.set(one.uuid.get());
    scene.read(&other, "a").unwrap();
    assert_eq!(scene.process().hosts.len(), 2);
    // It gives up what is its own.
    let me = Rc::clone(&other);
    scene.on(other.host(), async move { me.call(0, &[GIVE_UP_ALL]).await.unwrap() });
    scene.write(&writer, "a", 1).unwrap();
    assert_eq!((one.files_told.get(), other.files_told.get()), (1, 0));
    scene.end();
}

/// Clients that are known are told apart by their address alone where they say nothing of themselves.
#[test]
fn an_address_that_another_client_has_by_now_is_that_one() {
    let mut scene = Scene::new(HostOptions::default());
    let one = scene.client("10.0.1.1", 7001, Kind::Today);
    scene.read(&one, "a").unwrap();
    one.end();
    one.host().kill();
    one.host().restart();
    one.uuid.set(AfsUuid([99; 16]));
    let (me, at) = (Rc::clone(&one), SocketAddr::from(([10, 0, 1, 1], 7001)));
    scene.on(one.host(), async move { me.begin(at.port(), 4711) });
    scene.read(&one, "a").unwrap();
    assert_eq!(scene.process().hosts.len(), 1, "who was there is no more");
    assert_eq!(scene.process().sum(|hosts| hosts.hosts_evicted.get()), 1);
    scene.end();
}
