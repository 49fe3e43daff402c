//! Clients: drivers of Rx with connections, callback services that answer as they like, calls side by side, and odd packets.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs_wire::{Capabilities, Fid, Interfaces, rxafscb};
use lane::Task;
use lane::backend::DatagramBatch;
use lane::backend::sim::{Host, Net};
use lane::buffer::Buf;
use lane::net::{TcpStream, UdpSocket};
use lane::time::{sleep, timeout};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::header::{HEADER_LEN, Header, PacketType};
use rx_lane::{AbortCode, Anonymous, CallError, Connection, Driver, LaneGroupLink, ServerCall};
use xdr::afs::AfsUuid;
use xdr::rpc::Failure;

use super::requests::{self, Known, Made};
use super::server::{ADDRESS, Server, config};
use crate::decisions::Decisions;
use crate::notes::Notes;
use crate::rest::Subject as _;

struct Client {
    driver: Driver,
    socket: Rc<UdpSocket>,
    connections: Vec<Connection>,
    called: Rc<Called>,
}

/// Answers of a called client.
struct Called {
    uuid: u8,
    how: Cell<u8>,
    tally: rxafscb::Tally,
    notes: Notes,
}

/// State that calls have left for others.
#[derive(Default)]
struct Heard {
    fids: RefCell<Vec<Fid>>,
    tokens: RefCell<Vec<Vec<u8>>>,
    last: Cell<u64>,
}

/// All clients of a case.
pub(super) struct Clients {
    notes: Notes,
    net: Net,
    server: Rc<Server>,
    host: Host,
    clients: [Option<Client>; 4],
    calls: Vec<Task<()>>,
    streams: Vec<TcpStream>,
    known: Known,
    heard: Rc<Heard>,
    rng: SmallRng,
    ports: u16,
}

impl Clients {
    pub(super) fn new(notes: Notes, net: Net, server: Rc<Server>, host: Host) -> Self {
        let known = Known { roots: server.roots().to_vec(), fids: Vec::new() };
        Self {
            notes,
            net,
            server,
            host,
            clients: [const { None }; 4],
            calls: Vec::new(),
            streams: Vec::new(),
            known,
            heard: Rc::default(),
            rng: SmallRng::seed_from_u64(5),
            ports: 7001,
        }
    }

    /// Plays what is decided.
    pub(super) async fn play(&mut self, d: &mut Decisions<'_>) {
        for slot in 0..1 + d.below(3) {
            self.come(slot, d);
        }
        for _ in 0..STEPS_MAX {
            if d.is_over() {
                break;
            }
            self.step(d).await;
            self.known.fids.extend(self.heard.fids.take());
            let surplus = self.known.fids.len().saturating_sub(FIDS_MAX);
            self.known.fids.drain(..surplus);
            self.calls.retain(|call| !call.is_finished());
        }
    }

    /// Lets what is under way go on for a moment.
    pub(super) async fn leave(&mut self) {
        sleep(Duration::from_millis(300)).await;
        self.calls.clear();
        self.streams.clear();
    }

    fn come(&mut self, slot: usize, d: &mut Decisions<'_>) {
        self.clients[slot] = None;
        if self.ports > 7040 {
            return;
        }
        let at = SocketAddr::from(([10, 0, 0, 2], self.ports));
        self.ports += 1;
        let Ok(socket) = UdpSocket::bind(at, &config().socket) else { return };
        let socket = Rc::new(socket);
        let driver =
            Driver::start_seeded(Rc::clone(&socket), LaneGroupLink::alone(), config(), self.rng.random());
        let uuid = if d.one_in(4) { 1 } else { self.ports as u8 };
        let how = Cell::new(d.of(&[0, 0, 0, 1, 2, 3]));
        let called =
            Rc::new(Called { uuid, how, tally: rxafscb::Tally::default(), notes: self.notes.clone() });
        let serving = Rc::clone(&called);
        driver.serve(1, move |mut call: ServerCall| {
            let called = Rc::clone(&serving);
            async move {
                match called.how.get() {
                    1 => std::future::pending::<()>().await,
                    2 => return Err(AbortCode::from(Failure::<CallError>::Refused(-455))),
                    3 => sleep(Duration::from_secs(3)).await,
                    _ => {}
                }
                Ok::<(), AbortCode>(rxafscb::serve(&*called, &mut call, &called.tally).await?)
            }
        });
        let connection = driver.connect(SocketAddr::from(ADDRESS), afs::fileserver::SERVICE, &Anonymous);
        let connections = connection.into_iter().collect();
        self.clients[slot] = Some(Client { driver, socket, connections, called });
    }

