//! Tests that the stock `rxdebug` reads a server of several lanes as one.

use std::collections::BTreeSet;
use std::time::Duration;

use lane::socket::reuseport::{Steering, silo_lane};
use rx_lane::{Anonymous, DriverConfig};
use rxperf::Work;

use super::{bind, installed, perf_call, run, rxdebug};
use crate::driver::two_lanes::TwoLanes;

#[test]
fn stock_rxdebug_reads_all_lanes_of_a_server() {
    if !installed("rxdebug") {
        return;
    }
    let mut config = DriverConfig::default();
    config.endpoint.packets = PACKETS;
    let steering = Steering::single_silo(2).unwrap();
    let Some(server) =
        TwoLanes::start(steering, config, |driver| driver.serve(rxperf::SERVICE, rxperf::serve))
    else {
        return;
    };
    run(async move {
        let address = server.address;
        // Two clients of each lane.
        let mut clients = Vec::new();
        let mut of_lane = [0; 2];
        while clients.len() < 4 {
            let client = bind();
            let lane = silo_lane(client.local_addr().unwrap(), &(0..2), 2);
            if of_lane[lane] < 2 {
                of_lane[lane] += 1;
                clients.push(client);
            }
        }
        let mut connections = Vec::new();
        for client in &clients {
            for _ in 0..CONNECTIONS {
                let connection = client.connect(address, rxperf::SERVICE, &Anonymous).unwrap();
                perf_call(&connection, Work::Send { bytes: 3000 }).await;
                connections.push(connection);
            }
        }
        // Last ACKs.
        lane::time::sleep(Duration::from_millis(300)).await;
        assert!(server.counters.iter().all(|lane| lane.connections.get() > 64), "a lot on each lane");

        let plain = rxdebug(address, &["-noconns"]).await;
        assert!(plain.contains(&format!("Free packets: {}/{}", 2 * PACKETS, 2 * PACKETS)), "{plain}");
        assert!(plain.contains(&format!("calls: {},", clients.len() * CONNECTIONS)), "{plain}");

        let stats = rxdebug(address, &["-rxstats", "-noconns"]).await;
        let (received, sent) =
            (server.sum(|lane| lane.data_received.get()), server.sum(|lane| lane.data_sent.get()));
        for line in [
            format!("other read counters: data {received},"),
            format!("packets sent: data {sent} "),
            format!("{} server connections", clients.len() * CONNECTIONS),
        ] {
            assert!(stats.contains(&line), "{line}: {stats}");
        }

        let ours: BTreeSet<String> = clients
            .iter()
            .flat_map(|client| {
                client.endpoint().connections().map(|known| cuid(known.id())).collect::<Vec<_>>()
            })
            .collect();
        let text = rxdebug(address, &["-allconnections", "-long"]).await;
        let told: Vec<String> = words_after(&text, "Cuid");
        assert_eq!(told.len(), ours.len(), "{text}");
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), ours);

        let text = rxdebug(address, &["-peers", "-long", "-noconns"]).await;
        let mut ports: Vec<u16> = clients.iter().map(|client| client.local_addr().unwrap().port()).collect();
        ports.sort_unstable();
        let told: Vec<u16> = words_after(&text, "port").iter().map(|port| port.parse().unwrap()).collect();
        assert_eq!(told, ports, "{text}");
    });
}

/// Formats a connection's ids as rxdebug does.
fn cuid((epoch, cid): (u32, u32)) -> String {
    format!("{epoch:x}/{cid:x}")
}

/// Returns the words that follow `name`, without punctuation.
fn words_after(text: &str, name: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == name);
    pairs.map(|pair| pair[1].trim_end_matches([',', '.']).to_owned()).collect()
}

/// Connections of each client: all together exceed one lane's share of an answer, and stay below what one
/// client gets in a second.
const CONNECTIONS: usize = 40;
const PACKETS: usize = 4000;
