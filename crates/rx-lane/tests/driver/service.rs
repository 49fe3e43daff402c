//! What services are given: data of their own for each connection, rooms and held packets, shields, and what becomes of
//! their errors. In seeded worlds, over paths that lose packets.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Host, World, seeds};
use lane::net::UdpSocket;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rx::{ConnectionEnd, Limits, abort};
use rx_lane::{
    AbortCode, Anonymous, Call, CallError, Connection, Driver, DriverConfig, Handler, Links, RxCounters,
    ServerCall, ServerConnection,
};

use super::{SERVICE, pattern};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);

fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    config
}

/// A driver of the lane that this runs on.
fn start(at: ([u8; 4], u16), seed: u64, config: DriverConfig) -> Driver {
    let socket = UdpSocket::bind(at.into(), &config.socket).unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    Driver::start_seeded(socket, Links::alone(), config, rng.random())
}

fn lossy(seed: u64) -> Config {
    let mut config = Config::default();
    if seed % 2 == 1 {
        config.net.link.loss = 0.03;
        config.net.link.reorder = 0.05;
    }
    config
}

/// A server with one service, and a host for its clients.
struct Pair {
    world: World,
    server: Host,
    client: Host,
    driver: Rc<RefCell<Option<Driver>>>,
}

impl Pair {
    fn new(seed: u64, world: Config, config: DriverConfig, handler: impl Handler) -> Self {
        let world = World::new(seed, world);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let driver = Rc::new(RefCell::new(None));
        let report = Rc::clone(&driver);
        server.spawn(async move {
            let driver = start(SERVER, seed, config);
            driver.serve(SERVICE, handler);
            *report.borrow_mut() = Some(driver);
        });
        world.run_for(Duration::from_millis(1));
        Self { world, server, client, driver }
    }

    fn driver(&self) -> Driver {
        self.driver.borrow().clone().expect("it has started")
    }

    fn counters(&self) -> std::sync::Arc<RxCounters> {
        self.driver().counters()
    }

    /// Runs `work` with a client of its own.
    fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Driver, Connection) -> F + 'static,
    ) -> T {
        let seed = self.world.seed();
        self.world.block_on(&self.client, async move {
            let driver = start(([10, 0, 0, 2], 0), !seed, config());
            let connection = driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap();
            work(driver, connection).await
        })
    }

    /// Lets the last ACKs and timers through; no packet may be left in anybody's hands then.
    fn assert_books_balance(&self) {
        self.world.run_for(Duration::from_secs(60));
        let driver = self.driver();
        let endpoint = driver.endpoint();
        let pool = endpoint.pool();
        assert_eq!((pool.allocated(), pool.in_use()), (pool.free_count(), 0), "seed {}", self.world.seed());
        assert_eq!(driver.counters().handlers.get(), 0);
    }
}

/// Makes a call and gives its reply.
async fn ask(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut call = connection.call().await?;
    call.write(request).await?;
    call.finish().await?;
    call.read_to_end(64 << 20).await
}

#[test]
fn error_of_a_handler_is_the_calls_abort_code_even_when_half_of_the_reply_has_left() {
    seeds(20, |seed| {
        let pair = Pair::new(seed, lossy(seed), config(), async |mut call: ServerCall| {
            let mut code = [0; 4];
            call.read_exact(&mut code).await?;
            call.read_to_end(10).await?;
            call.write(&pattern(200_000)).await?;
            Err(AbortCode(i32::from_be_bytes(code)))
        });
        pair.run(async |_, connection| {
            for code in [110, -455, 19_270_400] {
                assert_eq!(ask(&connection, &i32::to_be_bytes(code)).await, Err(CallError::Aborted(code)));
            }
            let nothing = ask(&connection, &[0; 4]).await;
            assert_eq!(nothing, Err(CallError::Aborted(abort::USER_ABORT)), "0 would be no error");
            assert_eq!(
                ask(&connection, b"cut").await,
                Err(CallError::Aborted(abort::EOF)),
                "a short request"
            );
        });
        pair.assert_books_balance();
        assert_eq!(pair.counters().handlers_failed.get(), 5);
    });
}

