//! A client of HTTP that keeps what it read, and holds every entity tag against what it stood for before.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lane::net::TcpStream;

use crate::operation::Path;

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) tag: Option<String>,
    pub(crate) length: Option<usize>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Browser {
    server: SocketAddr,
    /// Some of which are on each lane of the server.
    connections: Vec<Option<TcpStream>>,
    turn: usize,
    /// Content that was last read by a name, and its tag.
    kept: BTreeMap<Path, (String, Vec<u8>)>,
    /// Content that each strong tag of a name has stood for.
    tags: BTreeMap<(Path, String), Vec<u8>>,
}

impl Browser {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let connections = (0..CONNECTIONS).map(|_| None).collect();
        Self { server, connections, turn: 0, kept: BTreeMap::new(), tags: BTreeMap::new() }
    }

    /// Drops all connections, as the server has ended.
    pub(crate) fn disconnects(&mut self) {
        self.connections.fill_with(|| None);
    }

    pub(crate) fn kept(&self, path: Path) -> Option<&(String, Vec<u8>)> {
        self.kept.get(&path)
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> anyhow::Result<Response> {
        self.turn += 1;
        let turn = self.turn % CONNECTIONS;
        let stream = match self.connections[turn].take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.server).await?,
        };
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nHost: one\r\n{fields}{}\r\n",
            if method == "PUT" { format!("Content-Length: {}\r\n", body.len()) } else { String::new() }
        );
        let asking = async {
            send(&stream, &[head.as_bytes(), body].concat()).await?;
            receive(&stream, method).await
        };
        let (response, goes_on) = lane::time::timeout(PATIENCE, asking)
            .await
            .map_err(|_| anyhow::anyhow!("HTTP {method} {path} is not answered within {PATIENCE:?}"))?
            .with_context(|| format!("HTTP {method} {path}"))?;
        if goes_on {
            self.connections[turn] = Some(stream);
        }
        Ok(response)
    }

    /// Reads a file by its name, from what was kept where the server says that that is good. `None`: there is no file.
    pub(crate) async fn read(&mut self, path: Path) -> anyhow::Result<Option<Vec<u8>>> {
        let kept = self.kept.get(&path).cloned();
        let fields = kept.as_ref().map_or_else(String::new, |(tag, _)| format!("If-None-Match: {tag}\r\n"));
        let response = self.ask("GET", &path.text(), &fields, &[]).await?;
        let body = match response.status {
            200 => response.body,
            304 => kept.context("304 without a condition")?.1,
            404 => return Ok(None),
            status => bail!("HTTP GET {path} is answered {status}"),
        };
        if let Some(tag) = response.tag {
            self.is_tagged(path, &tag, &body)?;
            self.kept.insert(path, (tag, body.clone()));
        }
        Ok(Some(body))
    }

    /// Fetches a part of a file, under the tag that it was last read by. `None`: the whole came, or nothing.
    pub(crate) async fn part(
        &mut self,
        path: Path,
        from: usize,
        len: usize,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let Some((tag, _)) = self.kept.get(&path) else { return Ok(None) };
        let fields = format!("Range: bytes={from}-{}\r\nIf-Range: {tag}\r\n", from + len - 1);
        let response = self.ask("GET", &path.text(), &fields, &[]).await?;
        Ok(if response.status == 206 { Some(response.body) } else { None })
    }

    /// Returns the length that HEAD reports, if there is a file.
    pub(crate) async fn length(&mut self, path: Path) -> anyhow::Result<Option<usize>> {
        let response = self.ask("HEAD", &path.text(), "", &[]).await?;
        match response.status {
            200 => Ok(Some(response.length.context("HEAD tells no length")?)),
            404 => Ok(None),
            status => bail!("HTTP HEAD {path} is answered {status}"),
        }
    }

    /// Lists the names and lengths of a directory, of those that are no directories.
    pub(crate) async fn list(&mut self, directory: &str) -> anyhow::Result<BTreeMap<String, Option<u64>>> {
        let path = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let response = self.ask("GET", &path, "Accept: application/json\r\n", &[]).await?;
        ensure!(response.status == 200, "HTTP listing of /{path} is answered {}", response.status);
        let told: serde_json::Value = serde_json::from_slice(&response.body)?;
        let entries = told.get("entries").unwrap_or(&told).as_array().context("a listing's entries")?;
        let mut listed = BTreeMap::new();
        for entry in entries {
            let name = entry["name"].as_str().context("an entry's name")?;
            listed.insert(name.trim_end_matches('/').to_owned(), entry["size"].as_u64());
        }
        Ok(listed)
    }

    /// Checks that a strong tag of a name stands for one content, for ever.
    pub(crate) fn is_tagged(&mut self, path: Path, tag: &str, content: &[u8]) -> anyhow::Result<()> {
        if tag.starts_with("W/") {
            return Ok(());
        }
        let known = self.tags.entry((path, tag.to_owned())).or_insert_with(|| content.to_vec());
        ensure!(known == content, "the strong tag {tag} of {path} has stood for another content");
        Ok(())
    }
}

async fn send(stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_send(&[IoSlice::new(rest)], false)? {
            Some(sent) => rest = &rest[sent..],
            None => stream.writable().await?,
        }
    }
    Ok(())
}

/// Receives the answer; returns it with whether the connection goes on.
async fn receive(stream: &TcpStream, method: &str) -> anyhow::Result<(Response, bool)> {
    let mut inbox = Vec::new();
    let head_len = loop {
        if let Some(at) = inbox.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, &mut inbox).await?;
    };
    let head = String::from_utf8(inbox[..head_len].to_vec())?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).context("a status line")?;
    let status: u16 = status.parse()?;
    let field = |name: &str| {
        let value = |line: &str| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.split("\r\n").find_map(value)
    };
    let length = field("Content-Length").map(|length| length.parse()).transpose()?;
    let has_body = method != "HEAD" && !matches!(status, 204 | 304);
    let is_chunked = field("Transfer-Encoding").is_some_and(|coding| coding == "chunked");
    let mut body = inbox.split_off(head_len);
    if has_body && is_chunked {
        body = unchunk(stream, body).await?;
    } else if has_body {
        while body.len() < length.unwrap_or(0) {
            more(stream, &mut body).await?;
        }
    }
    let goes_on = field("Connection").is_none_or(|connection| !connection.eq_ignore_ascii_case("close"));
    Ok((Response { status, tag: field("ETag"), length, body }, goes_on))
}

async fn unchunk(stream: &TcpStream, mut inbox: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let Some(at) = inbox.windows(2).position(|window| window == b"\r\n") else {
            more(stream, &mut inbox).await?;
            continue;
        };
        let len = usize::from_str_radix(std::str::from_utf8(&inbox[..at])?.trim(), 16)?;
        while inbox.len() < at + 2 + len + 2 {
            more(stream, &mut inbox).await?;
        }
        body.extend_from_slice(&inbox[at + 2..at + 2 + len]);
        inbox.drain(..at + 2 + len + 2);
        if len == 0 {
            return Ok(body);
        }
    }
}

async fn more(stream: &TcpStream, inbox: &mut Vec<u8>) -> anyhow::Result<()> {
    let bytes = stream.recv().await?;
    ensure!(!bytes.is_empty(), "the server closed the connection in an answer");
    inbox.extend_from_slice(&bytes);
    Ok(())
}

const CONNECTIONS: usize = 4;
/// Time to wait for an answer: longer than the server waits for holders of leases.
const PATIENCE: Duration = Duration::from_secs(80);
