//! Tests of files on real file systems: tmpfs, and ext4 and xfs in images where this machine lets them be
//! mounted. They cover what a writable tree relies on, and what the parity tests cannot ask of a world.

mod given_up;
mod handles;
mod limits;
mod locks;
mod privileges;
mod room;
mod vectored;

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lane::backend::uring::{FileOperations, RingOptions};
use lane::buffer::{BufClass, BufferCounts};
use lane::fs::{CreateHow, Dir, File, OpenHow};
use lane::runtime::{RuntimeOptions, run_here};
use testkit::Disk;

/// Runs `test` in an empty directory of tmpfs, of ext4 and of xfs, by the ring and by helpers.
fn everywhere<F: Future<Output = ()>>(test: impl Fn(Place, Dir) -> F + Clone + 'static) {
    for place in [Place::Tmpfs, Place::Ext4, Place::Xfs] {
        on(place, test.clone());
    }
}

/// Runs `test` in an empty directory of one file system, by the ring and by helpers.
fn on<F: Future<Output = ()>>(place: Place, test: impl Fn(Place, Dir) -> F + Clone + 'static) {
    let disk = match place {
        Place::Tmpfs => None,
        // Small blocks: one of attributes is soon full.
        Place::Ext4 => Some(Disk::new_or_skip("ext4", 64, &["-b", "1024"])),
        Place::Xfs => Some(Disk::new_or_skip("xfs", 320, &[])),
    };
    let mounted = match &disk {
        None => Path::new("/dev/shm").to_owned(),
        Some(Some(disk)) => disk.path(),
        Some(None) => return,
    };
    for file_operations in [FileOperations::Ring, FileOperations::Helpers] {
        let home = tempfile::tempdir_in(&mounted).unwrap();
        let (root, test) = (home.path().to_owned(), test.clone());
        run(file_operations, async move { test(place, Dir::open_root(&root).unwrap()).await });
    }
}

fn run(file_operations: FileOperations, test: impl Future<Output = ()> + 'static) {
    let ring = RingOptions { file_operations, ..RingOptions::default() };
    let buffers = BufferCounts { small: 16, large: 64 };
    run_here(RuntimeOptions { ring, buffers }, test).unwrap();
}

/// File system on which a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Tmpfs,
    Ext4,
    Xfs,
}

async fn create(dir: &Dir, text: &str) -> File {
    dir.create(&name(text), CreateHow { mode: 0o644, exclusive: true }).await.unwrap()
}

async fn open(dir: &Dir, text: &str) -> std::io::Result<File> {
    dir.open(&name(text), OpenHow::WRITE).await
}

async fn write(file: &File, offset: u64, bytes: &[u8]) {
    file.write_at(offset, bytes.to_vec().into()).await.0.unwrap();
}

async fn read(file: &File) -> Vec<u8> {
    let len = usize::try_from(file.stat().unwrap().size).unwrap();
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let buf = lane::current().buffers().get(BufClass::Large).await;
        let (n, buf) = file.read_at(bytes.len() as u64, len - bytes.len(), buf).await;
        assert!(n.unwrap() > 0);
        bytes.extend_from_slice(&buf);
    }
    bytes
}

/// Returns the path of an open file, found among this process's descriptors.
fn path_of(file: &File) -> PathBuf {
    let stat = file.stat().unwrap();
    let links = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_it = |link: &PathBuf| {
        std::fs::metadata(link).is_ok_and(|found| (found.dev(), found.ino()) == (stat.dev, stat.ino))
    };
    let link = links.into_iter().find(is_it).expect("it is open");
    std::fs::read_link(link).unwrap()
}

fn name(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// Returns the error number of a failure.
fn errno<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap())
}
