//! The server of a case, whatever it speaks: the disk that it has, what it holds, and that it holds no more when all have gone and all has
//! timed out.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, FsConfig, Host, Remains, World};
use lane::counters::{CounterBlock, CounterKind};
use lane::memory::Taken;
use vfs::Objects;

use crate::log;
use crate::notes::Notes;

/// Resources that a server holds, by name.
pub(crate) type Held = BTreeMap<String, u64>;

/// Returns whether a server without clients holds what it held before the first came. A lane goes on relying
/// on some directories, its volumes' roots among them, and has tasks that look after what it keeps.
fn is_at_rest(before: &Held, now: &Held) -> bool {
    let once = |name: &str| match name {
        "objects" => 12,
        "lane's tasks" => 2,
        _ => 0,
    };
    before.len() == now.len()
        && before.iter().zip(now).all(|((name, before), (other, now))| {
            name == other && (*before..=before + once(name)).contains(now)
        })
}

/// Subject of a case.
pub(crate) trait Subject {
    /// Returns the levels that are the same whenever no client is there, by name.
    fn held(&self) -> Held;
    /// Returns the objects that its lanes share.
    fn objects(&self) -> &Objects;
    /// Returns the host that it runs on.
    fn host(&self) -> &Host;
    /// Returns the counters of its services and volumes.
    fn counters(&self) -> impl Iterator<Item = &dyn CounterBlock>;
}

/// Returns the disk that a decision stands for, small and sometimes slow, and whether it fails now and then.
pub(crate) fn config_of(disk: u8) -> (Config, bool) {
    let mut config = Config::clean();
    if disk & 3 == 3 {
        config.fs = Config::default().fs;
    }
    config.fs = FsConfig { capacity_bytes: 4 << 20, capacity_inodes: 500, ..config.fs };
    let fails = disk & 0x1c == 0x1c;
    if fails {
        config.fs.write_error = 0.02;
        config.fs.read_error = 0.02;
        config.fs.change_error = 0.02;
        config.fs.name_error = 0.01;
        config.fs.sync_error = 0.02;
    }
    (config, fails)
}

/// Adds what a server takes of its lane and of its volumes' objects to what its services say.
pub(crate) fn hold_of_lane(host: &Host, objects: &Objects, held: &mut Held) {
    held.insert("objects".to_owned(), objects.in_use() as u64);
    held.insert("descriptors".to_owned(), host.descriptors() as u64);
    host.counters(0).visit(&mut |reading| {
        if LANE.contains(&reading.name) {
            held.insert(format!("lane's {}", reading.name), reading.value);
        }
    });
}

/// A server before the first client came.
pub(crate) struct Before<S> {
    server: Rc<S>,
    held: Held,
    heap: isize,
}

impl<S: Subject> Before<S> {
    pub(crate) fn of(server: &Rc<S>) -> Self {
        Self { server: Rc::clone(server), held: server.held(), heap: Taken::here().now }
    }

    /// Has the time of the world go on until the server is as it was: for `steps` of 20 s at most, and until `since`
    /// at least. Then it notes what the server is not, what it counted and, unless its disk `fails`, what it logged as
    /// an error. The world ends with it.
    pub(crate) fn compare(self, world: World, (steps, since): (u32, Duration), fails: bool, notes: &Notes) {
        let Self { server, held: before, heap } = self;
        for _ in 0..steps {
            world.run_for(Duration::from_secs(20));
            // As its committer does.
            if let Some(index) = server.objects().persistent_index() {
                let _ = index.flush();
            }
            if world.now() > since && is_at_rest(&before, &server.held()) {
                break;
            }
        }
        let after = server.held();
        if !is_at_rest(&before, &after) {
            let more = after.iter().filter(|(name, now)| before.get(*name) != Some(*now));
            let more: Vec<_> =
                more.map(|(name, now)| format!("{name} {now} (was {:?})", before.get(name))).collect();
            notes.finding(format!("held: {}", more.join(", ")));
        }
        let unnamed = server.host().fs().unnamed();
        if unnamed.pages > 0 || unnamed.inodes > 0 {
            notes.finding(format!("disk: {unnamed:?} that no name leads to"));
        }
        note_counters(&*server, notes);
        notes.with(|seen| {
            seen.longest_turn = server.host().longest_turn();
            seen.heap_at_rest = Taken::here().now - heap;
        });
        let errors = log::take_errors();
        if !fails {
            errors.into_iter().for_each(|error| notes.finding(format!("logged: {error}")));
        }
        drop(server);
        let remains = world.end();
        if remains != Remains::default() {
            notes.finding(format!("world: {remains:?}"));
        }
    }
}

/// Notes each counter that has counted as a sign, and that it has counted much as another.
fn note_counters(server: &impl Subject, notes: &Notes) {
    for block in server.counters() {
        block.visit(&mut |reading| {
            if reading.value > 0 && reading.kind == CounterKind::Count {
                let much = reading.value.ilog2().min(4) / 2;
                notes.sign(("counter", reading.name, reading.label, much));
            }
        });
    }
}

/// Levels of a lane that are the same whenever no client is there.
const LANE: [&str; 5] = ["tasks", "sockets", "files", "buffers_small_in_use", "buffers_large_in_use"];
