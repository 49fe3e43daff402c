//! A server with all three services over a fresh tree, and what is to be so after it: no removed file kept open, a quick stop, an index
//! that agrees with the tree.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use identity::{AccountsStore, NewUser, NtHash, Secret};

use super::operation::DIRECTORIES;
use crate::process;

pub(super) struct Site {
    program: PathBuf,
    home: tempfile::TempDir,
    pub(super) http: SocketAddr,
    pub(super) smb: SocketAddr,
    pub(super) afs: SocketAddr,
    pub(super) locations: SocketAddr,
    child: Child,
}

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
        let mut site = Self { program: program.to_owned(), home, http, smb, afs, locations, child };
        site.waits()?;
        Ok(site)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.home.path().join("tree")
    }

    /// What the server has said since it last started.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.home.path().join("server.log")).unwrap_or_default()
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

    pub(super) fn starts(&mut self) -> anyhow::Result<()> {
        self.child = start(&self.program, self.home.path())?;
        self.waits()
    }

    pub(super) fn kills(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop, which is to take less than a second. Clients go on meanwhile: the server takes leave of them.
    pub(super) async fn stops(&mut self) -> anyhow::Result<()> {
        let asked = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(asked.elapsed() < STOP_TIMEOUT, "the server does not stop within {STOP_TIMEOUT:?}");
            lane::time::sleep(Duration::from_millis(5)).await;
        };
        let took = asked.elapsed();
        ensure!(status.success(), "the server stopped with {status}:\n{}", self.said());
        ensure!(took < STOP_MAX, "the stop took {took:?}");
        Ok(())
    }

    /// Removed files of the tree that the server still has open.
    pub(super) fn removed_files(&self) -> anyhow::Result<Vec<String>> {
        let tree = self.tree();
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

    /// Compares index and tree, which must agree without repair.
    pub(super) fn checks(&self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["volume", "check", "--dry-run", "--state"]).arg(self.home.path().join("state"));
        let output = command.output().context("cannot start linerate volume check")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "volume check after a clean stop: {}\n{said}", output.status);
        // Nothing but what clients made.
        for entry in fs::read_dir(self.tree())? {
            let name = entry?.file_name();
            let is_known = [super::operation::NAMES.as_slice(), &DIRECTORIES]
                .concat()
                .iter()
                .any(|known| name == *known);
            ensure!(is_known, "{} is left in the tree", name.display());
        }
        Ok(())
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

pub(super) const USER: &str = "anne";
pub(super) const PASSWORD: &str = "Secret007";
pub(super) const SHARE: &str = r"\\127.0.0.1\tree";
pub(super) const VOLUME: &str = "tree";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A clean stop of a server with a handful of idle clients takes less.
const STOP_MAX: Duration = Duration::from_secs(1);
