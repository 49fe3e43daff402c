//! Tests of services: data of their own for each connection, rooms and held packets, shields, and their
//! errors. In seeded worlds, over paths that lose packets.

mod draining;
mod holding;

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
    AbortCode, Anonymous, Call, CallError, Connection, Driver, DriverConfig, Handler, LaneGroupLink,
    RxCounters, ServerCall, ServerConnection,
};

use super::{SERVICE, pattern};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);

fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    config
}

/// Starts a driver on the current lane.
fn start(at: ([u8; 4], u16), seed: u64, config: DriverConfig) -> Driver {
    let socket = UdpSocket::bind(at.into(), &config.socket).unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    Driver::start_seeded(socket, LaneGroupLink::alone(), config, rng.random())
}

fn lossy(seed: u64) -> Config {
    let mut config = Config::default();
    if seed % 2 == 1 {
        config.net.link.loss = 0.03;
        config.net.link.reorder = 0.05;
    }
    config
}

/// Server with one service, and a host for its clients.
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

    /// Lets the last ACKs and timers through; no packet may be held then.
    fn assert_books_balance(&self) {
        self.world.run_for(Duration::from_secs(60));
        let driver = self.driver();
        let endpoint = driver.endpoint();
        let pool = endpoint.pool();
        assert_eq!((pool.allocated(), pool.in_use()), (pool.free_count(), 0), "seed {}", self.world.seed());
        assert_eq!(driver.counters().handlers.get(), 0);
    }
}

/// Makes a call and returns its reply.
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
    /// Drops the driver in its world, which has the socket.
    fn drop(&mut self) {
        let driver = self.driver.take();
        if !std::thread::panicking() {
            self.world.block_on(&self.server, async move { drop(driver) });
        }
    }
}

/// Handler that counts the calls of each connection, and the ends of connections.
#[derive(Default)]
struct Counting {
    connected: Cell<usize>,
    gone: Rc<RefCell<Vec<(ConnectionEnd, u64)>>>,
}

/// State that the handler keeps for one connection.
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
fn a_client_rests_for_longer_than_its_server_keeps_the_connection_and_goes_on() {
    let service = Counting::default();
    let gone = Rc::clone(&service.gone);
    let pair = Pair::new(5, Config::default(), config(), service);
    pair.run(async |_, connection| {
        for count in 1..=2u64 {
            assert_eq!(ask(&connection, b"").await.unwrap(), count.to_be_bytes());
        }
        lane::time::sleep(Duration::from_secs(2000)).await;
        // The server counts anew.
        for count in 1..=2u64 {
            assert_eq!(ask(&connection, b"").await.unwrap(), count.to_be_bytes());
        }
    });
    assert_eq!(gone.borrow().first(), Some(&(ConnectionEnd::Idle, 2)));
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

/// Steps that a handler has reached.
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

/// Makes a service that takes a second for a commit, shielded or not, and another second after it.
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

/// Makes a service that sets limits and waits for ever.
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
    // No lane hears the client any more.
    pair.world.net().partition(&pair.client, &pair.server);
    pair.world.run_for(Duration::from_secs(6));
    assert!(steps.dropped.get());
    assert_eq!(pair.counters().calls_dead.get(), 1);
    pair.world.block_on(&pair.client, async move { drop(gone) });
}
