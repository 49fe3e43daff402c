//! Four nodes, cards on two of them: what lanes do whose node has none, as the configuration says.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::Scenario;
use crate::lab::guest::metrics::Scrape;
use crate::lab::guest::net::{self, Namespace};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, wait_for};
use crate::lab::machine::{Machine, Model, Nic};

pub(crate) struct FourNodes;

impl Scenario for FourNodes {
    fn name(&self) -> &'static str {
        "four-nodes"
    }

    fn about(&self) -> &'static str {
        "lanes of nodes without a card help while those of a card's node are full, or stay idle, as configured"
    }

    fn machines(&self) -> Vec<Machine> {
        let nic = |name, model, node, wire| Nic { name, model, node, wire };
        vec![Machine {
            nodes: 4,
            cpus_per_node: 1,
            memory_mib_per_node: 768,
            nics: vec![
                nic("n0", Model::Virtio, Some(0), "w0"),
                nic("n2", Model::Vmxnet3, Some(2), "w2"),
                nic("c0", Model::Virtio, None, "w0"),
                nic("c2", Model::Virtio, None, "w2"),
            ],
            ..Machine::two_nodes()
        }]
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let clients = wire_up()?;
        std::fs::create_dir_all("/tmp/tree")?;
        std::fs::write("/tmp/tree/small", [b'x'; 100])?;
        let server = guest.serve(CONFIG)?;
        said_by(&server, "have no NIC: they help while all lanes of another node's NIC are full")?;
        stays_at_home(guest, &server, clients, "with time for all")?;
        while_full(&server, clients[0], || {
            let grown = fetched_by(&server, clients[0])?;
            let helped = grown.accepted(&[1, 3])?;
            guest.figure("by n0, full: on nodes without a card", helped, "connections")?;
            ensure!(helped > 0.0, "nobody helped: {}", grown.told());
            ensure!(grown.accepted(&[2])? == 0.0, "a node with a card of its own helped: {}", grown.told());
            let (given, taken) = (grown.of(ACCEPTS, &[HELPED])?, grown.of("linerate_silo_taken_over", &[])?);
            ensure!(given == helped && taken == helped, "{given} were given away, {taken} taken of {helped}");
            let other = fetched_by(&server, clients[1])?;
            ensure!(other.accepted(&[2])? == CONNECTIONS as f64, "node 2 has time: {}", other.told());
            Ok(())
        })?;
        wait_for("node 0 to have time again", || is_full(&server, false))?;
        stays_at_home(guest, &server, clients, "with time again")?;
        drop(server);

        let server = guest.serve(&format!("{CONFIG}[server]\nnodes_without_nic = \"idle\"\n"))?;
        said_by(&server, "have no NIC: they serve only what comes by none (nodes_without_nic = \"idle\")")?;
        while_full(&server, clients[0], || {
            let grown = fetched_by(&server, clients[0])?;
            guest.figure("by n0, full, idle: on node 0", grown.accepted(&[0])?, "connections")?;
            ensure!(grown.accepted(&[0])? == CONNECTIONS as f64, "{}", grown.told());
            ensure!(grown.of(ACCEPTS, &[HELPED])? == 0.0, "{}", grown.told());
            Ok(())
        })
    }
}

/// Clients behind the card of a node.
#[derive(Clone, Copy)]
struct Client {
    namespace: Namespace,
    node: usize,
    server: IpAddr,
}

fn wire_up() -> anyhow::Result<[Client; 2]> {
    let client = |node: usize, name, card, far| -> anyhow::Result<Client> {
        let server = format!("10.{}.0.1", 70 + node);
        net::set_up(card, &format!("{server}/24"))?;
        // The work of the client's side is not done on the CPU whose lane is to be full.
        net::direct_interrupts(far, 3)?;
        let namespace = Namespace::new(name)?;
        namespace.take(far, &format!("10.{}.0.2/24", 70 + node))?;
        Ok(Client { namespace, node, server: server.parse()? })
    };
    Ok([client(0, "near", "n0", "c0")?, client(2, "far", "n2", "c2")?])
}

/// Checks that the greeting says what each node's lanes do.
fn said_by(server: &Server, without: &str) -> anyhow::Result<()> {
    for (node, does) in ["serve n0", without, "serve n2", without].into_iter().enumerate() {
        let line = format!("node {node}: lanes {node} on CPUs {node} {does}");
        ensure!(server.log().contains(&line), "it does not say `{line}`:\n{}", server.log());
    }
    Ok(())
}

