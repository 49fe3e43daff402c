//! Sending rates hold within 5 %, and a change of them reaches transfers that are under way.

use std::time::{Duration, Instant};

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::now;

use crate::sim::client::{Client, request};
use crate::sim::server::{ADDRESS, Pair, noise, site};

#[test]
fn connections_together_keep_the_rate_of_their_lane() {
    seeds(SEEDS, |seed| {
        for count in [1, 10] {
            let pair = serve(seed);
            pair.share.set(Some(RATE));
            let share = pair.share.clone();
            let rates = pair.run(async move {
                let mut downloads = Downloads::start(count).await;
                let before = downloads.rate().await;
                share.set(Some(RATE / 4));
                let slower = downloads.rate().await;
                share.set(Some(2 * RATE));
                [before, slower, downloads.rate().await]
            });
            assert_near(rates, [RATE, RATE / 4, 2 * RATE], &format!("{count} connections"));
            end(pair);
        }
    });
}

#[test]
fn each_connection_keeps_its_pacing() {
    seeds(SEEDS, |seed| {
        let pair = serve(seed);
        let (service, server) = (pair.service(), pair.server.clone());
        let pace = move |rate: u64| {
            let service = service.clone();
            server.start_on(0, async move {
                let mut paced = site();
                paced.pacing = Some(rate);
                service.reload(paced);
            })
        };
        let rates = pair.run(async move {
            pace(RATE).await;
            let mut downloads = Downloads::start(3).await;
            let before = downloads.rate().await;
            pace(RATE / 4).await;
            let slower = downloads.rate().await;
            pace(2 * RATE).await;
            [before, slower, downloads.rate().await]
        });
        assert_near(rates, [3 * RATE, 3 * RATE / 4, 6 * RATE], "3 connections");
        end(pair);
    });
}

fn serve(seed: u64) -> Pair {
    let mut config = Config::default();
    config.net.tcp.send_buffer = 64 << 10;
    config.net.tcp.recv_buffer = 64 << 10;
    Pair::new(seed, config, Limits::default(), &[("f", &noise(seed, 12_000_000))])
}

/// Ends a pair whose clients are gone in the middle of their transfers; none may stay.
fn end(pair: Pair) {
    pair.world.run_for(Duration::from_secs(120));
    assert_eq!(pair.connections.connections.get(), 0);
    pair.end();
}

/// Clients that take whatever comes.
struct Downloads {
    clients: Vec<Client>,
}

impl Downloads {
    async fn start(count: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..count {
            let client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            clients.push(client);
        }
        Self { clients }
    }

    /// Bytes per second of all together over [`WINDOW`], after a while for what a rate before has left in buffers.
    async fn rate(&mut self) -> f64 {
        self.take_until(now() + SETTLING).await;
        let begun = now();
        let bytes = self.take_until(begun + WINDOW).await;
        bytes as f64 / now().duration_since(begun).as_secs_f64()
    }

    async fn take_until(&mut self, until: Instant) -> usize {
        let clients = std::mem::take(&mut self.clients);
        let tasks: Vec<_> = clients.into_iter().map(|client| lane::spawn(take(client, until))).collect();
        let mut bytes = 0;
        for task in tasks {
            let (client, taken) = task.await;
            bytes += taken;
            self.clients.push(client);
        }
        bytes
    }
}

async fn take(client: Client, until: Instant) -> (Client, usize) {
    let mut bytes = 0;
    while let Ok(received) = lane::time::timeout_at(until, client.stream.recv()).await {
        let received = received.unwrap();
        assert!(!received.is_empty(), "the transfer is over too early");
        bytes += received.len();
    }
    (client, bytes)
}

fn assert_near(found: [f64; 3], wanted: [u64; 3], what: &str) {
    for (found, wanted) in found.into_iter().zip(wanted) {
        let off = found / wanted as f64 - 1.0;
        assert!(off.abs() < 0.05, "{what}: {found:.0} bytes per second where {wanted} were to be");
    }
}

/// Fewer than elsewhere: each moves megabytes.
const SEEDS: u64 = 4;
const RATE: u64 = 400_000;
const SETTLING: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(4);
