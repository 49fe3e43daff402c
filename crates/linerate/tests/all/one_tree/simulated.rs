//! The server of the simulated checker: over an index, so that it can stop, be killed and lose power, and start again; and its disk, as
//! local programs see it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use index::{Index, Memory, Options};
use lane::backend::sim::{FoundKind, Fs, Host, World};
use lane::time;
use one_tree::{BoxFuture, DIRECTORIES, Disk, End, Place, Seen, Site};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{CacheOptions, CheckOptions, CheckReport, Objects, ObjectsOptions};

use super::life::{self, Life};
use super::server::{LANES, PASSWORD, afs_address, http_address, smb_address};

pub(crate) struct Simulated {
    host: Host,
    disk: Programs,
    seed: u64,
    /// Storage of the index.
    memory: Memory,
    /// Number of times that the machine was started.
    boot: u8,
    running: Option<(Rc<Life>, Arc<Index>)>,
    rng: SmallRng,
}

/// Programs of the server's machine. What they change is not synced.
struct Programs(Fs);

impl Simulated {
    /// A machine with the empty directories of a run.
    pub(crate) fn new(world: &World) -> Self {
        let host = world.host("10.0.0.1");
        for directory in DIRECTORIES {
            host.fs().create_dir_all(&format!("/srv/{directory}")).unwrap();
        }
        host.fs().sync_all().unwrap();
        (1..LANES).for_each(|lane| assert_eq!(host.add_lane(), lane));
        life::steer(&world.net(), &host);
        let disk = Programs(host.fs().unsynced());
        let (seed, rng) = (world.seed(), SmallRng::seed_from_u64(world.seed()));
        Self { host, disk, seed, memory: Memory::journaled(), boot: 1, running: None, rng }
    }

    /// Starts the server, as a client's lane sees time go by.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        let index = self.index()?;
        let options = ObjectsOptions { lanes_max: LANES, ..ObjectsOptions::default() };
        let objects = Objects::new(options, Arc::clone(&index));
        let life = Life::new(objects, Some(&index), PROMISE, CacheOptions::default());
        self.seed += 1;
        for () in life.lanes(&self.host, self.seed) {
            time::sleep(Duration::from_micros(10)).await;
        }
        let give_up = time::now() + START_MAX;
        while !life.is_serving() {
            ensure!(time::now() < give_up, "the server does not start within {START_MAX:?}");
            time::sleep(Duration::from_millis(1)).await;
        }
        self.running = Some((life, index));
        Ok(())
    }

    fn index(&self) -> anyhow::Result<Arc<Index>> {
        let options = Options { boot: [self.boot; 16], ..Options::default() };
        Ok(Arc::new(Index::open(self.memory.clone(), options)?))
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        let (life, index) = self.running.take().context("a server that runs")?;
        life.is_to_end();
        let give_up = time::now() + STOP_MAX;
        while !life.has_ended() {
            ensure!(time::now() < give_up, "the stop takes more than {STOP_MAX:?}");
            time::sleep(Duration::from_millis(10)).await;
        }
        // What is left of its tasks goes with the lanes.
        (0..LANES).for_each(|lane| self.host.end_lane(lane));
        let objects = life.objects.clone();
        drop(life);
        time::sleep(Duration::from_secs(1)).await;
        let in_use = objects.in_use();
        ensure!(in_use == 0, "{in_use} objects are in use after a clean stop");
        index.beat(time::wall_clock());
        index.close()?;
        self.memory = self.memory.parted();
        self.host.kill();
        self.host.restart();
        Ok(())
    }

    async fn check(&self, mends: bool) -> anyhow::Result<()> {
        if mends {
            let report = self.compare(true).await?;
            ensure!(report.is_mended(), "a check leaves {:?}", report.problems);
        }
        let report = self.compare(false).await?;
        ensure!(report.is_clean(), "index and tree differ after a clean stop: {:?}", report.problems);
        Ok(())
    }

    async fn compare(&self, repair: bool) -> anyhow::Result<CheckReport> {
        let index = self.index()?;
        let checked = Arc::clone(&index);
        let checking = self.host.start_on(0, async move {
            let (volume, _) = checked.volumes().first().cloned().context("a volume")?;
            let options = CheckOptions { repair, trusted_attributes: false };
            Ok::<_, anyhow::Error>(vfs::check(&checked, volume, options, Arc::default()).await?)
        });
        let report = checking.await?;
        index.put_back()?;
        Ok(report)
    }
}

