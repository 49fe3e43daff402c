//! Whole requests on a simulated lane: a small file that the lane's caches have, from the bytes that came in to those
//! that leave. What the simulated network and the client take is counted too, and is the same every time.

use std::cell::RefCell;
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::service::{HttpCounters, Mount, Role, Service, Site};
use identity::Writable;
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Host, World};
use lane::net::{TcpListener, TcpStream};
use tls::{
    Alpn, ClientTrust, KtlsPolicy, TicketKeys, TlsConfig, TlsEvent, TlsSession, Versions, client_config,
};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions, Volume, VolumeOptions, VolumeSpec};

/// Server and one connection to it, over which each kind of request has been answered before.
pub(crate) struct Served {
    world: World,
    client: Host,
    connection: Rc<RefCell<Option<Connection>>>,
}

struct Connection {
    stream: TcpStream,
    tls: Option<TlsSession>,
    next_stream: u32,
}

impl Served {
    /// Starts a server with a connection of plain HTTP/1.1.
    pub(crate) fn http1() -> Self {
        let served = Self::start(None);
        served.get_pipelined(1);
        served
    }

    /// Starts a server that takes uploads, with a connection of plain HTTP/1.1.
    pub(crate) fn writable() -> Self {
        let served = Self::start_by(None, Writable::anyone());
        served.put_one_by_one(1);
        served
    }

    /// Starts a server with a connection of HTTP/2 over TLS 1.3.
    pub(crate) fn http2() -> Self {
        let trust =
            client_config(&ClientTrust::AnyCertificate, Versions::Tls13Only, &[Alpn::H2]).expect("no files");
        let name = "localhost".try_into().expect("a name");
        let client = TlsSession::client(Arc::new(trust), name).expect("a valid configuration");
        let served = Self::start(Some(client));
        let opening =
            [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, b""), &WIDE_WINDOW].concat();
        let connection = Rc::clone(&served.connection);
        served.run(async move {
            let mut taken = connection.take().expect(OPEN);
            taken.send(&opening).await;
            connection.replace(Some(taken));
        });
        served.get_streams(1);
        served
    }

    /// Sends `count` GET requests in one write, and takes all answers.
    pub(crate) fn get_pipelined(&self, count: usize) -> usize {
        let connection = Rc::clone(&self.connection);
        self.run(async move {
            let slot = connection;
            let mut connection = slot.take().expect(OPEN);
            connection.send(&REQUEST.repeat(count)).await;
            let (mut taken, mut len) = (Vec::new(), 0);
            connection.receive(&mut taken).await;
            while len == 0 || taken.len() < count * len {
                // All answers are of one length.
                if let Some(head) =
                    taken.windows(4).position(|window| window == b"\r\n\r\n").filter(|_| len == 0)
                {
                    len = head + 4 + FILE_BYTES;
                    continue;
                }
                connection.receive(&mut taken).await;
            }
            assert!(taken.chunks(len).all(|answer| answer.starts_with(b"HTTP/1.1 200 OK\r\n")));
            slot.replace(Some(connection));
            taken.len() / len
        })
    }

    /// Replaces one small file `count` times, each after the answer to the last.
    pub(crate) fn put_one_by_one(&self, count: usize) -> usize {
        let connection = Rc::clone(&self.connection);
        self.run(async move {
            let slot = connection;
            let mut connection = slot.take().expect(OPEN);
            let request = [PUT, &[7; FILE_BYTES]].concat();
            for _ in 0..count {
                connection.send(&request).await;
                let mut taken = Vec::new();
                while !taken.ends_with(b"\r\n\r\n") {
                    connection.receive(&mut taken).await;
                }
                assert!(taken.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&taken));
            }
            slot.replace(Some(connection));
            count
        })
    }

    /// Sends GET requests on `count` streams in one write, and takes all answers.
    pub(crate) fn get_streams(&self, count: usize) -> usize {
        let connection = Rc::clone(&self.connection);
        self.run(async move {
            let slot = connection;
            let mut connection = slot.take().expect(OPEN);
            let mut requests = Vec::new();
            for _ in 0..count {
                requests.extend(frame(HEADERS, END_HEADERS | END_STREAM, connection.next_stream, FIELDS));
                connection.next_stream += 2;
            }
            connection.send(&requests).await;
            let (mut taken, mut at) = (Vec::new(), 0);
            let (mut answers, mut data) = (0, 0);
            while answers < count {
                connection.receive(&mut taken).await;
                while let Some(head) = taken[at..].first_chunk::<9>() {
                    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                    if taken.len() < at + 9 + len {
                        break;
                    }
                    at += 9 + len;
                    if head[3] == DATA {
                        data += len;
                        answers += usize::from(head[4] & END_STREAM);
                    }
                }
            }
            assert_eq!(data, count * FILE_BYTES);
            slot.replace(Some(connection));
            answers
        })
    }

    fn start(tls: Option<TlsSession>) -> Self {
        Self::start_by(tls, Writable::Nobody)
    }

    fn start_by(tls: Option<TlsSession>, writable: Writable) -> Self {
        let world = World::new(1, Config::default());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.fs().create_dir_all("/srv").expect("an empty disk");
        server.fs().write("/srv/1k.bin", [7; FILE_BYTES]).expect("an empty disk");
        // What was written in this very tick of the clock might change without showing.
        world.run_for(Duration::from_secs(3));
        let role = if tls.is_some() { Role::Tls } else { Role::Plain };
        server.spawn(async move {
            let cache = match writable {
                Writable::Nobody => Cache::new(CacheOptions::default()),
                _ => Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default())),
            };
            let name = "files".parse().expect("a name");
            let spec = VolumeSpec::new(name, "/srv", VolumeOptions::default()).writable_by(writable);
            let volume = Volume::open(&cache, &spec);
            let mut site = Site::new(vec![Mount::new("/", volume.expect("a directory"), true)]);
            if role == Role::Tls {
                let dir = tempfile::tempdir().expect("a directory for the certificate");
                let tickets = Arc::new(TicketKeys::new().expect("random bytes"));
                let loaded = TlsConfig::new(dir.path()).load(tickets).expect("a self-signed certificate");
                site.tls = Some(loaded.config);
            }
            let counters = Arc::new(HttpCounters::default());
            let commons = service::commons::Commons::new(Arc::default());
            let service = Service::new(site, counters, Arc::default(), None, KtlsPolicy::Off, commons, 1);
            let address = ADDRESS.parse().expect("an address");
            let listener = TcpListener::bind(address, &ListenOptions::default()).expect("a free port");
            service.listen(listener, role).await;
        });
        world.run_for(Duration::from_millis(100));
        let connection = world.block_on(&client, async move {
            let stream = TcpStream::connect(ADDRESS.parse().expect("an address")).await.expect("a server");
            let mut connection = Connection { stream, tls, next_stream: 1 };
            while connection.tls.as_ref().is_some_and(TlsSession::is_handshaking) {
                connection.send(b"").await;
                connection.receive(&mut Vec::new()).await;
            }
            connection
        });
        Self { world, client, connection: Rc::new(RefCell::new(Some(connection))) }
    }

    fn run<T: 'static>(&self, story: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.client, story)
    }
}

