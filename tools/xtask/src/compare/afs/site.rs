//! Site where they meet: the clients in one network namespace, which a pair of virtual NICs joins to that of
//! the stock cell and another to Linerate's. All of it goes with this value, however a run ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use testkit::netns::{Namespace, ip};
use testkit::stock_cell::StockCell;

use super::ours::Ours;
use super::row::{FILE, FILE_BYTES, Ground, MANY, NAMES, STORED};
use super::servers::{FILE_SERVER_PORT, Server, VOLUME, plug};
use crate::compare::programs::{Programs, SERVER_CPU};
use crate::compare::stock::link::{inside, on_own_thread};
use crate::{cpu, process};

/// Both servers with the same tree, and their clients' namespace.
pub(super) struct Site {
    clients: Namespace,
    cell: StockCell,
    /// The process of its file server.
    stock: u32,
    ours: Ours,
    work: tempfile::TempDir,
    _buffers: Buffers,
}

impl Site {
    /// Starts both and fills them, which takes a minute.
    pub(super) fn new(ground: Ground, programs: &Programs<'_>) -> anyhow::Result<Self> {
        let Ground { jumbograms, is_apart } = ground;
        let buffers = Buffers::raise()?;
        let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
        fill(&work.path().join("tree"))?;
        let mtu = if jumbograms { JUMBO_MTU } else { MTU };
        let clients = on_own_thread(Namespace::new).context("network namespaces need root")?;
        let cell = start_cell(&clients, mtu, jumbograms)?;
        let stock = file_server_of(&cell)?;
        prefer(cell.process(), is_apart, programs.ahead)?;
        let ours = Ours::start(work.path(), &clients, mtu, is_apart, "", programs)?;
        let site = Self { clients, cell, stock, ours, work, _buffers: buffers };
        site.fill_stock(programs)?;
        Ok(site)
    }

    pub(super) fn stock(&self) -> Server {
        let address = SocketAddr::from((StockCell::ADDRESS, FILE_SERVER_PORT));
        Server { name: "OpenAFS", address, process: self.stock }
    }

    pub(super) fn ours(&self) -> Server {
        self.ours.server()
    }

    /// Returns the path of the large file in the file system.
    pub(super) fn file(&self) -> PathBuf {
        self.work.path().join("tree").join(FILE)
    }

    /// Runs `act` where clients are.
    pub(super) fn at_clients<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        inside(&self.clients, act)
    }

    /// Runs `act` where Linerate is.
    pub(super) fn at_ours<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        self.ours.inside(act)
    }

    /// Fills the stock server with the same tree as Linerate's, through its own front.
    fn fill_stock(&self, programs: &Programs<'_>) -> anyhow::Result<()> {
        let tree = self.work.path().join("tree");
        let root = format!("afs://{}/{VOLUME}", self.stock().address);
        eprintln!("filling the stock cell (process {})", self.cell.process());
        for name in [FILE, MANY, STORED] {
            self.at_clients(|| {
                let from = tree.join(name);
                let mut put = Command::new(programs.linerate);
                put.arg("put").args(from.is_dir().then_some("--recursive")).arg(from).arg(&root);
                let output = put.output().context("cannot start linerate")?;
                ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Starts the stock cell in a namespace of its own, joined to that of the clients.
fn start_cell(clients: &Namespace, mtu: u32, jumbograms: bool) -> anyhow::Result<StockCell> {
    let flags = format!("{STOCK_FLAGS} {}", if jumbograms { "-jumbo" } else { "-nojumbo" });
    let name = clients.path();
    let cell = on_own_thread(|| -> anyhow::Result<_> {
        Namespace::new()?;
        let cell = StockCell::with_flags(&flags).context("there is no stock cell here")?;
        ip(&format!("link set cell0 mtu {mtu}"))?;
        ip(&format!("link set {} netns {name}", StockCell::OUTSIDE))?;
        Ok(cell)
    })?;
    inside(clients, || plug(StockCell::OUTSIDE, STOCKS_CLIENT, mtu))?;
    Ok(cell)
}

fn file_server_of(cell: &StockCell) -> anyhow::Result<u32> {
    let is_file_server = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.trim_end() == "dafileserver")
    };
    cpu::tree(cell.process())?.into_iter().find(is_file_server).context("the cell has no file server")
}

/// Has the daemons of a cell run on the servers' CPU, and before everything else, where that is wanted.
fn prefer(root: u32, is_apart: bool, ahead: bool) -> anyhow::Result<()> {
    for pid in cpu::tree(root)? {
        let (pid, cpu) = (pid.to_string(), SERVER_CPU.to_string());
        // One may have ended meanwhile.
        if is_apart {
            let _ = process::output("taskset", &["--all-tasks", "--cpu-list", "--pid", &cpu, &pid]);
        }
        if ahead {
            let _ = process::output("chrt", &["--all-tasks", "--rr", "--pid", "1", &pid]);
        }
    }
    Ok(())
}

/// Makes the tree that both serve.
pub(super) fn fill(tree: &Path) -> anyhow::Result<()> {
    for name in [MANY, STORED] {
        std::fs::create_dir_all(tree.join(name))?;
    }
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 7 % 251) as u8).collect();
    std::fs::write(tree.join(FILE), bytes)?;
    for number in 0..NAMES {
        std::fs::File::create(tree.join(MANY).join(format!("name-{number}")))?;
    }
    Ok(())
}

/// Room for sockets' buffers, which the stock server asks for and does not get by default. Set back at the end.
pub(in crate::compare) struct Buffers(Vec<(&'static str, String)>);

impl Buffers {
    pub(in crate::compare) fn raise() -> anyhow::Result<Self> {
        let mut before = Vec::new();
        for file in ["/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"] {
            before.push((file, std::fs::read_to_string(file)?));
            std::fs::write(file, BUFFER_MAX).with_context(|| format!("{file} needs root"))?;
        }
        Ok(Self(before))
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for (file, value) in &self.0 {
            // What could be set once can be set again.
            let _ = std::fs::write(file, value);
        }
    }
}

/// Tuned as sites tune it for many clients: a thread for each, large buffers, a million callbacks.
const STOCK_FLAGS: &str = "-L -p 128 -udpsize 16777216 -sendsize 1048576 -rxpck 8000 -b 2000 -cb 1000000";
const STOCKS_CLIENT: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
pub(super) const MTU: u32 = 1500;
const JUMBO_MTU: u32 = 9000;
const BUFFER_MAX: &str = "67108864";
