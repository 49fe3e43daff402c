//! Peer of our SMB: Debian's smbd over a directory.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Running smbd with the shares `plain`, `uring` (vfs_io_uring) and `sealed` (encryption required) of one
/// directory. User `root` has the password [`StockSmbd::PASSWORD`]. It ends, with all of its processes, when
/// this is dropped.
#[derive(Debug)]
pub struct StockSmbd {
    child: Child,
    address: SocketAddr,
}

impl StockSmbd {
    /// Name of the user that may sign in.
    pub const USER: &str = "root";
    /// Password of the user [`StockSmbd::USER`].
    pub const PASSWORD: &str = "Geheim-17";

    /// Starts an smbd that listens at `address`, which is to be free, and keeps its own files in `work`.
    /// `global` are more lines of its configuration.
    ///
    /// # Errors
    /// Where it is not installed ([`io::ErrorKind::NotFound`]) or does not start.
    pub fn start(tree: &Path, work: &Path, address: SocketAddr, global: &str) -> io::Result<Self> {
        Self::start_of(None, tree, work, address, global)
    }

    /// Starts smbd ([`StockSmbd::start`]) from Samba's packages unpacked below `root`, laid over this
    /// machine's files for its programs alone.
    ///
    /// # Errors
    /// As there.
    pub fn start_of(
        root: Option<&Path>,
        tree: &Path,
        work: &Path,
        address: SocketAddr,
        global: &str,
    ) -> io::Result<Self> {
        if !root.unwrap_or(Path::new("/")).join(&DAEMON[1..]).is_file() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "samba is not installed"));
        }
        let config = configure(tree, work, address, global)?;
        let mut add = program(root, "smbpasswd")?;
        add.arg("-c").arg(&config).args(["-s", "-a", Self::USER]);
        let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut input = add.stdin.take().expect("it is piped");
        writeln!(input, "{0}\n{0}", Self::PASSWORD)?;
        drop(input);
        if !add.wait()?.success() {
            return Err(io::Error::other("smbpasswd does not take the account"));
        }
        // In process and mount namespaces of its own: what it starts ends with it.
        let mut command = program(root, "unshare")?;
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", DAEMON]);
        command.args(["--foreground", "--no-process-group", "--configfile"]).arg(&config);
        let log = fs::File::create(work.join("smbd.out"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = Self { child: command.spawn()?, address };
        let give_up = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            let ended = server.child.try_wait()?;
            if ended.is_some() || Instant::now() > give_up {
                let said = fs::read_to_string(work.join("smbd.out")).unwrap_or_default();
                return Err(io::Error::other(format!("smbd does not listen at {address}: {said}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Starts smbd ([`StockSmbd::start`]) at a free address of loopback for a test, which is skipped, with
    /// `None`, where smbd is not installed.
    ///
    /// # Panics
    /// When what is installed does not start.
    #[track_caller]
    pub fn start_or_skip(tree: &Path, work: &Path, global: &str) -> Option<Self> {
        match Self::start(tree, work, crate::free_address(), global) {
            Ok(server) => Some(server),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                crate::skip(format_args!("{error}; `cargo xtask test` installs it"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the address at which smbd listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id of smbd's first process, the ancestor of one process for each connection.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for StockSmbd {
    fn drop(&mut self) {
        // `unshare` takes the namespace's first process with it, and that all others.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command of a program of this machine, or of Samba's packages unpacked below `root`, which
/// alone sees their files over `/usr` and `/etc`.
///
/// # Errors
/// There is no such directory.
pub fn program(root: Option<&Path>, name: &str) -> io::Result<Command> {
    let Some(root) = root else { return Ok(Command::new(name)) };
    let view = "for d in usr etc; do mount -t overlay overlay -o lowerdir=\"$0/$d:/$d\" /$d || exit 1; done; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", view]).arg(root.canonicalize()?).arg(name);
    Ok(command)
}

fn configure(tree: &Path, work: &Path, address: SocketAddr, global: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(work.join("smb/ncalrpc"))?;
    let (config, tree, work) = (work.join("smb.conf"), tree.display(), work.display());
    let (ip, port) = (address.ip(), address.port());
    let share = |name: &str, more: &str| {
        format!("[{name}]\npath = {tree}\nread only = no\nforce user = root\n{more}\n")
    };
    let text = format!(
        "[global]\nserver role = standalone server\nlog level = 0\nsmb ports = {port}\n\
         server multi channel support = yes\naio read size = 1\naio write size = 1\nuse sendfile = yes\n\
         interfaces = {ip}/8\nbind interfaces only = yes\nload printers = no\ndisable spoolss = yes\n\
         pid directory = {work}\nlock directory = {work}/smb\nstate directory = {work}/smb\n\
         cache directory = {work}/smb\nprivate dir = {work}/smb\nncalrpc dir = {work}/smb/ncalrpc\n{global}\n{}{}{}",
        share("plain", ""),
        share("uring", "vfs objects = io_uring"),
        share("sealed", "smb encrypt = required"),
    );
    fs::write(&config, text)?;
    Ok(config)
}

const DAEMON: &str = "/usr/sbin/smbd";
const START_MAX: Duration = Duration::from_secs(20);
