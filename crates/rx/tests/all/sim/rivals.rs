//! Flows of several servers behind one queue, each with a controller of its own, and their shares of the
//! link.

use std::time::{Duration, Instant};

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::sim::bulk::{ms, plan};
use crate::sim::host::Host;
use crate::sim::network::{IP_AND_UDP, Link, Network};
use crate::sim::scenario::{client_address, server_address};
use crate::sim::world::World;

/// Link that several flows share, with the time of measurement.
#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    pub(crate) bits_per_second: u64,
    pub(crate) rtt: Duration,
    /// Size of the queue before the link, in products of rate and round trip.
    pub(crate) queue: f64,
    /// Chance that a packet is lost beyond the queue.
    pub(crate) loss: f64,
    /// Start and end of the measurement, from the start of the run.
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl Bottleneck {
    pub(crate) fn link(&self) -> Link {
        let product = self.bits_per_second as f64 / 8.0 * self.rtt.as_secs_f64();
        Link {
            bits_per_second: Some(self.bits_per_second),
            queue_bytes: (product * self.queue) as u64,
            loss: self.loss,
            ..Link::clean(self.rtt / 2)
        }
    }

    /// Returns the reply bits per second that a link full of packets of ours carries.
    pub(crate) fn capacity(&self) -> f64 {
        self.bits_per_second as f64 * 1416.0 / (1444 + IP_AND_UDP) as f64
    }
}

/// Returns the link for one call over a gigabit that loses every hundredth packet at random.
pub(crate) fn random_loss(rtt: Duration) -> Bottleneck {
    let (from, to) = (ms(1_500), ms(3_500));
    Bottleneck { bits_per_second: 1_000_000_000, rtt, queue: 1.0, loss: 0.01, from, to }
}

/// Returns a link of 50 Mb/s and 20 ms, measured for half a minute once the flows have found their places.
pub(crate) fn shared_link(queue: f64) -> Bottleneck {
    let (from, to) = (ms(20_000), ms(50_000));
    Bottleneck { bits_per_second: 50_000_000, rtt: ms(20), queue, loss: 0.0, from, to }
}

/// Runs a client and a server for each controller, all replies behind one queue. The flows begin 200 ms
/// apart, in an order and with lengths of path that `seed` changes a little.
pub(crate) fn compete(controllers: &[Algorithm], path: &Bottleneck, seed: u64) -> World<Host> {
    let start = Instant::now();
    let (mut hosts, mut addresses, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (n, &congestion) in controllers.iter().enumerate() {
        let config = EndpointConfig { congestion, ..EndpointConfig::default() };
        let mut server = server_address();
        server.set_port(7_000 + n as u16);
        let place = (n as u64 + seed) % controllers.len() as u64;
        let call = plan(ms(200 * place + 7 * (seed % 13)), u32::MAX, seed + n as u64);
        pairs.push((hosts.len() + 1, hosts.len()));
        hosts.push(Host::client(start, config.clone(), seed * 16 + n as u64, server, 1, &[call]));
        addresses.push(client_address(10_000 + n as u16));
        hosts.push(Host::server(start, config, seed * 16 + n as u64));
        addresses.push(server);
    }
    let mut network = Network::new(seed, addresses, &path.link());
    network.share_queue(&pairs);
    World::new(hosts, network, start)
}

/// Returns the bits of reply per second of each flow of [`compete`], within the path's time of measurement.
pub(crate) fn shares(world: &mut World<Host>, path: &Bottleneck) -> Vec<f64> {
    let read = |world: &World<Host>| -> Vec<u64> {
        world.nodes.iter().step_by(2).map(|host| host.as_client().bytes_read).collect()
    };
    world.run_until(path.from, |_| false);
    let before = read(world);
    world.run_until(path.to, |_| false);
    let seconds = (path.to - path.from).as_secs_f64();
    read(world).iter().zip(before).map(|(after, before)| (after - before) as f64 * 8.0 / seconds).collect()
}

/// Returns the share of the link that each of two flows gets, as the mean of several seeds.
pub(crate) fn mean_shares(controllers: [Algorithm; 2], path: &Bottleneck) -> [f64; 2] {
    let mut means = [0.0; 2];
    for seed in 1..=SEEDS {
        let got = shares(&mut compete(&controllers, path, seed), path);
        for (mean, got) in means.iter_mut().zip(got) {
            *mean += got / path.capacity() / SEEDS as f64;
        }
    }
    means
}

const SEEDS: u64 = 4;
