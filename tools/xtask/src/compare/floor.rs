//! Cost of uploads to the kernel alone: a thread that does nothing but write files and rename them over
//! others, and one that receives what it writes. No server that stores uploads so can take less.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::{median, rounded};

/// Processor time of the one thread, in seconds a GiB.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    written: f64,
    /// Time of receiving from a connection over loopback.
    received: f64,
    received_and_written: f64,
    /// Time of writing over the pages of the file before: the difference is the cost of new pages and of freeing the
    /// old ones.
    written_in_place: f64,
    runs: u32,
}

/// Measures files of `bytes` in `dir`, which lies where the servers' trees do. The kinds take turns.
pub(super) fn measure(dir: &Path, bytes: usize, runs: u32) -> anyhow::Result<Line> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = listener.local_addr()?;
    // It ends when no receiver is left.
    let sender = std::thread::spawn(move || {
        let piece = vec![b'u'; PIECE];
        let Ok(mut stream) = TcpStream::connect(to) else { return };
        while stream.write_all(&piece).is_ok() {}
    });
    let (mut stream, _) = listener.accept()?;
    let mut piece = vec![b'u'; PIECE];
    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..runs {
        figures[0].push(of_each(bytes, |n| store(dir, n, bytes, |_| Ok(()), &mut piece))?);
        figures[1]
            .push(of_each(bytes, |_| (0..bytes / PIECE).try_for_each(|_| stream.read_exact(&mut piece)))?);
        let mut receive = |piece: &mut [u8]| stream.read_exact(piece);
        figures[2].push(of_each(bytes, |n| store(dir, n, bytes, &mut receive, &mut piece))?);
        figures[3].push(of_each(bytes, |n| {
            let file = OpenOptions::new().write(true).open(dir.join(format!("file-{}", n % NAMES)))?;
            write(&file, bytes, |_| Ok(()), &mut piece)
        })?);
    }
    drop(stream);
    // It cannot have failed otherwise than by that.
    let _ = sender.join();
    let [written, received, received_and_written, written_in_place] =
        figures.map(|figures| rounded(median(figures)));
    Ok(Line { load: LOAD, written, received, received_and_written, written_in_place, runs })
}

/// Writes a file under a name of its own, then renames it over another.
fn store(
    dir: &Path,
    n: usize,
    bytes: usize,
    fill: impl FnMut(&mut [u8]) -> std::io::Result<()>,
    piece: &mut [u8],
) -> std::io::Result<()> {
    let aside = dir.join("aside");
    write(&File::create_new(&aside)?, bytes, fill, piece)?;
    std::fs::rename(aside, dir.join(format!("file-{}", n % NAMES)))
}

fn write(
    file: &File,
    bytes: usize,
    mut fill: impl FnMut(&mut [u8]) -> std::io::Result<()>,
    piece: &mut [u8],
) -> std::io::Result<()> {
    for at in (0..bytes).step_by(PIECE) {
        fill(piece)?;
        file.write_all_at(piece, at as u64)?;
    }
    Ok(())
}

/// Seconds a GiB of this thread, over some files.
fn of_each(bytes: usize, each: impl FnMut(usize) -> std::io::Result<()>) -> anyhow::Result<f64> {
    let before = cpu();
    (0..FILES).try_for_each(each)?;
    Ok((cpu() - before) / ((FILES * bytes) as f64 / f64::from(1 << 30)))
}

fn cpu() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

pub(super) const LOAD: &str = "floor of PUT";
/// Bytes that are received and written at once: as nginx does in the comparison, and Linerate.
const PIECE: usize = 256 << 10;
/// Number of file names, as wrk's script has for a thread.
const NAMES: usize = 16;
const FILES: usize = 256;
