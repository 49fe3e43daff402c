//! Tests of ours against the stock Rx library (OpenAFS), by rxperf's calls.
//!
//! Both ways, in every mode, with threads and odd sizes, and over a path that loses packets.

mod ending;
mod lossy;
mod relay;
mod stock;

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::time::Duration;

use lane::runtime::{RuntimeOptions, run_here};
use rx::{DeadReason, EndpointConfig};
use rx_lane::{Anonymous, CallError, Driver, DriverConfig, ServerCall};
use rxperf::{Inbound, Outbound, Plan, Reply, Request, Work};

/// Sizes below, at and above a packet's payload, one less than a power of two, and more than any window.
const SIZES: &[u32] =
    &[0, 1, 3, 1387, 1388, 1411, 1412, 1413, 1416, 1417, 2833, 65_535, 1_000_003, 5_000_001];

fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let bounded = async { lane::time::timeout(Duration::from_secs(120), test).await };
    run_here(RuntimeOptions::default(), bounded).expect("the machine has io_uring").expect("ends in time")
}

fn bind() -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 8000;
    Driver::bind(([127, 0, 0, 1], 0).into(), config).expect("loopback has free ports")
}

async fn finished(mut child: Child) -> Output {
    while child.try_wait().expect("it is our child").is_none() {
        lane::time::sleep(Duration::from_millis(2)).await;
    }
    child.wait_with_output().expect("it has ended")
}

/// Bytes that the calls of a server have moved.
#[derive(Default)]
struct Moved {
    calls: Cell<u64>,
    from_clients: Cell<u64>,
    to_clients: Cell<u64>,
}

/// Starts our server with the rxperf service, and counts the bytes of its calls.
fn server() -> (Driver, Rc<Moved>) {
    let (server, moved) = (bind(), Rc::new(Moved::default()));
    let tally = Rc::clone(&moved);
    server.serve(rxperf::SERVICE, move |call| counted(call, Rc::clone(&tally)));
    (server, moved)
}

/// Serves a call ([`rxperf::serve`]) with the payload counted.
async fn counted(mut call: ServerCall, moved: Rc<Moved>) -> Result<(), CallError> {
    let mut inbound = Inbound::default();
    while call.read(|part| inbound.handle(part).expect("a stock request")).await? > 0 {}
    let mut outbound = inbound.finish().expect("all that the head says");
    let plan = inbound.request().expect("it is whole").work.plan().expect("it was taken");
    call.write_with(outbound.remaining(), |room| assert_eq!(outbound.fill(room), room.len())).await?;
    call.finish().await?;
    match call.closed().await {
        // A stock client that ends as soon as it has read the reply takes its last ACK along now and then.
        Ok(()) | Err(CallError::Dead(DeadReason::Silent)) => {}
        Err(error) => return Err(error),
    }
    moved.calls.set(moved.calls.get() + 1);
    moved.from_clients.set(moved.from_clients.get() + plan.from_client);
    moved.to_clients.set(moved.to_clients.get() + plan.to_client);
    Ok(())
}

/// Runs the stock client; it must end well, without a complaint, and print `headline`.
async fn stock_client(program: &Path, server: SocketAddr, flags: &[&str], headline: &str) {
    let port = server.port().to_string();
    let mut command = Command::new(program);
    command.args(["client", "-s", "127.0.0.1", "-p", &port]).args(flags);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("rxperf starts");
    let output = finished(child).await;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{flags:?}: {} {out} {err}", output.status);
    assert!(out.starts_with(headline), "{flags:?}: {out}");
}