fn stays_at_home(guest: &mut Guest, server: &Server, clients: [Client; 2], how: &str) -> anyhow::Result<()> {
    for client in clients {
        let grown = fetched_by(server, client)?;
        let here = grown.accepted(&[client.node])?;
        guest.figure(&format!("by n{}, {how}: on its node", client.node), here, "connections")?;
        ensure!(here == CONNECTIONS as f64, "by n{}, {how}: {}", client.node, grown.told());
    }
    Ok(())
}

/// Does `work` while clients behind `client`'s card ask for more than its node's lane can answer.
fn while_full(
    server: &Server,
    client: Client,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stop = AtomicBool::new(false);
    let address = SocketAddr::new(client.server, 8080);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            // Threads that are begun by this one stay off CPU 0 and in its namespace.
            stay_on_the_others()?;
            client.namespace.within(|| {
                std::thread::scope(|scope| {
                    let ask = || ask_without_end(address, &stop);
                    let asking: Vec<_> = (0..ASKING).map(|_| scope.spawn(ask)).collect();
                    asking.into_iter().try_for_each(|asks| asks.join().expect("it asserts nothing"))
                })
            })
        });
        let done = wait_for("node 0 to be full", || is_full(server, true)).and_then(|()| work());
        stop.store(true, Ordering::Relaxed);
        let asked = load.join().expect("it asserts nothing");
        done.and(asked)
    })
}

fn is_full(server: &Server, wanted: bool) -> Option<()> {
    let full = server.scrape().ok()?.sum("linerate_silo_full", &["silo=\"0\""]).ok()?;
    (full == f64::from(u8::from(wanted))).then_some(())
}

/// Moves the calling thread, and threads that it begins, off CPU 0.
fn stay_on_the_others() -> anyhow::Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    (1..4).for_each(|cpu| cpus.set(cpu));
    rustix::thread::sched_setaffinity(None, &cpus).context("sched_setaffinity")
}

/// Makes many requests at a time on one connection, whose answers cost the client nothing but a look at their
/// number.
fn ask_without_end(server: SocketAddr, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut stream = connect(server)?;
    let request = "GET /small HTTP/1.1\r\nHost: lab\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut bytes = vec![0; 256 * 1024];
    let mut answer = 0;
    while !bytes[..answer].ends_with(&[b'x'; 100]) {
        let length = stream.read(&mut bytes[answer..])?;
        ensure!(length > 0, "closed in the middle of an answer");
        answer += length;
    }
    let requests = request.repeat(AT_ONCE);
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(requests.as_bytes())?;
        let mut missing = AT_ONCE * answer;
        while missing > 0 {
            let length = stream.read(&mut bytes)?;
            ensure!(length > 0 && length <= missing, "{length} bytes where {missing} were missing");
            missing -= length;
        }
    }
    Ok(())
}

fn connect(server: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Returns what has grown while some connections were made, each for one answer.
fn fetched_by(server: &Server, client: Client) -> anyhow::Result<Grown> {
    let before = server.scrape()?;
    let to = SocketAddr::new(client.server, 8080);
    client.namespace.within(|| {
        for _ in 0..CONNECTIONS {
            let mut stream = connect(to)?;
            write!(stream, "GET /small HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            ensure!(answer.ends_with(&[b'x'; 100]), "a wrong answer");
        }
        Ok(())
    })?;
    Ok(Grown { before, after: server.scrape()? })
}

struct Grown {
    before: Scrape,
    after: Scrape,
}

impl Grown {
    fn of(&self, counter: &str, labels: &[&str]) -> anyhow::Result<f64> {
        Ok(self.after.grown(&self.before, counter, labels)?)
    }

    /// Connections accepted on these nodes.
    fn accepted(&self, nodes: &[usize]) -> anyhow::Result<f64> {
        let on = |node: &usize| self.of(ACCEPTED, &["scheme=\"http\"", &format!("silo=\"{node}\"")]);
        nodes.iter().map(on).sum()
    }

    fn told(&self) -> String {
        let of = |name| {
            format!("{name}: {} before, {} after", self.before.describe(name), self.after.describe(name))
        };
        format!("{}; {}", of(ACCEPTED), of(ACCEPTS))
    }
}

const CONNECTIONS: usize = 24;
/// Connections that ask without end, and requests that each has under way.
const ASKING: usize = 6;
const AT_ONCE: usize = 200;
/// Software emulation of a lane that is full.
const PATIENCE: Duration = Duration::from_secs(60);
const ACCEPTED: &str = "linerate_http_connections_accepted";
const ACCEPTS: &str = "linerate_silo_accepts";
const HELPED: &str = "placement=\"helped\"";

const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = ["0.0.0.0:8080"]
[https]
listen = "off"
"#;
