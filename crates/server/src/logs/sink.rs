//! Sink of a log's lines, written by a thread that is never kept longer than a moment.
//!
//! Files, FIFOs that may have no reader, sockets that may have no listener, and the pipe, terminal or socket
//! that the process was started with.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use vfs::Withheld;

use super::pace::STEP;
use crate::trial;

/// Lines on their way, and their destination.
pub(super) struct Sink {
    /// Path that can be opened again; a standard stream has none.
    path: Option<PathBuf>,
    /// List of files withheld from all clients, to which opened files are added, so that a rotation cannot
    /// expose them.
    withheld: Option<Arc<Withheld>>,
    /// Open file; `None` for a FIFO or a socket without a reader.
    file: Option<File>,
    /// Set for a regular file, which takes all at once; others may have room for one page only.
    regular: bool,
    pending: Vec<u8>,
    /// Number of bytes of `pending` that are written.
    written: usize,
}

/// Reason why lines cannot be written now.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The FIFO or socket has no reader: unread lines wait for the next one.
    NoReader,
    /// The pipe, terminal or socket takes nothing more.
    Stalled,
    /// The standard stream's reader has left for ever.
    Gone,
    /// The system returned an error: a full disk, say.
    Io(io::Error),
}

impl Sink {
    /// Opens a file, or connects to a socket in the file system, or opens a FIFO; the latter two even without
    /// a reader.
    pub(super) fn open(path: &Path, withheld: Option<Arc<Withheld>>) -> io::Result<Self> {
        let file = match opened(path, withheld.as_deref()) {
            Err(error) if is_without_reader(&error) => None,
            other => Some(other.map_err(|error| told(path, &error))?),
        };
        let regular = file.as_ref().is_some_and(is_regular);
        Ok(Self { path: Some(path.to_owned()), withheld, file, regular, pending: Vec::new(), written: 0 })
    }

    /// Makes a sink of standard output or error.
    pub(super) fn standard(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let file = File::from(stream.try_clone_to_owned()?);
        let regular = is_regular(&file);
        let (path, withheld) = (None, None);
        Ok(Self { path, withheld, file: Some(file), regular, pending: Vec::new(), written: 0 })
    }