impl Site for Simulated {
    fn place(&self) -> Place {
        let (life, _) = self.running.as_ref().expect("it runs");
        Place {
            smb: smb_address(0),
            afs: afs_address(),
            http: http_address(1),
            client: IpAddr::from([0, 0, 0, 0]),
            share: r"\\10.0.0.1\files".to_owned(),
            user: "alice".to_owned(),
            password: PASSWORD.to_owned(),
            root: life.root(),
        }
    }

    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn removed_files(&self) -> anyhow::Result<Vec<String>> {
        let inodes = self.host.fs().unnamed().inodes;
        Ok(if inodes == 0 { Vec::new() } else { vec![format!("{inodes} inodes")] })
    }

    fn ends(&mut self, how: End) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if how == End::Stop {
                return self.stop().await;
            }
            let running = self.running.take().context("a server that runs")?;
            if how == End::Power {
                self.host.lose_power();
                drop(running);
                let keeps = self.rng.random_range(0.0..1.0);
                self.memory.lose_power(|| self.rng.random_bool(keeps));
                self.memory = self.memory.parted();
                self.boot += 1;
            } else {
                // What ends with the process cannot write to it.
                self.memory = self.memory.parted();
                self.host.kill();
                drop(running);
            }
            self.host.restart();
            Ok(())
        })
    }

    fn checks(&mut self, mends: bool) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.check(mends))
    }

    fn starts(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.start())
    }

    fn said(&self) -> String {
        String::new()
    }
}

fn at(path: &str) -> String {
    format!("/srv/{path}")
}

impl Disk for Programs {
    fn tree(&self) -> anyhow::Result<BTreeMap<String, Seen>> {
        let found = self.0.tree();
        let mut links = BTreeMap::<u64, u64>::new();
        found.values().for_each(|found| *links.entry(found.ino).or_default() += 1);
        let mut seen = BTreeMap::new();
        for (path, found) in found {
            let Some(path) = path.strip_prefix("/srv/").or_else(|| path.strip_prefix("srv/")) else {
                continue;
            };
            let (is_directory, content) = match found.kind {
                FoundKind::File(content) => (false, content),
                FoundKind::Directory => (true, Vec::new()),
                other => anyhow::bail!("{path} is {other:?}"),
            };
            // A number is given out again.
            let inode = u64::from(found.generation) << 32 | found.ino;
            let (links, mode) = (links[&found.ino], found.mode);
            seen.insert(path.to_owned(), Seen { is_directory, inode, links, mode, content });
        }
        Ok(seen)
    }

    fn is_of_whole_second(&self, path: &str) -> anyhow::Result<bool> {
        Ok(self.0.stat(&at(path))?.ctime.nanos == 0)
    }

    fn make(&self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write(&at(path), content)?)
    }

    fn write_at(&self, path: &str, offset: usize, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_at(&at(path), offset, bytes)?)
    }

    fn cut(&self, path: &str, len: usize) -> anyhow::Result<()> {
        Ok(self.0.truncate(&at(path), len)?)
    }

    fn set_mode(&self, path: &str, mode: u32) -> anyhow::Result<()> {
        Ok(self.0.set_mode(&at(path), mode)?)
    }

    fn rename(&self, from: &str, to: &str) -> anyhow::Result<()> {
        Ok(self.0.rename(&at(from), &at(to))?)
    }

    fn link(&self, from: &str, to: &str) -> anyhow::Result<()> {
        Ok(self.0.hard_link(&at(from), &at(to))?)
    }

    fn remove(&self, path: &str) -> anyhow::Result<()> {
        Ok(self.0.remove(&at(path))?)
    }

    fn make_directory(&self, path: &str) -> anyhow::Result<()> {
        Ok(self.0.create_dir_all(&at(path))?)
    }

    fn sync(&self) -> anyhow::Result<()> {
        Ok(self.0.sync_all()?)
    }
}

/// Time for which AFS clients may rely on what they were promised: longer than a run.
const PROMISE: Duration = Duration::from_secs(86_400);
const START_MAX: Duration = Duration::from_secs(10);
/// A clean stop of a server with a handful of idle clients takes less.
const STOP_MAX: Duration = Duration::from_secs(1);
