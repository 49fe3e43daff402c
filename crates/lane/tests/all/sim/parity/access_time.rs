//! Tests that the time of the last reading moves alike where the file system moves it as Linux's do by
//! default.

use std::ffi::CString;
use std::path::PathBuf;

use lane::buffer::BufClass;
use lane::fs::{AttributeChange, Dir, OpenHow, SetTime, Timestamp};
use rustix::fs::StatVfsMountFlags;

use super::{Entry, same_on_both, settle};

#[test]
fn a_reading_moves_the_time_of_the_last_alike() {
    let flags = rustix::fs::statvfs(std::env::temp_dir()).unwrap().f_flag;
    if !flags.contains(StatVfsMountFlags::RELATIME) || flags.contains(StatVfsMountFlags::NODIRATIME) {
        eprintln!("temporary files are on no file system that keeps the time of a reading as most do");
        return;
    }
    let tree = [Entry::File("sub/file", "content"), Entry::Link("sub/link", "file")];
    same_on_both(&tree, |root, _| moved(root));
}

/// Sets times, reads, and returns whether the time of the last reading has moved, and whether any other has.
async fn moved(root: PathBuf) -> Vec<String> {
    let root = Dir::open_root(&root).unwrap();
    let sub = root.open(&name("sub"), OpenHow::NO_SYMLINKS).await.unwrap().into_dir().unwrap();
    let file = sub.open(&name("file"), OpenHow::WRITE).await.unwrap();
    let mut told = Vec::new();
    for what in ["a file", "past its end", "no bytes", "a directory", "a link"] {
        for (atime, mtime) in TIMES {
            let change = AttributeChange { atime: at(atime), mtime: at(mtime), ..AttributeChange::NONE };
            let set = match what {
                "a directory" => sub.as_file().set_attributes(change).await,
                "a link" => sub.set_attributes_at(&name("link"), change).await,
                _ => file.set_attributes(change).await,
            };
            set.unwrap();
            let stat = async || match what {
                "a directory" => sub.as_file().stat().unwrap(),
                "a link" => sub.stat_at(&name("link")).await.unwrap(),
                _ => file.stat().unwrap(),
            };
            settle().await;
            let before = stat().await;
            let read = match what {
                "a directory" => sub.entries(10).await.unwrap().len(),
                "a link" => root.read_link_at(&name("sub/link")).await.unwrap().len(),
                _ => {
                    let buf = lane::current().buffers().get(BufClass::Small).await;
                    let (offset, len) = match what {
                        "a file" => (0, 4),
                        "past its end" => (100, 4),
                        _ => (0, 0),
                    };
                    let (read, _) = file.read_at(offset, len, buf).await;
                    read.unwrap().min(1)
                }
            };
            let after = stat().await;
            let others = (after.mtime, after.ctime) != (before.mtime, before.ctime);
            told.push(format!("{what} {atime} {mtime}: {read} {} {others}", after.atime > before.atime));
        }
    }
    told
}

fn at(secs: i64) -> SetTime {
    match secs {
        0 => SetTime::Now,
        secs => SetTime::At(Timestamp { secs, nanos: 5 }),
    }
}

fn name(name: &str) -> CString {
    CString::new(name).unwrap()
}

/// Times of reading and of change: long ago, now (0), and far ahead.
const TIMES: [(i64, i64); 6] =
    [(1000, 2000), (2000, 1000), (0, 1000), (1000, 0), (4_000_000_000, 1000), (4_000_000_000, 4_100_000_000)];
