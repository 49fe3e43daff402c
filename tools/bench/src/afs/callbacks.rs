//! Speed of callback breaks: many rely on every file of a directory, which is then renamed.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use afs_client::{Cell as AfsCell, Client, Error, FileServer, directory};
use afs_wire::Fid;
use lane::runtime::{RuntimeOptions, run_here};
use serde::Serialize;

use super::clients::{Clients, give_up};
use super::load::LoadError;

/// Report of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallbacksReport {
    /// Clients, each a host of its own.
    pub clients: usize,
    /// Files in the directory.
    pub files: usize,
    /// Number of callbacks in all: a file each.
    pub callbacks: usize,
    /// Seconds until all had asked for the status of all files.
    pub asking_seconds: f64,
    /// Growth of the server's resident memory meanwhile, if its process is known: for the callbacks, and the
    /// files that they are of.
    pub server_bytes_grown: Option<u64>,
    /// Bytes of the server's memory for each callback.
    pub server_bytes_per_callback: Option<f64>,
    /// Seconds that the renaming took.
    pub rename_seconds: f64,
    /// Seconds from its start until the last client was notified that something it relies on is void.
    pub told_seconds: f64,
    /// Clients that were not notified within ten seconds.
    pub not_told: usize,
}

/// Has every client ask for the status of all files of the directory that `about` names, renames it, and waits until
/// all were notified. The directory gets its name back.
///
/// # Errors
/// [`LoadError`]: nothing is measured unless every client was answered.
pub fn callbacks(about: &Clients) -> Result<CallbacksReport, LoadError> {
    let about = about.clone();
    run_here(RuntimeOptions::default(), async move { measure(&about).await })?
}

async fn measure(about: &Clients) -> Result<CallbacksReport, LoadError> {
    let looker = about.start(about.count)?;
    let cell = AfsCell::new(&looker, about.cell.clone())?;
    let (name, way) = about.path.split_last().ok_or(LoadError::Kind("a directory below the root"))?;
    let parent = cell.find(&about.volume, way, true).await?.fid;
    let found = cell.find(&about.volume, &about.path, false).await?;
    if !found.metadata.is_directory() {
        return Err(LoadError::Kind("a directory"));
    }
    let entries = directory::list(&found.server, found.fid).await?;
    let files: Rc<[Fid]> = entries.iter().map(|entry| entry.fid).filter(|fid| !fid.is_directory()).collect();
    if files.is_empty() {
        return Err(LoadError::Kind("a directory with files in it"));
    }
    let clients = start(about, found.server.address()).await?;
    let before = about.pid.and_then(resident_bytes);
    let began = Instant::now();
    rely(&clients, &files).await?;
    let asking_seconds = began.elapsed().as_secs_f64();
    let grown = || Some(resident_bytes(about.pid?)?.saturating_sub(before?));
    let server_bytes_grown = grown();
    let callbacks = clients.len() * files.len();

    let told = Told::watch(&clients);
    let moved = [name.as_slice(), b".linerate-bench"].concat();
    let began = Instant::now();
    found.server.rename(parent, name, parent, &moved).await?;
    let rename_seconds = began.elapsed().as_secs_f64();
    let (told_at, not_told) = told.all(began + TOLD_MAX).await;
    found.server.rename(parent, &moved, parent, name).await?;
    give_up(&clients).await;
    cell.close().await;
    Ok(CallbacksReport {
        clients: clients.len(),
        files: files.len(),
        callbacks,
        asking_seconds,
        server_bytes_grown,
        server_bytes_per_callback: server_bytes_grown.map(|bytes| bytes as f64 / callbacks as f64),
        rename_seconds,
        told_seconds: (told_at - began).as_secs_f64(),
        not_told,
    })
}

/// Starts the clients and has them call often enough for the server to have used all its receive buffers. It has those
/// whatever it is asked, but gets the memory of each at first use.
async fn start(about: &Clients, server: SocketAddr) -> Result<Vec<(Client, FileServer)>, LoadError> {
    let mut clients = Vec::with_capacity(about.count);
    for number in 0..about.count {
        let client = about.start(number)?;
        let server = client.file_server(server)?;
        clients.push((client, server));
    }
    let rounds = COMING_CALLS.div_ceil(clients.len().max(1));
    each(&clients, async move |server: FileServer| {
        for _ in 0..rounds {
            server.capabilities().await?;
        }
        Ok(())
    })
    .await?;
    Ok(clients)
}

/// Has them ask for the status of every file.
async fn rely(clients: &[(Client, FileServer)], files: &Rc<[Fid]>) -> Result<(), LoadError> {
    let files = Rc::clone(files);
    each(clients, async move |server: FileServer| {
        let told = server.statuses(&files).await?;
        told.into_iter().find_map(Result::err).map_or(Ok(()), |refused| Err(Error::Refused(refused)))
    })
    .await
}

/// Has each client do something, some at a time; the error of one ends it.
async fn each<F>(clients: &[(Client, FileServer)], work: F) -> Result<(), LoadError>
where
    F: AsyncFn(FileServer) -> Result<(), Error> + 'static,
{
    let failed: Rc<RefCell<Option<Error>>> = Rc::default();
    let next = Rc::new(Cell::new(0));
    let servers: Rc<[FileServer]> = clients.iter().map(|(_, server)| server.clone()).collect();
    let work = Rc::new(work);
    let asking: Vec<_> = (0..ASKING_AT_ONCE)
        .map(|_| {
            let (servers, work, failed) = (Rc::clone(&servers), Rc::clone(&work), Rc::clone(&failed));
            let next = Rc::clone(&next);
            lane::spawn(async move {
                while let Some(server) = servers.get(next.replace(next.get() + 1)) {
                    if let Err(error) = work(server.clone()).await {
                        failed.replace(Some(error));
                        break;
                    }
                }
            })
        })
        .collect();
    for one in asking {
        one.await;
    }
    match failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Clients that wait to be notified, with their counts of notices before.
struct Told<'c> {
    waiting: Vec<(&'c Client, u64)>,
}

impl<'c> Told<'c> {
    fn watch(clients: &'c [(Client, FileServer)]) -> Self {
        Self { waiting: clients.iter().map(|(client, _)| (client, heard(client))).collect() }
    }

    /// Returns when the last client was notified, and how many were not at `end`.
    async fn all(mut self, end: Instant) -> (Instant, usize) {
        loop {
            self.waiting.retain(|(client, before)| heard(client) == *before);
            let now = Instant::now();
            if self.waiting.is_empty() || now >= end {
                return (now, self.waiting.len());
            }
            lane::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Returns how often a client was notified that something is void.
fn heard(client: &Client) -> u64 {
    let heard = client.manager().heard();
    heard.breaks + heard.resets
}

/// Returns the resident bytes of a process, from proc(5)'s status.
fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Calls of all clients together before anything is measured: several for each buffer of some lanes.
const COMING_CALLS: usize = 4096;
/// Clients that ask at the same time.
const ASKING_AT_ONCE: usize = 16;
const TOLD_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
