//! Ends of connections: whole and with close_notify, or visibly cut.

use std::time::Duration;

use anyhow::ensure;

use super::content::ROOT;
use super::{ADDRESS, CHACHA, Guest, Https, Server, Tree, counts, request};
use crate::lab::guest::https::End;

/// Checks that a slow reader has all of a long answer, although the server has ended the connection long before, and
/// knows that it is all.
pub(super) fn slow_reader(guest: &mut Guest, tree: &Tree) -> anyhow::Result<()> {
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    client.narrow()?;
    client.send(&request("/mid", "Connection: close\r\n"))?;
    let (mid, head) = (tree.mid(), client.head()?);
    ensure!(head.length()? == mid.len() as u64, "{head:?}");
    std::thread::sleep(Duration::from_secs(2));
    let end = client.end(|at, bytes| {
        std::thread::sleep(Duration::from_millis(5));
        let at = at as usize;
        ensure!(mid[at..].starts_with(bytes), "wrong bytes after {at}");
        Ok(())
    })?;
    ensure!(end == (mid.len() as u64, CLEAN), "a slow reader got {end:?}");
    guest.note("a slow reader")
}

/// Clients that go in the middle of a body leave nothing behind.
pub(super) fn client_goes(guest: &mut Guest, server: &Server, tree: &Tree) -> anyhow::Result<()> {
    let aborted = server.scrape()?.sum("linerate_http_aborted", &["peer"])?;
    for _ in 0..5 {
        begin(tree)?;
    }
    counts(server, "linerate_http_aborted", &["peer"], aborted + 5.0)?;
    counts(server, "linerate_http_tls_connections", &["kernel"], 0.0)?;
    guest.note("clients that go in the middle")
}

/// Checks that a file that is truncated while it is sent is never taken for whole, and no byte of it is made up.
pub(super) fn file_is_truncated(guest: &mut Guest, server: &Server, tree: &Tree) -> anyhow::Result<()> {
    let aborted = server.scrape()?.sum("linerate_http_aborted", &["file_changed"])?;
    let (mut client, begun) = begin(tree)?;
    std::fs::File::options().write(true).open(format!("{ROOT}/wide"))?.set_len(begun / 2)?;
    is_cut(&mut client, begun, tree)?;
    counts(server, "linerate_http_aborted", &["file_changed"], aborted + 1.0)?;
    tree.write("wide", tree.wide())?;
    guest.note("a file truncated while it is sent")
}

/// Checks that a server that dies in the middle of a body leaves the connection visibly cut, although the kernel lives
/// on.
pub(super) fn server_is_killed(guest: &mut Guest, server: Server, tree: &Tree) -> anyhow::Result<()> {
    let (mut client, begun) = begin(tree)?;
    drop(server);
    is_cut(&mut client, begun, tree)?;
    guest.note("a server killed while it sends")
}

/// Asks for a long body and takes a part of it; gives its length.
fn begin(tree: &Tree) -> anyhow::Result<(Https, u64)> {
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    client.narrow()?;
    client.send(&request("/wide", ""))?;
    let (wide, head) = (tree.wide(), client.head()?);
    ensure!(head.length()? == wide.len() as u64, "{head:?}");
    let part = 500_000;
    client.body(part, |at, bytes| {
        ensure!(wide[at as usize..].starts_with(bytes), "wrong bytes after {at}");
        Ok(())
    })?;
    Ok((client, part))
}

/// Checks that an answer is cut after `begun` bytes of `wide`. Further bytes may come, which have to be right, but not
/// all of them, and no close_notify.
fn is_cut(client: &mut Https, begun: u64, tree: &Tree) -> anyhow::Result<()> {
    let wide = tree.wide();
    let (more, end) = client.end(|at, bytes| {
        let at = (begun + at) as usize;
        ensure!(wide[at..].starts_with(bytes), "wrong bytes after {at}");
        Ok(())
    })?;
    ensure!(end == End::Cut, "an answer that is not whole ends with close_notify");
    ensure!(begun + more < wide.len() as u64, "the answer was whole: nothing was cut");
    Ok(())
}

pub(super) const CLEAN: End = End::CloseNotify;
