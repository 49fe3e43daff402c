//! Common parts of all tests of the program: `linerate serve` as a user runs it, on ports the kernel chooses,
//! with its state and output in a directory of its own.
//!
//! Clients are real programs where there is one ([`tool`]) and raw sockets where none misbehaves enough.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::metrics::Scrape;

pub(crate) mod afs_mount;
pub(crate) mod http2;
pub(crate) mod raw;
pub(crate) mod share;
pub(crate) mod site;
pub(crate) mod webdriver;

/// A running `linerate serve`; killed when it goes out of scope.
pub(crate) struct Server {
    child: Child,
    scratch: TempDir,
    pub(crate) http: Vec<SocketAddr>,
    pub(crate) https: Vec<SocketAddr>,
    pub(crate) admin: SocketAddr,
}

/// Options of starting a server.
#[derive(Default)]
pub(crate) struct Launch {
    args: Vec<String>,
    state: Option<PathBuf>,
    open_files: Option<u64>,
    lacks: Option<&'static str>,
    without: Vec<&'static str>,
    environment: Vec<(String, String)>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl Launch {
    /// Serves `dir` by flags alone. Without AFS, whose ports are the same for all.
    pub(crate) fn dir(dir: &Path) -> Self {
        Self::every_protocol(dir).arg("--afs").arg("off").arg("--smb").arg("off")
    }

    /// Serves `dir` with no other option; AFS at the ports that its clients know.
    pub(crate) fn every_protocol(dir: &Path) -> Self {
        let any_port = ["--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let launch = any_port.into_iter().fold(Self::default(), Self::arg);
        launch.arg(dir.to_str().expect("test directories have plain names"))
    }

    /// Serves what a configuration file says.
    pub(crate) fn config(file: &Path) -> Self {
        Self::default().arg("--config").arg(file.to_str().expect("test files have plain names"))
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Keeps the certificate in `state` rather than in a directory that ends with the server.
    pub(crate) fn state(mut self, state: &Path) -> Self {
        self.state = Some(state.to_owned());
        self
    }

    /// Soft and hard limit of open files.
    pub(crate) fn open_files(mut self, max: u64) -> Self {
        self.open_files = Some(max);
        self
    }

    /// Starts it without a capability, such as `sys_admin`, whatever user runs the tests.
    pub(crate) fn lacking(mut self, capability: &'static str) -> Self {
        self.lacks = Some(capability);
        self
    }

    /// Starts it where system calls fail, each given as `support/without.py` takes it.
    pub(crate) fn without(mut self, calls: &[&'static str]) -> Self {
        self.without.extend(calls);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it this for standard output, in place of a file.
    pub(crate) fn stdout(mut self, to: OwnedFd) -> Self {
        self.stdout = Some(to);
        self
    }

    /// Gives it this for standard error, in place of a file.
    pub(crate) fn stderr(mut self, to: OwnedFd) -> Self {
        self.stderr = Some(to);
        self
    }

    /// Starts one whose output may go nowhere, and waits until it listens where its configuration says.
    pub(crate) fn start_unheard(self, http: SocketAddr, admin: SocketAddr) -> Server {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut child = self.spawn(&scratch);
        wait_for("the server to listen", || {
            assert!(child.try_wait().unwrap().is_none(), "the server has ended:\n{}", said(scratch.path()));
            TcpStream::connect(http).and(TcpStream::connect(admin)).ok()
        });
        Server { child, http: vec![http], https: Vec::new(), admin, scratch }
    }

    /// Starts it and waits until it has said where it listens.
    pub(crate) fn start(self) -> Server {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut child = self.spawn(&scratch);
        let out = scratch.path().join("stdout");
        let started = wait_for("the server to say where it listens", || {
            assert!(child.try_wait().unwrap().is_none(), "the server has ended:\n{}", said(scratch.path()));
            let text = std::fs::read_to_string(&out).unwrap();
            text.contains("Ctrl-C ends it").then_some(text)
        });
        let (head, tries) = started.split_once("\nTry:\n").expect("it proposes commands");
        let admin = tries.lines().find_map(|line| line.trim().strip_prefix("linerate stat "));
        Server {
            child,
            http: urls(head, "http://"),
            https: urls(head, "https://"),
            admin: admin.expect("it names the admin address").parse().unwrap(),
            scratch,
        }
    }

    /// Starts it where it cannot start, and says how it ended and what it said on standard error.
    pub(crate) fn fail(self) -> (ExitStatus, String) {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut child = self.spawn(&scratch);
        let status = wait_for("the server to give up", || child.try_wait().unwrap());
        // There is none where it was given another.
        (status, std::fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default())
    }

    fn spawn(&self, scratch: &TempDir) -> Child {
        let output = |given: &Option<OwnedFd>, name: &str| match given {
            Some(given) => Stdio::from(given.try_clone().unwrap()),
            None => Stdio::from(std::fs::File::create(scratch.path().join(name)).unwrap()),
        };
        let program = assert_cmd::cargo::cargo_bin!("linerate");
        let mut command = match self.open_files {
            None if !self.without.is_empty() => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/without.py");
                let mut command = tool("python3", "python3");
                command.arg(script).args(&self.without).arg("--").arg(program);
                command
            }
            None if self.lacks.is_some() => {
                let mut command = tool("setpriv", "util-linux");
                command
                    .args(self.lacks.map(|capability| format!("--bounding-set=-{capability}")))
                    .arg(program);
                command
            }
            Some(max) => {
                let mut command = tool("prlimit", "util-linux");
                command.arg(format!("--nofile={max}:{max}")).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .arg("serve")
            .args(&self.args)
            .env("XDG_STATE_HOME", self.state.as_deref().unwrap_or(scratch.path()))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output(&self.stdout, "stdout"))
            .stderr(output(&self.stderr, "stderr"))
            .spawn()
            .expect("the server can be started")
    }
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Self {
        Launch::dir(dir).start()
    }

    /// `http://127.0.0.1:port` and `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http[0])
    }

    pub(crate) fn https_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.https[0].port())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server lives");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Reloads its configuration and waits for the word that it has (`reloaded`) or has not (`stays`).
    pub(crate) fn reload(&self, word: &str) {
        let before = self.stderr().matches(word).count();
        self.signal(Signal::HUP);
        wait_for(word, || (self.stderr().matches(word).count() > before).then_some(()));
    }

    /// Reloads; whether it did, or said the words of a refusal.
    pub(crate) fn reload_or(&self, refusal: &str) -> Reloaded {
        let said = |words| self.stderr().matches(words).count();
        let before = (said("reloaded"), said(refusal));
        self.signal(Signal::HUP);
        wait_for("a reload", || match (said("reloaded") > before.0, said(refusal) > before.1) {
            (true, _) => Some(Reloaded::Yes),
            (false, true) => Some(Reloaded::Refused),
            (false, false) => None,
        })
    }

    /// Returns what it has said on standard output after its greeting included.
    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("stdout")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("stderr")).unwrap()
    }

    /// Waits until it has said this on standard error.
    pub(crate) fn says(&self, words: &str) {
        wait_for(words, || self.stderr().contains(words).then_some(()));
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the server to end", || self.child.try_wait().unwrap())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The sum of a counter over all lanes. `labels` is a part of the label list, such as
    /// `reason="bare_lf"`, or empty.
    pub(crate) fn counted(&self, name: &str, labels: &str) -> u64 {
        self.scrape().sum(name, &[labels]).unwrap() as u64
    }

    /// All counters now.
    pub(crate) fn scrape(&self) -> Scrape {
        let response = raw::get(self.admin, "/metrics");
        assert_eq!(response.status, 200);
        assert!(response.expect("content-type").starts_with("application/openmetrics-text"));
        Scrape::parse(std::str::from_utf8(&response.body).expect("UTF-8")).unwrap()
    }

    /// Waits until a counter has reached `at_least`.
    pub(crate) fn wait_counted(&self, name: &str, labels: &str, at_least: u64) {
        wait_for(&format!("{name}{{{labels}}} >= {at_least}"), || {
            (self.counted(name, labels) >= at_least).then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", said(self.scratch.path()));
        }
    }
}

/// A program of a Debian package; `cargo xtask test` installs them all.
pub(crate) fn tool(name: &str, package: &str) -> Command {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| dir.join(name).is_file());
    assert!(found, "{name} is missing: install the Debian package {package}");
    Command::new(name)
}

/// Runs a command to its end; its standard output.
pub(crate) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().expect("it can be started");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(output.status.success(), "{command:?}: {}\n{stderr}\n{stdout}", output.status);
    output.stdout
}

/// A client command line, `linerate …`.
pub(crate) fn linerate<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("linerate"));
    command.args(args);
    command
}

