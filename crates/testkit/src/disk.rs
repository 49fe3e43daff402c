//! File systems of their own in image files, for what tmpfs does not have: they are mounted where the calling thread alone sees
//! them, and go with it, however a run ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// A mounted image. The thread that made it, its children and the threads and processes that it starts see it.
#[derive(Debug)]
pub struct Disk {
    home: PathBuf,
}

impl Disk {
    /// Makes an image of `mib` MiB (xfs: 300 at least) with mkfs.`kind` and these options, and mounts it.
    ///
    /// # Errors
    /// Without the privilege to mount, without loop devices, and where there is no such mkfs.
    pub fn new(kind: &str, mib: u64, options: &[&str]) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("testkit-disk-{}-{number}", std::process::id()));
        let disk = Self { home };
        std::fs::create_dir_all(disk.path())?;
        let image = disk.home.join("image");
        File::create(&image)?.set_len(mib << 20)?;
        run(Command::new(format!("mkfs.{kind}")).arg("-q").args(options).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(disk.path()))?;
        Ok(disk)
    }

    /// As [`Disk::new`] for a test: where it cannot be made the test is skipped, with `None`.
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

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.home.join("mounted")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The loop device goes with the mount; who still has files open there keeps both.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
        let _ = std::fs::remove_file(self.home.join("image"));
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

static NEXT: AtomicU32 = AtomicU32::new(0);
