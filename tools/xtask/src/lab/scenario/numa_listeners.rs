//! Connections are served by the node their card belongs to.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::Scenario;
use crate::lab::guest::metrics::{Scrape, scrape};
use crate::lab::guest::net::{self, Namespace};
use crate::lab::guest::server::{Background, Server};
use crate::lab::guest::{Guest, wait_for};
use crate::process;

mod bond;
mod killed;

pub(crate) struct NumaListeners;

impl Scenario for NumaListeners {
    fn name(&self) -> &'static str {
        "numa-listeners"
    }

    fn about(&self) -> &'static str {
        "connections are served by lanes of the node their card belongs to, and by the other node when it has none"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(900)
    }

    fn on_every_change(&self) -> bool {
        true
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let clients = wire_up()?;
        std::fs::create_dir_all("/tmp/tree")?;
        std::fs::write("/tmp/tree/small", [b'x'; 100])?;
        let server = guest.serve(CONFIG)?;
        http_stays_on_its_node(guest, &server, clients, "as the kernel set the cards up")?;
        a_drained_node_is_stood_in_for(guest, &server, clients)?;
        killed::listeners_are_replaced(guest, &server, clients)?;
        drop(server);
        rx_is_served(guest, clients)?;
        // Of each card to the other node.
        for (card, other) in [("n0", 1), ("n1", 0)] {
            net::direct_interrupts(card, other)?;
        }
        let server = guest.serve(CONFIG)?;
        http_stays_on_its_node(guest, &server, clients, "with interrupts on the other node")?;
        drop(server);
        bond::connections_find_their_node(guest, clients)
    }
}

/// Clients behind the card of a node.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) namespace: Namespace,
    pub(super) node: usize,
    /// The server's address on that card.
    pub(super) server: IpAddr,
}

/// Sets up a client behind the card of each node.
pub(super) fn wire_up() -> anyhow::Result<[Client; 2]> {
    let client = |node: usize| -> anyhow::Result<Client> {
        let server = format!("10.{}.0.1", 70 + node);
        net::set_up(["n0", "n1"][node], &format!("{server}/24"))?;
        let namespace = Namespace::new(["near", "far"][node])?;
        namespace.take(["c0", "c1"][node], &format!("10.{}.0.2/24", 70 + node))?;
        Ok(Client { namespace, node, server: server.parse()? })
    };
    Ok([client(0)?, client(1)?])
}

fn http_stays_on_its_node(
    guest: &mut Guest,
    server: &Server,
    clients: [Client; 2],
    how: &str,
) -> anyhow::Result<()> {
    clients.into_iter().try_for_each(|client| http_is_served_on(guest, server, client, client.node, how))
}

/// Stops the lanes of node 1: its card's connections are then served on node 0, and those of node 0's card stay.
/// Connections that node 1 has kept open close. All is as before once the lanes return.
fn a_drained_node_is_stood_in_for(
    guest: &mut Guest,
    server: &Server,
    clients: [Client; 2],
) -> anyhow::Result<()> {
    let kept_open: Vec<TcpStream> = clients
        .into_iter()
        .map(|client| client.namespace.within(|| keep_open(SocketAddr::new(client.server, 8080))))
        .collect::<anyhow::Result<_>>()?;
    let kept_open_http2 = http2_in_two_requests(clients[1])?;
    server.reload(&format!("{CONFIG}[server]\ndrained_nodes = [1]\n"))?;
    for client in clients {
        http_is_served_on(guest, server, client, 0, "node 1 drained")?;
    }
    for (client, mut stream) in clients.into_iter().zip(kept_open) {
        stream.set_read_timeout(Some(Duration::from_secs(if client.node == 1 { 30 } else { 1 })))?;
        let closed = matches!(stream.read(&mut [0]), Ok(0));
        ensure!(closed == (client.node == 1), "node 1 drained, connection to node {}: {closed}", client.node);
    }
    let told = kept_open_http2.wait_with_output()?;
    let told = String::from_utf8_lossy(&told.stdout);
    ensure!(
        told == "2 200 1\n2 200 1\n",
        "HTTP/2, node 1 drained: version, status and new connections: {told}"
    );
    server.reload(CONFIG)?;
    for client in clients {
        http_is_served_on(guest, server, client, client.node, "node 1 back")?;
    }
    Ok(())
}

fn http_is_served_on(
    guest: &mut Guest,
    server: &Server,
    client: Client,
    node: usize,
    how: &str,
) -> anyhow::Result<()> {
    let before = server.scrape()?;
    let to = SocketAddr::new(client.server, 8080);
    client.namespace.within(|| (0..CONNECTIONS).try_for_each(|_| fetch(to)))?;
    client.namespace.within(|| fetch_sealed(client))?;
    let after = server.scrape()?;
    let schemes =
        [("HTTP", "scheme=\"http\"", CONNECTIONS), ("HTTPS", "scheme=\"https\"", SEALED_CONNECTIONS)];
    for (scheme, label, made) in schemes {
        let growth = Growth { before: &before, after: &after, counter: ACCEPTED, label };
        let (here, all) = growth.on(node)?;
        let what = format!("{scheme} by n{}, {how}: on node {node}", client.node);
        ensure!(all >= made as f64, "{what}: {all} connections were counted");
        guest.figure(&what, 100.0 * here / all, "%")?;
        ensure!(here == all, "{what}: {here} of {all}");
    }
    Ok(())
}

