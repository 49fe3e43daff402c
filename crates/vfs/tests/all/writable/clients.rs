//! Clients that cache, of the AFS kind, simulated: they keep what they read until they are told or it runs
//! out, are reached late, wrongly or not at all, and ask any lane; lanes end under them, handlers are given
//! up, tables are full. None that can be reached reads older than the last acknowledged change; the client
//! that makes a change keeps its callback; and none waits beyond the bounds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use identity::Rights;
use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    CallbackNotifier, Client, CreateOptions, Error, Holder, Identity, Notice, NotifyFuture, NotifyOutcome,
    Resolved, Version, Volume,
};

use super::{Process, nobody, path, root};

const FILES: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 4;
const LANES: usize = 3;
/// Time for which a promise lasts.
const LASTS: Duration = Duration::from_secs(20);
/// A client believes it for less.
const BIAS: Duration = Duration::from_secs(2);

#[test]
fn no_client_that_can_be_reached_reads_older_than_the_last_acknowledged_change() {
    let told = AtomicUsize::new(0);
    seeds(1000, |seed| {
        let mut config = Config::rough();
        // Waits are for clients.
        config.fs.slow_delay = Duration::from_millis(20);
        let world = World::new(seed, config);
        let bed = Rc::new(Bed::new(&world, seed));
        let main = Rc::clone(&bed);
        world.block_on(&bed.process.host.clone(), async move { main.run().await });
        told.fetch_add(bed.told.get(), Ordering::Relaxed);
        let process = bed.process.clone();
        world.end();
        drop(bed);
        assert_eq!(process.objects.in_use(), 0, "an object outlived its users");
    });
    assert!(told.into_inner() > 0, "nobody was ever told");
}

/// The server, its clients, and what is true.
struct Bed {
    seed: u64,
    process: Process,
    volumes: RefCell<Vec<Option<Volume>>>,
    tellers: RefCell<Vec<Rc<dyn CallbackNotifier>>>,
    clients: Vec<SimClient>,
    truth: HashMap<&'static str, Truth>,
    names: RefCell<HashMap<Identity, &'static str>>,
    /// Content of each version of each file.
    contents: RefCell<HashMap<(&'static str, Version), u8>>,
    told: Cell<usize>,
}

#[derive(Default)]
struct Truth {
    /// A client writes: each write has one more in it than the one before.
    is_written: Cell<bool>,
    tried: Cell<u8>,
    acknowledged: Cell<u8>,
}

struct SimClient {
    holder: Holder,
    record: RefCell<Option<Arc<Client>>>,
    mode: Cell<Mode>,
    /// The client was out of reach, and has not been served since.
    is_doubtful: Cell<bool>,
    /// Tellings on their way that began when it could not be reached.
    late: Cell<u32>,
    cache: RefCell<HashMap<&'static str, Kept>>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    content: u8,
    version: Version,
    until: Instant,
}

/// Behaviour of a client that is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Good,
    /// Nothing reaches it or comes from it.
    Partitioned,
    /// The client answers after more than the server's patience.
    Slow,
    /// The client answers something else, at once.
    Garbage,
    /// Partitioned ([`Mode::Partitioned`]), and its address reports a closed port.
    Gone,
}

impl Mode {
    fn is_away(self) -> bool {
        matches!(self, Self::Partitioned | Self::Gone)
    }
}

/// A telling of a client that could not be reached as it began: a change waits for it no longer than its patience, and then it hears
/// before it is served again, also where it can be reached by then.
struct Late {
    bed: Weak<Bed>,
    n: usize,
}

impl Late {
    fn begin(bed: &Weak<Bed>, n: usize) -> Self {
        bed.upgrade().into_iter().for_each(|bed| bed.clients[n].late.set(bed.clients[n].late.get() + 1));
        Self { bed: bed.clone(), n }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(bed) = self.bed.upgrade() {
            let client = &bed.clients[self.n];
            client.late.set(client.late.get() - 1);
            client.is_doubtful.set(true);
        }
    }
}