/// Result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    Yes,
    Refused,
}

/// Asks again every few milliseconds until there is an answer.
pub(crate) fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    testkit::wait_for(what, PATIENCE, ask)
}

/// Bytes in which no two places look alike, so that a misplaced one is seen.
pub(crate) fn patterned(len: usize) -> Vec<u8> {
    let words = (0..len as u64).step_by(8).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// Writes a large file in which every page names its place.
pub(crate) fn write_patterned_pages(path: &Path, len: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut chunk = patterned(1 << 20);
    for start in (0..len).step_by(chunk.len()) {
        for (at, page) in chunk.chunks_exact_mut(4096).enumerate() {
            page[..8].copy_from_slice(&(start + at as u64 * 4096).to_le_bytes());
        }
        file.write_all(&chunk).unwrap();
    }
}

fn urls(text: &str, scheme: &str) -> Vec<SocketAddr> {
    let urls = text.lines().filter_map(|line| line.trim().strip_prefix(scheme)?.strip_suffix('/'));
    urls.map(|addr| addr.parse().unwrap()).collect()
}

fn said(scratch: &Path) -> String {
    let text = |name| std::fs::read_to_string(scratch.join(name)).unwrap_or_default();
    format!("server's standard output:\n{}\nand standard error:\n{}", text("stdout"), text("stderr"))
}

/// Longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
