//! Where commands have passwords from: a terminal, standard input or the environment, and never the command line, which others
//! can read.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use identity::{NtHash, Secret};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
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
    /// Who `user` is to an SMB server; without a name nobody in particular.
    pub fn credentials(&self, user: &str) -> anyhow::Result<Credentials> {
        let nt_hash = if user.is_empty() { [0; 16] } else { self.nt_hash(user)? };
        Ok(Credentials {
            domain: String::new(),
            user: user.to_owned(),
            nt_hash: nt_hash.into(),
            workstation: String::new(),
        })
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

/// The first line of standard input; what follows is left to others.
pub fn first_line() -> anyhow::Result<Secret> {
    let stdin = std::io::stdin();
    line_of(stdin.as_fd()).context("cannot read the password from standard input")
}

/// What is typed at the terminal, which shows none of it.
pub fn prompt(text: &str) -> anyhow::Result<Secret> {
    if !std::io::stdin().is_terminal() {
        bail!("there is no terminal to ask for the password: give --password-stdin and write it there");
    }
    ask(text).context("cannot ask for the password at the terminal")
}

fn ask(text: &str) -> io::Result<Secret> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let silent = Silent::begin(&terminal)?;
    write!(terminal, "{text}")?;
    let line = line_of(terminal.as_fd());
    drop(silent);
    line
}

/// A terminal that does not show what is typed, until this is gone: whether the line has come, the process is told to end by a signal,
/// or something fails.
struct Silent {
    terminal: Arc<(File, Termios)>,
    /// A signal that comes from now on has nothing to put right.
    is_over: Arc<AtomicBool>,
}

impl Silent {
    fn begin(terminal: &File) -> io::Result<Self> {
        let shown = tcgetattr(terminal)?;
        let terminal = Arc::new((terminal.try_clone()?, shown));
        let silent = Self { terminal: Arc::clone(&terminal), is_over: Arc::default() };
        // Before the first change, so that no signal comes between.
        restore_at_signals(terminal, Arc::clone(&silent.is_over))?;
        let (file, shown) = &*silent.terminal;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // A process that is stopped would leave the terminal so.
        hidden.special_codes[SpecialCodeIndex::VSUSP] = NO_CODE;
        tcsetattr(file, OptionalActions::Now, &hidden)?;
        Ok(silent)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        restore(&self.terminal);
    }
}

fn restore((file, shown): &(File, Termios)) {
    let _ = tcsetattr(file, OptionalActions::Now, shown);
}

/// Has signals that end the process put the terminal right before they do.
fn restore_at_signals(terminal: Arc<(File, Termios)>, is_over: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut caught = {
        let _within = runtime.enter();
        let caught = ENDING.map(|(kind, name)| signal(kind()).map(|signal| (signal, name)));
        caught.into_iter().collect::<io::Result<Vec<_>>>()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let waits =
            caught.iter_mut().map(|(signal, name)| Box::pin(async move { (signal.recv().await, *name).1 }));
        let (name, ..) = runtime.block_on(futures_util::future::select_all(waits));
        if !is_over.swap(true, Ordering::SeqCst) {
            restore(&terminal);
            let _ = writeln!(&terminal.0);
        }
        end_by(name);
    })?;
    Ok(())
}

/// Ends the process by the signal, as if it had not been caught: a shell that runs a script ends it only where its command was ended so.
/// Another program in its place has the default again.
fn end_by(name: &str) -> ! {
    let _ = Command::new("/bin/sh").args(["-c", "kill -s \"$0\" $$", name]).exec();
    std::process::exit(130)
}

/// Up to the end of the line, byte by byte: no more is taken, and no buffer is left with a copy.
fn line_of(from: BorrowedFd<'_>) -> io::Result<Secret> {
    let mut line = Vec::with_capacity(2 * Secret::LENGTH_MAX);
    while line.len() < line.capacity() {
        let mut byte = [0];
        match rustix::io::read(from, &mut byte) {
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
/// What stands for no key in a terminal's settings.
const NO_CODE: u8 = 0;
/// What makes it, as that is no constant.
type Kind = fn() -> SignalKind;
/// Signals that end a process, and their names for `kill`.
const ENDING: [(Kind, &str); 4] = [
    (SignalKind::interrupt, "INT"),
    (SignalKind::terminate, "TERM"),
    (SignalKind::hangup, "HUP"),
    (SignalKind::quit, "QUIT"),
];
