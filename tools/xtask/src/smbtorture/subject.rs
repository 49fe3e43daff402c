//! The server under test: Linerate, or smbd itself with the settings of its own selftest.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use testkit::stock_smbd::program;

use super::arena::{Arena, SERVER};
use super::samba::Samba;
use super::suite::{DYNAMIC, SHARES};
use crate::process;

/// The user that tests, and others that some tests need.
pub(crate) const USER: &str = "tort";
pub(crate) const OTHER_USER: &str = "tort2";
pub(crate) const PASSWORD: &str = "Secret007";
const UIDS: [(&str, u32); 2] = [(USER, 60_001), (OTHER_USER, 60_002)];

/// Share whose files can share their extents, and be compressed.
const CLONES: &str = "btrfs";
const BTRFS_BYTES: u64 = 512 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay of the share `slow`, in milliseconds: longer than the server takes to send an interim response.
const DELAY_MS: u16 = 1500;
/// Shares of the slots, on which `timestamps` is run. They report late that they were written, as smbd does.
const TIMED: [&str; 4] = ["share", "share1", "share2", "share3"];
const WRITE_TIME_DELAY_MS: u16 = 500;

/// A running server; it goes with this value.
#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    log: PathBuf,
    /// File systems to take away again, with all below them.
    mounts: Vec<PathBuf>,
}

impl Subject {
    /// Starts Linerate over a tmpfs, a volume for each share.
    pub(crate) fn linerate(arena: &Arena, binary: Option<PathBuf>, work: &Path) -> anyhow::Result<Self> {
        let program = match binary {
            Some(binary) => std::path::absolute(binary)?,
            None => process::root().join(process::dist_binary()?),
        };
        let trees = trees(work)?;
        let accounts = work.join("accounts.toml");
        for (name, uid) in UIDS {
            add_user(&program, &accounts, name, uid)?;
        }
        // The testing user gives files away and takes them back, as Samba's own selftest allows.
        let group = ["group", "add-member", "system:administrators", USER, "--accounts"].map(Path::new);
        process::output(&program, &[&group[..], &[&accounts]].concat())?;
        let [first, second] = SERVER;
        // Where AES-CMAC is preferred it skips its tests of signatures.
        let mut config = format!(
            "[server]\nstate_dir = '{}'\n[identity]\naccounts = '{}'\n\
             [smb]\nlisten = ['{first}:445', '{second}:445']\nserver_name = 'PEER'\nanonymous = true\nsigning = 'allowed'\n\
             test_switches = true\n\
             gmac_over_channels = true\n",
            work.join("state").display(),
            accounts.display()
        );
        for share in SHARES {
            let path = trees.join(share);
            write!(
                config,
                "[[volume]]\nname = '{share}'\nmount = '/{share}'\npath = '{}'\nwritable = 'listed'\nserve_dotfiles = true\n",
                path.display()
            )?;
            // As Samba's own selftest has its shares.
            writeln!(config, "smb_short_names = true\nsmb_hide = ['hidefile']")?;
            if *share == "hackme" {
                writeln!(config, "smb_hide_attributes = ['hackme']")?;
            }
            match *share {
                DYNAMIC => writeln!(config, "smb = 'off'")?,
                "hideunread" => writeln!(config, "smb_access_based_enumeration = true")?,
                "non_canonical" => writeln!(config, "smb_acl_flag_inherited_canonicalization = false")?,
                _ => {}
            }
            if TIMED.contains(share) {
                writeln!(config, "smb_write_time_delay_ms = {WRITE_TIME_DELAY_MS}")?;
            }
            if *share == "slow" {
                writeln!(config, "smb_test_delay_ms = {DELAY_MS}")?;
            }
        }
        writeln!(
            config,
            "[[smb.share]]\nname = '{DYNAMIC}'\nvolume = '{DYNAMIC}'\ndirectory = '%t'\ncreate = true"
        )?;
        let file = work.join("linerate.toml");
        std::fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(file);
        Self::start(arena, command, work, vec![trees])
    }

    /// Starts smbd of [`Samba`], in a view of the file system where it is installed.
    pub(crate) fn smbd(arena: &Arena, samba: &Samba, work: &Path) -> anyhow::Result<Self> {
        let trees = trees(work)?;
        let config = work.join("smb.conf");
        std::fs::write(&config, smb_conf(work, &trees)?)?;
        for directory in ["private", "lock", "ncalrpc", "etc"] {
            std::fs::create_dir_all(work.join(directory))?;
        }
        let etc = samba.root().join("etc");
        for (file, line) in [("passwd", "{name}:x:{uid}:{uid}::/:/bin/false"), ("group", "{name}:x:{uid}:")] {
            let mut text = std::fs::read_to_string(Path::new("/etc").join(file))?;
            for (name, uid) in UIDS {
                writeln!(text, "{}", line.replace("{name}", name).replace("{uid}", &uid.to_string()))?;
            }
            std::fs::write(etc.join(file), text)?;
        }
        for (name, _) in UIDS {
            let mut add = program(Some(samba.root()), "sh").context("Samba is not unpacked")?;
            let words = format!(
                "printf '{PASSWORD}\\n{PASSWORD}\\n' | smbpasswd -c {} -s -a {name} >/dev/null",
                config.display()
            );
            let status = add.args(["-c", &words]).status()?;
            ensure!(status.success(), "smbpasswd: {status}");
        }
        let mut serve = program(Some(samba.root()), "smbd")?;
        serve.arg("--foreground").arg("-s").arg(&config).arg("-l").arg(work);
        Self::start(arena, serve, work, vec![trees])
    }

