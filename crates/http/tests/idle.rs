//! Memory of an idle connection, as an allocator takes it: counted, not reckoned. What libraries in C take
//! for keys is not in it; `cargo xtask idle` tells what is resident.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};
use std::time::Duration;

use http::service::{Mount, Role, Service, Site};
use lane::backend::ListenOptions;
use lane::memory::{Counting, Taken};
use lane::net::TcpListener;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use service::commons::Commons;
use tls::{Alpn, ClientTrust, KtlsPolicy, TicketKeys, TlsConfig, Versions, client_config};
use vfs::{Cache, CacheOptions, Volume, VolumeOptions, VolumeSpec};

#[test]
fn an_idle_connection_keeps_its_task_and_no_buffer_whatever_it_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("short"), [b's'; 1024]).unwrap();
    std::fs::write(dir.path().join("long"), vec![b'l'; LONG_BYTES]).unwrap();
    let server = Server::start(dir.path());
    let padding = format!("X-Padding: {}\r\n", "x".repeat(9000));
    let asked = [
        ("short", request("short", ""), 1024),
        ("with a long head", request("short", &padding), 1024),
        ("long", request("long", ""), LONG_BYTES),
    ];
    for (is_tls, bound) in [(false, PLAIN_BYTES_MAX), (true, TLS_BYTES_MAX)] {
        for (name, request, body) in &asked {
            let ask = || server.ask(is_tls, request, *body);
            let first: Vec<_> = (0..WARM_UP).map(|_| ask()).collect();
            let before = server.taken();
            let held: Vec<_> = (0..COUNT).map(|_| ask()).collect();
            let each = (server.taken() - before) / COUNT as isize;
            println!("{each} bytes: TLS {is_tls}, a request {name}");
            assert!(
                each <= bound,
                "{each} bytes for an idle connection, TLS {is_tls}, after a request {name}"
            );
            // So many are still open, or the figure would be of others.
            assert_eq!(first.len() + held.len(), WARM_UP + COUNT);
            drop((first, held));
            server.taken();
        }
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

struct Server {
    plain: SocketAddr,
    sealed: SocketAddr,
    client: Arc<ClientConfig>,
    lane: Arc<Lane>,
}

/// Figures that the server's lane tells of itself again and again.
#[derive(Default)]
struct Lane {
    taken: AtomicIsize,
    rounds: AtomicU64,
}

impl Server {
    fn start(directory: &std::path::Path) -> Self {
        let state = tempfile::tempdir().unwrap();
        let tls = TlsConfig::new(state.path()).load(Arc::new(TicketKeys::new().unwrap())).unwrap().config;
        let client =
            client_config(&ClientTrust::AnyCertificate, Versions::default(), &[Alpn::Http11]).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (directory, lane) = (directory.to_owned(), Arc::new(Lane::default()));
        let tells = Arc::clone(&lane);
        std::thread::spawn(move || {
            lane::runtime::run_here(Default::default(), async move {
                let cache = Cache::new(CacheOptions::default());
                let spec = VolumeSpec::new("test".parse().unwrap(), directory, VolumeOptions::default());
                let mut site = Site::new(vec![Mount::new("/", Volume::open(&cache, &spec).unwrap(), true)]);
                site.tls = Some(tls);
                let (http, connections, commons) = Default::default();
                let service =
                    Service::new(site, http, connections, None, KtlsPolicy::Off, Commons::new(commons), 1);
                let any = "127.0.0.1:0".parse().unwrap();
                let bind = || TcpListener::bind(any, &ListenOptions::default()).unwrap();
                let (plain, sealed) = (bind(), bind());
                tell.send((plain.local_addr().unwrap(), sealed.local_addr().unwrap())).unwrap();
                lane::spawn(service.clone().listen(sealed, Role::Tls)).detach();
                lane::spawn(service.listen(plain, Role::Plain)).detach();
                loop {
                    tells.taken.store(Taken::here().now, Ordering::Relaxed);
                    tells.rounds.fetch_add(1, Ordering::Release);
                    lane::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .unwrap();
        });
        let (plain, sealed) = told.recv().unwrap();
        Self { plain, sealed, client: Arc::new(client), lane }
    }

    /// Returns what its lane has taken, once that has not changed for 100 rounds.
    fn taken(&self) -> isize {
        let (mut taken, mut since) = (isize::MIN, 0);
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let round = self.lane.rounds.load(Ordering::Acquire);
            let now = self.lane.taken.load(Ordering::Relaxed);
            if now != taken {
                (taken, since) = (now, round);
            } else if round > since + 100 {
                return taken;
            }
        }
    }

    /// A connection that was answered once.
    fn ask(&self, is_tls: bool, request: &str, body: usize) -> Box<dyn Stream> {
        let mut stream: Box<dyn Stream> = if is_tls {
            let name = ServerName::from(self.sealed.ip());
            let session = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
            Box::new(StreamOwned::new(session, TcpStream::connect(self.sealed).unwrap()))
        } else {
            Box::new(TcpStream::connect(self.plain).unwrap())
        };
        stream.write_all(request.as_bytes()).unwrap();
        let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let n = stream.read(&mut part).unwrap();
            assert!(n > 0, "the server closed the connection");
            answer.extend_from_slice(&part[..n]);
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
            if head.is_some_and(|head| answer.len() >= head + 4 + body) {
                assert!(answer.starts_with(b"HTTP/1.1 200 "));
                return stream;
            }
        }
    }
}

fn request(path: &str, lines: &str) -> String {
    format!("GET /{path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

const LONG_BYTES: usize = 200_000;
const WARM_UP: usize = 64;
/// With a descriptor on each side, within the 1,024 that a process may have by default.
const COUNT: usize = 320;
const PLAIN_BYTES_MAX: isize = 3900;
const TLS_BYTES_MAX: isize = 5000;

#[global_allocator]
static COUNTING: Counting = Counting;