#[test]
fn panic_of_a_handler_aborts_its_call_alone() {
    let world = Config::default();
    let pair = Pair::new(1, world, config(), async |mut call: ServerCall| {
        let request = call.read_to_end(10).await?;
        let _half = call.write(&pattern(5000)).await;
        assert!(request != b"evil", "a test's panic");
        call.finish().await
    });
    pair.server.contain_panics(0);
    pair.run(async |_, connection| {
        for _ in 0..3 {
            assert_eq!(ask(&connection, b"evil").await, Err(CallError::Aborted(5)), "EIO");
            assert_eq!(ask(&connection, b"good").await.map(|reply| reply.len()), Ok(5000));
        }
    });
    pair.assert_books_balance();
    assert_eq!(pair.counters().handlers_panicked.get(), 3);
}

impl Drop for Pair {
    /// The driver's socket belongs to the world.
    fn drop(&mut self) {
        let driver = self.driver.take();
        if !std::thread::panicking() {
            self.world.block_on(&self.server, async move { drop(driver) });
        }
    }
}

/// Counts the calls of each connection, and what becomes of connections.
#[derive(Default)]
struct Counting {
    connected: Cell<usize>,
    gone: Rc<RefCell<Vec<(ConnectionEnd, u64)>>>,
}

/// What is kept of one connection.
struct Kept {
    connection: ServerConnection,
    remote: SocketAddr,
    calls: Cell<u64>,
}

impl Handler for Counting {
    type Connection = Kept;
    type Error = CallError;

    fn connected(&self, connection: &ServerConnection) -> Kept {
        self.connected.set(self.connected.get() + 1);
        let remote = connection.remote().expect("it lives");
        Kept { connection: connection.clone(), remote, calls: Cell::new(0) }
    }

    fn handle(&self, mut call: ServerCall<Kept>) -> impl Future<Output = Result<(), CallError>> + 'static {
        let kept = Rc::clone(call.data());
        async move {
            assert_eq!(call.remote(), Some(kept.remote));
            assert!(&kept.connection == call.connection() && kept.connection.is_alive());
            kept.calls.set(kept.calls.get() + 1);
            call.read_to_end(10).await?;
            call.write(&kept.calls.get().to_be_bytes()).await?;
            call.finish().await
        }
    }

    fn gone(&self, data: Rc<Kept>, end: ConnectionEnd) {
        assert!(!data.connection.is_alive());
        self.gone.borrow_mut().push((end, data.calls.get()));
    }
}

#[test]
fn ten_thousand_connections_have_data_of_their_own_until_they_are_gone() {
    const CONNECTIONS: usize = 10_000;
    let service = Counting::default();
    let gone = Rc::clone(&service.gone);
    let pair = Pair::new(3, Config::default(), config(), service);
    pair.run(async |driver, _| {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap());
        }
        for round in 1..=2u64 {
            for some in connections.chunks(200) {
                let asked = some.iter().cloned().map(|connection| {
                    lane::spawn(async move {
                        assert_eq!(ask(&connection, b"").await.unwrap(), round.to_be_bytes())
                    })
                });
                for task in asked.collect::<Vec<_>>() {
                    task.await;
                }
            }
        }
    });
    assert!(gone.borrow().is_empty());
    // An idle connection is kept for 700 s.
    pair.world.run_for(Duration::from_secs(800));
    let gone = gone.borrow();
    assert_eq!(gone.len(), CONNECTIONS);
    assert!(gone.iter().all(|end| *end == (ConnectionEnd::Idle, 2)), "{:?}", gone[0]);
    pair.assert_books_balance();
}

