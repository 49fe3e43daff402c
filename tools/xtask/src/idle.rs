//! `cargo xtask idle`: what an idle keep-alive connection costs the server in resident memory, and whether that is more than it may.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::{Alpn, ClientTrust, Versions, client_config};

use crate::server::{self, Subject};
use crate::{cpu, descriptors, packages, process};

/// Flags of `cargo xtask idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections to hold open
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Measure this program alone, without nginx
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.server.is_none() {
        packages::install(packages::COMPARE)?;
    }
    let program = match &args.server {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => process::dist_binary()?,
    };
    let bench = Bench::new(args.connections)?;
    let outcome = bench.check(&program);
    if args.server.is_none() {
        for is_tls in [false, true] {
            let subject =
                server::nginx(bench.work(), &bench.tree, &bench.cert, &bench.key, server::Uploads::Refused)?;
            bench.measure(&subject, is_tls)?;
        }
    }
    outcome
}

/// Holds the program that the tests build to the bounds.
pub(crate) fn run_for_ci() -> anyhow::Result<()> {
    Bench::new(CI_CONNECTIONS)?.check(&process::tested_binary()?)
}

/// State that all measurements have in common.
struct Bench {
    work: tempfile::TempDir,
    tree: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    client: Arc<ClientConfig>,
    connections: u32,
}

impl Bench {
    fn new(connections: u32) -> anyhow::Result<Self> {
        descriptors::raise_limit_to(u64::from(connections) + 500)?;
        let work = tempfile::tempdir()?;
        let tree = work.path().join("tree");
        std::fs::create_dir(&tree)?;
        std::fs::write(tree.join("1k"), [b'x'; 1024])?;
        let (cert, key) = server::make_certificate(work.path())?;
        let client = client_config(&ClientTrust::AnyCertificate, Versions::default(), &[Alpn::Http11])?;
        Ok(Self { work, tree, cert, key, client: Arc::new(client), connections })
    }

    fn work(&self) -> &Path {
        self.work.path()
    }

    /// Measures Linerate without TLS and with it.
    ///
    /// # Errors
    /// A connection costs more than it may.
    fn check(&self, program: &Path) -> anyhow::Result<()> {
        let mut dear = Vec::new();
        for (is_tls, bound) in [(false, PLAIN_BYTES_MAX), (true, TLS_BYTES_MAX)] {
            // A server of its own for each: memory that the first connections gave back would not show again.
            let subject = server::linerate_of(
                program,
                self.work(),
                &self.tree,
                &self.cert,
                &self.key,
                server::Uploads::Refused,
            )?;
            let bytes = self.measure(&subject, is_tls)?;
            if bytes > bound {
                dear.push(format!(
                    "an idle connection costs {bytes} bytes (TLS: {is_tls}); it may cost {bound}"
                ));
            }
        }
        if dear.is_empty() { Ok(()) } else { bail!(dear.join("; ")) }
    }

    /// Prints what a server takes, and gives the bytes of each connection.
    fn measure(&self, subject: &Subject, is_tls: bool) -> anyhow::Result<u64> {
        // Warm-up, so that what the first requests load is not counted as the connections'.
        for _ in 0..WARM_UP {
            self.request(subject, is_tls)?;
        }
        let before = resident(subject)?;
        let mut held = Vec::new();
        for number in 0..self.connections {
            let stream = self.request(subject, is_tls).with_context(|| format!("connection {number}"))?;
            held.push(stream);
        }
        std::thread::sleep(Duration::from_millis(500));
        let with = resident(subject)?;
        // A connection that the server closed would make the figure a lie.
        for stream in held.iter().step_by(97) {
            ensure!(is_open(stream.socket()), "{} closed an idle connection", subject.name);
        }
        let bytes_per_connection = with.saturating_sub(before) / u64::from(self.connections);
        let line = Line {
            server: subject.name,
            tls: is_tls,
            idle_connections: self.connections,
            resident_before: before,
            resident_with: with,
            bytes_per_connection,
        };
        println!("{}", serde_json::to_string(&line)?);
        Ok(bytes_per_connection)
    }

    /// Fetches the file and keeps the connection.
    fn request(&self, subject: &Subject, is_tls: bool) -> anyhow::Result<Box<dyn Held>> {
        let connect = |to: SocketAddr| -> anyhow::Result<TcpStream> {
            let stream = TcpStream::connect(to)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            Ok(stream)
        };
        let mut stream: Box<dyn Held> = if is_tls {
            let name = ServerName::from(subject.https.ip());
            let session = ClientConnection::new(Arc::clone(&self.client), name)?;
            Box::new(StreamOwned::new(session, connect(subject.https)?))
        } else {
            Box::new(connect(subject.http)?)
        };
        stream.write_all(b"GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        loop {
            let n = stream.read(&mut part)?;
            ensure!(n > 0, "{} closed the connection", subject.name);
            answer.extend_from_slice(&part[..n]);
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
            if head.is_some_and(|at| answer.len() >= at + 4 + 1024) {
                return Ok(stream);
            }
        }
    }
}

/// A connection that is held open.
trait Held: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Held for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Held for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// One server's JSON line.
#[derive(serde::Serialize)]
struct Line {
    server: &'static str,
    tls: bool,
    idle_connections: u32,
    resident_before: u64,
    resident_with: u64,
    bytes_per_connection: u64,
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).is_ok()
        && matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Returns the resident bytes of the server's whole process tree: nginx holds connections in its workers.
fn resident(subject: &Subject) -> anyhow::Result<u64> {
    cpu::tree(subject.server.pid())?.into_iter().map(cpu::resident_bytes).sum()
}

const WARM_UP: u32 = 200;
/// Number of connections, so many that what is taken once is less than a tenth of all.
const CI_CONNECTIONS: u32 = 5000;
/// Bytes that a connection may cost.
const PLAIN_BYTES_MAX: u64 = 6 * 1024;
const TLS_BYTES_MAX: u64 = 8 * 1024;
