//! Tests of locks that another process sees.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use lane::fs::{HeldLock, LockKind, OpenHow};
use nix::fcntl::{FcntlArg, fcntl};

use super::{create, errno, everywhere, name, open, path_of};

#[test]
fn locks_are_of_opens_and_other_processes_see_them() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        let mut other = Other::start(&path_of(&file));
        file.try_lock(10, 10, LockKind::Exclusive).await.unwrap();
        assert_eq!(other.ask("lock 15 1 shared"), "EAGAIN");
        assert_eq!(other.ask("lock 20 5 exclusive"), "ok");
        assert_eq!(errno(file.try_lock(24, 0, LockKind::Shared).await), Err(libc::EAGAIN));
        let held = HeldLock { kind: LockKind::Exclusive, offset: 20, len: 5 };
        assert_eq!(file.lock_in_the_way(0, 0, LockKind::Shared).await.unwrap(), Some(held));
        // A part of it becomes shared, a part is given up.
        file.try_lock(10, 3, LockKind::Shared).await.unwrap();
        file.unlock(18, 100).await.unwrap();
        assert_eq!(other.ask("lock 10 3 shared"), "ok");
        assert_eq!(other.ask("lock 10 4 shared"), "EAGAIN");
        assert_eq!(other.ask("lock 18 2 exclusive"), "ok");
        // Another open of this process is another owner too.
        let second = root.open(&name("file"), OpenHow::FOLLOW).await.unwrap();
        assert_eq!(errno(second.try_lock(0, 0, LockKind::Shared).await), Err(libc::EAGAIN));
        assert_eq!(errno(second.try_lock(100, 1, LockKind::Exclusive).await), Err(libc::EBADF));
        // They go with the process.
        other.end();
        file.try_lock(18, 0, LockKind::Exclusive).await.unwrap();
    });
}

#[test]
fn kept_locks_last_until_their_keeper_goes_whatever_else_is_closed() {
    everywhere(|_, root| async move {
        let file = create(&root, "file").await;
        let mut other = Other::start(&path_of(&file));
        let keeper = open(&root, "file").await.unwrap().into_keeper().unwrap();
        keeper.set(0, 10, Some(LockKind::Exclusive)).await.unwrap();
        assert_eq!(
            errno(file.try_lock(0, 1, LockKind::Shared).await),
            Err(libc::EAGAIN),
            "as any other open"
        );
        drop(file);
        drop(open(&root, "file").await.unwrap());
        assert_eq!(other.ask("lock 5 1 shared"), "EAGAIN");
        keeper.set(5, 5, Some(LockKind::Shared)).await.unwrap();
        assert_eq!(other.ask("lock 5 1 shared"), "ok");
        keeper.set(0, 5, None).await.unwrap();
        assert_eq!(other.ask("lock 0 5 exclusive"), "ok");
        assert_eq!(errno(keeper.set(4, 1, Some(LockKind::Shared)).await), Err(libc::EAGAIN));
        let open_files = lane::current().counters().files.get();
        assert_eq!(other.ask("lock 6 0 exclusive"), "EAGAIN");
        drop(keeper);
        assert_eq!(lane::current().counters().files.get(), open_files, "it was none of the lane's");
        assert_eq!(other.ask("lock 6 0 exclusive"), "ok");
        other.end();
    });
}

/// A process that has a file open and locks it as told.
struct Other {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(path: &std::path::Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files::locks::the_other_process", "--ignored", "--nocapture"])
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{question}").unwrap();
        let answer = self
            .answers
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find_map(|line| line.split_once(ANSWER).map(|(_, answer)| answer.to_owned()));
        answer.expect("the other process answers")
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
#[ignore = "the other process of a test"]
fn the_other_process() {
    let path = std::env::var_os(PATH).expect("it is started by a test");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    for line in std::io::stdin().lines().map(Result::unwrap) {
        let words: Vec<&str> = line.split(' ').collect();
        let kind = if words[3] == "shared" { libc::F_RDLCK } else { libc::F_WRLCK };
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: words[1].parse().unwrap(),
            l_len: words[2].parse().unwrap(),
            l_pid: 0,
        };
        // A POSIX lock, as most programs set them.
        match fcntl(&file, FcntlArg::F_SETLK(&lock)) {
            Ok(_) => println!("{ANSWER}ok"),
            Err(error) => println!("{ANSWER}{error:?}"),
        }
    }
}

const PATH: &str = "LANE_TEST_LOCK_PATH";
const ANSWER: &str = "answer: ";
