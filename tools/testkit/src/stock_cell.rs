//! A stock AFS cell: OpenAFS's daemons of Debian's openafs-fileserver and openafs-dbserver, without keys.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::netns::ip;

/// Running cell with volumes `pub` and `other`, whose roots every user may write to, and a read-only copy of
/// `other`. It ends when this is dropped, and with the process.
#[derive(Debug)]
pub struct StockCell {
    script: Child,
}

impl StockCell {
    /// Address of the cell's servers: files 7000, protection 7002, locations 7003, volumes 7005.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);

    /// Network device, in the namespace that the cell was started in, whose other end has the address.
    pub const OUTSIDE: &str = "cell1";

    /// Starts a cell in the calling thread's network namespace, made for it
    /// ([`Namespace`](crate::netns::Namespace)), which gets the address. Takes some ten seconds. A test is
    /// skipped, with `None`, where the packages are not installed.
    ///
    /// # Panics
    /// When what is installed does not start: that is a defect.
    #[track_caller]
    pub fn start_or_skip() -> Option<Self> {
        Self::with_flags("-L -p 32 -udpsize 16777216")
    }

    /// Starts the cell with the flags `file_server` for `dafileserver`.
    ///
    /// # Panics
    /// As [`StockCell::start_or_skip`].
    #[track_caller]
    pub fn with_flags(file_server: &str) -> Option<Self> {
        if !DAEMONS.iter().all(|daemon| Path::new(daemon).is_file()) {
            crate::skip(
                "openafs-fileserver and openafs-dbserver are not installed; `cargo xtask test` installs them",
            );
            return None;
        }
        // The servers do not register addresses of the loopback interface.
        if let Err(error) = ip("link add cell0 type veth peer name cell1") {
            crate::skip(format_args!("the kernel makes no veth devices: {error}"));
            return None;
        }
        ip(&format!("addr add {}/24 dev cell0", Self::ADDRESS)).expect("the device is new");
        ip("link set cell0 up").and_then(|()| ip("link set cell1 up")).expect("the devices are there");
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ]);
        command.arg(Self::ADDRESS.to_string()).arg(file_server).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cell = Self { script: command.spawn().expect("util-linux is installed") };
        let mut lines = BufReader::new(cell.script.stdout.take().expect("it is piped")).lines();
        let said = lines.find_map(|line| line.ok().filter(|line| line == "ready" || line == "no mounts"));
        if said.as_deref() == Some("no mounts") {
            crate::skip("a stock cell needs directories of its own, and nothing may be mounted here");
            return None;
        }
        assert!(said.is_some(), "the stock cell did not start; its logs are above");
        Some(cell)
    }

    /// Returns the process id of the ancestor of the cell's daemons.
    pub fn process(&self) -> u32 {
        self.script.id()
    }
}

impl Drop for StockCell {
    fn drop(&mut self) {
        // Without input the script ends, and all of its namespace with it.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

const SCRIPT: &str = include_str!("stock_cell/cell.sh");
const DAEMONS: [&str; 3] =
    ["/usr/lib/openafs/dafileserver", "/usr/lib/openafs/vlserver", "/usr/lib/openafs/ptserver"];
