//! Listeners that something else closes: the others' traffic stays where it was, and new ones take their place.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};

use anyhow::{Context, ensure};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{Client, http_is_served_on};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, wait_for};

/// Kills one lane's listener, then every listener of an address, and checks that they are replaced.
pub(super) fn listeners_are_replaced(
    guest: &mut Guest,
    server: &Server,
    clients: [Client; 2],
) -> anyhow::Result<()> {
    let before = server.scrape()?;
    let open = listening(HTTP_PORT)?;
    let victim = *open.first().context("nobody listens")?;
    ensure!(shut_down(&[open_again(server, victim)?])? == 1, "the listener listened no more");
    for client in clients {
        http_is_served_on(guest, server, client, client.node, "one listener killed")?;
    }
    wait_for("a new listener", || {
        let now = listening(HTTP_PORT).ok()?;
        (now.len() == open.len() && !now.contains(&victim)).then_some(())
    })?;
    for client in clients {
        http_is_served_on(guest, server, client, client.node, "its place taken")?;
    }
    let killed = listening(HTTPS_PORT)?;
    let sockets: Vec<TcpStream> =
        killed.iter().map(|&inode| open_again(server, inode)).collect::<anyhow::Result<_>>()?;
    let by_us = shut_down(&sockets)?;
    drop(sockets);
    wait_for("new listeners", || {
        let now = listening(HTTPS_PORT).ok()?;
        (now.len() == killed.len() && !now.iter().any(|inode| killed.contains(inode))).then_some(())
    })?;
    for client in clients {
        http_is_served_on(guest, server, client, client.node, "all of HTTPS killed and replaced")?;
    }
    let died = server.scrape()?.grown(&before, "linerate_silo_listeners_died", &[])?;
    // A server that notices the first replaces the rest itself, before or after they are dead: their lanes may never see it.
    let least = 2;
    ensure!(
        (f64::from(least)..=(1 + killed.len()) as f64).contains(&died),
        "{by_us} of {} and one before were killed, {died} counted",
        killed.len()
    );
    Ok(())
}

/// Inodes of the sockets that listen at a port.
fn listening(port: u16) -> anyhow::Result<Vec<u64>> {
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let at_port = format!(":{port:04X}");
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = lines.filter(|words| words.len() > 9 && words[3] == LISTEN && words[1].ends_with(&at_port));
    ours.map(|words| words[9].parse().context("an inode")).collect()
}

/// Takes a descriptor of a socket of the server.
fn open_again(server: &Server, inode: u64) -> anyhow::Result<TcpStream> {
    let wanted = format!("socket:[{inode}]");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.pid()))?;
    let mut descriptors = descriptors.filter_map(Result::ok);
    let ours = descriptors
        .find(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link.to_str() == Some(&wanted)));
    let number = ours.context("the server has the socket")?.file_name().to_string_lossy().parse()?;
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).context("a process")?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?.into())
}

/// Shuts sockets of the server down behind its back; returns how many listened until then. `ss --kill` cannot choose:
/// the kernel looks a listener up by its address, and may take another of its group.
fn shut_down(sockets: &[TcpStream]) -> anyhow::Result<usize> {
    let mut count = 0;
    for socket in sockets {
        match socket.shutdown(Shutdown::Both) {
            Ok(()) => count += 1,
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => return Err(error).context("shut a listener down"),
        }
    }
    Ok(count)
}

const HTTP_PORT: u16 = 8080;
const HTTPS_PORT: u16 = 8443;
/// Name of the state in `/proc/net/tcp`.
const LISTEN: &str = "0A";
