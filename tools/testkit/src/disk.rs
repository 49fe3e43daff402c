//! File systems in image files of their own, for what tmpfs does not have. They are mounted in the calling
//! thread's own namespace, and go with it, however a run ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Mounted image or tmpfs, seen only by the thread that made it and what that thread starts.
#[derive(Debug)]
pub struct Disk {
    home: PathBuf,
    /// True for an image in a file, false for a tmpfs.
    has_image: bool,
}

impl Disk {
    /// Makes an image of `mib` MiB (xfs: 300 at least) with mkfs.`kind` and these options, and mounts it.
    ///
    /// # Errors
    /// Without the privilege to mount, without loop devices, and where there is no such mkfs.
    pub fn new(kind: &str, mib: u64, options: &[&str]) -> io::Result<Self> {
        let disk = Self::begin(true)?;
        let image = disk.image();
        File::create(&image)?.set_len(mib << 20)?;
        run(Command::new(format!("mkfs.{kind}")).arg("-q").args(options).arg(&image))?;
        disk.mount_image()?;
        Ok(disk)
    }

    /// Mounts a tmpfs of `mib` MiB.
    ///
    /// # Errors
    /// Without the privilege to mount.
    pub fn in_memory(mib: u64) -> io::Result<Self> {
        let disk = Self::begin(false)?;
        let size = format!("size={mib}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(disk.path()))?;
        Ok(disk)
    }

    /// Begins a mount namespace of its own, which no other process sees.
    fn begin(has_image: bool) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("testkit-disk-{}-{number}", std::process::id()));
        let disk = Self { home, has_image };
        std::fs::create_dir_all(disk.path())?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.home.join("image")
    }

    fn mount_image(&self) -> io::Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.path()))
    }

    /// Makes the file system of an image write nothing more, not even its log: unwritten data is lost, and
    /// every later use fails. ext4 and xfs can do it.
    ///
    /// # Errors
    /// Those of the file system, and without xfs_io of xfsprogs.
    pub fn cut_power(&self) -> io::Result<()> {
        // `XFS_IOC_GOINGDOWN`, which ext4 knows as `EXT4_IOC_SHUTDOWN`; without `-f` no log is written.
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.path()))
    }

    /// Mounts the image again after [`Disk::cut_power`]: its journal is replayed. Waits until no process has
    /// a file of it open.
    ///
    /// # Errors
    /// When a process has for long, or it cannot be mounted.
    pub fn restore_power(&self) -> io::Result<()> {
        let give_up = Instant::now() + BUSY_MAX;
        // A process that was killed lets go of its files a little later.
        while let Err(error) = run(Command::new("umount").arg(self.path())) {
            if Instant::now() > give_up {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.mount_image()
    }

    /// Makes a disk ([`Disk::new`]) for a test, which is skipped, with `None`, where the disk cannot be made.
    #[track_caller]
    pub fn new_or_skip(kind: &str, mib: u64, options: &[&str]) -> Option<Self> {
        match Self::new(kind, mib, options) {
            Ok(disk) => Some(disk),
            Err(error) => {
                crate::skip(format_args!("an image with {kind} cannot be mounted ({error})"));
                None
            }
        }
    }

    /// Returns the path of the mount point.
    pub fn path(&self) -> PathBuf {
        self.home.join("mounted")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The loop device goes with the mount; a process that still has files open there keeps both.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
        if self.has_image {
            let _ = std::fs::remove_file(self.image());
        }
        let _ = std::fs::remove_dir(self.path());
        let _ = std::fs::remove_dir(&self.home);
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let program = Path::new(command.get_program()).display().to_string();
    Err(io::Error::other(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

const BUSY_MAX: Duration = Duration::from_secs(20);

static NEXT: AtomicU32 = AtomicU32::new(0);