impl Drop for Served {
    /// Drops the connection on its own host, as a socket ends where it lives.
    fn drop(&mut self) {
        let connection = Rc::clone(&self.connection);
        self.run(async move { drop(connection.take()) });
    }
}

impl Connection {
    async fn send(&mut self, plain: &[u8]) {
        let sealed = match &mut self.tls {
            Some(tls) => {
                if !plain.is_empty() {
                    tls.write(plain).expect("an open session");
                }
                tls.take_output()
            }
            None => plain.to_vec(),
        };
        let mut rest = &sealed[..];
        while !rest.is_empty() {
            match self.stream.try_send(&[IoSlice::new(rest)], false).expect("a connection") {
                Some(sent) => rest = &rest[sent..],
                None => self.stream.writable().await.expect("a connection"),
            }
        }
    }

    async fn receive(&mut self, plain: &mut Vec<u8>) {
        let mut bytes = self.stream.recv().await.expect("a connection");
        assert!(!bytes.is_empty(), "the server ended the connection");
        let Some(tls) = &mut self.tls else { return plain.extend_from_slice(&bytes) };
        let mut cursor = tls.receive(&mut bytes);
        while let Some(event) = cursor.next().expect("valid records") {
            if let TlsEvent::Data(data) = event {
                plain.extend_from_slice(data);
            }
        }
        if tls.has_output() {
            drop(bytes);
            Box::pin(self.send(b"")).await;
        }
    }
}

/// Builds one frame (RFC 9113 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const ADDRESS: &str = "10.0.0.1:443";
const OPEN: &str = "the connection lives as long as its owner";
const FILE_BYTES: usize = 1024;
const REQUEST: &[u8] = b"GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const PUT: &[u8] = b"PUT /up.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 1024\r\n\r\n";
/// Header block of GET, https, /1k.bin, localhost and a user agent, nothing of it indexed (RFC 7541 6.1,
/// 6.2.2).
const FIELDS: &[u8] = b"\x82\x87\x04\x07/1k.bin\x01\x09localhost\x0f\x2b\x0bcounter/1.0";
/// WINDOW_UPDATE that opens the connection's window for every body (RFC 9113 6.9).
const WIDE_WINDOW: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0];
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
