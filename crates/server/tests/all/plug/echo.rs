//! Smallest service with all parts: lines over TCP and datagrams over UDP come back behind a word that the
//! configuration chooses.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lane::backend::DatagramBatch;
use lane::counters::CounterBlock;
use lane::net::{TcpListener, TcpStream, UdpSocket};
use serde::Deserialize;
use service::config::{ConfigError, Document, Keys};
use service::connections::{Connections, Open};
use service::log::{Format, LaneLog, LogRecord};
use service::volumes::{LaneVolumes, VolumeSection};
use service::{
    Bound, ConnectionRouter, ConnectionsMax, Greeting, LaneFuture, LaneService, LaneSocket, LaneStart,
    LoadContext, Problem, Role, Service, Settings, Site, Switch, Transport, Wanted,
};
use vfs::Volume;

/// Echo service, process-wide.
pub(crate) struct Echo;

/// Table `[echo]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    #[serde(deserialize_with = "service::config::addresses")]
    listen: Vec<SocketAddr>,
    #[serde(deserialize_with = "service::config::addresses")]
    datagrams: Vec<SocketAddr>,
    word: String,
    /// Number of a lane that can prepare nothing, for tests.
    broken_lane: Option<u16>,
}

lane::counter_block! {
    /// Counters of the echo service on a lane.
    struct EchoCounters {
        count lines: "Lines sent back.",
        count datagrams: "Datagrams sent back.",
        count volumes_kept: "Volumes that were the same objects after a reload.",
        count volumes_opened: "Volumes that were other objects after a reload.",
    }
}

impl Service for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn keys(&self) -> Keys {
        Keys { tables: &["echo"], volume: &["echoed"] }
    }

    fn listen_keys(&self) -> &'static [&'static str] {
        &["echo.listen", "echo.datagrams"]
    }

    fn read(
        &self,
        document: &Document,
        _: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
        #[derive(Deserialize)]
        struct Tables {
            echo: Option<Section>,
        }
        let Some(section) = document.tables::<Tables>()?.echo else { return Ok(None) };
        if section.word.contains(' ') {
            return Err(ConfigError::invalid("echo.word", "one word, please"));
        }
        Ok(Some(Arc::new(section)))
    }
}

impl Settings for Section {
    fn sockets(&self) -> Vec<Wanted> {
        let listen = self.listen.iter().map(|&address| ("echo.listen", address, Transport::Tcp));
        let datagrams = self.datagrams.iter().map(|&address| ("echo.datagrams", address, Transport::Rx));
        let wanted = |(key, address, transport)| Wanted { key, address, transport, role: Role(0) };
        listen.chain(datagrams).map(wanted).collect()
    }

    fn connections(&self) -> ConnectionsMax {
        ConnectionsMax { key: "echo.connections", per_lane: 100 }
    }

    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn Site>, Problem> {
        if self.word == "unspeakable" {
            return Err("the word cannot be said".into());
        }
        let (section, connections_max) = (self.clone(), context.connections_per_lane);
        Ok(Box::new(EchoSite { section, connections_max, bound: Vec::new() }))
    }
}

struct EchoSite {
    section: Section,
    connections_max: usize,
    bound: Vec<Bound>,
}

impl Site for EchoSite {
    fn warnings(&self) -> Vec<String> {
        vec!["echo: whatever is said is said twice [echo-twice]".to_owned()]
    }

    fn bound(&mut self, sockets: &[Bound]) {
        self.bound = sockets.to_vec();
    }

    fn greeting(&self) -> Greeting {
        let urls = self.bound.iter().map(|bound| format!("echo://{}", bound.address)).collect();
        Greeting { urls, ..Greeting::default() }
    }

    fn start(&self, start: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String> {
        Ok(Rc::new(LaneEcho {
            word: RefCell::new(self.section.word.clone()),
            volumes: RefCell::new(start.volumes.iter().cloned().collect()),
            connections: Connections::new(Arc::default()),
            connections_max: self.connections_max,
            counters: Arc::default(),
            log: start.log.map(RefCell::new),
        }))
    }
}

struct LaneEcho {
    word: RefCell<String>,
    volumes: RefCell<Vec<Volume>>,
    connections: Rc<Connections>,
    connections_max: usize,
    counters: Arc<EchoCounters>,
    log: Option<RefCell<LaneLog>>,
}

impl LaneService for LaneEcho {
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)> {
        vec![
            ("echo", Arc::clone(&self.counters) as _),
            ("echo", Arc::clone(self.connections.counters()) as _),
        ]
    }

    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        role: Role,
        router: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>> {
        Box::pin(async move {
            match socket {
                LaneSocket::Tcp(listener) => self.lines(&listener, role, &*router).await,
                LaneSocket::Udp(socket) => self.datagrams(&socket).await,
            }
        })
    }

