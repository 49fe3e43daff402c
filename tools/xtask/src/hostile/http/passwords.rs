//! Wrong passwords from hundreds of addresses, none of which goes beyond its own share, while users sign in
//! that never did before.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use identity::{AccountsStore, NewUser, PasswordHash, Secret, Strength};
use rustls::{ClientConnection, StreamOwned};

use super::http2::tls_over;
use crate::hostile::arena::owned;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTPS, Wishes};

pub(crate) struct Passwords;

impl Scenario for Passwords {
    fn name(&self) -> &'static str {
        "http-passwords"
    }

    fn about(&self) -> &'static str {
        "wrong passwords from 400 addresses at once, beside users who sign in for the first time"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let accounts = work.join("accounts.toml");
        let hash = PasswordHash::new(&Secret::from(PASSWORD), Strength::default());
        AccountsStore::new(&accounts).change(|edit| {
            for n in 0..USERS {
                let (id, uid, gid, principals, nt) = (None, None, None, Vec::new(), None);
                edit.add_user(&NewUser {
                    name: user(n),
                    id,
                    uid,
                    gid,
                    principals,
                    password: Some(hash.clone()),
                    nt,
                })?;
            }
            Ok(())
        })?;
        let config = format!("[identity]\naccounts = '{}'", accounts.display());
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let [tried, let_in] = [const { AtomicU64::new(0) }; 2];
        let (signed_in, failures) = std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (tried, let_in) = (&tried, &let_in);
                scope.spawn(move || {
                    // Each round has an address for each connection, and comes back to it while that may try again.
                    while !field.is_over() {
                        let from = (thread..ADDRESSES).step_by(THREADS).map(owned);
                        let asked: Vec<_> =
                            from.filter_map(|from| ask(from, &user(0), "wrong").ok()).collect();
                        for mut stream in asked {
                            if field.is_over() {
                                return;
                            }
                            match status(&mut stream) {
                                Ok(200) => _ = let_in.fetch_add(1, Ordering::Relaxed),
                                // A refusal is the server's right.
                                Ok(_) | Err(_) => _ = tried.fetch_add(1, Ordering::Relaxed),
                            }
                        }
                    }
                });
            }
            let (mut signed_in, mut failures) = (0, Vec::new());
            // Each is new to the server, and so is its address.
            for n in 1..USERS {
                field.sleep(BETWEEN_USERS);
                if field.is_over() {
                    break;
                }
                let outcome =
                    ask(owned(ADDRESSES + n), &user(n), PASSWORD).and_then(|mut it| status(&mut it));
                match outcome {
                    Ok(200) => signed_in += 1,
                    Ok(other) => failures.push(format!("user {n} was answered {other}")),
                    Err(error) => failures.push(format!("user {n} was not signed in: {error:#}")),
                }
            }
            (signed_in, failures)
        });
        let [tried, let_in] = [tried, let_in].map(AtomicU64::into_inner);
        let mut findings = Findings::default()
            .with("wrong passwords", tried)
            .with("users signed in", signed_in)
            .expect(let_in == 0, || format!("{let_in} were let in by a wrong password"))
            .expect(signed_in > 0, || "no user signed in".to_owned());
        findings.failures.extend(failures);
        Ok(findings)
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Asks for a small file by name and password.
fn ask(from: Ipv4Addr, name: &str, password: &str) -> anyhow::Result<Stream> {
    let tcp = connect_from(from, HTTPS)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let mut stream = tls_over(tcp)?;
    let said = base64(format!("{name}:{password}").as_bytes());
    let request = format!("GET /small HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {said}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    Ok(stream)
}

fn status(stream: &mut Stream) -> anyhow::Result<u16> {
    let mut line = [0; 12];
    stream.read_exact(&mut line).context("no answer")?;
    let text = std::str::from_utf8(&line)?;
    match text.strip_prefix("HTTP/1.1 ").and_then(|code| code.parse().ok()) {
        Some(code) => Ok(code),
        None => bail!("not an answer: {text:?}"),
    }
}

fn user(n: usize) -> String {
    format!("user-{n}")
}

/// Encodes in base64 (RFC 4648 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * position)) as usize & 63];
            text.push(if position <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

const PASSWORD: &str = "open sesame";
/// Number of users; the password of the first is guessed.
const USERS: usize = 32;
const ADDRESSES: usize = 400;
const THREADS: usize = 4;
const BETWEEN_USERS: Duration = Duration::from_millis(300);
/// Time to wait for an answer; the slowest build verifies a password in less than a second.
const PATIENCE: Duration = Duration::from_secs(10);