/// Notifier of the bed's clients, on every lane.
struct Telling(Weak<Bed>);

impl Bed {
    fn new(world: &World, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let process = Process::with(world, LANES, |options| {
            if rng.random_bool(0.3) {
                options.callbacks.callbacks_max = 3;
            }
            if rng.random_bool(0.3) {
                options.callbacks.kept_max = 1;
            }
        });
        let client = |n| SimClient {
            holder: Holder(n as u64),
            record: RefCell::default(),
            mode: Cell::new(Mode::Good),
            is_doubtful: Cell::new(false),
            late: Cell::new(0),
            cache: RefCell::default(),
        };
        let truth = FILES.into_iter().map(|file| (file, Truth::default())).collect();
        Self {
            seed,
            process,
            volumes: RefCell::new((0..LANES).map(|_| None).collect()),
            tellers: RefCell::default(),
            clients: (0..CLIENTS).map(client).collect(),
            truth,
            names: RefCell::default(),
            contents: RefCell::default(),
            told: Cell::new(0),
        }
    }

    async fn run(self: Rc<Self>) {
        for lane in 0..LANES {
            let bed = Rc::clone(&self);
            self.process.host.start_on(lane, async move { bed.open(lane).await }).await;
        }
        self.write(0, 0, FILES[0], None).await;
        let clients: Vec<_> = (0..CLIENTS).map(|n| lane::spawn(Rc::clone(&self).live(n))).collect();
        let checker = lane::spawn(Rc::clone(&self).check());
        let mut rng = SmallRng::seed_from_u64(self.seed ^ 77);
        if rng.random_bool(0.4) {
            time::sleep(Duration::from_millis(rng.random_range(5..15_000))).await;
            self.volumes.borrow_mut()[LANES - 1] = None;
            self.process.host.end_lane(LANES - 1);
        }
        for client in clients {
            client.await;
        }
        drop(checker);
        self.volumes.take();
        self.tellers.take();
        self.clients.iter().for_each(|client| drop(client.record.take()));
    }

    async fn open(self: Rc<Self>, lane: usize) {
        let volume = self.process.volume();
        let teller: Rc<dyn CallbackNotifier> = Rc::new(Telling(Rc::downgrade(&self)));
        volume.cache().add_callback_notifier(&teller);
        if lane == 0 {
            for file in FILES {
                let how = CreateOptions { exclusive: true, mode: 0o644 };
                let made = root(&volume).await.create(&nobody(), super::name(file), how).await.unwrap();
                super::changes::write(&made.writer, 0, "\0").await.unwrap();
                let object = made.writer.file().object().unwrap();
                self.names.borrow_mut().insert(object.identity().clone(), file);
            }
        }
        for client in self.clients.iter().filter(|client| client.holder.0 as usize % LANES == lane) {
            client.record.replace(Some(volume.cache().client(client.holder).unwrap()));
        }
        self.tellers.borrow_mut().push(teller);
        self.volumes.borrow_mut()[lane] = Some(volume);
    }

    /// Runs one client.
    async fn live(self: Rc<Self>, n: usize) {
        let mut rng = SmallRng::seed_from_u64(self.seed * 31 + n as u64);
        let client = &self.clients[n];
        for _ in 0..16 {
            let pause = if rng.random_bool(0.2) { 4_000_000 } else { 20_000 };
            time::sleep(Duration::from_micros(rng.random_range(0..pause))).await;
            if rng.random_bool(0.12) {
                let modes = [Mode::Good, Mode::Partitioned, Mode::Slow, Mode::Garbage, Mode::Gone];
                client.mode.set(modes[rng.random_range(0..modes.len())]);
                client.is_doubtful.set(true);
            }
            if client.mode.get().is_away() {
                continue;
            }
            let (lane, file) = (rng.random_range(0..LANES), FILES[rng.random_range(0..FILES.len())]);
            let patience = rng.random_bool(0.1).then(|| Duration::from_micros(rng.random_range(0..8000)));
            if rng.random_bool(0.3) {
                self.write(n, lane, file, patience).await;
            } else {
                self.read(n, lane, file, patience).await;
            }
        }
    }