    fn take(self: Rc<Self>, stream: TcpStream, _: Role) {
        let Ok((stream, open)) = self.connections.admit(stream, self.connections_max) else { return };
        lane::spawn(async move {
            // A client that is gone hears nothing.
            let _ = self.converse(&stream, &open).await;
        })
        .detach();
    }

    fn prepare(self: Rc<Self>, site: &dyn Site, volumes: &LaneVolumes) -> Result<Switch, String> {
        let section = site.expect::<EchoSite>().section.clone();
        if section.broken_lane == Some(lane::current().id().0) {
            return Err("no voice on this lane".to_owned());
        }
        let volumes: Vec<Volume> = volumes.iter().cloned().collect();
        Ok(Box::new(move || {
            let old = self.volumes.replace(volumes);
            for volume in &*self.volumes.borrow() {
                match old.iter().any(|old| old.is_same(volume)) {
                    true => self.counters.volumes_kept.increment(),
                    false => self.counters.volumes_opened.increment(),
                }
            }
            *self.word.borrow_mut() = section.word;
        }))
    }

    fn mark(&self, mark: u32) {
        self.connections.set_mark(mark);
    }

    fn dismiss(&self) {
        self.connections.drain().dismiss();
    }

    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize> {
        Box::pin(async move { self.connections.drain().ask(deadline).await })
    }

    fn flush_log(&self) {
        self.log.iter().for_each(|log| log.borrow_mut().flush());
    }
}

impl LaneEcho {
    async fn lines(
        self: &Rc<Self>,
        listener: &TcpListener,
        role: Role,
        router: &dyn ConnectionRouter,
    ) -> io::Result<()> {
        let take = |stream| {
            if let Some(stream) = router.place(stream, role) {
                Rc::clone(self).take(stream, role);
            }
        };
        self.connections.accept(listener, take).await
    }

    /// Sends lines back until the client ends, or is to leave and has no line begun.
    async fn converse(&self, stream: &TcpStream, open: &Open) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            let received = match line.is_empty() {
                true => self.connections.drain().unless_leaving(open.cohort(), stream.recv()).await,
                false => Some(stream.recv().await),
            };
            let Some(received) = received.transpose()?.filter(|received| !received.is_empty()) else {
                return Ok(());
            };
            for byte in received.iter() {
                line.push(*byte);
                if *byte == b'\n' {
                    let answer = format!("{} {}", self.word.borrow(), String::from_utf8_lossy(&line));
                    // A line and a word fit the buffer of any socket.
                    stream.try_send(&[IoSlice::new(answer.as_bytes())], false)?;
                    self.counters.lines.increment();
                    self.log.iter().for_each(|log| log.borrow_mut().push(&Line(line.len() as u8)));
                    line.clear();
                }
            }
        }
    }

    async fn datagrams(&self, socket: &UdpSocket) -> io::Result<()> {
        let mut received = Vec::new();
        let drain = self.connections.drain();
        while let Some(outcome) = drain.unless_asked(socket.recv(&mut received, 16)).await {
            outcome?;
            for datagram in received.drain(..) {
                let answer = format!("{} {}", self.word.borrow(), String::from_utf8_lossy(&datagram.buf));
                let parts = [IoSlice::new(answer.as_bytes())];
                let (to, segment) = (datagram.from, answer.len() as u16);
                let batch = DatagramBatch { from: datagram.local, ..DatagramBatch::new(to, segment, &parts) };
                socket.try_send(&batch)?;
                self.counters.datagrams.increment();
            }
        }
        Ok(())
    }
}

/// Length of a line, for the access log.
struct Line(u8);

impl LogRecord for Line {
    const PACKED_MAX: usize = 1;

    fn pack(&self, batch: &mut Vec<u8>) {
        batch.push(self.0);
    }

    fn put_lines(_: Format, batch: &[u8], lines: &mut Vec<u8>) {
        batch.iter().for_each(|len| lines.extend_from_slice(format!("echoed {len} bytes\n").as_bytes()));
    }
}
