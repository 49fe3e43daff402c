//! The real program with all three services over a fresh tree, and what is to be so after it: no removed file kept open, a quick stop, an
//! index that agrees with the tree.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use afs_client::{Cell, CellOptions, Client, ClientOptions};
use anyhow::{Context, bail, ensure};
use identity::{AccountsStore, NewUser, NtHash, Secret};
use one_tree::{BoxFuture, DIRECTORIES, Disk, End, NAMES, Place, Seen, Site as _};
use xdr::afs::AfsUuid;

use crate::process;

pub(super) struct Site {
    program: PathBuf,
    home: tempfile::TempDir,
    http: SocketAddr,
    smb: SocketAddr,
    afs: SocketAddr,
    locations: SocketAddr,
    /// AFS's number of the volume, once it was asked.
    volume: u32,
    tree: Tree,
    child: Child,
    /// The server ended in order, which the next one is to know.
    has_stopped: bool,
}

/// The tree's directory.
struct Tree(PathBuf);

impl Site {
    /// Starts a server in a new directory below `place`.
    pub(super) fn new(program: &Path, place: &Path) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new().prefix("one-tree-").tempdir_in(place)?;
        let tree = home.path().join("tree");
        for directory in DIRECTORIES {
            fs::create_dir_all(tree.join(directory))?;
        }
        let accounts = home.path().join("accounts.toml");
        AccountsStore::new(&accounts).change(|edit| {
            let nt = NtHash::new(&Secret::from(PASSWORD));
            let (id, uid, gid, principals, password) = (None, None, None, Vec::new(), None);
            edit.add_user(&NewUser { name: USER.to_owned(), id, uid, gid, principals, password, nt })?;
            Ok(())
        })?;
        let [http, smb, afs, locations] = [(); 4].map(|()| {
            let port = testkit::free_address().port();
            SocketAddr::from((Ipv4Addr::LOCALHOST, port))
        });
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = '{}'\n[identity]\naccounts = '{}'\n\
             [http]\nlisten = ['{http}']\nuploads_synced = false\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[smb]\nlisten = ['{smb}']\nsigning = 'allowed'\n\
             [afs]\nlisten = '{afs}'\ncell = 'one.example'\nprotection_port = 0\nvolume_port = 0\n\
             location_port = {}\n[[volume]]\nname = 'tree'\npath = '{}'\nwritable = 'anyone'\n",
            home.path().join("state").display(),
            accounts.display(),
            locations.port(),
            tree.display(),
        );
        fs::write(home.path().join("linerate.toml"), text)?;
        process::output(
            program,
            &[
                "acl".as_ref(),
                "set".as_ref(),
                "--clear".as_ref(),
                tree.as_os_str(),
                "system:anyuser=all".as_ref(),
            ],
        )?;
        let child = start(program, home.path())?;
        let (program, tree) = (program.to_owned(), Tree(tree));
        let mut site =
            Self { program, home, http, smb, afs, locations, volume: 0, tree, child, has_stopped: false };
        site.waits()?;
        Ok(site)
    }

    /// Asks AFS for the volume, on a lane.
    pub(super) async fn located(mut self) -> anyhow::Result<Self> {
        let client = Client::bind((Ipv4Addr::LOCALHOST, 0).into(), ClientOptions::new(AfsUuid([9; 16])))?;
        let cell = CellOptions { file_server: self.afs, locations: self.locations, name: None };
        self.volume = Cell::new(&client, cell)?.locate(VOLUME).await?.id;
        Ok(self)
    }

    fn waits(&mut self) -> anyhow::Result<()> {
        let give_up = Instant::now() + START_TIMEOUT;
        for address in [self.http, self.smb] {
            while TcpStream::connect(address).is_err() {
                if let Some(status) = self.child.try_wait()? {
                    bail!("the server ended at once: {status}\n{}", self.said());
                }
                ensure!(Instant::now() < give_up, "the server does not start:\n{}", self.said());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Asks it to stop, which is to take less than a second beside what it waits for a CPU and the disk. Clients go on
    /// meanwhile: the server takes leave of them.
    async fn stops(&mut self) -> anyhow::Result<()> {
        // The server syncs the file system, where other programs write too.
        let disk = Syncing::begin(&self.tree.0)?;
        let asked = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.child);
        let mut waited = Waited::of(self.child.id());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = loop {
            waited.look();
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(asked.elapsed() < STOP_TIMEOUT, "the server does not stop within {STOP_TIMEOUT:?}");
            lane::time::sleep(Duration::from_millis(5)).await;
        };
        let took = asked.elapsed();
        ensure!(status.success(), "the server stopped with {status}:\n{}", self.said());
        let (waited, disk) = (waited.longest(), disk.longest()?);
        ensure!(
            took < STOP_MAX + waited + disk,
            "the stop took {took:?}, {waited:?} of which it waited for a CPU; the disk takes {disk:?} for others"
        );
        Ok(())
    }
}

impl Site {
    /// Has index and tree compared, which is to end with one of these codes.
    fn compares(&self, how: &[&str], ends: &[i32]) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(how).arg("--state").arg(self.home.path().join("state"));
        let output = command.output().context("cannot start linerate volume check")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let is_so = output.status.code().is_some_and(|code| ends.contains(&code));
        ensure!(is_so, "{how:?} after a clean stop: {}\n{said}", output.status);
        Ok(())
    }
}

