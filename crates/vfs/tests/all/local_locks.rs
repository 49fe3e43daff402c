//! Locks of clients and of another process of this machine, on its kernel: each finds those of the other.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use grants::{Access, Range, RangeLock, Refused, Share};
use identity::{Rights, Writable};
use lane::runtime::{RuntimeOptions, run_here};
use rustix::fs::{FlockOperation, fcntl_lock};
use vfs::{
    Cache, CacheOptions, Caller, Objects, ObjectsOptions, OpenError, OpenHow, RelPath, Volume, VolumeOptions,
    VolumeSpec,
};

#[test]
fn another_process_and_clients_find_each_others_locks() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("page"), "content").unwrap();
    let (tree, page) = (temporary.path().to_owned(), temporary.path().join("page"));
    run_here(RuntimeOptions::default(), async move {
        let cache = Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default()));
        let spec = VolumeSpec::new("test".parse().unwrap(), tree, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let caller = Caller::anonymous();
        let access = Access::READ | Access::WRITE;
        let (share, consumer) = (Share::ALL, IpAddr::from([192, 0, 2, 1]).into());
        let need = Rights::WRITE;
        let how = OpenHow {
            stream: b"",
            access,
            share,
            need,
            looks: grants::StatOpen::No,
            overwrites: false,
            consumer,
            wanted: None,
        };
        let at = RelPath::parse(b"page").unwrap();
        let it = volume.open_shared(&caller, at, &how, &mut |_| {}).await.unwrap().0;
        let range = Range { offset: 2, len: 2 };
        let lock = RangeLock { range, exclusive: false };
        it.lock(&volume, &[lock], false).await.unwrap();
        assert_eq!(Other::lock(&page, "exclusive").answer, "AGAIN");
        let theirs = Other::lock(&page, "shared");
        assert_eq!(theirs.answer, "ok");
        let stronger = RangeLock { exclusive: true, ..lock };
        it.unlock(&volume, &[range]).unwrap();
        let refused = it.lock(&volume, &[stronger], false).await;
        assert!(matches!(refused, Err(OpenError::Refused(Refused::Locked))), "{refused:?}");
        drop(theirs);
        it.lock(&volume, &[stronger], true).await.unwrap();
        assert_eq!(Other::lock(&page, "shared").answer, "AGAIN");
        it.unlock(&volume, &[range]).unwrap();
        volume.unlocked_for_others(it.object()).await;
        assert_eq!(Other::lock(&page, "exclusive").answer, "ok");
        it.lock(&volume, &[lock], true).await.unwrap();
        it.close(&volume, &caller).await.unwrap();
        // No client holds anything of the file, so nothing is open for locks.
        assert_eq!(Other::lock(&page, "exclusive").answer, "ok");
    })
    .unwrap();
}

/// A process that has tried to lock the whole file, and has what it got until this is dropped.
struct Other {
    child: Child,
    answer: String,
}

impl Other {
    fn lock(path: &Path, kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "local_locks::the_other_process", "--ignored", "--nocapture"])
            .envs([(PATH, path.as_os_str()), (KIND, kind.as_ref())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let answer = lines.find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
        Self { child, answer: answer.expect("the other process answers") }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
#[ignore = "the other process of a test"]
fn the_other_process() {
    let path = std::env::var_os(PATH).expect("it is started by a test");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let how = match std::env::var(KIND).as_deref() {
        Ok("shared") => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    };
    match fcntl_lock(&file, how) {
        Ok(()) => println!("{ANSWER}ok"),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => println!("{ANSWER}AGAIN"),
        Err(error) => println!("{ANSWER}{error}"),
    }
    // Until its starter wants it no more.
    let _ = std::io::stdin().read_line(&mut String::new());
}

const PATH: &str = "VFS_TEST_LOCK_PATH";
const KIND: &str = "VFS_TEST_LOCK_KIND";
const ANSWER: &str = "answer: ";
