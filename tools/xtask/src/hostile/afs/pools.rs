//! AFS: as many hosts, promises, locks and calls as one address gets, by clients that then say nothing any more.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use afs_client::{Cell as AfsCell, Client, ClientOptions, FileServer, OobOptions, directory, of_new};
use afs_wire::{FIDS_MAX, Fid, rxafs};
use anyhow::Context;
use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{Anonymous, Connection};
use xdr::afs::AfsUuid;

use super::cell_of;
use crate::hostile::arena::SERVER;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::Wishes;

pub(crate) struct Pools;

impl Scenario for Pools {
    fn name(&self) -> &'static str {
        "afs-pools"
    }

    fn about(&self) -> &'static str {
        "hosts, promises, locks, bulk status and questions to the cell, as many as one address gets, by clients that fall silent"
    }

    /// Returns HTTP, over which the good client asks.
    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let shared = work.join(SHARED);
        std::fs::create_dir(&shared)?;
        for n in 0..FILES {
            std::fs::write(shared.join(format!("file-{n:03}")), b"shared")?;
        }
        // What clients leave behind that are gone without a word is in hand for as long as one may be silent: a stop cuts it.
        let config = format!(
            "[server]\ndrain_seconds = 5\n[afs]\nlisten = '{SERVER}:{PORT}'\n[[volume]]\nname = '{SHARED}'\npath = '{}'\nmount = '/{SHARED}'\nwritable = 'anyone'",
            shared.display()
        );
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn seconds_least(&self) -> u64 {
        3 * ROUND.as_secs()
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let end = field.end;
        let mut total = Taken::default();
        let mut rounds = 0;
        while !field.is_over() {
            let begun = rounds;
            // Its lane ends with it: nothing answers for these clients any more, and none has said good-bye.
            let taken = run_here(RuntimeOptions::default(), async move { take(begun, end).await });
            let taken = taken.context("the attackers' lane")??;
            total.add(&taken);
            rounds += 1;
        }
        let Taken { hosts, promises, locks, refused, calls, changes } = total;
        Ok(Findings::default()
            .with("hosts", hosts)
            .with("promises", promises)
            .with("locks", locks)
            .with("calls refused", refused)
            .with("calls to the cell", calls)
            .with("changes beside silent clients", changes)
            .expect(hosts > 0 && promises > 0 && locks > 0 && calls > 0, || {
                "a pool was not reached".to_owned()
            }))
    }
}

#[derive(Clone, Copy, Default)]
struct Taken {
    hosts: u64,
    promises: u64,
    locks: u64,
    refused: u64,
    calls: u64,
    changes: u64,
}

impl Taken {
    fn add(&mut self, other: &Self) {
        self.hosts += other.hosts;
        self.promises += other.promises;
        self.locks += other.locks;
        self.refused += other.refused;
        self.calls += other.calls;
        self.changes += other.changes;
    }
}

/// Runs one round of clients that take what they get; some of them change what the others rely on.
async fn take(round: u64, end: Instant) -> anyhow::Result<Taken> {
    let taken = Rc::new(Cell::new(Taken::default()));
    let clients = (0..CLIENTS).map(|n| {
        let taken = Rc::clone(&taken);
        lane::spawn(async move {
            // A refusal is the server's right; what it does not refuse must not harm it.
            if one(round * CLIENTS + n, &taken, end).await.is_err() {
                note(&taken, |taken| taken.refused += 1);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await;
    }
    Ok(taken.get())
}

async fn one(number: u64, taken: &Cell<Taken>, end: Instant) -> anyhow::Result<()> {
    let mut options =
        ClientOptions::new(AfsUuid((0x0b5e_77ed_u128 << 64 | u128::from(number)).to_be_bytes()));
    options.driver.endpoint.packets = 256;
    options.connections = 1;
    options.patience = Duration::ZERO;
    options.oob = OobOptions { threshold: None, ..OobOptions::default() };
    let client = Client::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options)?;
    let cell = AfsCell::new(&client, cell_of(PORT))?;
    let root = cell.root(SHARED).await?;
    note(taken, |taken| taken.hosts += 1);
    let entries = directory::list(&root.server, root.fid).await?;
    let files: Vec<Fid> = entries.iter().map(|entry| entry.fid).filter(|fid| !fid.is_directory()).collect();
    let connection = client.driver().connect((SERVER, PORT).into(), SERVICE, &Anonymous)?;
    let until = end.min(Instant::now() + ROUND);
    while Instant::now() < until {
        let statuses = root.server.statuses(&files).await?;
        note(taken, |taken| taken.promises += statuses.iter().filter(|status| status.is_ok()).count() as u64);
        lock_all(&connection, &files, taken).await?;
        ask_the_cell(&cell, taken).await;
        ask_for_what_is_not_there(&root.server, root.fid, taken).await;
        // One in a few changes what all others rely on, many of which are silent.
        if number.is_multiple_of(CHANGES_EVERY) {
            let name = format!("new-{number}");
            root.server.create(root.fid, name.as_bytes(), of_new(0o666, None)).await?;
            root.server.remove(root.fid, name.as_bytes()).await?;
            note(taken, |taken| taken.changes += 2);
        }
    }
    // A lock lasts five minutes, also of a client that is gone; the run is over sooner.
    for &fid in &files {
        let mut call = connection.call().await?;
        let _ = xdr::rpc::call(&mut call, &rxafs::ReleaseLock { fid }).await;
    }
    Ok(())
}

/// Takes a shared lock of each file, which only time ends.
async fn lock_all(connection: &Connection, files: &[Fid], taken: &Cell<Taken>) -> anyhow::Result<()> {
    for &fid in files {
        let mut call = connection.call().await?;
        match xdr::rpc::call(&mut call, &rxafs::SetLock { fid, r#type: 0 }).await {
            Ok(_) => note(taken, |taken| taken.locks += 1),
            Err(_) => note(taken, |taken| taken.refused += 1),
        }
    }
    Ok(())
}

async fn ask_the_cell(cell: &AfsCell, taken: &Cell<Taken>) {
    let found = [cell.locate("there.is.none").await.is_err(), cell.volumes().await.is_err()];
    note(taken, |taken| taken.calls += found.len() as u64);
}

/// Asks for files by numbers that do not exist: each is looked for.
async fn ask_for_what_is_not_there(server: &FileServer, root: Fid, taken: &Cell<Taken>) {
    let absent = |n: u32| Fid { vnode: root.vnode + 2 * (n + 1_000_000), ..root };
    let absent: Vec<Fid> = (0..FIDS_MAX).map(absent).collect();
    if let Ok(statuses) = server.statuses(&absent).await {
        note(taken, |taken| taken.refused += statuses.iter().filter(|status| status.is_err()).count() as u64);
    }
}

fn note(taken: &Cell<Taken>, change: impl FnOnce(&mut Taken)) {
    let mut now = taken.get();
    change(&mut now);
    taken.set(now);
}

const SHARED: &str = "shared";
const PORT: u16 = 7000;
/// Service id of RXAFS.
const SERVICE: u16 = 1;
const FILES: usize = 32;
/// Clients at once, each with a driver and a port of its own.
const CLIENTS: u64 = 16;
const CHANGES_EVERY: u64 = 4;
/// Time after which the clients fall silent.
const ROUND: Duration = Duration::from_secs(3);