/// Checks that every packet is back and no call has failed, but for the last ones of up to `clients` that
/// ended without an ACK.
async fn assert_books_balance(driver: &Driver, clients: u64) {
    let give_up = lane::time::now() + EndpointConfig::default().dead_time + Duration::from_secs(5);
    while !driver.endpoint().pool().is_empty() && lane::time::now() < give_up {
        lane::time::sleep(Duration::from_millis(20)).await;
    }
    // The services hear of it.
    lane::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(driver.endpoint().pool().in_use(), 0, "a packet has leaked");
    let (aborted, dead) = (driver.endpoint().stats().calls_aborted, driver.endpoint().stats().calls_dead);
    assert!(aborted == 0 && dead <= clients, "{aborted} calls aborted, {dead} dead");
}

#[test]
fn stock_client_moves_every_size_in_every_mode() {
    let Some(rxperf) = stock::rxperf() else { return };
    run(async move {
        let (server, moved) = server();
        let address = server.local_addr().unwrap();
        let (mut calls, mut up, mut down) = (0, 0, 0);
        for &bytes in SIZES {
            let (size, other) = (bytes.to_string(), (bytes / 3 + 1).to_string());
            let times = if bytes > 100_000 { 2 } else { 5 };
            let repeat = times.to_string();
            for mode in ["recv", "send"] {
                let headline =
                    format!("{}: threads\t1, times\t{times}, bytes\t{bytes}:", mode.to_uppercase());
                stock_client(rxperf, address, &["-c", mode, "-b", &size, "-T", &repeat], &headline).await;
            }
            let headline =
                format!("RPC: threads\t1, times\t{times}, write bytes\t{size}, read bytes\t{other}:");
            let flags = ["-c", "rpc", "-S", &size, "-R", &other, "-T", &repeat];
            stock_client(rxperf, address, &flags, &headline).await;
            calls += 3 * times;
            up += 2 * times * u64::from(bytes);
            down += times * u64::from(bytes) + times * u64::from(bytes / 3 + 1);
        }
        assert_books_balance(&server, 3 * SIZES.len() as u64).await;
        assert_eq!((moved.calls.get(), moved.from_clients.get(), moved.to_clients.get()), (calls, up, down));
        assert_eq!(server.endpoint().stats().calls_accepted, calls);
    });
}

#[test]
fn stock_client_with_threads_small_windows_and_odd_chunks() {
    let Some(rxperf) = stock::rxperf() else { return };
    run(async move {
        let (server, moved) = server();
        let address = server.local_addr().unwrap();
        let headline = "RPC: threads\t16, times\t20, write bytes\t4321, read bytes\t98765:";
        // Windows below 16 are no use: the stock client states 16 all the same and ends a call that fills them.
        for extra in [&[][..], &["-W", "16"], &["-r", "1001", "-w", "77"], &["-V"], &["-j"], &["-m", "1200"]]
        {
            let flags = [&["-c", "rpc", "-S", "4321", "-R", "98765", "-t", "16", "-T", "20"], extra].concat();
            stock_client(rxperf, address, &flags, headline).await;
        }
        assert_books_balance(&server, 6).await;
        let calls = 6 * 16 * 20;
        assert_eq!(
            (moved.calls.get(), moved.from_clients.get(), moved.to_clients.get()),
            (calls, calls * 4321, calls * 98_765)
        );
        assert_eq!(server.endpoint().stats().connections_made, 6 * 4, "four calls at once on each");
    });
}

#[test]
fn stock_client_follows_a_file() {
    let Some(rxperf) = stock::rxperf() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("steps");
    std::fs::write(&file, "1\n0x200\n017\n\n3\n100000\n").unwrap();
    run(async move {
        let (server, moved) = server();
        let address = server.local_addr().unwrap();
        let path = file.to_str().unwrap();
        // Once each: the stock client forgets to turn back between two calls.
        let headline = format!("FILE {path}: threads\t1, times\t1, bytes\t1048576:");
        for _ in 0..7 {
            stock_client(rxperf, address, &["-c", "file", "-f", path, "-T", "1"], &headline).await;
        }
        assert_books_balance(&server, 7).await;
        let (up, down) = (4 * (1 + 0x200 + 0o17), 4 * (3 + 100_000));
        assert_eq!(
            (moved.calls.get(), moved.from_clients.get(), moved.to_clients.get()),
            (7, 7 * up, 7 * down)
        );
    });
}

