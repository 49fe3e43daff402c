//! Tests of our and the stock client over a path that loses packets: ours must not be the slow one.

use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use rx_lane::Anonymous;
use rxperf::Work;

use super::relay::{Path, Relay};
use super::{StockServer, bind, call, run, server, stock, stock_client};

/// Delay of the path in one direction.
const DELAY: Duration = Duration::from_millis(5);
const BYTES: u32 = 384 << 10;
/// Number of calls, all at the same time, one for each seed: each is limited by its losses, and none by the
/// machine.
const SEEDS: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Ours,
    Stock,
}

/// Receives one reply over a path of its own, and returns the time. The relay is handed back, as it takes a
/// while to stop.
async fn receive(program: &FilePath, client: Client, from: SocketAddr, path: Path) -> (Duration, Relay) {
    let relay = Relay::start(from, path);
    let start = Instant::now();
    match client {
        Client::Ours => {
            let driver = bind();
            let connection = driver.connect(relay.address, rxperf::SERVICE, &Anonymous).unwrap();
            call(&connection, Work::Receive { bytes: BYTES }).await;
        }
        Client::Stock => {
            let (bytes, headline) =
                (BYTES.to_string(), format!("RECV: threads\t1, times\t1, bytes\t{BYTES}:"));
            stock_client(program, relay.address, &["-c", "recv", "-b", &bytes, "-T", "1"], &headline).await;
        }
    }
    (start.elapsed(), relay)
}

/// Starts a stock server and waits until it answers, as packets lost at its start would count as losses for
/// one side.
async fn started(program: &FilePath) -> StockServer {
    let (server, client) = (StockServer::start(program, &[]), bind());
    let connection = client.connect(server.address, rxperf::SERVICE, &Anonymous).unwrap();
    call(&connection, Work::Receive { bytes: 1 }).await;
    server
}

/// Returns the median rates, Mb/s, of the stock server to our client and to stock's, then of our server to
/// both.
async fn rates(program: &'static FilePath, loss: u64) -> [f64; 4] {
    let (stock, (own, _moved)) = (started(program).await, server());
    let (stocks, ours) = (stock.address, own.local_addr().unwrap());
    let pairs =
        [(stocks, Client::Ours), (stocks, Client::Stock), (ours, Client::Ours), (ours, Client::Stock)];
    let calls = pairs.map(|(from, client)| {
        let start = |seed| {
            lane::spawn(
                async move { receive(program, client, from, Path { seed, loss, delay: DELAY }).await },
            )
        };
        (1..=SEEDS).map(start).collect::<Vec<_>>()
    });
    let (mut medians, mut relays) = ([0.0; 4], Vec::new());
    for (calls, median) in calls.into_iter().zip(&mut medians) {
        let mut times = Vec::new();
        for call in calls {
            let (took, relay) = call.await;
            times.push(took);
            relays.push(relay);
        }
        times.sort();
        *median = f64::from(BYTES) * 8e-6 / times[times.len() / 2].as_secs_f64();
    }
    stock.stop();
    medians
}

/// Compares the rates under loss: a stock sender's recovery needs the receiver's ACKs, and each loss with too
/// few costs a timeout.
#[test]
fn our_client_over_a_lossy_path_is_at_least_as_fast_as_stocks() {
    let Some(rxperf) = stock::rxperf() else { return };
    for loss in [5, 10] {
        let [ours, stocks, own_to_ours, own_to_stocks] = run(rates(rxperf, loss));
        println!(
            "{loss} % lost, medians in Mb/s: stock server to our client {ours:.2}, to stock's {stocks:.2};"
        );
        println!("    our server to our client {own_to_ours:.2}, to stock's {own_to_stocks:.2}");
        assert!(ours >= stocks, "{loss} % lost: {ours:.2} Mb/s, stock's client {stocks:.2}");
    }
}