    /// Checks that a reachable client never has older than the last acknowledged change.
    async fn check(self: Rc<Self>) {
        loop {
            time::sleep(Duration::from_millis(25)).await;
            self.look();
        }
    }

    fn look(&self) {
        for client in &self.clients {
            client.cache.borrow_mut().retain(|_, kept| kept.until > time::now());
            if client.mode.get() != Mode::Good || client.is_doubtful.get() || client.late.get() > 0 {
                continue;
            }
            for (file, kept) in &*client.cache.borrow() {
                let acknowledged = self.truth[file].acknowledged.get();
                assert!(kept.content >= acknowledged, "{:?} reads {kept:?} of {file}", client.holder);
            }
        }
    }

    /// Has a lane do something for a client; `None` if the lane ended under it, or the client gave up.
    async fn on<T: 'static>(
        &self,
        lane: usize,
        patience: Option<Duration>,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let done = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&done);
        let task = self.process.host.start_on(lane, async move {
            let value = work.await;
            slot.replace(Some(value));
        });
        let (began, mut pause) = (time::now(), Duration::from_micros(200));
        loop {
            if let Some(value) = done.take() {
                return Some(value);
            }
            if self.volumes.borrow()[lane].is_none()
                || patience.is_some_and(|most| time::now() - began > most)
            {
                drop(task);
                return None;
            }
            assert!(time::now() - began < Duration::from_secs(120), "somebody waits for ever");
            time::sleep(pause).await;
            pause = (pause * 5 / 4).min(Duration::from_millis(20));
        }
    }

    async fn read(self: &Rc<Self>, n: usize, lane: usize, file: &'static str, patience: Option<Duration>) {
        let Some(volume) = self.volumes.borrow()[lane].clone() else { return };
        let (client, bed) = (self.clients[n].record.borrow().clone().unwrap(), Rc::clone(self));
        let asked = time::now();
        let reply = self.on(lane, patience, async move {
            let holder = client.holder();
            loop {
                volume.cache().flush_pending_breaks(&client).await.ok()?;
                let (caller, until) = (nobody().sparing(holder), time::now() + LASTS);
                let look_with_callback = match volume
                    .lookup_with_callback(&caller, &client, path(file), Rights::READ, until)
                    .await
                {
                    Ok(look_with_callback) => look_with_callback,
                    Err(Error::Busy | Error::Unsettled) => return None,
                    Err(other) => panic!("{file}: {other}"),
                };
                let content = content(look_with_callback.resolved()).await;
                // Others come in between.
                time::sleep(Duration::from_micros(bed.seed % 7 * 100)).await;
                let Some(confirmed) = look_with_callback.confirm() else { continue };
                let version = confirmed.version;
                let in_flight_reply = look_with_callback.in_flight_reply();
                return Some((content, version, in_flight_reply));
            }
        });
        let Some(Some((content, version, in_flight_reply))) = reply.await else { return };
        let before = self.contents.borrow_mut().insert((file, version), content);
        assert!(before.is_none_or(|before| before == content), "{version:?} of {file} has two contents");
        time::sleep(Duration::from_micros(self.seed % 5 * 150)).await;
        let client = &self.clients[n];
        if !client.mode.get().is_away() {
            let until = asked + LASTS - BIAS;
            client.cache.borrow_mut().insert(file, Kept { content, version, until });
            if client.mode.get() == Mode::Good {
                client.is_doubtful.set(false);
            }
        }
        drop(in_flight_reply);
        self.look();
    }

    async fn write(self: &Rc<Self>, n: usize, lane: usize, file: &'static str, patience: Option<Duration>) {
        let Some(volume) = self.volumes.borrow()[lane].clone() else { return };
        let truth = &self.truth[file];
        if truth.is_written.replace(true) {
            return;
        }
        let next = truth.tried.get() + 1;
        truth.tried.set(next);
        let (client, began) = (self.clients[n].record.borrow().clone().unwrap(), time::now());
        let written = self.on(lane, patience, async move {
            volume.cache().flush_pending_breaks(&client).await.ok()?;
            let caller = nobody().sparing(client.holder());
            let directory = root(&volume).await;
            let writer = directory.open_writer(&caller, super::name(file)).await.ok()?;
            let times = 1 + next % 3;
            // Several in a row, under one permit; all the same content.
            for _ in 0..times {
                let mut buf = lane::current().buffers().get(lane::buffer::BufClass::Small).await;
                buf.append(&[next]);
                let asked = time::now();
                writer.write_at(&caller, 0, buf).await.0.ok()?;
                let waited = time::now() - asked;
                // For all clients at once, and for lanes.
                assert!(waited < Duration::from_secs(5), "a change waited for {waited:?}");
            }
            Some((writer.file().object().unwrap().version(), times))
        });
        let written = written.await;
        if written.is_none() {
            // It may be made yet, for as long as a change may take.
            time::sleep(Duration::from_secs(10)).await;
        }
        truth.is_written.set(false);
        let client = &self.clients[n];
        let kept = client.cache.borrow().get(file).copied();
        let Some(Some((version, times))) = written else {
            // It is not known whether it was made.
            client.cache.borrow_mut().remove(file);
            return;
        };
        truth.acknowledged.set(truth.acknowledged.get().max(next));
        assert!(time::now() - began < Duration::from_secs(60));
        if let Some(kept) = kept.filter(|_| client.mode.get() == Mode::Good && !client.is_doubtful.get()) {
            // It kept its promise while it wrote: no other client's change came in between.
            assert_eq!(u64::from(version), u64::from(kept.version) + u64::from(times), "of {file}");
            client.cache.borrow_mut().insert(file, Kept { content: next, version, ..kept });
        } else {
            client.cache.borrow_mut().remove(file);
        }
        self.look();
    }
}

