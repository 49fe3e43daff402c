//! Server of this process, controlled by signals, as by an administrator. One at a time: signals reach all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use server::config::{Config, Document, Services};
use server::{Addresses, Server, ServerError};
use service::{Greeting, Transport};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) struct Running {
    thread: JoinHandle<Result<(), ServerError>>,
    text: Arc<Mutex<String>>,
    pub(crate) addresses: Addresses,
    pub(crate) greetings: Vec<Greeting>,
    pub(crate) warnings: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

impl Running {
    /// Starts a server of `services` that reads `text`, and reads it again for a reload.
    pub(crate) fn start(services: Arc<Services>, text: &str) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let text = Arc::new(Mutex::new(text.to_owned()));
        let read = Arc::clone(&text);
        let load = move || read_config(&read.lock().unwrap(), &services);
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let server = Server::start(load().unwrap())?;
            let told = (server.addresses().clone(), server.greetings().to_vec(), server.warnings().to_vec());
            tell.send(told).unwrap();
            server.run(load)
        });
        let Ok((addresses, greetings, warnings)) = told.recv() else {
            panic!("it did not start: {:?}", thread.join());
        };
        Self { thread, text, addresses, greetings, warnings, _alone: alone }
    }

    /// Makes the server reload another configuration, and returns whether it was taken.
    pub(crate) fn reload(&self, text: &str) -> bool {
        *self.text.lock().unwrap() = text.to_owned();
        let outcomes =
            || ["taken", "refused"].map(|outcome| self.sum("linerate_server_reloads_total", outcome));
        let before = outcomes();
        kill_process(getpid(), Signal::HUP).unwrap();
        let [taken, _] = wait_for("the reload", || Some(outcomes()).filter(|after| *after != before));
        taken > before[0]
    }

    /// Asks the server to end.
    pub(crate) fn stop(&self) {
        kill_process(getpid(), Signal::TERM).unwrap();
        wait_for("the drain to begin", || {
            let health = get(self.addresses.admin.unwrap(), "/health");
            (health.is_empty() || health.contains("draining")).then_some(())
        });
    }

    /// Returns whether the server has not ended.
    pub(crate) fn goes_on(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Waits for the server's end.
    pub(crate) fn end(self) {
        self.thread.join().unwrap().unwrap();
    }

    /// Returns the sum of a metric over series with labels that contain `label`.
    pub(crate) fn sum(&self, name: &str, label: &str) -> u64 {
        let text = get(self.addresses.admin.unwrap(), "/metrics");
        let of = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let wanted = series.split('{').next() == Some(name) && series.contains(label);
            wanted.then(|| value.parse::<u64>().unwrap())
        };
        text.lines().filter_map(of).sum()
    }

    /// Returns the only address of a service with this transport.
    pub(crate) fn at(&self, service: &str, transport: Transport) -> SocketAddr {
        let bound = self.addresses.of(service);
        bound.iter().find(|bound| bound.transport == transport).unwrap().address
    }
}

pub(crate) fn read_config(text: &str, services: &Services) -> Result<Config, String> {
    let document = Document::of_text(Path::new("/linerate.toml"), text);
    let config = Config::read(&document, services).map_err(|error| error.to_string())?;
    config.check().map_err(|error| error.to_string())?;
    Ok(config)
}

/// Asks over HTTP; returns an empty text where no server answers.
pub(crate) fn get(address: SocketAddr, target: &str) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return answer };
    // A server that ends may cut it.
    let _ = write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Sends a line and returns the answer.
pub(crate) fn say(address: SocketAddr, line: &str) -> String {
    let mut stream = connect(address);
    writeln!(stream, "{line}").unwrap();
    hear(&mut stream)
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads a line and returns it without its end.
pub(crate) fn hear(stream: &mut TcpStream) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    while stream.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0].into());
    }
    line
}

/// Sends a datagram and returns the answer.
pub(crate) fn send(address: SocketAddr, datagram: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(datagram.as_bytes(), address).unwrap();
    let mut answer = [0; 100];
    let (len, from) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(from, address);
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

pub(crate) fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    testkit::wait_for(what, PATIENCE, ask)
}

/// Longest wait, more than any machine takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