#[test]
fn connection_that_fails_is_gone_for_its_service_and_its_handlers_end() {
    let service = Counting::default();
    let gone = Rc::clone(&service.gone);
    let pair = Pair::new(4, Config::default(), config(), service);
    pair.run(async |_, connection| {
        assert_eq!(ask(&connection, b"").await.unwrap(), 1u64.to_be_bytes());
        // Its handler waits for the request.
        let mut call = connection.call().await.unwrap();
        call.write(b"x").await.unwrap();
        call.flush().await.unwrap();
        lane::time::sleep(Duration::from_millis(100)).await;
        connection.abort(77);
        assert_eq!(connection.call().await.map(drop), Err(CallError::Aborted(77)));
        lane::time::sleep(Duration::from_millis(100)).await;
    });
    assert_eq!(*gone.borrow(), [(ConnectionEnd::Aborted(77), 2)]);
    assert_eq!(pair.counters().handlers_failed.get(), 0, "it was its client's doing");
    pair.assert_books_balance();
}

/// How far a handler has come.
#[derive(Default)]
struct Steps {
    begun: Cell<bool>,
    committed: Cell<bool>,
    after: Cell<bool>,
    dropped: Cell<bool>,
}

struct OnDrop(Rc<Steps>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.dropped.set(true);
    }
}

/// A service that takes a second over a commit, shielded or not, and another second after it.
fn committing(shielded: bool) -> (Rc<Steps>, impl Handler) {
    let steps = Rc::new(Steps::default());
    let told = Rc::clone(&steps);
    let handler = move |mut call: ServerCall| {
        let steps = Rc::clone(&told);
        async move {
            let _dropped = OnDrop(Rc::clone(&steps));
            call.read_exact(&mut [0; 4]).await?;
            steps.begun.set(true);
            let shield = shielded.then(|| call.shield());
            for _ in 0..10 {
                lane::time::sleep(Duration::from_millis(100)).await;
            }
            steps.committed.set(true);
            drop(shield);
            lane::time::sleep(Duration::from_secs(1)).await;
            steps.after.set(true);
            call.finish().await
        }
    };
    (steps, handler)
}

async fn begin(connection: &Connection) -> Call {
    let mut call = connection.call().await.unwrap();
    call.write(b"1234").await.unwrap();
    call.finish().await.unwrap();
    lane::time::sleep(Duration::from_millis(300)).await;
    call
}

#[test]
fn shielded_section_comes_to_its_end_though_the_client_gives_up_and_then_the_handler_is_dropped() {
    for shielded in [true, false] {
        let (steps, handler) = committing(shielded);
        let pair = Pair::new(5, Config::default(), config(), handler);
        let seen = Rc::clone(&steps);
        pair.run(async move |_, connection| {
            let call = begin(&connection).await;
            assert!(seen.begun.get());
            call.abort(9);
            lane::time::sleep(Duration::from_millis(300)).await;
            assert_eq!((seen.committed.get(), seen.dropped.get()), (false, !shielded));
            lane::time::sleep(Duration::from_millis(600)).await;
            assert_eq!(
                (seen.committed.get(), seen.dropped.get()),
                (shielded, true),
                "at once, not a second later"
            );
        });
        assert!(!steps.after.get());
        assert_eq!(pair.counters().handlers_cancelled.get(), 1);
        pair.assert_books_balance();
    }
}

/// A service that sets limits and waits for ever.
fn waiting(limits: impl Fn(&mut Limits) + 'static) -> (Rc<Steps>, impl Handler) {
    let (steps, limits) = (Rc::new(Steps::default()), Rc::new(limits));
    let told = Rc::clone(&steps);
    let handler = move |call: ServerCall| {
        let (steps, limits) = (Rc::clone(&told), Rc::clone(&limits));
        async move {
            let _dropped = OnDrop(steps);
            let mut changed = call.connection().limits().expect("it lives");
            limits(&mut changed);
            assert!(call.connection().set_limits(changed));
            std::future::pending::<Result<(), CallError>>().await
        }
    };
    (steps, handler)
}

