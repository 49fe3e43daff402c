//! The client: some connections, sessions over them, and what it knows of what the server has answered.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use identity::NtHash;
use lane::Task;
use lane::backend::sim::Net;
use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::{sleep, timeout};
use smb_auth::{Credentials, Initiator};
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::{Cipher, Nonces, SealingKey};
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::body::session_setup::{FLAG_BINDING, SessionSetupRequest, SessionSetupRequestFixed};
use smb_wire::compound::{Compound, Messages};
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::{HEADER_LEN, flags};
use smb_wire::negotiate::context::{NegotiateContext, SHA_512};
use smb_wire::negotiate::{self, NegotiateRequest, capabilities, security_mode};
use smb_wire::transform::{PROTOCOL_ID as SEALED, TRANSFORM_LEN};
use smb_wire::{Command, Dialect, Guid, Header, Message, Response, Role, Status};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::requests::{self, COMMANDS, Known};
use super::server::{ADDRESS, PASSWORD, Server};
use crate::decisions::Decisions;
use crate::notes::Notes;
use crate::rest::Subject as _;

/// Options of a connection's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Speech {
    dialect: Dialect,
    cipher: Option<Cipher>,
    /// Set if requests are signed, or sealed, once a user has signed in.
    signs: bool,
    seals: bool,
}

const fn speech(dialect: Dialect, cipher: Option<Cipher>, signs: bool, seals: bool) -> Speech {
    Speech { dialect, cipher, signs, seals }
}

const SPEECHES: [Speech; 6] = [
    speech(Dialect::Smb311, Some(Cipher::Aes128Gcm), true, false),
    speech(Dialect::Smb302, Some(Cipher::Aes128Ccm), true, true),
    speech(Dialect::Smb210, None, true, false),
    speech(Dialect::Smb311, Some(Cipher::Aes128Gcm), false, true),
    speech(Dialect::Smb300, None, false, false),
    speech(Dialect::Smb202, None, false, false),
];

struct Connection {
    stream: Rc<TcpStream>,
    frames: Rc<RefCell<VecDeque<Vec<u8>>>>,
    has_ended: Rc<Cell<bool>>,
    /// The client takes nothing just now.
    is_stalled: Rc<Cell<bool>>,
    _reader: Task<()>,
    speech: Speech,
    agreed: Agreed,
    preauth: PreauthHash,
    next: u64,
    credits: u64,
    /// `ChannelSequence`.
    sequence: u16,
    /// Sessions of the client with a channel here, and what it signs with.
    channels: Vec<(usize, Option<Rc<SigningKey>>)>,
    kinds: HashMap<u64, u32>,
    last: u64,
    last_frame: Vec<u8>,
}

struct Session {
    id: u64,
    user: &'static str,
    key: Option<SessionKey>,
    agreed: Agreed,
    /// Key that a binding is signed with.
    signing: Option<Rc<SigningKey>>,
    /// Keys towards the server, and from it.
    sealing: Option<(SealingKey, SealingKey)>,
    nonces: Nonces,
    trees: Vec<u32>,
}

/// All connections of a case.
pub(super) struct Client {
    notes: Notes,
    net: Net,
    server: Rc<Server>,
    connections: [Option<Connection>; 4],
    sessions: Vec<Session>,
    known: Known,
    /// Requests that wait: connection, message, AsyncId.
    pending: Vec<(usize, u64, u64)>,
    /// Answers to single requests that the client waits for.
    wanted: Option<(usize, u64, Option<Vec<u8>>)>,
    challenges: u64,
}

impl Client {
    pub(super) fn new(notes: Notes, net: Net, server: Rc<Server>) -> Self {
        Self {
            notes,
            net,
            server,
            connections: [const { None }; 4],
            sessions: Vec::new(),
            known: Known::default(),
            pending: Vec::new(),
            wanted: None,
            challenges: 0,
        }
    }