    fn start(arena: &Arena, mut command: Command, work: &Path, mounts: Vec<PathBuf>) -> anyhow::Result<Self> {
        let log = work.join("server.log");
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = arena.start_server(command)?;
        let mut subject = Self { child, log, mounts };
        let address: SocketAddr = format!("{}:445", SERVER[0]).parse().expect("an address and a port");
        let give_up = Instant::now() + START_TIMEOUT;
        while arena.as_client(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)))?.is_err() {
            if let Some(status) = subject.child.try_wait()? {
                bail!("the server ended at once: {status}\n{}", subject.said());
            }
            ensure!(Instant::now() < give_up, "the server does not listen:\n{}", subject.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(subject)
    }

    /// Returns what it says.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may be gone already; then there is nothing to stop.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let give_up = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for mount in &self.mounts {
            // A child of smbd may hold it for a moment yet: it goes with the last of them.
            let _ = process::output("umount", &[Path::new("-l"), mount]);
        }
    }
}

/// Makes a directory for each share, the user's own, on a tmpfs.
fn trees(work: &Path) -> anyhow::Result<PathBuf> {
    let trees = work.join("fs");
    std::fs::create_dir_all(&trees)?;
    let size = Path::new("size=2g,mode=755");
    process::output(
        "mount",
        &[Path::new("-t"), Path::new("tmpfs"), Path::new("-o"), size, Path::new("tmpfs"), &trees],
    )?;
    for share in SHARES {
        let tree = trees.join(share);
        std::fs::create_dir(&tree)?;
        if *share == CLONES {
            mount_btrfs(&trees, &tree)?;
        }
        std::os::unix::fs::chown(&tree, Some(UIDS[0].1), Some(UIDS[0].1))?;
    }
    Ok(trees)
}

/// Makes a file system in a file of the first one. It goes with that.
fn mount_btrfs(trees: &Path, at: &Path) -> anyhow::Result<()> {
    let image = trees.join("btrfs.img");
    File::create(&image)?.set_len(BTRFS_BYTES)?;
    process::output("mkfs.btrfs", &[Path::new("-q"), &image])?;
    process::output("mount", &[Path::new("-o"), Path::new("loop"), &image, at])?;
    Ok(())
}

fn add_user(program: &Path, accounts: &Path, name: &str, uid: u32) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(["user", "add", name, "--nt", "--password-stdin", "--uid", &uid.to_string()]);
    command.arg("--gid").arg(uid.to_string()).arg("--accounts").arg(accounts);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut stdin = child.stdin.take().context("it has a standard input")?;
    std::io::Write::write_all(&mut stdin, format!("{PASSWORD}\n").as_bytes())?;
    drop(stdin);
    let status = child.wait()?;
    ensure!(status.success(), "linerate user add {name}: {status}");
    Ok(())
}

/// Writes a configuration as in Samba's own selftest, where that has a say.
fn smb_conf(work: &Path, trees: &Path) -> anyhow::Result<String> {
    let work = work.display();
    let mut conf = format!(
        "[global]
         server role = standalone server\n netbios name = PEER\n disable netbios = yes\n load printers = no
         interfaces = s0 s1\n bind interfaces only = yes\n smb ports = 445
         server multi channel support = yes\n smb3 directory leases = yes
         smbd:FSCTL_SMBTORTURE = yes\n smbd:validate_oplock_types = yes
         smbd:sharedelay = 100000\n smbd:writetimeupdatedelay = 500000
         log level = 0\n log file = {work}/log.%m\n pid directory = {work}\n lock directory = {work}/lock
         state directory = {work}/lock\n cache directory = {work}/lock\n private dir = {work}/private
         ncalrpc dir = {work}/ncalrpc
         kernel oplocks = no\n kernel share modes = no\n posix locking = no\n kernel change notify = no
         read only = no\n create mask = 755\n dos filemode = yes\n strict rename = yes\n mangled names = yes
         hide files = /hidefile/\n check parent directory delete on close = yes
         vfs objects = acl_xattr streams_xattr\n acl_xattr:ignore system acls = yes\n"
    );
    for share in SHARES {
        let tree = trees.join(share);
        if *share == DYNAMIC {
            let tree = tree.display();
            let user = USER;
            writeln!(conf, "[{share}]\n path = {tree}/%t\n root preexec = install -d -o {user} {tree}/%t")?;
            continue;
        }
        writeln!(conf, "[{share}]\n path = {}", tree.display())?;
        conf.push_str(match *share {
            "slow" => {
                " vfs objects = acl_xattr streams_xattr aio_fork\n vfs_aio_fork:erratic_testing_mode = yes\n"
            }
            "enc" => " server smb encrypt = required\n",
            "non_canonical" => " acl flag inherited canonicalization = no\n",
            "hideunread" => " hide unreadable = yes\n",
            "hackme" => " acl_xattr:security_acl_name = user.hackme\n",
            "inherit_perms" => " inherit permissions = yes\n",
            CLONES => " vfs objects = acl_xattr streams_xattr btrfs\n",
            _ => "",
        });
    }
    Ok(conf)
}
