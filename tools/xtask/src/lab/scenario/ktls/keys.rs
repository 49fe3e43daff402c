//! Key updates from the client (RFC 8446 4.6.3): followed always, and answered where the kernel can change its key.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::ends::CLEAN;
use super::{ADDRESS, CHACHA, Guest, Https, Server, Tree, counts, request, tls_stat};
use crate::lab::guest::kernel_version;

pub(super) fn updates(guest: &mut Guest, server: &Server, tree: &Tree) -> anyhow::Result<()> {
    without_request(server)?;
    if kernel_version()? >= CHANGES_KEYS {
        answered_under_the_next_key(server, tree)?;
        guest.note("key updates: the kernel got its next keys")
    } else {
        connection_ends_after_the_answer(server, tree)?;
        guest.note("key updates: this kernel keeps its key, connections ended by close_notify")
    }
}

/// Checks that a client that wants no answer changes the server's receiving key only. Asked by OpenSSL's client.
fn without_request(server: &Server) -> anyhow::Result<()> {
    let (before, kernels) = (server.scrape()?, tls_stat("TlsTxSw")?);
    let script = format!("exec timeout 60 openssl s_client -connect {ADDRESS} -tls1_3 2>&1");
    let mut client =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut input, mut output) =
        (client.stdin.take().context("stdin")?, client.stdout.take().context("stdout")?);
    let mut heard = Vec::new();
    let mut hear = |word: &str| -> anyhow::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            let at = heard.windows(word.len()).position(|window| window == word.as_bytes());
            if let Some(at) = at {
                heard.drain(..at + word.len());
                return Ok(());
            }
            let n = output.read(&mut bytes)?;
            ensure!(n > 0, "s_client ended before {word}: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&bytes[..n]);
        }
    };
    hear("Verify return code")?;
    for path in ["/small/00001", "/small/00002"] {
        input.write_all(b"k\n")?;
        hear("KEYUPDATE")?;
        input.write_all(request(path, "").as_bytes())?;
        hear("HTTP/1.1 200")?;
    }
    drop(input);
    client.wait()?;
    ensure!(tls_stat("TlsTxSw")? == kernels + 1, "OpenSSL's connection is not the kernel's");
    let closed = server.scrape()?.grown(&before, "linerate_http_closed", &["key_update"])?;
    ensure!(closed == 0.0, "a key update that wants no answer ended the connection");
    Ok(())
}

/// Updates keys in the middle of an answer, between two, and before the kernel has its first key: the kernel of Linux
/// 6.14 and later changes its key.
fn answered_under_the_next_key(server: &Server, tree: &Tree) -> anyhow::Result<()> {
    let (before, rekeyed) = (server.scrape()?, tls_stat("TlsTxRekeyOk")?);
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    update_in_the_middle(&mut client, tree)?;
    for index in 0..3 {
        client.update_keys()?;
        client.get(&format!("/small/0000{index}"), "", tree.small(index))?;
    }
    client.get("/mid", "", tree.mid())?;
    let rekeyed = tls_stat("TlsTxRekeyOk")? - rekeyed;
    ensure!(rekeyed == 4, "the kernel changed its key {rekeyed} times for 4 key updates");
    let mut client = Https::connect_with_key_update(ADDRESS, CHACHA, &request("/mid", ""))?;
    client.expect(tree.mid()).context("a key update right behind the handshake")?;
    let after = server.scrape()?;
    for (name, labels, grown) in [
        ("linerate_http_closed", "key_update", 0.0),
        ("linerate_http_user_tls", "key_update", 0.0),
        ("linerate_http_kernel_tls", "", 2.0),
    ] {
        let by = after.grown(&before, name, &[labels])?;
        ensure!(by == grown, "{name}{{{labels}}} has grown by {by} and not by {grown}");
    }
    Ok(())
}

/// Checks kernels before Linux 6.14: the answer under way is whole, then comes close_notify. A client that updates its
/// keys before the kernel has a key is served by user space.
fn connection_ends_after_the_answer(server: &Server, tree: &Tree) -> anyhow::Result<()> {
    let closed = server.scrape()?.sum("linerate_http_closed", &["key_update"])?;
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    update_in_the_middle(&mut client, tree)?;
    let end = client.end(|_, _| Ok(()))?;
    ensure!(end == (0, CLEAN), "after a key update in the middle of an answer: {end:?}");
    counts(server, "linerate_http_closed", &["key_update"], closed + 1.0)?;

    let mut client = Https::connect(ADDRESS, CHACHA)?;
    client.get("/small/00003", "", tree.small(3))?;
    client.update_keys()?;
    let end = client.end(|_, _| Ok(()))?;
    ensure!(end == (0, CLEAN), "after a key update between requests: {end:?}");
    counts(server, "linerate_http_closed", &["key_update"], closed + 2.0)?;

    let user = server.scrape()?.sum("linerate_http_user_tls", &["key_update"])?;
    let mut client = Https::connect_with_key_update(ADDRESS, CHACHA, &request("/mid", ""))?;
    client.expect(tree.mid()).context("a key update right behind the handshake")?;
    client.update_keys()?;
    client.get("/small/00004", "", tree.small(4))?;
    counts(server, "linerate_http_user_tls", &["key_update"], user + 1.0)
}

/// Asks for a new key when a part of a body has come, and takes the rest of it.
fn update_in_the_middle(client: &mut Https, tree: &Tree) -> anyhow::Result<()> {
    let wide = tree.wide();
    client.narrow()?;
    client.send(&request("/wide", ""))?;
    let head = client.head()?;
    ensure!(head.length()? == wide.len() as u64, "{head:?}");
    let part = 1_000_000;
    let is_right = |from: usize, bytes: &[u8]| {
        ensure!(bytes == &wide[from..from + bytes.len()], "wrong bytes after {from}");
        Ok(())
    };
    client.body(part, |at, bytes| is_right(at as usize, bytes))?;
    client.update_keys()?;
    client.body(wide.len() as u64 - part, |at, bytes| is_right((part + at) as usize, bytes))
}

/// The first kernel that takes a second key.
const CHANGES_KEYS: (u32, u32) = (6, 14);
