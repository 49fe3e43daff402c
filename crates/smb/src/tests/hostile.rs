//! Whatever bytes come, before and after sign-in: an answer or an end, and nothing is left of it.

use std::time::Duration;

use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::{sleep, timeout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_auth::Initiator;
use smb_wire::body::session_setup::{SessionSetupRequest, SessionSetupRequestFixed};
use smb_wire::compound::Compound;
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::negotiate::{self, NegotiateRequest, security_mode};
use smb_wire::{Command, Dialect, Guid, Header, Message, Response, Status};

use super::bed::{PASSWORD, credentials, rules, run, sign_in};

/// A client that sends what it likes: 2.1, unsigned.
struct Raw {
    stream: TcpStream,
    next: u64,
    session: u64,
}

impl Raw {
    async fn open(address: std::net::SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), next: 0, session: 0 }
    }

    fn header(&mut self, command: Command) -> Header {
        let mut header = Header::request(command, self.next);
        header.credits.set(64);
        header.session_id.set(self.session);
        self.next += 1;
        header
    }

    async fn send(&self, message: &[u8]) -> bool {
        let prefix = framing::prefix(message.len()).unwrap();
        self.stream.send(Buf::from([&prefix[..], message].concat()), false).await.0.is_ok()
    }

    /// The next frame; `None` at the end, or where nothing comes.
    async fn receive(&self) -> Option<Vec<u8>> {
        let within = Duration::from_secs(5);
        let (result, prefix) = timeout(within, self.stream.recv_exact(Vec::new(), PREFIX_LEN)).await.ok()?;
        result.ok()?;
        let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
        let (result, frame) = timeout(within, self.stream.recv_exact(Vec::new(), len)).await.ok()?;
        result.ok()?;
        Some(frame)
    }

    async fn ask(&mut self, command: Command, fill: impl FnOnce(&mut Body<'_>)) -> Option<Vec<u8>> {
        let header = self.header(command);
        let mut out = Vec::new();
        fill(&mut Compound::new(&mut out).begin(&header));
        self.send(&out).await;
        self.receive().await
    }

    async fn sign_in(&mut self) {
        let fixed = negotiate::request(Guid::new([9; 16]), security_mode::SIGNING_ENABLED, 0);
        self.ask(Command::Negotiate, |body| NegotiateRequest::write(body, fixed, &[Dialect::Smb210], &[]))
            .await
            .unwrap();
        let mut initiator =
            Initiator::new(credentials("alice", PASSWORD), [3; 8], zeroize::Zeroizing::new([4; 16]));
        let mut token = initiator.first();
        loop {
            let fixed = SessionSetupRequestFixed::blank();
            let reply = self
                .ask(Command::SessionSetup, |body| SessionSetupRequest::write(body, fixed, &token))
                .await
                .unwrap();
            let message = Message::new(&reply).unwrap();
            self.session = message.header().session_id.get();
            if message.header().status() == Status::SUCCESS {
                return;
            }
            let Ok(Response::SessionSetup(answer)) = Response::parse(&message) else { panic!("no sign-in") };
            token = initiator.answer(answer.security, 0).unwrap();
        }
    }
}

/// A frame that may be anything: often nearly right.
fn frame(raw: &mut Raw, rng: &mut StdRng) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compound = Compound::new(&mut out);
    for at in 0..rng.random_range(1..4) {
        let command = Command::ALL[rng.random_range(0..Command::ALL.len())];
        let mut header = raw.header(command);
        header.tree_id.set(rng.random_range(0..3));
        if at > 0 && rng.random() {
            header = header.with(flags::RELATED_OPERATIONS);
        }
        match rng.random_range(0..12) {
            0 => header.message_id.set(rng.random()),
            1 => header.credit_charge.set(rng.random()),
            2 => header.session_id.set(rng.random()),
            3 => header.credits.set(0),
            4 => header = header.with(flags::SIGNED),
            5 => header.flags.set(rng.random()),
            _ => {}
        }
        let mut body = compound.begin(&header);
        // The right size of the fixed part gets further in.
        let size: u16 = [36, 25, 4, 9, 57, 24, 49, 48, 33, 32, 41, 88][rng.random_range(0..12)];
        let len = rng.random_range(0..160);
        let mut bytes: Vec<u8> = (0..len).map(|_| if rng.random() { 0 } else { rng.random() }).collect();
        if let Some(head) = bytes.first_chunk_mut::<2>() {
            *head = size.to_le_bytes();
        }
        body.bytes(&bytes);
    }
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..out.len());
        out[at] = rng.random();
    }
    if rng.random_range(0..8) == 0 {
        out.truncate(rng.random_range(0..out.len()));
    }
    if out.len() > 4 && rng.random_range(0..10) == 0 {
        out[..4].copy_from_slice(&[0xfd, b'S', b'M', b'B']);
    }
    out
}

#[test]
fn whatever_comes_is_answered_or_ends_its_connection_and_leaves_nothing() {
    for seed in 0..60 {
        run(seed, rules(), async move |bed, world| {
            let (address, options) = (bed.address, bed.client());
            let good = world.on(0, async move { sign_in(address, options).await.unwrap() }).await;
            world
                .on(1, async move {
                    let mut rng = StdRng::seed_from_u64(seed);
                    for round in 0..20 {
                        let mut raw = Raw::open(address).await;
                        if round % 4 > 0 {
                            raw.sign_in().await;
                        }
                        for _ in 0..rng.random_range(1..12) {
                            let frame = frame(&mut raw, &mut rng);
                            if !raw.send(&frame).await {
                                break;
                            }
                        }
                        // What is announced and does not come ends with the connection.
                        if rng.random() {
                            let _ = raw.stream.send(Buf::from(vec![0, 0, 1, 0, 0xfe]), false).await;
                        }
                        if rng.random() {
                            raw.receive().await;
                        }
                    }
                })
                .await;
            let channel = good.channel().clone();
            world.on(0, async move { channel.echo().await.unwrap() }).await;
            world
                .on(0, async move {
                    good.channel().log_off().await.unwrap();
                    drop(good);
                })
                .await;
            for _ in 0..200 {
                if bed.lane.connections().is_empty() {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
            bed.expect_empty();
        });
    }
}