impl one_tree::Site for Site {
    fn place(&self) -> Place {
        Place {
            smb: self.smb,
            afs: self.afs,
            http: self.http,
            client: Ipv4Addr::LOCALHOST.into(),
            share: SHARE.to_owned(),
            user: USER.to_owned(),
            password: PASSWORD.to_owned(),
            root: one_tree::root(self.volume),
        }
    }

    fn disk(&self) -> &dyn Disk {
        &self.tree
    }

    fn said(&self) -> String {
        fs::read_to_string(self.home.path().join("server.log")).unwrap_or_default()
    }

    fn starts(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            let give_up = Instant::now() + FREE_WITHIN;
            loop {
                self.child = start(&self.program, self.home.path())?;
                match self.waits() {
                    // The kernel takes down the rings of a process that was killed after that has ended, and their sockets with them.
                    Err(_) if self.said().contains(IN_USE) && Instant::now() < give_up => {
                        lane::time::sleep(Duration::from_millis(50)).await;
                    }
                    started => {
                        started?;
                        break;
                    }
                }
            }
            let said = self.said();
            let is_known = !self.has_stopped || !said.contains(AFTER_NO_STOP);
            ensure!(is_known, "after a clean stop the server says:\n{said}");
            Ok(())
        })
    }

    fn ends(&mut self, how: End) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            self.has_stopped = how == End::Stop;
            match how {
                End::Stop => self.stops().await,
                End::Kill => {
                    self.child.kill()?;
                    self.child.wait()?;
                    Ok(())
                }
                End::Power => bail!("this machine's power stays on"),
            }
        })
    }

    fn removed_files(&self) -> anyhow::Result<Vec<String>> {
        let tree = &self.tree.0;
        let mut removed = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/fd", self.child.id()))? {
            // A descriptor may be closed meanwhile.
            let Ok(target) = fs::read_link(entry?.path()) else { continue };
            let target = target.to_string_lossy().into_owned();
            if target.starts_with(&*tree.to_string_lossy()) && target.ends_with(" (deleted)") {
                removed.push(target);
            }
        }
        Ok(removed)
    }

    fn checks(&mut self, mends: bool) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if mends {
                self.compares(&["volume", "check"], &[IN_ORDER, MENDED])?;
            }
            self.compares(&["volume", "check", "--dry-run"], &[IN_ORDER])?;
            // Nothing but what clients made.
            for entry in fs::read_dir(&self.tree.0)? {
                let name = entry?.file_name();
                let is_known = [NAMES.as_slice(), &DIRECTORIES].concat().iter().any(|known| name == *known);
                ensure!(is_known, "{} is left in the tree", name.display());
            }
            Ok(())
        })
    }
}