    /// Plays what is decided, and leaves.
    pub(super) async fn play(&mut self, d: &mut Decisions<'_>) {
        let slots = 1 + d.below(3);
        for slot in 0..slots {
            let speech = SPEECHES[if slot == 0 { d.below(6) } else { (slot + d.below(6)) % 6 }];
            self.come(slot, speech, d).await;
        }
        for _ in 0..STEPS_MAX {
            if d.is_over() {
                break;
            }
            self.step(d).await;
            self.take_all();
        }
        if d.one_in(2) {
            sleep(Duration::from_millis(500)).await;
            self.take_all();
        }
    }

    /// Connects, signs in and opens a tree.
    async fn come(&mut self, slot: usize, speech: Speech, d: &mut Decisions<'_>) {
        if !self.connect(slot, speech).await {
            return;
        }
        let user = if slot == 2 { d.of(&["", "nobody", "alice"]) } else { d.of(&["alice", "alice", "bob"]) };
        let password = if d.one_in(24) { "wrong" } else { PASSWORD };
        self.sign_in(slot, user, password, None).await;
        let Some((session, _)) =
            self.connections[slot].as_ref().and_then(|there| there.channels.last().cloned())
        else {
            return;
        };
        let share = d.of(&["files", "files", "listed", "home", "IPC$"]);
        let path: Vec<u8> =
            format!(r"\\10.0.0.1\{share}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut body = vec![9, 0, 0, 0, 72, 0];
        body.extend((path.len() as u16).to_le_bytes());
        body.extend(path);
        let header = self.header(slot, Some(session), Command::TreeConnect, 1);
        self.connections[slot].as_mut().expect("it is there").next += 1;
        self.send(slot, Some(session), vec![[header.as_bytes(), &body].concat()], true).await;
        sleep(Duration::from_millis(3)).await;
        self.take_all();
    }

    async fn step(&mut self, d: &mut Decisions<'_>) {
        match d.below(64) {
            0..=47 => self.ask(d).await,
            48 => sleep(Duration::from_millis(200)).await,
            49 => {
                sleep(d.of(&[
                    Duration::from_secs(2),
                    Duration::from_secs(36),
                    Duration::from_secs(61),
                    Duration::from_secs(121),
                ]))
                .await
            }
            50 | 51 => self.cancel(d).await,
            52 | 53 => {
                let slot = d.below(4);
                let speech = d.of(&SPEECHES);
                self.come(slot, speech, d).await;
            }
            54 => {
                let slot = d.below(4);
                if d.one_in(2) {
                    self.connections[slot] = None;
                } else if let Some(there) = self.connections[slot].take() {
                    let Connection { stream, _reader, .. } = there;
                    drop(_reader);
                    if let Ok(stream) = Rc::try_unwrap(stream) {
                        stream.reset();
                    }
                }
            }
            55 => self.bind(d).await,
            56 => {
                if let Some(there) = &self.connections[d.below(4)] {
                    there.is_stalled.set(!there.is_stalled.get());
                }
            }
            57 => {
                let slot = d.below(4);
                let user = d.of(&["alice", "bob", "", "nobody"]);
                let again = d.one_in(2);
                let session = self.connections[slot]
                    .as_ref()
                    .and_then(|there| there.channels.first())
                    .map(|(at, _)| *at);
                self.sign_in(slot, user, PASSWORD, session.filter(|_| again)).await;
            }
            58 => self.garbage(d).await,
            59 => self.replay(d).await,
            60 => {
                if let Some(there) = &mut self.connections[d.below(4)] {
                    there.sequence = there.sequence.wrapping_add(d.of(&[1, 1, 2, 0x7fff, 0xffff]));
                }
            }
            61 => {
                let fs = self.server.host().fs();
                let _ = match d.below(6) {
                    0 => fs.write("/srv/files/a", vec![d.byte(); 3000]),
                    1 => fs.rename("/srv/files/d", "/srv/files/e"),
                    2 => fs.rename("/srv/files/e", "/srv/files/d"),
                    3 => fs.remove("/srv/files/b"),
                    4 => fs.symlink("a", "/srv/files/b"),
                    _ => fs.set_mode("/srv/files/a", d.of(&[0o644, 0, 0o4777])),
                };
            }
            62 => self.net_trouble(d).await,
            _ => self.odd_set_up(d).await,
        }
    }

    /// Sends some requests in one frame, most often one.
    async fn ask(&mut self, d: &mut Decisions<'_>) {
        let slot = d.below(8) % 4;
        let slot = if self.connections[slot].is_some() { slot } else { 0 };
        if self.connections[slot].as_ref().is_none_or(|there| there.has_ended.get()) {
            let speech = d.of(&SPEECHES);
            self.come(slot, speech, d).await;
        }
        let Some(there) = &self.connections[slot] else { return };
        let channels = there.channels.clone();
        let session = match channels.len() {
            0 => None,
            1 => Some(channels[0].0),
            n => Some(channels[d.below(n)].0),
        };
        let n = d.of(&[1usize, 1, 1, 1, 1, 1, 2, 3]) + if d.one_in(32) { 5 } else { 0 };
        let is_related = n > 1 && !d.one_in(3);
        let mut messages = Vec::new();
        for at in 0..n {
            let command = d.of(&COMMANDS);
            let requests::Made { mut body, kind, answer } = requests::body(d, command, &mut self.known);
            let charge = 1 + ((answer.max(body.len() as u64).saturating_sub(1)) >> 16).min(4) as u16;
            let mut header = self.header(slot, session, command, charge);
            if is_related && at > 0 {
                header = header.with(flags::RELATED_OPERATIONS);
                if !d.one_in(8) {
                    header.session_id.set(u64::MAX);
                    header.tree_id.set(u32::MAX);
                    if let Some(at) = command.file_id_offset()
                        && let Some(place) = body.get_mut(at..at + 16)
                    {
                        place.fill(0xff);
                    }
                }
            }
            if d.one_in(9) {
                requests::mutate(d, &mut body);
            }
            if d.one_in(14) {
                self.mutate_header(d, &mut header);
            }
            let there = self.connections[slot].as_mut().expect("it was there");
            there.next += u64::from(header.credit_charge.get().max(1));
            there.kinds.insert(header.message_id.get(), kind);
            messages.push([header.as_bytes(), &body].concat());
        }
        let signs = !d.one_in(40);
        self.send(slot, session, messages, signs).await;
        match d.below(12) {
            // The next comes before this is answered.
            11 => {}
            10 => sleep(Duration::from_millis(40)).await,
            _ => sleep(Duration::from_micros(1500)).await,
        }
    }

    fn mutate_header(&mut self, d: &mut Decisions<'_>, header: &mut Header) {
        match d.below(12) {
            0 => header.credit_charge.set(d.edge() as u16),
            1 => header.credits.set(d.edge() as u16),
            2 => header.flags.set(header.flags.get() ^ 1 << d.below(32)),
            3 => header.message_id.set(header.message_id.get().wrapping_sub(d.byte().into())),
            4 => header.message_id.set(d.edge()),
            5 => header.tree_id.set(d.small() as u32),
            6 => {
                let other = self.sessions.last().map_or(0, |session| session.id);
                header.session_id.set(if d.one_in(2) { other } else { d.edge() });
            }
            7 => header.command.set(d.u16() % 24),
            8 => header.status.set(d.u32()),
            9 => header.reserved.set(d.u32()),
            10 => *header = header.with(flags::REPLAY_OPERATION),
            _ => {
                let trees =
                    self.sessions.iter().flat_map(|session| &session.trees).copied().collect::<Vec<_>>();
                if !trees.is_empty() {
                    header.tree_id.set(d.of(&trees));
                }
            }
        }
    }

    fn header(&mut self, slot: usize, session: Option<usize>, command: Command, charge: u16) -> Header {
        let there = self.connections[slot].as_mut().expect("it is there");
        let mut header = Header::request(command, there.next);
        header.credit_charge.set(if there.agreed.dialect == Dialect::Smb202 { 0 } else { charge });
        header.credits.set(128);
        header.status.set(there.sequence.into());
        if let Some(session) = session.map(|at| &self.sessions[at]) {
            header.session_id.set(session.id);
            header.tree_id.set(session.trees.last().copied().unwrap_or(0));
        }
        header
    }

    /// Puts messages into one frame, protects it and sends it.
    async fn send(&mut self, slot: usize, session: Option<usize>, mut messages: Vec<Vec<u8>>, signs: bool) {
        let Some(there) = self.connections[slot].as_mut() else { return };
        let n = messages.len();
        self.notes.with(|seen| seen.messages += n as u64);
        if crate::log::is_traced() {
            for message in &messages {
                let head = &message[..message.len().min(200)];
                eprintln!("{:?} {slot} sends {} bytes: {head:02x?}", lane::time::now(), message.len());
            }
        }
        for (at, message) in messages.iter_mut().enumerate() {
            if at + 1 < n {
                message.resize(message.len().next_multiple_of(8), 0);
                let next = (message.len() as u32).to_le_bytes();
                message[20..24].copy_from_slice(&next);
            }
        }
        let key = session
            .and_then(|at| there.channels.iter().find(|(of, _)| *of == at))
            .and_then(|(_, key)| key.clone());
        let seals = there.speech.seals && session.is_some_and(|at| self.sessions[at].sealing.is_some());
        if let (Some(key), true, false) = (&key, there.speech.signs && signs, seals) {
            for message in &mut messages {
                message[16] |= flags::SIGNED as u8;
                let _ = key.sign_in_place(Role::Client, message);
            }
        }
        let mut frame = messages.concat();
        if let (true, Some(at)) = (seals && signs, session) {
            let session = &mut self.sessions[at];
            frame = [&[0; TRANSFORM_LEN][..], &frame].concat();
            let (to_server, _) = session.sealing.as_ref().expect("it seals");
            if to_server.seal(session.id, &mut session.nonces, &mut frame).is_err() {
                return;
            }
        }
        there.last_frame.clone_from(&frame);
        there.send(&frame).await;
    }

    async fn connect(&mut self, slot: usize, speech: Speech) -> bool {
        self.connections[slot] = None;
        let to = SocketAddr::from(ADDRESS);
        let Ok(Ok(stream)) = timeout(Duration::from_secs(5), TcpStream::connect(to)).await else {
            return false;
        };
        let stream = Rc::new(stream);
        let (frames, has_ended, is_stalled) =
            (Rc::<RefCell<VecDeque<_>>>::default(), Rc::<Cell<bool>>::default(), Rc::<Cell<bool>>::default());
        let (of, into, ended, stalled) =
            (Rc::downgrade(&stream), Rc::clone(&frames), Rc::clone(&has_ended), Rc::clone(&is_stalled));
        let reader = lane::spawn(async move {
            let mut kept = Vec::<u8>::new();
            loop {
                let Some(stream) = of.upgrade() else { return };
                while stalled.get() {
                    sleep(Duration::from_millis(100)).await;
                }
                match stream.recv().await {
                    Ok(bytes) if !bytes.is_empty() => kept.extend_from_slice(&bytes),
                    _ => break,
                }
                while let Some(prefix) = kept.first_chunk::<PREFIX_LEN>() {
                    let end = PREFIX_LEN + u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
                    if kept.len() < end {
                        break;
                    }
                    into.borrow_mut().push_back(kept[PREFIX_LEN..end].to_vec());
                    kept.drain(..end);
                }
            }
            ended.set(true);
        });
        let agreed =
            Agreed { dialect: speech.dialect, signing: SigningAlgorithm::AesCmac, cipher: speech.cipher };
        self.connections[slot] = Some(Connection {
            stream,
            frames,
            has_ended,
            is_stalled,
            _reader: reader,
            speech,
            agreed,
            preauth: PreauthHash::new(),
            next: 0,
            credits: 1,
            sequence: 0,
            channels: Vec::new(),
            kinds: HashMap::new(),
            last: 0,
            last_frame: Vec::new(),
        });
        let mut able = capabilities::LARGE_MTU | capabilities::LEASING;
        if speech.cipher.is_some() {
            able |= capabilities::ENCRYPTION;
        }
        if speech.dialect >= Dialect::Smb300 {
            able |= capabilities::MULTI_CHANNEL
                | capabilities::PERSISTENT_HANDLES
                | capabilities::DIRECTORY_LEASING;
        }
        let guid = if slot == 3 { 0 } else { slot as u8 };
        let fixed = negotiate::request(Guid::new([9 + guid; 16]), security_mode::SIGNING_ENABLED, able);
        let (hashes, salt) = ([U16::new(SHA_512)], [5; 32]);
        let ciphers = [U16::new(speech.cipher.map_or(0, |cipher| cipher as u16))];
        let mut contexts = Vec::new();
        if speech.dialect == Dialect::Smb311 {
            contexts.push(NegotiateContext::Preauth { hashes: &hashes, salt: &salt });
            contexts.push(NegotiateContext::Encryption(&ciphers));
        }
        let header = self.header(slot, None, Command::Negotiate, 0);
        let mut asked = Vec::new();
        NegotiateRequest::write(
            &mut Compound::new(&mut asked).begin(&header),
            fixed,
            &[speech.dialect],
            &contexts,
        );
        let Some(reply) = self.exchange(slot, asked.clone(), true).await else { return false };
        let there = self.connections[slot].as_mut().expect("it was there");
        if let Ok(message) = Message::new(&reply)
            && let Ok(Response::Negotiate(answer)) = Response::parse(&message)
        {
            // Where it has no encryption, nothing is sealed.
            if answer.fixed.capabilities.get() & capabilities::ENCRYPTION == 0
                && speech.dialect != Dialect::Smb311
            {
                there.agreed.cipher = None;
            }
            if speech.dialect == Dialect::Smb311 && !reply_has_cipher(&reply) {
                there.agreed.cipher = None;
            }
        }
        there.preauth.update(&asked);
        there.preauth.update(&reply);
        true
    }

    /// Sends one message as it is, and returns its answer.
    async fn exchange(&mut self, slot: usize, message: Vec<u8>, is_plain: bool) -> Option<Vec<u8>> {
        let there = self.connections[slot].as_mut()?;
        let id = there.next;
        there.next += 1;
        self.notes.message();
        if is_plain {
            there.send(&message).await;
        }
        self.wanted = Some((slot, id, None));
        for _ in 0..40 {
            sleep(Duration::from_millis(2)).await;
            self.take_all();
            if self.wanted.as_ref().is_none_or(|(_, _, reply)| reply.is_some()) {
                break;
            }
        }
        self.wanted.take().and_then(|(_, _, reply)| reply)
    }

    /// Signs in: to a new session, or to `again`.
    async fn sign_in(&mut self, slot: usize, user: &'static str, password: &str, again: Option<usize>) {
        if self.connections[slot].is_none() || self.sessions.len() >= SESSIONS_MAX {
            return;
        }
        let Some((id, key, preauth)) = self.authenticate(slot, user, password, again, false).await else {
            return;
        };
        if again.is_some() {
            return;
        }
        let there = self.connections[slot].as_mut().expect("it was there");
        let key = key.map(|key| SessionKey::new(&key[..]));
        let signing = key.as_ref().map(|key| Rc::new(keys::signing_key(key, &there.agreed, &preauth)));
        let sealing =
            key.as_ref().and_then(|key| keys::sealing_keys(key, &there.agreed, &preauth, Role::Client));
        let nonces = Nonces::new(0).expect("it is the first channel");
        let (agreed, trees) = (there.agreed, Vec::new());
        there.channels.push((self.sessions.len(), signing.clone()));
        self.known.sessions.push(id);
        self.sessions.push(Session { id, user, key, agreed, signing, sealing, nonces, trees });
    }

    async fn authenticate(
        &mut self,
        slot: usize,
        user: &str,
        password: &str,
        again: Option<usize>,
        binds: bool,
    ) -> Option<(u64, Option<smb_auth::SessionKey>, PreauthHash)> {
        let nt = NtHash::new(&password.into())?;
        let credentials = Credentials {
            domain: String::new(),
            user: user.to_owned(),
            nt_hash: zeroize::Zeroizing::new(*nt.expose()),
            workstation: "CLIENT".to_owned(),
        };
        self.challenges += 1;
        let challenge = self.challenges.to_le_bytes();
        let mut initiator =
            Initiator::new(credentials, challenge, zeroize::Zeroizing::new([self.challenges as u8; 16]));
        let mut preauth = self.connections[slot].as_ref()?.preauth;
        let mut token = initiator.first();
        let mut id = again.map_or(0, |at| self.sessions[at].id);
        for _ in 0..3 {
            let mut header = self.header(slot, None, Command::SessionSetup, 0);
            header.session_id.set(id);
            let fixed = SessionSetupRequestFixed {
                flags: if binds { FLAG_BINDING } else { 0 },
                security_mode: security_mode::SIGNING_ENABLED as u8,
                ..SessionSetupRequestFixed::blank()
            };
            let mut asked = Vec::new();
            SessionSetupRequest::write(&mut Compound::new(&mut asked).begin(&header), fixed, &token);
            if let Some(key) = again.and_then(|at| self.sessions[at].signing.clone()) {
                asked[16] |= flags::SIGNED as u8;
                key.sign_in_place(Role::Client, &mut asked).ok()?;
            }
            preauth.update(&asked);
            let reply = self.exchange(slot, asked, true).await?;
            let message = Message::new(&reply).ok()?;
            let Ok(Response::SessionSetup(answer)) = Response::parse(&message) else { return None };
            id = message.header().session_id.get();
            if message.header().status() == Status::SUCCESS {
                return Some((id, initiator.finish(answer.security).ok()?, preauth));
            }
            preauth.update(&reply);
            token = initiator.answer(answer.security, 0).ok()?;
        }
        None
    }

    /// Binds one more channel to a session.
    async fn bind(&mut self, d: &mut Decisions<'_>) {
        let slot = d.below(4);
        let Some(at) = (0..self.sessions.len()).rev().find(|at| self.sessions[*at].key.is_some()) else {
            return;
        };
        let session = &self.sessions[at];
        let (user, agreed) = (session.user, session.agreed);
        let (signs, seals) = (true, session.sealing.is_some() && d.one_in(2));
        let speech = Speech { dialect: agreed.dialect, cipher: agreed.cipher, signs, seals };
        let holds_it = self.connections[slot]
            .as_ref()
            .is_some_and(|there| there.channels.iter().any(|(of, _)| *of == at));
        if holds_it && !d.one_in(4) {
            return;
        }
        if !self.connect(slot, speech).await {
            return;
        }
        let user = if d.one_in(8) { "bob" } else { user };
        let Some((_, Some(key), preauth)) = self.authenticate(slot, user, PASSWORD, Some(at), true).await
        else {
            return;
        };
        let there = self.connections[slot].as_mut().expect("it was there");
        let key = keys::signing_key(&SessionKey::new(&key[..]), &there.agreed, &preauth);
        there.channels.push((at, Some(Rc::new(key))));
    }

    async fn cancel(&mut self, d: &mut Decisions<'_>) {
        if self.pending.is_empty() {
            return;
        }
        let at = d.below(self.pending.len());
        let (slot, message, id) = self.pending.swap_remove(at);
        let Some(there) = &self.connections[slot] else { return };
        let session = there.channels.first().map(|(at, _)| *at);
        let mut header = self.header(slot, session, Command::Cancel, 0);
        header.message_id.set(message);
        let header = if d.one_in(3) { header } else { header.with_async_id(id) };
        self.send(slot, session, vec![[header.as_bytes(), &[4, 0, 0, 0]].concat()], true).await;
        sleep(Duration::from_millis(1)).await;
    }

    /// Sends bytes that are no frame, or half of one.
    async fn garbage(&mut self, d: &mut Decisions<'_>) {
        let slot = d.below(4);
        let n = d.below(100);
        let mut bytes = d.bytes(n);
        if d.one_in(2) {
            let start = d.of(&[
                [0xfe, b'S', b'M', b'B'],
                [0xfd, b'S', b'M', b'B'],
                [0xfc, b'S', b'M', b'B'],
                [0xff, b'S', b'M', b'B'],
            ]);
            bytes.splice(0..0, start);
        }
        let Some(there) = &self.connections[slot] else { return };
        match d.below(3) {
            0 => there.send(&bytes).await,
            1 => there.send_bytes(bytes).await,
            _ => {
                let announced = d.of(&[0u32, 4, 63, 64, 70_000, 0xff_ffff]).to_be_bytes();
                there.send_bytes([&[0], &announced[1..], &bytes[..]].concat()).await;
            }
        }
        self.notes.message();
        sleep(Duration::from_millis(1)).await;
    }

    /// Sends the last frame once more, as it was.
    async fn replay(&mut self, d: &mut Decisions<'_>) {
        let Some(there) = &self.connections[d.below(4)] else { return };
        let frame = there.last_frame.clone();
        there.send(&frame).await;
        self.notes.message();
        sleep(Duration::from_millis(1)).await;
    }

    async fn net_trouble(&mut self, d: &mut Decisions<'_>) {
        let (server, here) = (self.server.host().clone(), self.server.clients().clone());
        match d.below(3) {
            0 => drop(self.net.reset_connections(&here, &server)),
            _ => {
                self.net.partition(&here, &server);
                sleep(d.of(&[Duration::from_millis(300), Duration::from_secs(7), Duration::from_secs(40)]))
                    .await;
                self.net.heal(&here, &server);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }

    /// Sends NEGOTIATE and SESSION_SETUP where they are not expected.
    async fn odd_set_up(&mut self, d: &mut Decisions<'_>) {
        let slot = d.below(4);
        let Some(there) = &self.connections[slot] else { return };
        let session = there.channels.first().map(|(at, _)| *at).filter(|_| d.one_in(2));
        let command = d.of(&[Command::Negotiate, Command::SessionSetup, Command::SessionSetup]);
        let requests::Made { mut body, kind, .. } = requests::body(d, command, &mut self.known);
        if d.one_in(2) {
            requests::mutate(d, &mut body);
        }
        let header = self.header(slot, session, command, 1);
        let there = self.connections[slot].as_mut().expect("it was there");
        there.next += 1;
        there.kinds.insert(header.message_id.get(), kind);
        let signs = d.one_in(2);
        self.send(slot, session, vec![[header.as_bytes(), &body].concat()], signs).await;
        sleep(Duration::from_millis(2)).await;
    }

    /// Takes all frames that have come.
    fn take_all(&mut self) {
        for slot in 0..self.connections.len() {
            let next = |client: &Self| {
                client.connections[slot].as_ref().and_then(|there| there.frames.borrow_mut().pop_front())
            };
            while let Some(frame) = next(self) {
                self.take(slot, frame);
            }
        }
    }

    fn take(&mut self, slot: usize, mut frame: Vec<u8>) {
        let plain = if frame.starts_with(&SEALED) {
            let Some(id) =
                frame.get(44..52).and_then(|id| id.first_chunk()).map(|id| u64::from_le_bytes(*id))
            else {
                return;
            };
            let Some(session) = self.sessions.iter().find(|session| session.id == id) else { return };
            let Some((_, from_server)) = &session.sealing else { return };
            match from_server.open(&mut frame) {
                Ok(plain) => plain.to_vec(),
                Err(_) => {
                    self.notes.finding("reply: it cannot be opened".to_owned());
                    return;
                }
            }
        } else {
            frame
        };
        for message in Messages::new(&plain) {
            match message {
                Ok(message) => self.hear(slot, &message),
                Err(error) => self.notes.finding(format!("reply: it is no message: {error:?}")),
            }
        }
    }

    fn hear(&mut self, slot: usize, message: &Message<'_>) {
        let header = message.header();
        let Some(there) = self.connections[slot].as_mut() else { return };
        there.credits += u64::from(header.credits.get());
        let (id, status) = (header.message_id.get(), header.status());
        let kind = there.kinds.get(&id).copied().unwrap_or(0);
        let command = header.command.get();
        if crate::log::is_traced() {
            eprintln!(
                "{:?} {slot}: {id} command {command} kind {kind:#x} {status:?} {:#x}",
                lane::time::now(),
                header.flags.get()
            );
        }
        self.notes.sign((there.speech.seals, command, kind, status.0, header.flags.get() & 6));
        self.notes.sign(("after", there.last, command, status.0));
        there.last = u64::from(command) << 32 | u64::from(status.0);
        if let Some((wanted, of, reply)) = &mut self.wanted
            && (*wanted, *of) == (slot, id)
        {
            *reply = Some(message.bytes().to_vec());
        }
        let is_async = header.async_id();
        if status == Status::PENDING {
            self.pending.push((slot, id, is_async.unwrap_or(0)));
            return;
        }
        self.pending.retain(|(of, message, _)| (*of, *message) != (slot, id));
        // What was asked with a command that there is not is answered with it.
        let Ok(command) = header.command() else { return };
        let body = message.body();
        let sixteen = |at: usize| body.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        match command {
            Command::Create if status == Status::SUCCESS => {
                if let Some(file) = sixteen(64) {
                    if self.known.files.len() >= FILES_MAX {
                        self.known.files.remove(0);
                    }
                    self.known.files.push(file);
                }
            }
            Command::TreeConnect if status == Status::SUCCESS => {
                let (session, tree) = (header.session_id.get(), header.tree_id.get());
                if let Some(session) = self.sessions.iter_mut().find(|other| other.id == session) {
                    session.trees.push(tree);
                }
            }
            Command::Ioctl
                if status == Status::SUCCESS && kind == smb_wire::fsctl::code::SRV_REQUEST_RESUME_KEY =>
            {
                let at =
                    body.get(32..36).and_then(|at| at.first_chunk()).map_or(0, |at| u32::from_le_bytes(*at))
                        as usize;
                let key = message.bytes().get(at..at + 24).and_then(|key| <[u8; 24]>::try_from(key).ok());
                self.known.resume_keys.extend(key);
            }
            Command::OplockBreak if id == u64::MAX && self.known.breaks.len() < 32 => {
                if let (44, Some(key)) = (body.len(), sixteen(8)) {
                    let mut answer = vec![36, 0, 0, 0, 0, 0, 0, 0];
                    answer.extend(key);
                    answer.extend(&body[28..32]);
                    answer.extend([0; 8]);
                    self.known.breaks.push(answer);
                } else {
                    self.known.breaks.push(body.to_vec());
                }
            }
            _ => {}
        }
        // Every answer is one that a client understands.
        if let Err(error) = Response::parse(message) {
            self.notes.finding(format!("reply: {command:?} with {status} is malformed: {error:?}"));
        }
    }
}

impl Connection {
    async fn send(&self, frame: &[u8]) {
        let Some(prefix) = framing::prefix(frame.len()) else { return };
        self.send_bytes([&prefix[..], frame].concat()).await;
    }

    async fn send_bytes(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        // A server that takes nothing is left alone.
        let _ = timeout(Duration::from_millis(500), self.stream.send(Buf::from(bytes), false)).await;
    }
}

fn reply_has_cipher(reply: &[u8]) -> bool {
    let Ok(message) = Message::new(reply) else { return false };
    let Ok(Response::Negotiate(answer)) = Response::parse(&message) else { return false };
    answer.contexts.iter().flatten().any(|context| {
        matches!(context, NegotiateContext::Encryption(ciphers) if ciphers.iter().any(|cipher| cipher.get() != 0))
    })
}

const STEPS_MAX: usize = 200;
const SESSIONS_MAX: usize = 16;
const FILES_MAX: usize = 24;
const _: () = assert!(HEADER_LEN == 64);
