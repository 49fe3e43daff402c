//! Sources of passwords for commands: a terminal, standard input or the environment, and never the command
//! line, which others can read.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use identity::{NtHash, Secret};
use nix::sys::signal::{Signal, raise};
use rustix::io::Errno;
use rustix::process::{Pid, getpgid, getppid, getsid};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use smb_auth::Credentials;
use tokio::signal::unix::{SignalKind, signal};

/// How a client of a server signs in.
#[derive(Clone, Debug, clap::Args)]
pub struct SignIn {
    /// Read the password from standard input, where it is the first line; without it the environment's LINERATE_PASSWORD counts, and
    /// else a terminal is asked
    #[arg(long)]
    password_stdin: bool,
}

impl SignIn {
    /// Returns the credentials of `user` for an SMB server; anonymous without a name.
    pub fn credentials(&self, user: &str) -> anyhow::Result<Credentials> {
        let nt_hash = if user.is_empty() { [0; 16] } else { self.nt_hash(user)? };
        Ok(Credentials {
            domain: String::new(),
            user: user.to_owned(),
            nt_hash: nt_hash.into(),
            workstation: String::new(),
        })
    }

    /// Returns whether standard input is read for the password, so that nothing else may be.
    pub fn reads_stdin(&self) -> bool {
        self.password_stdin
    }

    fn nt_hash(&self, user: &str) -> anyhow::Result<[u8; 16]> {
        let password = match std::env::var(VARIABLE) {
            _ if self.password_stdin => first_line()?,
            Ok(password) => Secret::from(password),
            Err(_) => prompt(&format!("Password for {user}: "))?,
        };
        let hash = NtHash::new(&password).context("the password is no UTF-8")?;
        Ok(*hash.expose())
    }
}

/// Reads the first line of standard input; what follows is left to others.
pub fn first_line() -> anyhow::Result<Secret> {
    let stdin = std::io::stdin();
    line_of(stdin.as_fd()).context("cannot read the password from standard input")
}

/// Returns what is typed at the terminal, which shows none of it.
pub fn prompt(text: &str) -> anyhow::Result<Secret> {
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask for the password: give --password-stdin and write it there");
    }
    ask(text).context("cannot ask for the password at the terminal")
}

fn ask(text: &str) -> io::Result<Secret> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let silent = Silent::begin(&terminal, text)?;
    write!(terminal, "{text}")?;
    let line = line_of(terminal.as_fd());
    drop(silent);
    if line.is_err() {
        // No line's end was typed.
        let _ = writeln!(terminal);
    }
    line
}

/// A terminal that does not show what is typed, until this is gone: whether the line has come, a signal ends the
/// process, or something fails. While the process is stopped (Ctrl-Z) the terminal is as it was.
struct Silent;

/// The terminal that a password is asked for at, and how it was and is to be.
struct Asked {
    terminal: File,
    shown: Termios,
    hidden: Termios,
    /// Text of the prompt, which is written again after a stop.
    text: String,
}

impl Silent {
    fn begin(terminal: &File, text: &str) -> io::Result<Self> {
        let shown = tcgetattr(terminal)?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // Before the first change, so that no signal comes between.
        heed_signals()?;
        let mut asked = asked();
        let now = Asked { terminal: terminal.try_clone()?, shown, hidden, text: text.to_owned() };
        let now = asked.insert(now);
        tcsetattr(&now.terminal, OptionalActions::Now, &now.hidden)?;
        Ok(Self)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        if let Some(asked) = asked().take() {
            asked.restore();
        }
    }
}

impl Asked {
    fn restore(&self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.shown);
    }
}

/// Returns the lock of the password prompt. Its holder alone changes the terminal.
fn asked() -> MutexGuard<'static, Option<Asked>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has signals that end or stop the process put the terminal right before they do.
fn heed_signals() -> io::Result<()> {
    if HEEDS.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut stops, mut ends) = {
        let _within = runtime.enter();
        let ends = ENDING.map(|(kind, name)| signal(kind()).map(|signal| (signal, name)));
        let stops = signal(SignalKind::from_raw(Signal::SIGTSTP as i32))?;
        (stops, ends.into_iter().collect::<io::Result<Vec<_>>>()?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let name = runtime.block_on(async {
            loop {
                let waits = ends
                    .iter_mut()
                    .map(|(signal, name)| Box::pin(async move { (signal.recv().await, *name).1 }));
                tokio::select! {
                    (name, ..) = futures_util::future::select_all(waits) => return name,
                    _ = stops.recv() => stop(),
                }
            }
        });
        if let Some(asked) = asked().take() {
            asked.restore();
            let _ = writeln!(&asked.terminal);
        }
        end_by(name);
    })?;
    Ok(())
}

/// Stops the process, as the signal does that was caught, with the terminal as it was, and hides again once it goes on.
fn stop() {
    if !is_waited_for() {
        return;
    }
    let asked = asked();
    asked.iter().for_each(Asked::restore);
    // To this thread: one for the process may stop another first, and this one would hide again before it stops.
    let _ = raise(Signal::SIGSTOP);
    if let Some(Asked { terminal, hidden, text, .. }) = &*asked {
        // In the background this stops the process again, until it has the terminal.
        let _ = tcsetattr(terminal, OptionalActions::Now, hidden);
        let _ = write!(&*terminal, "{text}");
    }
}

/// Returns whether a shell with job control is there to have the process go on: of groups without one the
/// kernel stops none either.
fn is_waited_for() -> bool {
    let (Ok(group), Ok(session)) = (getpgid(None), getsid(None)) else { return false };
    let mut above = getppid();
    while let Some(pid) = above.filter(|pid| getsid(Some(*pid)) == Ok(session)) {
        if getpgid(Some(pid)) != Ok(group) {
            return true;
        }
        above = parent_of(pid);
    }
    false
}

/// Returns the parent of a process (proc(5)).
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    Pid::from_raw(behind_name.split_whitespace().nth(1)?.parse().ok()?)
}

/// Ends the process by the signal, as if it had not been caught: a shell that runs a script ends it only where its command was ended so.
/// Another program in its place has the default again.
fn end_by(name: &str) -> ! {
    let _ = Command::new("/bin/sh").args(["-c", "kill -s \"$0\" $$", name]).exec();
    std::process::exit(130)
}

/// Reads up to the end of the line, byte by byte: no more is taken, and no buffer is left with a copy. Where there is
/// no line, as behind Ctrl-D at a terminal, it fails: that is no empty password.
fn line_of(from: BorrowedFd<'_>) -> io::Result<Secret> {
    let mut line = Vec::with_capacity(2 * Secret::LENGTH_MAX);
    while line.len() < line.capacity() {
        let mut byte = [0];
        match rustix::io::read(from, &mut byte) {
            Ok(0) if line.is_empty() => {
                let problem = "the input ended before a line: no password was given";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
            }
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line.into())
}

const VARIABLE: &str = "LINERATE_PASSWORD";
static ASKED: Mutex<Option<Asked>> = Mutex::new(None);
/// The thread that hears signals is there.
static HEEDS: AtomicBool = AtomicBool::new(false);
/// Function that makes the signal kind, as that is no constant.
type Kind = fn() -> SignalKind;
/// Signals that end a process, and their names for `kill`.
const ENDING: [(Kind, &str); 4] = [
    (SignalKind::interrupt, "INT"),
    (SignalKind::terminate, "TERM"),
    (SignalKind::hangup, "HUP"),
    (SignalKind::quit, "QUIT"),
];