    async fn step(&mut self, d: &mut Decisions<'_>) {
        match d.below(40) {
            0..=28 => self.call(d).await,
            29 => sleep(Duration::from_millis(200)).await,
            30 => {
                sleep(d.of(&[
                    Duration::from_secs(2),
                    Duration::from_secs(11),
                    Duration::from_secs(61),
                    Duration::from_secs(310),
                ]))
                .await
            }
            31 => {
                let slot = d.below(4);
                self.come(slot, d);
            }
            32 => {
                if let Some(client) = &mut self.clients[d.below(4)] {
                    if client.connections.len() < 4 && !d.one_in(3) {
                        let more = client.driver.connect(
                            SocketAddr::from(ADDRESS),
                            afs::fileserver::SERVICE,
                            &Anonymous,
                        );
                        client.connections.extend(more);
                    } else if let Some(connection) = client.connections.pop() {
                        connection.abort(-1);
                    }
                }
            }
            33 => {
                if let Some(client) = &self.clients[d.below(4)] {
                    client.called.how.set(d.of(&[0, 0, 1, 2, 3]));
                }
            }
            34 => {
                if !self.calls.is_empty() {
                    let at = d.below(self.calls.len());
                    drop(self.calls.swap_remove(at));
                }
            }
            35 | 36 => self.odd_packet(d).await,
            37 => self.out_of_band(d).await,
            38 => {
                let fs = self.server.host().fs();
                let _ = match d.below(6) {
                    0 => fs.write("/srv/a", vec![d.byte(); 3000]),
                    1 => fs.rename("/srv/d", "/srv/e"),
                    2 => fs.rename("/srv/e", "/srv/d"),
                    3 => fs.remove("/srv/b"),
                    4 => fs.truncate("/srv/a", 10),
                    _ => fs.set_mode("/srv/a", d.of(&[0o644, 0, 0o4777])),
                };
            }
            _ => {
                let (here, server) = (self.host.clone(), self.server.host().clone());
                self.net.partition(&here, &server);
                sleep(d.of(&[Duration::from_millis(300), Duration::from_secs(7), Duration::from_secs(40)]))
                    .await;
                self.net.heal(&here, &server);
            }
        }
    }

