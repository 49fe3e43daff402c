//! Tests of paths of different MTUs between network namespaces: probes are never fragmented, data always gets
//! through.

use std::net::SocketAddr;
use std::sync::mpsc;

use rx::EndpointStats;
use rx_lane::{Anonymous, CallError, ServerCall};
use testkit::netns::{Namespace, ip};

use super::{SERVICE, config, pattern, run};

/// Server, router and client in namespaces of their own: 10.9.0.1 - 10.9.0.2, 10.9.1.2 - 10.9.1.1.
struct Path {
    server: Namespace,
    router: Namespace,
    client: Namespace,
}

impl Path {
    /// Makes the namespaces and links; `None` where the test may not make namespaces, and is skipped.
    #[track_caller]
    fn new(server_side_mtu: u32, client_side_mtu: u32) -> Option<Self> {
        let server = Namespace::new_or_skip()?;
        let client = Namespace::new().unwrap();
        let router = Namespace::new().unwrap();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        for (n, (end, mtu)) in
            [(&server, server_side_mtu), (&client, client_side_mtu)].into_iter().enumerate()
        {
            let path = end.path();
            ip(&format!("link add r{n} mtu {mtu} type veth peer name e{n} mtu {mtu} netns {path}")).unwrap();
            ip(&format!("addr add 10.9.{n}.2/24 dev r{n}")).unwrap();
            ip(&format!("link set r{n} up")).unwrap();
            end.enter().unwrap();
            ip(&format!("addr add 10.9.{n}.1/24 dev e{n}")).unwrap();
            ip(&format!("link set e{n} up")).unwrap();
            ip(&format!("route add default via 10.9.{n}.2")).unwrap();
            router.enter().unwrap();
        }
        Some(Self { server, router, client })
    }

    /// Fetches `calls` replies of `reply_bytes` from a server that may send packets of up to
    /// `packet_size_max`.
    ///
    /// Returns what the server counted, and the packet size it has arrived at.
    fn fetch(&self, packet_size_max: u16, calls: usize, reply_bytes: usize) -> (EndpointStats, usize) {
        let (address, bound) = mpsc::channel::<SocketAddr>();
        let (done, finished) = mpsc::channel::<()>();
        let config = move || {
            let mut config = config();
            config.endpoint.packet_size_max = packet_size_max;
            config
        };
        std::thread::scope(|threads| {
            let server = threads.spawn(|| {
                self.server.enter().unwrap();
                run(async move {
                    let mut config = config();
                    config.endpoint.check_reach = false;
                    let driver = rx_lane::Driver::bind("10.9.0.1:0".parse().unwrap(), config).unwrap();
                    driver.serve(SERVICE, move |mut call: ServerCall| async move {
                        call.read_to_end(10).await?;
                        call.write(&pattern(reply_bytes)).await?;
                        call.finish().await?;
                        Ok::<_, CallError>(())
                    });
                    address.send(driver.local_addr().unwrap()).unwrap();
                    while finished.try_recv().is_err() {
                        lane::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                    let endpoint = driver.endpoint();
                    assert_eq!(driver.counters().send_errors.get(), 0);
                    let size = endpoint.peers().map(rx::Peer::packet_size).max().expect("one client");
                    (*endpoint.stats(), size)
                })
            });
            threads.spawn(move || {
                self.client.enter().unwrap();
                let server = bound.recv().unwrap();
                run(async move {
                    let client = rx_lane::Driver::bind("10.9.1.1:0".parse().unwrap(), config()).unwrap();
                    let connection = client.connect(server, SERVICE, &Anonymous).unwrap();
                    for _ in 0..calls {
                        let mut call = connection.call().await.unwrap();
                        call.finish().await.unwrap();
                        let reply = call.read_to_end(reply_bytes).await.unwrap();
                        assert!(reply == pattern(reply_bytes), "the bytes that were sent");
                    }
                });
                done.send(()).unwrap();
            });
            server.join().unwrap()
        })
    }

    /// Returns a counter of `Ip:` in the namespace of `end`.
    fn ip_counter(&self, end: &Namespace, name: &str) -> u64 {
        end.enter().unwrap();
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|known| known == name).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    }
}

#[test]
fn probes_find_the_size_that_a_wide_path_carries() {
    let Some(path) = Path::new(9000, 9000) else { return };
    let (stats, size) = path.fetch(4000, 20, 500_000);
    assert!(stats.mtu_probes > 0);
    assert_eq!((size, path.ip_counter(&path.client, "ReasmReqds")), (4000, 0));
}

#[test]
fn interface_too_narrow_refuses_probes_and_data_is_fragmented_there() {
    let Some(path) = Path::new(1200, 9000) else { return };
    let (stats, size) = path.fetch(4000, 20, 500_000);
    assert!(stats.mtu_probes > 0 && stats.mtu_probes_lost == stats.mtu_probes, "{stats:?}");
    assert_eq!(size, 1444, "no larger size got through");
    assert!(path.ip_counter(&path.server, "FragCreates") > 0, "data of 1444 bytes exceeds the MTU");
    assert_eq!(path.ip_counter(&path.client, "ReasmFails"), 0);
}

#[test]
fn router_too_narrow_drops_probes_and_data_is_fragmented() {
    let Some(path) = Path::new(9000, 1200) else { return };
    let (stats, size) = path.fetch(4000, 200, 500_000);
    assert!(stats.mtu_probes > 0 && stats.mtu_probes_lost > 0, "{stats:?}");
    assert_eq!(size, 1444, "no larger size got through");
    assert!(
        path.ip_counter(&path.router, "FragFails") > 0,
        "probes reached the router and were dropped there"
    );
    assert!(path.ip_counter(&path.client, "ReasmOKs") > 0, "data of 1444 bytes exceeds the MTU");
}