#[test]
fn handler_is_dropped_when_a_limit_of_its_connection_ends_its_call() {
    let (steps, handler) = waiting(|limits| limits.hard_time = Some(Duration::from_secs(3)));
    let pair = Pair::new(6, Config::default(), config(), handler);
    let ended = pair.run(async |_, connection| ask(&connection, b"?").await);
    assert_eq!(ended, Err(CallError::Aborted(abort::CALL_TIMEOUT)));
    assert!(steps.dropped.get() && pair.world.now() < Duration::from_secs(4));

    let (steps, handler) = waiting(|limits| limits.dead_time = Duration::from_secs(4));
    let pair = Pair::new(7, Config::default(), config(), handler);
    let gone = pair.run(async |driver, connection| {
        let mut call = connection.call().await.unwrap();
        call.write(b"?").await.unwrap();
        call.flush().await.unwrap();
        lane::time::sleep(Duration::from_secs(1)).await;
        (driver, call)
    });
    // Nobody hears the client any more.
    pair.world.net().partition(&pair.client, &pair.server);
    pair.world.run_for(Duration::from_secs(6));
    assert!(steps.dropped.get());
    assert_eq!(pair.counters().calls_dead.get(), 1);
    pair.world.block_on(&pair.client, async move { drop(gone) });
}

/// As StoreData: two words of arguments, data that is held while a slow disk writes it, and a word behind it.
async fn store(mut call: ServerCall, seed: u64) -> Result<(), AbortCode> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut head = [0; 8];
    call.read_exact(&mut head).await?;
    let len = u64::from_be_bytes(head) as usize;
    let (mut disk, mut last) = (Vec::new(), None);
    while disk.len() < len {
        let held = call.read_held((len - disk.len()).min(rng.random_range(1..200_000))).await?;
        if held.is_empty() {
            return Err(AbortCode(112));
        }
        // The one before is still being written.
        drop(last.take());
        lane::time::sleep(Duration::from_millis(rng.random_range(0..5))).await;
        let from = rng.random_range(0..=held.len());
        held.slices().for_each(|slice| disk.extend_from_slice(slice));
        let rest: usize = held.io_slices(from).iter().map(|slice| slice.len()).sum();
        assert_eq!(rest, held.len() - from);
        last = Some(held);
    }
    let mut tail = [0; 4];
    call.read_exact(&mut tail).await?;
    assert_eq!(call.read_into(&mut [0; 9]).await?, 0, "the end of the request");
    assert!(disk == pattern(len) && tail == *b"tail", "seed {seed}");
    drop(last);
    call.write(&disk.len().to_be_bytes()).await?;
    Ok(call.finish().await?)
}

#[test]
fn store_gets_its_arguments_the_data_in_packets_and_what_comes_behind() {
    seeds(30, |seed| {
        let pair = Pair::new(seed, lossy(seed), config(), move |call| store(call, seed));
        pair.run(async move |_, connection| {
            let mut rng = StdRng::seed_from_u64(seed);
            for _ in 0..3 {
                let len: usize = rng.random_range(0..1_000_000);
                let request = [&len.to_be_bytes()[..], &pattern(len), b"tail"].concat();
                assert_eq!(ask(&connection, &request).await.unwrap(), len.to_be_bytes());
            }
            let short = [&500_000u64.to_be_bytes()[..], &pattern(499_999)].concat();
            assert_eq!(ask(&connection, &short).await, Err(CallError::Aborted(112)));
        });
        pair.assert_books_balance();
    });
}

