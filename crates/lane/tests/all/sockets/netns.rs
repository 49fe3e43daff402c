//! Environment of a server and a client in network namespaces of their own, joined by two pairs of virtual
//! NICs.

use std::net::Ipv4Addr;

use testkit::netns::{Namespace, ip};

/// Server NIC n has 10.9.n.1 and the client's end 10.9.n.2. The namespaces go when their last socket and this
/// value are gone.
pub(crate) struct TwoNics {
    client: Namespace,
    /// Interface index of each NIC of the server.
    pub(crate) ifindexes: [u32; 2],
}

impl TwoNics {
    /// Makes the namespaces. `None` where the test may not make them: it is skipped. The calling thread is in
    /// the server's namespace afterwards.
    #[track_caller]
    pub(crate) fn new() -> Option<Self> {
        let server = Namespace::new_or_skip()?;
        let client = Namespace::new().unwrap();
        server.enter().unwrap();
        let client_path = client.path();
        for n in 0..2 {
            ip(&format!("link add s{n} type veth peer name c{n} netns {client_path}")).unwrap();
            ip(&format!("addr add {}/24 dev s{n}", Self::server_address(n))).unwrap();
            ip(&format!("link set s{n} up")).unwrap();
        }
        let plug = |n: usize| {
            ip(&format!("addr add 10.9.{n}.2/24 dev c{n}"))?;
            ip(&format!("link set c{n} up"))
        };
        client.within(|| (0..2).try_for_each(plug)).unwrap().unwrap();
        let index = |name: &str| nix::net::if_::if_nametoindex(name).unwrap();
        Some(Self { client, ifindexes: [index("s0"), index("s1")] })
    }

    pub(crate) fn server_address(nic: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, nic as u8, 1)
    }

    /// Returns the client's address from which packets through a NIC come.
    pub(crate) fn client_address(nic: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, nic as u8, 2)
    }

    /// Runs `act` with the thread in the client's namespace.
    pub(crate) fn as_client<T>(&self, act: impl FnOnce() -> T) -> T {
        self.client.within(act).unwrap()
    }
}