/// Process of a stock server, stopped when dropped.
struct StockServer {
    child: Child,
    address: SocketAddr,
}

impl StockServer {
    fn start(program: &Path, flags: &[&str]) -> Self {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = Command::new(program);
        command.args(["server", "-p", &address.port().to_string()]).args(flags);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("rxperf starts");
        // A client that calls before it listens hears that no socket is there. Its namespace is this
        // thread's.
        let bound = format!(":{:04X} ", address.port());
        testkit::wait_for("the stock server to listen", Duration::from_secs(30), || {
            let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
            sockets.contains(&bound).then_some(())
        });
        Self { child, address }
    }

    /// Ends the server, which must have run until now without a complaint.
    fn stop(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the stock server has ended by itself");
        self.child.kill().unwrap();
        let mut complaints = String::new();
        let mut stderr = self.child.stderr.take().expect("it is piped");
        std::io::Read::read_to_string(&mut stderr, &mut complaints).unwrap();
        assert_eq!(complaints, "");
    }
}

impl Drop for StockServer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a call and checks every byte of its reply.
async fn call(connection: &rx_lane::Connection, work: Work) -> Plan {
    let request = Request::new(work);
    let plan = request.work.plan().unwrap();
    let (mut outbound, mut reply) = (Outbound::request(&request).unwrap(), Reply::new(&plan));
    let mut call = connection.call().await.unwrap();
    call.write_with(outbound.remaining(), |room| assert_eq!(outbound.fill(room), room.len())).await.unwrap();
    call.finish().await.unwrap();
    while call.read(|part| reply.handle(part).unwrap()).await.unwrap() > 0 {}
    reply.finish().unwrap();
    plan
}

fn works() -> Vec<Work> {
    let sizes = SIZES.iter().flat_map(|&bytes| {
        let rpc = Work::Rpc { send: bytes, receive: bytes / 3 + 1 };
        [Work::Receive { bytes }, Work::Send { bytes }, rpc]
    });
    sizes.chain([Work::file("1\n0x200\n017\n\n3\n100000\n").unwrap(), Work::file("\n5\n").unwrap()]).collect()
}

#[test]
fn stock_server_answers_every_size_in_every_mode() {
    let Some(rxperf) = stock::rxperf() else { return };
    run(async move {
        let stock = StockServer::start(rxperf, &[]);
        let client = bind();
        let connection = client.connect(stock.address, rxperf::SERVICE, &Anonymous).unwrap();
        for work in works() {
            call(&connection, work).await;
        }
        drop(connection);
        assert_books_balance(&client, 0).await;
        assert_eq!(client.endpoint().stats().calls_finished, works().len() as u64);
        stock.stop();
    });
}

#[test]
fn stock_server_with_many_calls_at_once_small_windows_and_small_packets() {
    let Some(rxperf) = stock::rxperf() else { return };
    for flags in [&["-S", "40"][..], &["-S", "40", "-W", "16"], &["-j", "-m", "1200"]] {
        run(async move {
            let stock = StockServer::start(rxperf, flags);
            let client = Rc::new(bind());
            let tasks: Vec<_> = (0..24)
                .map(|at| {
                    let (client, server) = (Rc::clone(&client), stock.address);
                    lane::spawn(async move {
                        let connection = client.connect(server, rxperf::SERVICE, &Anonymous).unwrap();
                        for round in 0..10 {
                            let bytes = (at * 7919 + round * 104_729) % 300_000;
                            call(&connection, Work::Rpc { send: bytes, receive: 300_000 - bytes }).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            assert_books_balance(&client, 0).await;
            assert_eq!(client.endpoint().stats().calls_finished, 240);
            stock.stop();
        });
    }
}
