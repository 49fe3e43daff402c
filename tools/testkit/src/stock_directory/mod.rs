//! Oracle for directories: `oracle.c` edits and checks one with OpenAFS's own code, `libdir.a` of Debian's
//! libopenafs-dev.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Process of the oracle at work on one directory.
pub struct StockDirectory {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl StockDirectory {
    /// Builds the program in `dir` and starts it; `None` where the library is not installed.
    ///
    /// # Panics
    /// When what is installed does not build: that is a defect.
    pub fn start(dir: &Path) -> Option<Self> {
        if !Path::new(LIBRARY).is_file() {
            return None;
        }
        fs::create_dir_all(dir).expect("the build directory can be written");
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let program = dir.join(format!("stock-directory-{}-{number}", std::process::id()));
        let mut cc = Command::new("cc");
        // Pages that the library makes are zeros where it writes nothing.
        cc.args(["-O2", "-Wl,--wrap=malloc"]).arg(ORACLE).arg(LIBRARY).arg("-o").arg(&program);
        let built = cc.stdin(Stdio::null()).output().expect("a C compiler is there: Rust links with it");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("what was built runs");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        // It runs; its file is needed no more.
        let _ = fs::remove_file(program);
        Some(Self { child, orders, answers })
    }

    /// Begins a new directory, with `.` and `..` of the vnodes and uniquifiers given.
    pub fn begin(&mut self, own: (u32, u32), parent: (u32, u32)) {
        self.order(&format!("begin {} {} {} {}\n", own.0, own.1, parent.0, parent.1));
    }

    /// Adds a name and returns the library's error, 0 for success.
    pub fn add(&mut self, name: &[u8], target: (u32, u32)) -> i32 {
        self.order(&format!("add {} {} {}\n", hex(name), target.0, target.1))
    }

    /// Removes a name and returns the library's error, 0 for success.
    pub fn remove(&mut self, name: &[u8]) -> i32 {
        self.order(&format!("remove {}\n", hex(name)))
    }

    /// Returns the directory's content, whole pages.
    pub fn bytes(&mut self) -> Vec<u8> {
        let size = self.order("bytes\n");
        let mut bytes = vec![0; usize::try_from(size).expect("it has a size")];
        self.answers.read_exact(&mut bytes).expect("the oracle says all");
        bytes
    }

    /// Replaces the directory by `bytes`, and returns whether the salvager accepts them.
    pub fn check(&mut self, bytes: &[u8]) -> bool {
        writeln!(self.orders, "load {}", bytes.len()).expect("the oracle listens");
        self.orders.write_all(bytes).expect("the oracle listens");
        self.answer();
        self.order("check\n") == 1
    }

    /// Returns the vnode and uniquifier that a name leads to.
    pub fn lookup(&mut self, name: &[u8]) -> Option<(u32, u32)> {
        if self.order(&format!("lookup {}\n", hex(name))) != 0 {
            return None;
        }
        let (vnode, uniquifier) = (self.answer(), self.answer());
        Some((vnode as u32, uniquifier as u32))
    }

    fn order(&mut self, order: &str) -> i32 {
        self.orders.write_all(order.as_bytes()).expect("the oracle listens");
        self.answer()
    }

    fn answer(&mut self) -> i32 {
        self.orders.flush().expect("the oracle listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the oracle answers");
        line.trim().parse().unwrap_or_else(|_| panic!("the oracle answers with a number, not {line:?}"))
    }
}

impl Drop for StockDirectory {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stock_directory/oracle.c");
const LIBRARY: &str = "/usr/lib/afs/libdir.a";
