//! OpenAFS's own client in user space, in a mount namespace of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A stock client (afsd.fuse, of the Debian package openafs-fuse) of a cell whose servers are at 127.0.0.1, and a shell beside it,
/// for which the cells lie below `mnt`.
pub(crate) struct AfsMount {
    shell: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl AfsMount {
    /// `None` where there is none, or no FUSE. What it keeps lies in `home`.
    pub(crate) fn start_or_skip(home: &Path, cell: &str) -> Option<Self> {
        if Command::new("afsd.fuse").arg("-help").output().is_err() {
            testkit::skip("the Debian package openafs-fuse is not installed; `cargo xtask test` installs it");
            return None;
        }
        if File::open("/dev/fuse").is_err() {
            testkit::skip("there is no /dev/fuse: it is the kernel's, or the container's, to give");
            return None;
        }
        for name in ["etc", "cache", "mnt"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let write = |name: &str, text: String| fs::write(home.join("etc").join(name), text).unwrap();
        write("ThisCell", format!("{cell}\n"));
        write("CellServDB", format!(">{cell}\n127.0.0.1 #server\n"));
        write("cacheinfo", format!("/afs:{}:50000\n", home.join("cache").display()));
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", SHELL]).current_dir(home);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let from = BufReader::new(shell.stdout.take().unwrap());
        let to = shell.stdin.take();
        Some(Self { shell, to, from })
    }

    /// Returns whether a line of shell succeeds.
    pub(crate) fn does(&mut self, words: &str) -> bool {
        writeln!(self.to.as_mut().unwrap(), "{words}").unwrap();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the client has ended: {said}");
            if let Some(code) = line.strip_prefix("ended ") {
                return code.trim() == "0";
            }
            said.push_str(&line);
        }
    }

    /// Asks until it does: a client that has lost its server looks for it every three minutes.
    pub(crate) fn waits_for(&mut self, words: &str) {
        testkit::wait_for(words, PATIENCE, || self.does(words).then_some(()));
    }
}

impl Drop for AfsMount {
    fn drop(&mut self) {
        // With its input the shell ends, and with it the client.
        self.to.take();
        let _ = self.shell.wait();
    }
}

const SHELL: &str = r#"
mount --bind etc /etc/openafs || exit 1
afsd.fuse -f -confdir /etc/openafs -cachedir $PWD/cache -mountdir $PWD/mnt >client.out 2>&1 </dev/null &
client=$!
while read -r line; do eval "$line" 2>/dev/null </dev/null; echo "ended $?"; done
umount -l mnt
kill -9 $client
"#;
const PATIENCE: Duration = Duration::from_secs(240);
