//! A client of HTTP that keeps what it read and asks by its entity tag whether that is still so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use lane::net::TcpStream;
use lane::time::timeout;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::server::{LANES, http_address};
use super::shared::Shared;
use super::truth::{Effect, State, Who, content};

pub(crate) struct Browser {
    number: usize,
    shared: Rc<Shared>,
    connection: RefCell<Option<TcpStream>>,
    /// Tag and content.
    kept: RefCell<BTreeMap<&'static str, (String, State)>>,
    /// The last strong tag that it saw, what it stood for, and when it asked.
    seen: RefCell<BTreeMap<&'static str, (String, State, Duration)>>,
    asked: Cell<u32>,
    rng: RefCell<SmallRng>,
}

/// An answer, whole.
struct Response {
    status: u16,
    tag: Option<String>,
    body: Vec<u8>,
}

impl Browser {
    pub(crate) fn begin(number: usize, seed: u64, shared: &Rc<Shared>) -> Rc<Self> {
        Rc::new(Self {
            number,
            shared: Rc::clone(shared),
            connection: RefCell::default(),
            kept: RefCell::default(),
            seen: RefCell::default(),
            asked: Cell::default(),
            rng: RefCell::new(SmallRng::seed_from_u64(seed)),
        })
    }

    pub(crate) fn end(&self) {
        self.connection.replace(None);
    }

    fn who(&self) -> Who {
        Who::Http(self.number)
    }

    /// Asks for something, on the connection there is or a new one.
    async fn ask(&self, method: &str, name: &str, lines: &str, body: &[u8]) -> io::Result<Response> {
        self.asked.update(|asked| asked + 1);
        let lane = self.rng.borrow_mut().random_range(0..LANES);
        let stream = match self.connection.take() {
            Some(stream) => stream,
            None => timed(TcpStream::connect(http_address(lane))).await?,
        };
        let head = format!("{method} /{name} HTTP/1.1\r\nHost: sim\r\n{lines}\r\n");
        timed(send(&stream, &[head.as_bytes(), body].concat())).await?;
        let response = timed(receive(&stream)).await?;
        // A few come one after the other on one lane.
        if !self.asked.get().is_multiple_of(5) {
            self.connection.replace(Some(stream));
        }
        Ok(response)
    }

    /// Reads a file, and takes its own copy where the server says that it is good.
    pub(crate) async fn read(&self, name: &'static str) -> Option<State> {
        let truth = &self.shared.truth;
        let kept = self.kept.borrow().get(name).cloned();
        let lines = kept.as_ref().map_or_else(String::new, |(tag, _)| format!("If-None-Match: {tag}\r\n"));
        let began = truth.now();
        let response = self.ask("GET", name, &lines, &[]).await.ok()?;
        let state = match response.status {
            200 => State::of(&response.body),
            304 => {
                self.shared.count("http: not modified");
                kept.expect("nothing else was asked for").1
            }
            404 => State::Absent,
            _ => return None,
        };
        self.shared.count("http: read");
        truth.is_read(self.who(), name, state, (began, truth.now()));
        let mut kept = self.kept.borrow_mut();
        match response.tag {
            Some(tag) => {
                if !tag.starts_with("W/") {
                    self.is_tagged(name, &tag, state, began);
                }
                kept.insert(name, (tag, state));
            }
            None => drop(kept.remove(name)),
        }
        Some(state)
    }

    /// A strong tag stands for one content, and changes with that alone.
    fn is_tagged(&self, name: &'static str, tag: &str, state: State, began: Duration) {
        self.stands_for(name, tag, state);
        let before = self.seen.borrow_mut().insert(name, (tag.to_owned(), state, began));
        if let Some((earlier, was, since)) = before
            && was == state
            && !self.shared.truth.may_have_changed(name, since, self.shared.truth.now())
        {
            assert_eq!(earlier, tag, "{name} is still {state:?}");
        }
    }

    fn stands_for(&self, name: &'static str, tag: &str, state: State) {
        let known = *self.shared.tags.borrow_mut().entry((name, tag.to_owned())).or_insert(state);
        assert_eq!(known, state, "{tag} of {name} stands for both");
    }

    /// Puts a file in place of what there is, if anything.
    pub(crate) async fn put(&self, name: &'static str) -> Option<()> {
        let number = self.shared.truth.number();
        let body = content(number);
        let lines = format!("Content-Length: {}\r\n", body.len());
        let tag = self.changes("PUT", name, Effect::Write(number), &lines, &body).await?;
        if let Some(tag) = tag {
            self.stands_for(name, &tag, State::Whole(number));
        }
        Some(())
    }

    pub(crate) async fn remove(&self, name: &'static str) -> Option<()> {
        self.changes("DELETE", name, Effect::Remove, "", &[]).await.map(drop)
    }

    async fn changes(
        &self,
        method: &str,
        name: &'static str,
        effect: Effect,
        lines: &str,
        body: &[u8],
    ) -> Option<Option<String>> {
        let truth = &self.shared.truth;
        let ticket = truth.begins(self.who(), name, effect);
        match self.ask(method, name, lines, body).await {
            Ok(Response { status: 200..300, tag, .. }) => {
                truth.is_done(ticket);
                self.shared.count("http: change");
                Some(tag)
            }
            Ok(_) => {
                truth.is_refused(ticket);
                None
            }
            Err(_) => {
                truth.is_lost(ticket);
                None
            }
        }
    }
}

async fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_send(&[IoSlice::new(rest)], false)? {
            Some(sent) => rest = &rest[sent..],
            None => stream.writable().await?,
        }
    }
    Ok(())
}

async fn receive(stream: &TcpStream) -> io::Result<Response> {
    let mut inbox = Vec::new();
    let head_len = loop {
        if let Some(at) = inbox.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, &mut inbox).await?;
    };
    let head = String::from_utf8(inbox[..head_len].to_vec()).expect("heads are ASCII");
    let status: u16 = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    let field = |name: &str| {
        let is_it = |line: &&str| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name);
        head.split("\r\n").find(is_it).map(|line| line[name.len()..].trim().to_owned())
    };
    let tag = field("ETag:");
    let len = if matches!(status, 204 | 304) { None } else { field("Content-Length:") };
    let len: usize = len.map_or(0, |len| len.parse().unwrap());
    while inbox.len() < head_len + len {
        more(stream, &mut inbox).await?;
    }
    Ok(Response { status, tag, body: inbox.split_off(head_len) })
}

async fn more(stream: &TcpStream, inbox: &mut Vec<u8>) -> io::Result<()> {
    let bytes = stream.recv().await?;
    if bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    inbox.extend_from_slice(&bytes);
    Ok(())
}

async fn timed<T>(asking: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// As long as the server waits for holders of leases.
const PATIENCE: Duration = Duration::from_secs(80);
