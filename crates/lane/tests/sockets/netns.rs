//! A server and a client in network namespaces of their own, joined by two pairs of virtual NICs.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};

/// Server NIC n has 10.9.n.1 and the client's end 10.9.n.2. The namespaces go when their last socket and this
/// value are gone.
pub(crate) struct TwoNics {
    server: File,
    client: File,
    /// Interface index of each NIC of the server.
    pub(crate) ifindexes: [u32; 2],
}

impl TwoNics {
    /// `None`, with a word on standard error, where the test may not make namespaces. The calling thread is in
    /// the server's namespace afterwards.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: network namespaces need root ({error})");
            return None;
        }
        let server = own_namespace();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let client = own_namespace();
        ip("link set lo up");
        enter(&server);
        ip("link set lo up");
        let client_path = format!("/proc/{}/fd/{}", std::process::id(), client.as_raw_fd());
        for n in 0..2 {
            ip(&format!("link add s{n} type veth peer name c{n} netns {client_path}"));
            ip(&format!("addr add {}/24 dev s{n}", Self::server_address(n)));
            ip(&format!("link set s{n} up"));
        }
        enter(&client);
        for n in 0..2 {
            ip(&format!("addr add 10.9.{n}.2/24 dev c{n}"));
            ip(&format!("link set c{n} up"));
        }
        enter(&server);
        let index = |name: &str| nix::net::if_::if_nametoindex(name).unwrap();
        Some(Self { server, client, ifindexes: [index("s0"), index("s1")] })
    }

    pub(crate) fn server_address(nic: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, nic as u8, 1)
    }

    /// Runs `act` with the thread in the client's namespace.
    pub(crate) fn as_client<T>(&self, act: impl FnOnce() -> T) -> T {
        enter(&self.client);
        let result = act();
        enter(&self.server);
        result
    }
}

fn own_namespace() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

fn enter(namespace: &File) {
    setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
