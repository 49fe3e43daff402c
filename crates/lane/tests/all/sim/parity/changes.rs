//! Tests of changes of names and files. A seeded mix of operations brings the same in a world and in tmpfs,
//! error by error.

use std::ffi::CString;
use std::path::PathBuf;

use lane::fs::{CreateHow, Dir, File, OpenHow, RenameHow};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{errno, same_in_any_mix};

#[test]
fn any_mix_of_changes_of_names_brings_alike() {
    same_in_any_mix(mix);
}

/// Runs operations at random, and returns the outcome of each.
async fn mix(root: PathBuf, seed: u64) -> Vec<String> {
    let mut dice = StdRng::seed_from_u64(seed);
    let root = Dir::open_root(&root).unwrap();
    root.mkdir(&name("a"), 0o755).await.unwrap();
    root.mkdir(&name("b"), 0o755).await.unwrap();
    let mut dirs = vec![root];
    let mut files: Vec<File> = Vec::new();
    for beneath in ["a", "b"] {
        let dir = dirs[0].open(&name(beneath), OpenHow::NO_SYMLINKS).await.unwrap();
        dirs.push(dir.into_dir().unwrap());
    }
    let mut told = Vec::new();
    for _ in 0..STEPS {
        let (dir, other) = (dice.random_range(0..dirs.len()), dice.random_range(0..dirs.len()));
        let (this, that) = (&dirs[dir], &dirs[other]);
        let (from, to) = (pick(&mut dice), pick(&mut dice));
        let what = dice.random_range(0..100);
        let (called, brought) = match what {
            0..20 => {
                let how = CreateHow { mode: 0o640, exclusive: dice.random() };
                let created = this.create(&name(from), how).await;
                let stat = created.as_ref().ok().map(|file| file.stat().unwrap());
                let brought =
                    format!("{:?} {:?}", errno(created.as_ref().map(drop).map_err(again)), stat.map(seen));
                if let Ok(file) = created {
                    files.push(file);
                    if files.len() > 4 {
                        files.remove(0);
                    }
                }
                (format!("create {how:?}"), brought)
            }
            20..32 => ("mkdir".into(), format!("{:?}", errno(this.mkdir(&name(from), 0o750).await))),
            32..38 => ("unlink".into(), format!("{:?}", errno(this.unlink(&name(from)).await))),
            38..42 => match this.open(&name(from), OpenHow::NO_SYMLINKS).await {
                Ok(file) => {
                    let unlinked = errno(this.unlink_open(&name(from), &file).await);
                    ("unlink open".into(), format!("{unlinked:?} {:?}", seen(file.stat().unwrap())))
                }
                Err(error) => ("open to unlink".into(), format!("{:?}", errno::<()>(Err(error)))),
            },
            42..50 => ("rmdir".into(), format!("{:?}", errno(this.rmdir(&name(from)).await))),
            50..75 => {
                let hows = [RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
                let how = hows[dice.random_range(0..3)];
                let renamed = this.rename(&name(from), that, &name(to), how).await;
                (format!("rename {how:?} to {other} {to}"), format!("{:?}", errno(renamed)))
            }
            75..85 => {
                let opened = this.open(&name(from), OpenHow::NO_SYMLINKS).await;
                let brought = errno(opened.as_ref().map(|file| seen(file.stat().unwrap())).map_err(again));
                let brought = format!("{brought:?}");
                if let Ok(dir) = opened.and_then(File::into_dir) {
                    dirs.push(dir);
                    if dirs.len() > 8 {
                        dirs.remove(1);
                    }
                }
                ("open".into(), brought)
            }
            85..93 if !files.is_empty() => {
                let file = &files[dice.random_range(0..files.len())];
                let len = [0, 1, 4095, 4096, 100_000, u64::MAX, 1 << 63][dice.random_range(0..7)];
                let cut = errno(file.truncate(len).await);
                (format!("truncate {len}"), format!("{cut:?} {:?}", seen(file.stat().unwrap())))
            }
            _ => {
                let stat = this.stat_at(&name(from)).await;
                ("stat".into(), format!("{:?}", errno(stat.map(seen))))
            }
        };
        told.push(format!("{called} {dir} {from}: {brought}"));
    }
    for dir in &dirs {
        let mut entries: Vec<_> =
            dir.entries(1000).await.unwrap().into_iter().map(|e| (e.name, e.stat.map(seen))).collect();
        entries.sort();
        told.push(format!("{entries:?}"));
    }
    told
}

/// Returns the attributes that must be alike: all but times, numbers and owners, and the size of a directory.
fn seen(stat: lane::fs::Stat) -> (bool, u64, u32, u32) {
    let is_directory = stat.kind == lane::fs::FileKind::Directory;
    (is_directory, if is_directory { 0 } else { stat.size }, stat.mode, stat.nlink)
}

fn pick(dice: &mut StdRng) -> &'static str {
    NAMES[dice.random_range(0..NAMES.len())]
}

fn name(name: &str) -> CString {
    match name {
        "long" => CString::new(vec![b'n'; 255]).unwrap(),
        "too long" => CString::new(vec![b'n'; 256]).unwrap(),
        name => CString::new(name).unwrap(),
    }
}

fn again(error: &std::io::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))
}

const STEPS: usize = 400;
const NAMES: [&str; 16] =
    ["a", "b", "c", "d", "e", "a", "b", "c", "f", "long", "too long", ".", "..", "", "a/b", "/a"];
