//! Connections are served by the node their card belongs to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::Scenario;
use crate::lab::guest::Guest;
use crate::lab::guest::net::{self, Namespace};
use crate::lab::guest::server::Server;

pub(crate) struct NumaListeners;

impl Scenario for NumaListeners {
    fn name(&self) -> &'static str {
        "numa-listeners"
    }

    fn about(&self) -> &'static str {
        "connections are served by lanes of the node their card belongs to, and by the other node when it has none"
    }

    fn on_every_change(&self) -> bool {
        true
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let (near, far) = wire_up()?;
        std::fs::create_dir_all("/tmp/tree")?;
        std::fs::write("/tmp/tree/small", [b'x'; 100])?;
        let server = guest.serve(CONFIG)?;
        for (client, node) in [(near, 0), (far, 1)] {
            let share = share_of_node(&server, client, node)?;
            guest.figure(&format!("connections by n{node} served on node {node}"), share * 100.0, "%")?;
            ensure!(share == 1.0, "only {share} of n{node}'s connections are served on its node");
        }
        Ok(())
    }
}

/// Clients behind either card.
fn wire_up() -> anyhow::Result<(Client, Client)> {
    net::set_up("n0", "10.70.0.1/24")?;
    net::set_up("n1", "10.71.0.1/24")?;
    let near = Namespace::new("near")?;
    near.take("c0", "10.70.0.2/24")?;
    let far = Namespace::new("far")?;
    far.take("c1", "10.71.0.2/24")?;
    let address = |net: u8| SocketAddr::from(([10, net, 0, 1], 8080));
    Ok((Client { namespace: near, server: address(70) }, Client { namespace: far, server: address(71) }))
}

#[derive(Clone, Copy)]
struct Client {
    namespace: Namespace,
    server: SocketAddr,
}

/// Makes connections from `client`; the share that lanes of `node` took.
fn share_of_node(server: &Server, client: Client, node: u32) -> anyhow::Result<f64> {
    let before = server.scrape()?;
    client.namespace.within(|| (0..CONNECTIONS).try_for_each(|_| fetch(client.server)))?;
    let after = server.scrape()?;
    let here = after.grown(&before, ACCEPTED, &[&format!("silo=\"{node}\"")])?;
    let all = after.grown(&before, ACCEPTED, &[])?;
    ensure!(all >= CONNECTIONS as f64, "{all} of {CONNECTIONS} connections were counted");
    Ok(here / all)
}

fn fetch(server: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(10)).context("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /small HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&[b'x'; 100]), "a wrong answer");
    Ok(())
}

const CONNECTIONS: usize = 40;
const ACCEPTED: &str = "linerate_http_connections_accepted";
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = ["0.0.0.0:8080"]
[https]
listen = ["0.0.0.0:8443"]
"#;
