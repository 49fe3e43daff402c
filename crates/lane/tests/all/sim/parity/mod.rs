//! Tests that run the same code on io_uring and in a world, with results that must not differ.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Fs, World};
use lane::backend::uring::{FileOperations, RingOptions};
use lane::net::{TcpListener, TcpStream};
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;

mod access_time;
mod attributes;
mod changes;
mod datagrams;
mod names;
mod operations;
mod streams;
mod told;

/// Entry of a file tree to build on either side.
enum Entry {
    File(&'static str, &'static str),
    Link(&'static str, &'static str),
    Pipe(&'static str),
}

/// A change of the tree while a scenario runs. Directories that it needs are made.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Write(&'static str, &'static str),
    Append(&'static str, &'static str),
    Mode(&'static str, u32),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}

/// Function that makes changes on the side that a scenario runs on.
type Editor = Rc<dyn Fn(Edit)>;

/// Runs `scenario` on both backends, in a directory with `tree`, and compares the results one by one.
fn same_on_both<T, F>(tree: &[Entry], scenario: impl Fn(PathBuf, Editor) -> F)
where
    T: PartialEq + Debug + 'static,
    F: Future<Output = Vec<T>> + 'static,
{
    same_on_both_with(&RuntimeOptions::default(), &Config::default(), tree, scenario);
}

/// Compares both ([`same_on_both`]) with sizes of choice.
fn same_on_both_with<T, F>(
    options: &RuntimeOptions,
    config: &Config,
    tree: &[Entry],
    scenario: impl Fn(PathBuf, Editor) -> F,
) where
    T: PartialEq + Debug + 'static,
    F: Future<Output = Vec<T>> + 'static,
{
    same_on_both_at(&std::env::temp_dir(), options, config, tree, scenario);
}

/// Compares both ([`same_on_both_with`]) beneath a directory of choice of the real side.
fn same_on_both_at<T, F>(
    real: &Path,
    options: &RuntimeOptions,
    config: &Config,
    tree: &[Entry],
    scenario: impl Fn(PathBuf, Editor) -> F,
) where
    T: PartialEq + Debug + 'static,
    F: Future<Output = Vec<T>> + 'static,
{
    let real_dir = tempfile::tempdir_in(real).unwrap();
    let real_root = real_dir.path().join("srv");
    build_real(&real_root, tree);
    let editor = real_editor(real_root.clone());
    let real = run_here(*options, scenario(real_root, editor)).unwrap();
    let mut config = config.clone();
    (config.fs.privileged, config.fs.open_by_handle) = (is_root(), is_root());
    for seed in 0..20 {
        let world = World::new(seed, config.clone());
        let host = world.host("10.0.0.1");
        build_simulated(&host.fs(), tree);
        let simulated = world.block_on(&host, scenario(PathBuf::from("/srv"), simulated_editor(host.fs())));
        let differ: Vec<_> =
            simulated.iter().zip(&real).filter(|(simulated, real)| simulated != real).collect();
        assert!(differ.is_empty(), "seed {seed}, simulated and real: {differ:#?}");
        assert_eq!(simulated.len(), real.len());
    }
}

/// Runs a mix of operations on both backends, by several seeds. It runs in memory, where the lane makes the
/// calls itself, and wherever temporary files lie, where the ring or the helpers make them.
fn same_in_any_mix<F>(mix: impl Fn(PathBuf, u64) -> F)
where
    F: Future<Output = Vec<String>> + 'static,
{
    for seed in 0..6 {
        let real = if seed % 2 == 0 { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let file_operations = if seed % 3 == 0 { FileOperations::Helpers } else { FileOperations::Ring };
        let ring = RingOptions { file_operations, ..RingOptions::default() };
        let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
        same_on_both_at(&real, &options, &Config::default(), &[], |root, _| mix(root, seed));
    }
}

/// Returns whether the kernel lets this process do things forbidden to others.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn build_real(root: &Path, tree: &[Entry]) {
    let at = |path: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    std::fs::create_dir_all(root).unwrap();
    for entry in tree {
        match entry {
            Entry::File(path, bytes) => std::fs::write(at(path), bytes).unwrap(),
            Entry::Link(path, target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
            Entry::Pipe(path) => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                mknodat(CWD, at(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
            }
        }
    }
}

fn build_simulated(fs: &Fs, tree: &[Entry]) {
    fs.create_dir_all("/srv").unwrap();
    for entry in tree {
        match entry {
            Entry::File(path, bytes) => fs.write(&format!("/srv/{path}"), *bytes).unwrap(),
            Entry::Link(path, target) => fs.symlink(target, &format!("/srv/{path}")).unwrap(),
            Entry::Pipe(path) => fs.pipe(&format!("/srv/{path}")).unwrap(),
        }
    }
}

fn real_editor(root: PathBuf) -> Editor {
    use std::io::Write;
    Rc::new(move |edit| {
        let at = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        match edit {
            Edit::Write(path, bytes) => std::fs::write(at(path), bytes).unwrap(),
            Edit::Append(path, bytes) => {
                let mut file = std::fs::OpenOptions::new().append(true).open(at(path)).unwrap();
                file.write_all(bytes.as_bytes()).unwrap();
            }
            Edit::Mode(path, mode) => {
                use std::os::unix::fs::PermissionsExt;
                std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).unwrap();
            }
            Edit::Rename(from, to) => std::fs::rename(at(from), at(to)).unwrap(),
            Edit::Remove(path) if at(path).is_dir() => std::fs::remove_dir_all(at(path)).unwrap(),
            Edit::Remove(path) => std::fs::remove_file(at(path)).unwrap(),
        }
    })
}

fn simulated_editor(fs: Fs) -> Editor {
    Rc::new(move |edit| {
        let at = |path: &str| format!("/srv/{path}");
        match edit {
            Edit::Write(path, bytes) => fs.write(&at(path), bytes).unwrap(),
            Edit::Append(path, bytes) => fs.append(&at(path), bytes.as_bytes()).unwrap(),
            Edit::Mode(path, mode) => fs.set_mode(&at(path), mode).unwrap(),
            Edit::Rename(from, to) => fs.rename(&at(from), &at(to)).unwrap(),
            Edit::Remove(path) => fs.remove(&at(path)).unwrap(),
        }
    })
}

/// Returns the error number, for errors that came from a kernel.
fn errno<T>(result: io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

async fn settle() {
    time::sleep(Duration::from_millis(20)).await;
}

async fn receive(stream: &TcpStream) -> Result<Vec<u8>, Option<i32>> {
    errno(stream.recv().await.map(|bytes| bytes.to_vec()))
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