impl Disk for Tree {
    fn tree(&self) -> anyhow::Result<BTreeMap<String, Seen>> {
        let mut seen = BTreeMap::new();
        for directory in DIRECTORIES {
            for entry in fs::read_dir(self.0.join(directory))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                let metadata = fs::symlink_metadata(entry.path())?;
                let is_directory = metadata.is_dir();
                let content = if is_directory { Vec::new() } else { fs::read(entry.path())? };
                let (inode, links, mode) = (metadata.ino(), metadata.nlink(), metadata.mode() & 0o7777);
                seen.insert(path, Seen { is_directory, inode, links, mode, content });
            }
        }
        Ok(seen)
    }

    fn is_of_whole_second(&self, path: &str) -> anyhow::Result<bool> {
        Ok(fs::symlink_metadata(self.0.join(path))?.ctime_nsec() == 0)
    }

    fn make(&self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        Ok(fs::write(self.0.join(path), content)?)
    }

    fn write_at(&self, path: &str, offset: usize, bytes: &[u8]) -> anyhow::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.0.join(path))?;
        Ok(file.write_all_at(bytes, offset as u64)?)
    }

    fn cut(&self, path: &str, len: usize) -> anyhow::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.0.join(path))?;
        Ok(file.set_len(len as u64)?)
    }

    fn set_mode(&self, path: &str, mode: u32) -> anyhow::Result<()> {
        Ok(fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(mode))?)
    }

    fn rename(&self, from: &str, to: &str) -> anyhow::Result<()> {
        Ok(fs::rename(self.0.join(from), self.0.join(to))?)
    }

    fn link(&self, from: &str, to: &str) -> anyhow::Result<()> {
        Ok(fs::hard_link(self.0.join(from), self.0.join(to))?)
    }

    fn remove(&self, path: &str) -> anyhow::Result<()> {
        let at = self.0.join(path);
        let is_directory = fs::symlink_metadata(&at)?.is_dir();
        let removed = if is_directory { fs::remove_dir(&at) } else { fs::remove_file(&at) };
        removed.with_context(|| at.display().to_string())
    }

    fn make_directory(&self, path: &str) -> anyhow::Result<()> {
        Ok(fs::create_dir(self.0.join(path))?)
    }

    fn sync(&self) -> anyhow::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.0)?)?)
    }
}

/// Time for which each thread of a process has been ready and had no CPU, which on a busy machine is nothing
/// that the process does.
struct Waited {
    process: u32,
    /// Waited time of each thread at the first look and at the last one.
    threads: BTreeMap<u32, (Duration, Duration)>,
}

impl Waited {
    fn of(process: u32) -> Self {
        let mut waited = Self { process, threads: BTreeMap::new() };
        waited.look();
        waited
    }

    fn look(&mut self) {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.process)) else { return };
        for thread in threads.flatten() {
            // It may have ended meanwhile.
            let Ok(told) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let waited = told.split(' ').nth(1).and_then(|waited| waited.parse().ok());
            let thread = thread.file_name().to_str().and_then(|thread| thread.parse().ok());
            if let (Some(waited), Some(thread)) = (waited, thread) {
                let now = Duration::from_nanos(waited);
                self.threads.entry(thread).or_insert((now, now)).1 = now;
            }
        }
    }

    fn longest(&self) -> Duration {
        self.threads.values().map(|(first, last)| last.saturating_sub(*first)).max().unwrap_or_default()
    }
}

/// Measures the longest time in which the disk syncs what other programs write, while a server stops. What this
/// program has written is synced before.
struct Syncing {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Duration>>,
}

impl Syncing {
    fn begin(tree: &Path) -> anyhow::Result<Self> {
        let (root, is_over) = (File::open(tree)?, Arc::new(AtomicBool::new(false)));
        rustix::fs::syncfs(&root)?;
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                rustix::fs::syncfs(&root)?;
                longest = longest.max(began.elapsed());
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(longest)
        });
        Ok(Self { is_over, thread })
    }

    fn longest(self) -> anyhow::Result<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(program: &Path, home: &Path) -> anyhow::Result<Child> {
    let log = File::create(home.join("server.log"))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(home.join("linerate.toml"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

const USER: &str = "anne";
const PASSWORD: &str = "Secret007";
const SHARE: &str = r"\\127.0.0.1\tree";
const VOLUME: &str = "tree";
/// Exit code of `volume check` where nothing was to be done, and where it has mended all problems.
const IN_ORDER: i32 = 0;
const MENDED: i32 = 3;
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Message of a server whose address another socket has.
const IN_USE: &str = "is already in use by another socket";
/// The message by which a server tells that the last one did not stop in order: objects were in use as its index was
/// closed, say.
const AFTER_NO_STOP: &str = "[index-after-";
/// Time within which another program frees the server's port.
const FREE_WITHIN: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A clean stop of a server with a handful of idle clients takes less.
const STOP_MAX: Duration = Duration::from_secs(1);