/// Checks that an Rx connection is owned by a lane of the node of the card that it came in by (docs/design/rx.md).
/// None of its packets is handed to the other node.
fn rx_is_served(guest: &mut Guest, clients: [Client; 2]) -> anyhow::Result<()> {
    let mut server = guest.linerate();
    server.args(["bench", "rx-server", "--listen", "0.0.0.0:7009", "--admin", "127.0.0.1:8091"]);
    // The default pool takes seconds to touch in software emulation.
    server.args(["--packets", "1024"]);
    let _server = Background::start(&mut server)?;
    let admin = SocketAddr::from(([127, 0, 0, 1], 8091));
    wait_for("the Rx service", || TcpStream::connect(admin).ok())?;
    for client in clients {
        let before = scrape(admin)?;
        let mut load = client.namespace.command(guest.linerate().get_program());
        load.args([
            "bench",
            "rx",
            &format!("{}:7009", client.server),
            "--clients",
            "16",
            "--packets",
            "1024",
        ]);
        let output = load.args(["--recv-bytes", "4K", "--seconds", "5", "--json"]).output()?;
        ensure!(output.status.success(), "bench rx: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let no_errors = report["errors"].as_object().is_some_and(serde_json::Map::is_empty);
        ensure!(no_errors && report["calls"].as_u64() > Some(0), "Rx calls failed: {report}");
        let after = scrape(admin)?;
        let growth = Growth { before: &before, after: &after, counter: RX_CALLS, label: "" };
        let (here, all) = growth.on(client.node)?;
        let what = format!("Rx calls by n{node}: on node {node}", node = client.node);
        guest.figure(&what, 100.0 * here / all, "%")?;
        ensure!(all > 0.0 && here == all, "{what}: {here} of {all}");
        let across = after.grown(&before, RX_HANDED_OVER, &["to=\"other_silo\""])?;
        ensure!(across == 0.0, "{across} packets by n{} were handed to the other node", client.node);
    }
    Ok(())
}

/// Growth of a counter.
struct Growth<'a> {
    before: &'a Scrape,
    after: &'a Scrape,
    counter: &'a str,
    label: &'a str,
}

impl Growth<'_> {
    /// Returns by how much the counter has grown on lanes of `node`, and by how much in all.
    fn on(&self, node: usize) -> anyhow::Result<(f64, f64)> {
        let silo = format!("silo=\"{node}\"");
        let here = self.after.grown(self.before, self.counter, &[self.label, &silo])?;
        Ok((here, self.after.grown(self.before, self.counter, &[self.label])?))
    }
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

/// Opens a connection that has had one answer.
fn keep_open(server: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(10)).context("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /small HTTP/1.1\r\nHost: lab\r\n\r\n")?;
    let mut answer = Vec::new();
    while !answer.ends_with(&[b'x'; 100]) {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes)?;
        ensure!(length > 0, "closed after {} bytes", answer.len());
        answer.extend_from_slice(&bytes[..length]);
    }
    Ok(stream)
}

/// Starts a curl that has one answer and asks again on the same connection, if that is still there, much later.
fn http2_in_two_requests(client: Client) -> anyhow::Result<Child> {
    let (first, url) = ("/tmp/first", format!("https://{}:8443/small", client.server));
    let mut curl = client.namespace.command("curl");
    curl.args(["--silent", "--insecure", "--http2", "--rate", "3/m", "--max-time", "60"]);
    curl.args(["--write-out", "%{http_version} %{http_code} %{num_connects}\n"]);
    curl.args(["--output", first, &url, "--output", "/tmp/second", &url]);
    let curl = curl.stdout(Stdio::piped()).spawn().context("curl")?;
    wait_for("the first answer", || std::fs::metadata(first).ok().filter(|file| file.len() > 0))?;
    Ok(curl)
}

/// Fetches by one curl, with a connection for each request.
fn fetch_sealed(client: Client) -> anyhow::Result<()> {
    let mut curl = vec!["--silent", "--show-error", "--fail", "--insecure", "--http1.1", "--max-time", "60"];
    curl.extend(["--header", "Connection: close"]);
    let url = format!("https://{}:8443/small", client.server);
    for _ in 0..SEALED_CONNECTIONS {
        curl.extend(["--output", "/tmp/answer", &url]);
    }
    process::output("curl", &curl)?;
    Ok(())
}

const CONNECTIONS: usize = 24;
/// A handshake costs much in software emulation.
const SEALED_CONNECTIONS: usize = 8;
const RX_CALLS: &str = "linerate_rx_calls_accepted";
const RX_HANDED_OVER: &str = "linerate_rx_handed_over";
const ACCEPTED: &str = "linerate_http_connections_accepted";
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = ["0.0.0.0:8080"]
[http.limits]
idle_seconds = 3600
[https]
listen = ["0.0.0.0:8443"]
"#;