/// As FetchData: a head of 30 bytes, data read into rooms that outlive the borrow of the call, a tail.
async fn fetch(mut call: ServerCall, seed: u64) -> Result<(), AbortCode> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut len = [0; 8];
    call.read_exact(&mut len).await?;
    call.read_to_end(0).await?;
    let (file, mut at) = (pattern(u64::from_be_bytes(len) as usize), 0);
    call.write(&[7; 30]).await?;
    while at < file.len() {
        let mut rooms = call.rooms((file.len() - at).min(100_000)).await?;
        assert_eq!(call.write(b"meanwhile").await, Err(CallError::Lent));
        lane::time::sleep(Duration::from_millis(rng.random_range(0..3))).await;
        // A read may come short, and now and then it fails.
        let read = rng.random_range(0..=rooms.len());
        let mut left = &file[at..at + read];
        for room in rooms.slices_mut() {
            let (now, later) = left.split_at(room.len().min(left.len()));
            room[..now.len()].copy_from_slice(now);
            left = later;
        }
        if rng.random_range(0..8) > 0 {
            rooms.commit(read)?;
            at += read;
        }
    }
    call.write(b"tail").await?;
    Ok(call.finish().await?)
}

#[test]
fn fetch_fills_rooms_across_awaits_and_no_packet_leaves_half_empty() {
    seeds(30, |seed| {
        let pair = Pair::new(seed, lossy(seed), config(), move |call| fetch(call, seed));
        let packets = pair.run(async move |driver, connection| {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut packets = 0;
            for _ in 0..3 {
                let len: usize = rng.random_range(0..1_000_000);
                let reply = ask(&connection, &len.to_be_bytes()).await.unwrap();
                assert!(reply == [&[7; 30][..], &pattern(len), b"tail"].concat(), "seed {seed}");
                packets += reply.len().div_ceil(1416) as u64;
            }
            // One that is given up while its rooms are out.
            let mut call = connection.call().await.unwrap();
            call.write(&3_000_000usize.to_be_bytes()).await.unwrap();
            call.finish().await.unwrap();
            call.read(|_| {}).await.unwrap();
            call.abort(3);
            drop(driver);
            packets
        });
        pair.assert_books_balance();
        let counters = pair.counters();
        assert!(seed % 2 == 1 || counters.data_sent.get() - counters.resends.get() >= packets);
    });
}

/// A peer that dies while its packets, and rooms for it, are in a handler's hands.
#[test]
fn client_that_dies_mid_hold_leaves_nothing_behind() {
    seeds(20, |seed| {
        let pair = Pair::new(seed, Config::default(), config(), async move |mut call: ServerCall| {
            let _shield = call.shield();
            let held = call.read_held(usize::MAX).await?;
            let rooms = call.rooms(100_000).await?;
            lane::time::sleep(Duration::from_millis(200)).await;
            assert!(!held.is_empty());
            let len = rooms.len();
            assert_eq!(rooms.commit(len), Err(CallError::Aborted(8)));
            assert_eq!(call.write(b"x").await, Err(CallError::Aborted(8)));
            drop(held);
            Ok::<(), CallError>(())
        });
        pair.run(async move |_, connection| {
            let mut calls = Vec::new();
            for _ in 0..4 {
                let mut call = connection.call().await.unwrap();
                call.write(&pattern(50_000)).await.unwrap();
                calls.push(call);
            }
            lane::time::sleep(Duration::from_millis(100)).await;
            calls.into_iter().for_each(|call| call.abort(8));
            lane::time::sleep(Duration::from_millis(50)).await;
        });
        pair.assert_books_balance();
        assert_eq!(pair.counters().handlers_cancelled.get(), 0, "all came to their end");
    });
}

