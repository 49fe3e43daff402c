//! Changes by a volume beside the same made by plain system calls, on the kernel of this machine: both come to the same.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use identity::{Rights, Writable};
use lane::runtime::{RuntimeOptions, run_here};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Error, Name, Objects, ObjectsOptions, RelPath, Replace,
    Volume, VolumeOptions, VolumeSpec,
};

#[test]
fn changes_of_names_come_to_what_plain_system_calls_come_to() {
    for seed in 0..20 {
        beside(seed);
    }
}

fn beside(seed: u64) {
    let temporary = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(|tree| temporary.path().join(tree));
    [&ours, &theirs].into_iter().for_each(|tree| fs::create_dir(tree).unwrap());
    let (served, plain) = (ours.clone(), theirs.clone());
    run_here(RuntimeOptions::default(), async move {
        let cache = Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default()));
        let spec = VolumeSpec::new("test".parse().unwrap(), served, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        for step in 0..200 {
            let change = Change::at_random(&mut rng);
            let came = change.by_volume(&volume).await;
            assert_eq!(came, change.by_calls(&plain), "seed {seed}, step {step}: {change:?}");
        }
    })
    .unwrap();
    assert_eq!(tree(&ours), tree(&theirs), "seed {seed}");
}

#[derive(Debug)]
enum Change {
    Create(At, bool),
    MakeDirectory(At),
    Symlink(At, &'static str),
    Link(&'static str, &'static str, &'static str),
    Remove(At),
    RemoveDirectory(At),
    Rename(At, At, bool),
    Exchange(At, At),
}

/// A directory and a name in it.
type At = (&'static str, &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Done,
    NotFound,
    Exists,
    NotEmpty,
    NotADirectory,
    IsADirectory,
    IntoItself,
    Symlink,
    NotServable,
}

impl Change {
    fn at_random(rng: &mut SmallRng) -> Self {
        let mut at = || (*DIRECTORIES.choose(rng).unwrap(), *NAMES.choose(rng).unwrap());
        let (first, second) = (at(), at());
        match rng.random_range(0..14) {
            0..3 => Self::Create(first, rng.random()),
            3..6 => Self::MakeDirectory(first),
            6 => Self::Symlink(first, second.1),
            7 => Self::Link(first.0, first.1, second.1),
            8 => Self::Remove(first),
            9 => Self::RemoveDirectory(first),
            10 | 11 => Self::Exchange(first, second),
            _ => Self::Rename(first, second, rng.random()),
        }
    }

    async fn by_volume(&self, volume: &Volume) -> Came {
        match self.try_by_volume(volume).await {
            Ok(()) => Came::Done,
            Err(Error::NotFound) => Came::NotFound,
            Err(Error::Exists) => Came::Exists,
            Err(Error::NotEmpty) => Came::NotEmpty,
            Err(Error::NotADirectory) => Came::NotADirectory,
            Err(Error::IsADirectory) => Came::IsADirectory,
            Err(Error::IntoItself) => Came::IntoItself,
            Err(Error::SymlinkRefused) => Came::Symlink,
            Err(Error::NotServable) => Came::NotServable,
            Err(other) => panic!("{self:?}: {other}"),
        }
    }

    async fn try_by_volume(&self, volume: &Volume) -> Result<(), Error> {
        let anyone = Caller::anonymous();
        let name = |text: &'static str| Name::parse(text.as_bytes()).unwrap();
        let directory = async |at: &str| {
            let path = RelPath::parse(at.as_bytes()).unwrap();
            Ok::<_, Error>(volume.lookup_as(&anyone, path, Rights::LOOKUP).await?.into_directory()?.0)
        };
        match *self {
            Self::Create((at, new), exclusive) => {
                let how = CreateOptions { exclusive, mode: 0o644 };
                directory(at).await?.create(&anyone, name(new), how).await.map(drop)
            }
            Self::MakeDirectory((at, new)) => {
                directory(at).await?.make_directory(&anyone, name(new), 0o755).await.map(drop)
            }
            Self::Symlink((at, new), target) => {
                directory(at).await?.symlink(&anyone, name(new), target.as_bytes()).await
            }
            Self::Link(at, from, to) => directory(at).await?.link(&anyone, name(from), name(to)).await,
            Self::Remove((at, old)) => directory(at).await?.remove(&anyone, name(old)).await,
            Self::RemoveDirectory((at, old)) => {
                directory(at).await?.remove_directory(&anyone, name(old)).await
            }
            Self::Rename((at, from), (to_at, to), replace) => {
                let (here, there) = (directory(at).await?, directory(to_at).await?);
                let over = if replace { Replace::Existing } else { Replace::Never };
                here.rename(&anyone, name(from), &there, name(to), over).await
            }
            Self::Exchange((at, one), (other_at, other)) => {
                let (here, there) = (directory(at).await?, directory(other_at).await?);
                here.exchange(&anyone, name(one), &there, name(other)).await
            }
        }
    }

    fn by_calls(&self, root: &Path) -> Came {
        match self.try_by_calls(root) {
            Ok(()) => Came::Done,
            Err(Errno::NOENT) => Came::NotFound,
            Err(Errno::EXIST) => Came::Exists,
            Err(Errno::NOTEMPTY) => Came::NotEmpty,
            Err(Errno::NOTDIR) => Came::NotADirectory,
            Err(Errno::ISDIR) => Came::IsADirectory,
            Err(Errno::INVAL) => Came::IntoItself,
            Err(Errno::LOOP) => Came::Symlink,
            Err(Errno::PERM) => Came::NotServable,
            Err(other) => panic!("{self:?}: {other}"),
        }
    }

    fn try_by_calls(&self, root: &Path) -> Result<(), Errno> {
        let directory = |at: &str| {
            let path = if at.is_empty() { root.to_owned() } else { root.join(at) };
            sys::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        match *self {
            Self::Create((at, new), exclusive) => {
                let exclusive = if exclusive { OFlags::EXCL } else { OFlags::empty() };
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | exclusive;
                sys::openat(directory(at)?, new, flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Self::MakeDirectory((at, new)) => sys::mkdirat(directory(at)?, new, Mode::from_raw_mode(0o755)),
            Self::Symlink((at, new), target) => sys::symlinkat(target, directory(at)?, new),
            Self::Link(at, from, to) => {
                let at = directory(at)?;
                // Of symbolic links the kernel makes more names, the server does not.
                let stat = sys::statat(&at, from, AtFlags::SYMLINK_NOFOLLOW)?;
                if sys::FileType::from_raw_mode(stat.st_mode) != sys::FileType::RegularFile {
                    return Err(Errno::PERM);
                }
                sys::linkat(&at, from, &at, to, AtFlags::empty())
            }
            Self::Remove((at, old)) => sys::unlinkat(directory(at)?, old, AtFlags::empty()),
            Self::RemoveDirectory((at, old)) => sys::unlinkat(directory(at)?, old, AtFlags::REMOVEDIR),
            Self::Rename((at, from), (to_at, to), replace) => {
                let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
                sys::renameat_with(directory(at)?, from, directory(to_at)?, to, flags)
            }
            Self::Exchange((at, one), (other_at, other)) => {
                sys::renameat_with(directory(at)?, one, directory(other_at)?, other, RenameFlags::EXCHANGE)
            }
        }
    }
}

/// All names with what they are and how many lead there.
fn tree(root: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                left.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else {
                format!("file of {} names, mode {:o}", meta.nlink(), meta.mode())
            };
            found.push((path.strip_prefix(root).unwrap().to_owned(), what));
        }
    }
    found.sort();
    found
}

const DIRECTORIES: [&str; 6] = ["", "a", "b", "a/b", "b/a", "a/b/a"];
const NAMES: [&str; 3] = ["a", "b", "c"];