    /// Makes one call, to its end or not.
    async fn call(&mut self, d: &mut Decisions<'_>) {
        let slot = d.below(8) % 4;
        let slot = if self.clients[slot].is_some() { slot } else { 0 };
        if self.clients[slot].is_none() {
            self.come(slot, d);
        }
        let Made { operation, arguments, data, makes } = requests::made(d, &self.known);
        let Some(client) = &self.clients[slot] else { return };
        if client.connections.is_empty() || self.calls.len() >= CALLS_MAX {
            return sleep(Duration::from_millis(5)).await;
        }
        let connection = d.below(client.connections.len());
        let connection = client.connections[connection].clone();
        // Nothing, or an end before the data, or no end, or an abort in the middle.
        let fault = d.of(&[0u8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        let (heard, notes) = (Rc::clone(&self.heard), self.notes.clone());
        self.notes.message();
        let call = lane::spawn(async move {
            let outcome =
                timeout(Duration::from_secs(90), one_call(&connection, operation, &arguments, &data, fault))
                    .await;
            let (code, reply) = match outcome {
                Ok(Ok(reply)) => (0, reply),
                Ok(Err(CallError::Aborted(code))) => (i64::from(code), Vec::new()),
                Ok(Err(_)) => (i64::MAX, Vec::new()),
                Err(_) => (i64::MAX - 1, Vec::new()),
            };
            if crate::log::is_traced() {
                eprintln!(
                    "{operation} fault {fault} {arguments:02x?} +{} -> {code} {} bytes",
                    data.len(),
                    reply.len()
                );
            }
            notes.sign(("call", operation, code, reply.len().min(4000).checked_ilog2()));
            notes.sign(("after", heard.last.get(), operation, code));
            heard.last.set(u64::from(operation) << 32 | code as u64 & 0xffff_ffff);
            let word = |at: usize| {
                reply
                    .get(at..at + 4)
                    .and_then(|word| word.first_chunk())
                    .map(|word| u32::from_be_bytes(*word))
            };
            if makes && let (Some(volume), Some(vnode), Some(uniquifier)) = (word(0), word(4), word(8)) {
                heard.fids.borrow_mut().push(Fid { volume, vnode, uniquifier });
            }
            // The token of a grant stands at its end.
            if operation >= 1_280_180_225 && reply.len() >= 40 && heard.tokens.borrow().len() < 8 {
                let at = reply.windows(4).rposition(|word| word == [0, 0, 0, 32]);
                let token = at.and_then(|at| reply.get(at + 4..at + 36)).map(<[u8]>::to_vec);
                heard.tokens.borrow_mut().extend(token);
            }
        });
        self.calls.push(call);
        match d.below(8) {
            7 => {}
            6 => sleep(Duration::from_millis(60)).await,
            _ => sleep(Duration::from_millis(4)).await,
        }
    }

    /// Sends a packet made by hand, of a connection that there is, or of none.
    async fn odd_packet(&mut self, d: &mut Decisions<'_>) {
        let Some(client) = &self.clients[d.below(4)] else { return };
        let id = client.connections.first().and_then(Connection::id);
        let (epoch, cid) = id.unwrap_or((d.u32(), d.u32() & !3));
        let kind = d.of(&[1u8, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 13]);
        let header = Header {
            epoch: if d.one_in(12) { d.u32() } else { epoch },
            cid: cid ^ if d.one_in(4) { d.below(8) as u32 } else { 0 },
            call: d.of(&[1, 1, 2, 3, 0, u32::MAX, 7]),
            seq: d.of(&[1, 1, 2, 0, 5, 300, u32::MAX]),
            serial: d.of(&[1, 2, 50, 0, u32::MAX]),
            kind: PacketType::from_wire(kind).expect("there is such a type"),
            flags: d.of(&[1, 1, 5, 3, 7, 0x21, 0x25, 0, 4, 0xff]),
            user_status: d.of(&[0, 0, 1, 0xff]),
            security: d.of(&[0, 0, 0, 2, 4, 255]),
            checksum: d.of(&[0, 0, 1, u16::MAX]),
            service: d.of(&[1, 1, 1, 0, 52, u16::MAX]),
        };
        let mut packet = vec![0; HEADER_LEN];
        header.encode(packet.first_chunk_mut().expect("it is as long"));
        match kind {
            2 if !d.one_in(4) => {
                // Buffer space, maximal skew, first, previous, serial, reason, count, and as many.
                packet.extend(d.u16().to_be_bytes());
                packet.extend([0; 2]);
                packet.extend((d.edge() as u32).to_be_bytes());
                packet.extend((d.edge() as u32).to_be_bytes());
                packet.extend((d.small() as u32).to_be_bytes());
                let count = d.of(&[0u8, 1, 4, 32, 255]);
                packet.extend([d.byte() % 10, count]);
                packet.extend((0..count).map(|at| at & 1));
                packet.extend([0; 3]);
                for _ in 0..d.below(5) {
                    packet.extend((d.edge() as u32).to_be_bytes());
                }
            }
            1 => {
                let Made { operation, arguments, data, .. } = requests::made(d, &self.known);
                packet.extend(operation.to_be_bytes());
                packet.extend(arguments);
                packet.extend(data);
                packet.truncate(1440);
            }
            _ => {
                let n = d.below(64);
                packet.extend(d.bytes(n));
            }
        }
        for _ in 0..=d.below(3) {
            if d.one_in(6) {
                let at = d.below(HEADER_LEN);
                packet[at] = d.byte();
            }
            let parts = [IoSlice::new(&packet)];
            let batch = DatagramBatch {
                to: SocketAddr::from(ADDRESS),
                from: None,
                class: 0,
                segment: packet.len() as u16,
                dont_fragment: false,
                parts: &parts,
            };
            let _ = client.socket.try_send(&batch);
            self.notes.message();
        }
        sleep(Duration::from_millis(2)).await;
    }

    /// Makes a claim over TCP, and sends what follows it.
    async fn out_of_band(&mut self, d: &mut Decisions<'_>) {
        if self.streams.len() >= 6 || d.one_in(4) {
            if !self.streams.is_empty() {
                let at = d.below(self.streams.len());
                drop(self.streams.swap_remove(at));
            }
            return;
        }
        let connecting = timeout(Duration::from_secs(2), TcpStream::connect(SocketAddr::from(ADDRESS))).await;
        let Ok(Ok(stream)) = connecting else { return };
        let token = self.heard.tokens.borrow_mut().pop().unwrap_or_else(|| d.bytes(32));
        let token: [u8; 32] = token.try_into().unwrap_or([1; 32]);
        let mut bytes = oob::Claim { token: oob::Token::from_bytes(token) }.encode().to_vec();
        let n = d.below(120);
        bytes.extend(d.bytes(n));
        if d.one_in(5) {
            let at = d.below(bytes.len().min(256));
            bytes[at] = d.byte();
        }
        if d.one_in(8) {
            bytes.truncate(d.below(40));
        }
        if !bytes.is_empty() {
            let _ = timeout(Duration::from_millis(500), stream.send(Buf::from(bytes), false)).await;
        }
        self.notes.message();
        sleep(Duration::from_millis(5)).await;
        self.streams.push(stream);
    }
}

async fn one_call(
    connection: &Connection,
    operation: u32,
    arguments: &[u8],
    data: &[u8],
    fault: u8,
) -> Result<Vec<u8>, CallError> {
    let mut call = connection.call().await?;
    call.write(&[&operation.to_be_bytes()[..], arguments].concat()).await?;
    match fault {
        1 => {
            call.write(&data[..data.len() / 2]).await?;
            call.flush().await?;
            sleep(Duration::from_millis(3)).await;
            call.abort(-3);
            return Ok(Vec::new());
        }
        2 => {
            call.write(&data[..data.len() / 3]).await?;
            call.flush().await?;
            // No end: the server gives up, or the client does.
            sleep(Duration::from_secs(70)).await;
            return Ok(Vec::new());
        }
        3 => call.write(&data[..data.len() / 2]).await?,
        _ => call.write(data).await?,
    }
    call.finish().await?;
    if fault == 4 {
        let mut some = [0; 64];
        let _ = call.read_into(&mut some).await?;
        call.abort(-4);
        return Ok(Vec::new());
    }
    call.read_to_end(1 << 20).await
}

type Outcome<T> = Result<T, Failure<CallError>>;

impl rxafscb::Server<ServerCall> for Called {
    async fn call_back(&self, _: &ServerCall, request: rxafscb::CallBack) -> Outcome<rxafscb::CallBackReply> {
        self.notes.sign(("called back", request.files.0.len()));
        Ok(rxafscb::CallBackReply)
    }

    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState3,
    ) -> Outcome<rxafscb::InitCallBackState3Reply> {
        self.notes.sign("voided");
        Ok(rxafscb::InitCallBackState3Reply)
    }

    async fn probe(&self, _: &ServerCall, _: rxafscb::Probe) -> Outcome<rxafscb::ProbeReply> {
        self.notes.sign("probed");
        Ok(rxafscb::ProbeReply)
    }

    async fn tell_me_about_yourself(
        &self,
        _: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Outcome<rxafscb::TellMeAboutYourselfReply> {
        let interfaces = Interfaces { count: 1, uuid: AfsUuid([self.uuid; 16]), ..Interfaces::default() };
        Ok(rxafscb::TellMeAboutYourselfReply { interfaces, capabilities: Capabilities::default() })
    }
}

const STEPS_MAX: usize = 200;
const CALLS_MAX: usize = 10;
const FIDS_MAX: usize = 24;