/// Clients in a loop, at calls that take their time, while their server ends.
#[test]
fn drain_under_load_lets_calls_end_and_says_how_many_it_cut() {
    seeds(30, |seed| {
        let service = async move |mut call: ServerCall| {
            let request = call.read_to_end(100_000).await?;
            let pause = u64::from(request.first().copied().unwrap_or(0)) * 10;
            lane::time::sleep(Duration::from_millis(pause)).await;
            call.write(&request).await?;
            call.finish().await
        };
        let pair = Pair::new(seed, lossy(seed), config(), service);
        let (ended, told) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let clients: Vec<_> = (0..3)
            .map(|n| {
                let (ended, told) = (Rc::clone(&ended), Rc::clone(&told));
                let host = pair.world.host(&format!("10.0.1.{n}"));
                host.start_on(0, async move {
                    let driver = start(([10, 0, 1, n], 0), seed * 10 + u64::from(n), config());
                    let connection = driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap();
                    let loops = (0..4).map(|at| {
                        let connection = connection.clone();
                        let (ended, told) = (Rc::clone(&ended), Rc::clone(&told));
                        let mut rng = StdRng::seed_from_u64(seed * 100 + u64::from(n) * 10 + at);
                        lane::spawn(async move {
                            loop {
                                let mut request = pattern(rng.random_range(1..60_000));
                                request[0] = rng.random();
                                match ask(&connection, &request).await {
                                    Ok(reply) => assert!(reply == request),
                                    Err(CallError::Aborted(abort::RESTARTING)) => break,
                                    Err(error) => panic!("seed {seed}: {error}"),
                                }
                                ended.set(ended.get() + 1);
                            }
                            told.set(told.get() + 1);
                        })
                    });
                    for task in loops.collect::<Vec<_>>() {
                        task.await;
                    }
                    // And so from now on.
                    let fresh = driver.connect(SERVER.into(), SERVICE, &Anonymous).unwrap();
                    assert_eq!(ask(&fresh, b"more").await, Err(CallError::Aborted(abort::RESTARTING)));
                })
            })
            .collect();
        pair.world.run_for(Duration::from_secs(5));
        assert!(ended.get() > 0 && told.get() == 0);
        let within = Duration::from_millis([0, 300, 20_000][seed as usize % 3]);
        let driver = pair.driver();
        let drained = pair.world.block_on(&pair.server, async move { driver.drain(within).await });
        let counters = pair.counters();
        assert_eq!((drained.cut as u64, drained.shielded), (counters.calls_cut.get(), 0), "seed {seed}");
        if within > Duration::from_secs(10) {
            assert_eq!(drained.cut, 0, "seed {seed}: all had time to end");
        }
        assert!(within > Duration::ZERO || drained.cut > 0, "seed {seed}");
        let waits = pair.world.host("10.0.2.1");
        pair.world.block_on(&waits, async move {
            for client in clients {
                client.await;
            }
        });
        assert_eq!(told.get(), 12, "seed {seed}");
        assert!(counters.calls_refused.get() > 0);
        pair.assert_books_balance();
    });
}

/// Clients that open calls and then neither send nor read, and a handler that is shielded: the drain ends in time.
#[test]
fn drain_ends_at_its_deadline_whatever_clients_and_handlers_do() {
    let pair = Pair::new(9, Config::default(), config(), async |mut call: ServerCall| {
        let mut first = [0; 1];
        call.read_exact(&mut first).await?;
        let _shield = (first == *b"s").then(|| call.shield());
        call.write(&pattern(3_000_000))
            .await
            .or_else(|error| if first == *b"s" { Ok(()) } else { Err(error) })?;
        lane::time::sleep(Duration::from_secs(30)).await;
        call.finish().await
    });
    let kept = pair.run(async |driver, connection| {
        let mut calls = Vec::new();
        for first in [b"s", b"x", b"y"] {
            let mut call = connection.call().await.unwrap();
            call.write(first).await.unwrap();
            call.flush().await.unwrap();
            calls.push(call);
        }
        lane::time::sleep(Duration::from_secs(1)).await;
        (driver, calls)
    });
    let driver = pair.driver();
    let began = pair.world.now();
    let drained =
        pair.world.block_on(&pair.server, async move { driver.drain(Duration::from_secs(2)).await });
    assert!(pair.world.now() - began < Duration::from_secs(3));
    assert_eq!((drained.cut, drained.shielded), (3, 1));
    pair.world.run_for(Duration::from_secs(60));
    assert_eq!(pair.counters().handlers.get(), 0);
    pair.world.block_on(&pair.client, async move {
        let (_driver, calls) = kept;
        for mut call in calls {
            assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(abort::RESTARTING)));
        }
    });
}