impl CallbackNotifier for Telling {
    fn knows(&self, holder: Holder) -> bool {
        (holder.0 as usize) < CLIENTS
    }

    fn notify(&self, client: &Arc<Client>, notices: Vec<Notice>) -> NotifyFuture {
        let (bed, n) = (self.0.clone(), client.holder().0 as usize);
        Box::pin(async move {
            let Some(mode) = bed.upgrade().map(|bed| bed.clients[n].mode.get()) else {
                return NotifyOutcome::NoReply;
            };
            let _late = (mode != Mode::Good).then(|| Late::begin(&bed, n));
            match mode {
                Mode::Good | Mode::Partitioned => time::sleep(Duration::from_micros(n as u64 * 400)).await,
                Mode::Slow => time::sleep(Duration::from_secs(6)).await,
                Mode::Garbage => return NotifyOutcome::NoReply,
                Mode::Gone => return NotifyOutcome::Gone,
            }
            // Calls are sent again and again.
            while bed.upgrade().is_some_and(|bed| bed.clients[n].mode.get() == Mode::Partitioned) {
                time::sleep(Duration::from_millis(200)).await;
            }
            let Some(bed) = bed.upgrade() else { return NotifyOutcome::NoReply };
            bed.told.set(bed.told.get() + 1);
            for notice in notices {
                match notice {
                    Notice::Object(object) => {
                        let file = bed.names.borrow()[object.identity()];
                        bed.clients[n].cache.borrow_mut().remove(file);
                    }
                    Notice::Volume(_) | Notice::All => bed.clients[n].cache.borrow_mut().clear(),
                }
            }
            NotifyOutcome::Acknowledged
        })
    }

    fn batch_max(&self) -> usize {
        2
    }
}

async fn content(of: &Resolved) -> u8 {
    let Resolved::File(file, _) = of else { panic!("it is a file") };
    let buf = lane::current().buffers().get(lane::buffer::BufClass::Small).await;
    let (read, buf) = file.read_at(0, 1, buf).await;
    assert_eq!(read.unwrap(), 1);
    buf[0]
}