    /// Opens the path again, after a log rotation moved it. After a failure the old file stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        match opened(path, self.withheld.as_deref()) {
            Ok(file) => {
                self.regular = is_regular(&file);
                self.file = Some(file);
                self.back_to_line();
                Ok(())
            }
            Err(error) if is_without_reader(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the open file has no name any more, so that lines are lost.
    pub(super) fn is_removed(&self) -> bool {
        let file = self.file.as_ref().filter(|_| self.regular && self.path.is_some());
        file.is_some_and(|file| file.metadata().is_ok_and(|found| found.nlink() == 0))
    }

    /// Adds whole lines to those to be written.
    pub(super) fn put(&mut self, lines: &[u8]) {
        self.pending.extend_from_slice(lines);
    }

    /// Returns the number of bytes that wait.
    pub(super) fn pending(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Drops waiting lines, and returns how many.
    pub(super) fn discard(&mut self) -> u64 {
        let lost = count_lines(&self.pending[self.written..]);
        self.clear();
        lost
    }

    /// Writes on, for at most [`STEP`]. `Ok` when all is written.
    pub(super) fn step(&mut self) -> Result<(), Trouble> {
        while self.pending() > 0 {
            let result = self.write_some();
            match result {
                Ok(written) => self.written += written,
                Err(trouble) => {
                    if !matches!(trouble, Trouble::Stalled) {
                        std::thread::sleep(STEP);
                    }
                    return Err(trouble);
                }
            }
        }
        self.clear();
        Ok(())
    }

    fn write_some(&mut self) -> Result<usize, Trouble> {
        if self.file.is_none() {
            let path = self.path.as_ref().ok_or(Trouble::Gone)?;
            let file = opened(path, self.withheld.as_deref());
            self.file = Some(file.map_err(|error| match is_without_reader(&error) {
                true => Trouble::NoReader,
                false => Trouble::Io(error),
            })?);
        }
        let file = self.file.as_mut().ok_or(Trouble::NoReader)?;
        wait_until_writable(file)?;
        let mut rest = &self.pending[self.written..];
        if !self.regular {
            rest = &rest[..rest.len().min(WRITE_MAX)];
        }
        match file.write(rest) {
            Ok(0) => Err(Trouble::Io(io::ErrorKind::WriteZero.into())),
            Ok(written) => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(STEP);
                Err(Trouble::Stalled)
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                self.back_to_line();
                match self.path {
                    Some(_) => {
                        self.file = None;
                        Err(Trouble::NoReader)
                    }
                    None => Err(Trouble::Gone),
                }
            }
            Err(error) => Err(Trouble::Io(error)),
        }
    }

    /// Moves back to the beginning of a line, as a new reader or file begins with a whole line.
    fn back_to_line(&mut self) {
        let line = self.pending[..self.written].iter().rposition(|byte| *byte == b'\n');
        self.written = line.map_or(0, |end| end + 1);
    }

    fn clear(&mut self) {
        self.written = 0;
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT_MAX);
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReader => f.write_str("the FIFO or socket has no reader"),
            Self::Stalled => f.write_str("its reader takes nothing"),
            Self::Gone => f.write_str("its reader has left"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// Checks whether [`Sink::open`] would work. A file that is not there is not made: its directory is asked.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match open(path, false) {
        Ok(_) => Ok(()),
        Err(error) if is_without_reader(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            trial::may_make_in(dir).map_err(|error| told(path, &error))
        }
        Err(error) => Err(told(path, &error)),
    }
}

/// Opens the file, or makes it for this user alone, whatever the umask is.
fn opened(path: &Path, withheld: Option<&Withheld>) -> io::Result<File> {
    let was_there = path.exists();
    let file = open(path, true)?;
    if !was_there {
        // A umask may have taken even these.
        rustix::fs::fchmod(&file, Mode::from_bits_truncate(MODE))?;
    }
    if let Some(withheld) = withheld
        && file.metadata().is_ok_and(|found| found.is_file())
    {
        // Its path is looked at in a moment, should this one fail.
        let _ = file.try_clone().and_then(|file| withheld.add_open(file));
    }
    Ok(file)
}

/// Opens a path without waiting for a FIFO's reader or a socket's listener. A terminal does not become the
/// process's own.
fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut how = OpenOptions::new();
    how.create(create).append(true).mode(MODE).custom_flags(flags.bits().cast_signed());
    match how.open(path) {
        Err(error) if is_without_reader(&error) && is_socket(path) => connect(path),
        other => other,
    }
}

/// Connects to a socket in the file system.
fn connect(path: &Path) -> io::Result<File> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(File::from(socket))
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display()))
}

/// Returns whether open(2) failed at a FIFO without a reader or a socket, or connect(2) at one whose listener
/// is missing or behind.
fn is_without_reader(error: &io::Error) -> bool {
    let without = [Errno::NXIO, Errno::CONNREFUSED, Errno::AGAIN];
    without.iter().any(|without| error.raw_os_error() == Some(without.raw_os_error()))
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| {
        let kind = meta.file_type();
        !kind.is_fifo() && !kind.is_char_device() && !kind.is_socket()
    })
}

/// Waits for room, at most [`STEP`]. A regular file has it always; a pipe whose reader left says so when
/// written to.
fn wait_until_writable(file: &File) -> Result<(), Trouble> {
    let step = Timespec { tv_sec: 0, tv_nsec: i64::from(STEP.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)], Some(&step)) {
        Ok(0) => Err(Trouble::Stalled),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Trouble::Io(error.into())),
    }
}

pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Most bytes of one write: a pipe that poll(2) calls writable has room for this much (pipe(7), PIPE_BUF), so
/// that even a blocking one does not wait.
const WRITE_MAX: usize = 4096;
/// Mode of a new log file: lines name users and their operations.
const MODE: u32 = 0o600;
/// Most bytes of memory that are kept between two batches.
const PENDING_KEPT_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_log_is_made_for_the_servers_user_alone_whatever_the_umask_and_one_that_is_there_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode_of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for umask in [0o000, 0o022, 0o077, 0o777] {
            let path = dir.path().join(format!("{umask}.log"));
            let before = rustix::process::umask(Mode::from_bits_truncate(umask));
            let sink = Sink::open(&path, None);
            rustix::process::umask(before);
            let mut sink = sink.unwrap();
            assert_eq!(mode_of(&path), 0o600, "{umask:o}");
            // As a rotation makes it for a group that may read.
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
            sink.reopen().unwrap();
            assert_eq!(mode_of(&path), 0o640, "{umask:o}");
        }
        let (link, far) = (dir.path().join("link.log"), dir.path().join("far.log"));
        std::os::unix::fs::symlink(&far, &link).unwrap();
        Sink::open(&link, None).unwrap();
        assert_eq!(mode_of(&far), 0o600);
    }

    fn fifo(dir: &Path) -> PathBuf {
        let path = dir.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path
    }

    fn reader(path: &Path) -> File {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
    }

    fn read(file: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = file.read_to_end(&mut bytes);
        bytes
    }

    #[test]
    fn fifo_without_reader_keeps_the_lines_for_the_next_one_who_gets_them_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let mut sink = Sink::open(&path, None).unwrap();
        sink.put(b"one\n");
        assert!(matches!(sink.step(), Err(Trouble::NoReader)));
        let mut first = reader(&path);
        sink.step().unwrap();
        assert_eq!(read(&mut first), b"one\n");

        // The pipe's buffer takes many lines and a part of one; its reader leaves with them.
        let line = [&[b'x'; 999][..], b"\n"].concat();
        let lines = line.repeat(200);
        sink.put(&lines);
        assert!(matches!(sink.step(), Err(Trouble::Stalled)));
        let taken = lines.len() - sink.pending();
        assert!(!taken.is_multiple_of(line.len()), "{taken} bytes end a line by chance");
        drop(first);
        assert!(matches!(sink.step(), Err(Trouble::NoReader)));
        let mut second = reader(&path);
        let mut got = Vec::new();
        while sink.step().is_err() {
            got.extend(read(&mut second));
        }
        got.extend(read(&mut second));
        assert_eq!(got, lines[taken / line.len() * line.len()..]);
    }

    #[test]
    fn socket_gets_the_lines_whole_whenever_somebody_listens_at_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        check(&path).unwrap();
        drop(listener.accept().unwrap());
        let mut sink = Sink::open(&path, None).unwrap();
        sink.put(b"one\n");
        sink.step().unwrap();
        let mut first = BufReader::new(listener.accept().unwrap().0);
        let mut line = String::new();
        first.read_line(&mut line).unwrap();
        assert_eq!(line, "one\n");

        // Its listener ends, and another begins.
        drop((first, listener));
        sink.put(b"two\n");
        assert!(matches!(sink.step(), Err(Trouble::NoReader)));
        assert!(matches!(sink.step(), Err(Trouble::NoReader)));
        check(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        sink.step().unwrap();
        drop(sink);
        let mut rest = String::new();
        listener.accept().unwrap().0.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
    }

    #[test]
    fn standard_stream_without_reader_takes_nothing_and_says_so() {
        let (output, input) = rustix::pipe::pipe().unwrap();
        let mut sink = Sink::standard(input.as_fd()).unwrap();
        sink.put(&b"a line of the log\n".repeat(10_000));
        assert!(matches!(sink.step(), Err(Trouble::Stalled)));
        drop::<OwnedFd>(output);
        assert!(matches!(sink.step(), Err(Trouble::Gone)));
        assert!(sink.discard() > 5_000);
    }

    #[test]
    fn check_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        check(&path).unwrap();
        assert!(!path.exists());
        assert!(
            check(&dir.path().join("none/access.log")).unwrap_err().to_string().contains("none/access.log")
        );
        assert!(check(dir.path()).is_err());
    }
}
