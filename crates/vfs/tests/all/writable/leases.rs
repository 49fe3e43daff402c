//! Clients that hold leases and oplocks on several lanes, one with callbacks, and one without either that
//! writes, replaces, moves and removes: SMB, AFS and HTTP beside each other. A change is over only when they
//! have given back what is in its way, or have had their time, and none reads what was.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use grants::{Access, BadAcknowledgement, Caching, Holder, LeaseKey, Refused, Share};
use identity::Rights;
use lane::backend::sim::{Config, Host, World, seeds};
use lane::buffer::BufClass;
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    CallbackNotifier, ClientNotification, CreateOptions, Error, Expect, Invalidation, InvalidationListener,
    LeaseBreak, Open, OpenError, OpenHow, Replace, RequestedCaching, Volume, Writer,
};

use super::changes::buf;
use super::keeper::Keeper;
use super::{Process, name, nobody, path, root};

const SEEDS: u64 = 1000;
const ANY: CreateOptions = CreateOptions { exclusive: false, mode: 0o644 };
/// The server's patience.
const PATIENCE: Duration = Duration::from_secs(35);

/// State that is the same for all of one world.
struct All {
    host: Host,
    clients: RefCell<Vec<Rc<Client>>>,
    keeper: RefCell<Option<Rc<Keeper>>>,
    next: Cell<u32>,
    seen: Cell<[u32; 6]>,
    seen_by_keeper: Cell<[u32; 2]>,
}

/// An SMB-like client of one lane, with one open at a time.
struct Client {
    number: u64,
    all: Rc<All>,
    volume: Volume,
    /// Never answers.
    is_dead: bool,
    rng: RefCell<SmallRng>,
    /// Number by which the holder is told, from before its open is made.
    holder: Cell<Option<Holder>>,
    open: RefCell<Option<Rc<Open>>>,
    writer: RefCell<Option<Writer>>,
    inode: Cell<u64>,
    share: Cell<Share>,
    believes: Cell<Caching>,
    /// Time at which the holder should have answered at the latest.
    until: Cell<Option<Instant>>,
    cached: RefCell<Option<String>>,
    dirty: RefCell<Option<String>>,
    is_flushing: Cell<bool>,
    /// Breaks that came before the open was made.
    early: RefCell<Vec<LeaseBreak>>,
    me: RefCell<std::rc::Weak<Client>>,
}

impl All {
    fn unique(&self) -> String {
        self.next.set(self.next.get() + 1);
        format!("{:08}", self.next.get())
    }

    fn saw(&self, what: usize) {
        let mut seen = self.seen.get();
        seen[what] += 1;
        self.seen.set(seen);
    }

    /// Checks that no client relies on anything but the current state.
    fn check(&self) {
        let clients = self.clients.borrow();
        let current = self.host.fs().stat("/srv/page").ok();
        if let (Some(keeper), Some(current)) = (&*self.keeper.borrow(), current)
            && let Ok(now) = self.host.fs().read("/srv/page")
        {
            keeper.check(current.ino, std::str::from_utf8(&now).unwrap());
        }
        let relied = |client: &&Rc<Client>| !client.relies_on().is_none();
        for client in clients.iter().filter(relied) {
            let beside = clients.iter().filter(relied).filter(|other| other.inode == client.inode);
            if client.relies_on().contains(Caching::W) {
                assert_eq!(beside.count(), 1, "who writes on his own relies on the file alone");
            } else if let Some(cached) = &*client.cached.borrow()
                && current.is_some_and(|current| current.ino == client.inode.get())
            {
                let now = self.host.fs().read("/srv/page").unwrap();
                assert_eq!(cached.as_bytes(), now, "client {} reads what was", client.number);
            }
        }
    }

    /// Checks a file that has lost its name: no client relies on it, and all drop its names.
    fn check_gone(&self, inode: u64) {
        for client in self.clients.borrow().iter().filter(|client| client.inode.get() == inode) {
            if client.open.borrow().is_some() {
                assert!(client.relies_on().is_none(), "client {} has not given back", client.number);
                assert!(
                    client.share.get().allows(Access::DELETE),
                    "client {} shares no deletion",
                    client.number
                );
            }
        }
    }
}

impl Client {
    fn relies_on(&self) -> Caching {
        let is_late = self.until.get().is_some_and(|until| time::now() >= until);
        if is_late { Caching::NONE } else { self.believes.get() }
    }

    async fn run(self: Rc<Self>) {
        for _ in 0..12 {
            let pause = self.rng.borrow_mut().random_range(0..4000);
            time::sleep(Duration::from_micros(pause)).await;
            let is_open = self.open.borrow().is_some();
            let step = self.rng.borrow_mut().random_range(0..4);
            match (is_open, step) {
                (false, _) => self.open().await,
                (true, 0) => self.close().await,
                (true, 1) if self.believes.get().contains(Caching::W) => {
                    let text = self.all.unique();
                    self.cached.replace(Some(text.clone()));
                    self.dirty.replace(Some(text));
                    self.all.saw(0);
                }
                _ => self.read().await,
            }
            self.all.check();
        }
        self.close().await;
    }

    async fn open(&self) {
        let caching = *[Caching::R, Caching::RH, Caching::RW, Caching::RWH, Caching::RWH]
            .choose(&mut *self.rng.borrow_mut())
            .unwrap();
        let key = LeaseKey { client: [self.number as u8; 16], key: [1; 16] };
        let lease = RequestedCaching::Lease { key, caching, epoch: Some(0), parent: None };
        let is_oplock = self.rng.borrow_mut().random_bool(0.3);
        let share = if self.rng.borrow_mut().random_bool(0.9) { 7 } else { 3 };
        self.share.set(Share::from_bits(share));
        let how = OpenHow {
            stream: b"",
            looks: grants::StatOpen::No,
            access: Access::READ | Access::WRITE,
            share: self.share.get(),
            need: Rights::READ | Rights::WRITE,
            overwrites: false,
            consumer: IpAddr::from(Ipv4Addr::from_bits(self.number as u32)).into(),
            wanted: Some(if is_oplock { RequestedCaching::Oplock(caching) } else { lease }),
        };
        let mut known = |holder| self.holder.set(Some(holder));
        match self.volume.open_shared(&nobody(), path("page"), &how, &mut known).await {
            Ok((open, found)) => {
                let caller = open.caller(&nobody());
                let writer = root(&self.volume).await.open_writer(&caller, name("page")).await;
                let inode = found.attributes().id.ino;
                let Some(writer) = writer.ok().filter(|it| it.file().attributes().unwrap().id.ino == inode)
                else {
                    // It has gone meanwhile.
                    self.holder.set(None);
                    self.early.take();
                    open.close(&self.volume, &nobody()).await.unwrap();
                    return;
                };
                self.inode.set(inode);
                self.writer.replace(Some(writer));
                self.believes.set(open.opened().caching);
                self.until.set(None);
                self.open.replace(Some(Rc::new(open)));
                self.all.saw(1);
                let early: Vec<_> = self.early.take();
                early.iter().for_each(|asked| self.take(asked));
                self.all.check();
                self.read().await;
            }
            Err(OpenError::Failed(Error::NotFound | Error::Unsettled)) => {
                self.holder.set(None);
                self.early.take();
            }
            Err(OpenError::Refused(Refused::Sharing)) => {
                self.holder.set(None);
                self.early.take();
            }
            Err(other) => panic!("{other}"),
        }
    }

    async fn read(&self) {
        let Some(open) = self.open.borrow().clone() else { return };
        if self.cached.borrow().is_some() || !self.believes.get().contains(Caching::R) {
            return;
        }
        // By the name, which may lead elsewhere by now.
        let Ok(found) = self.volume.lookup_as(&nobody(), path("page"), identity::Rights::READ).await else {
            return;
        };
        let Ok((file, attributes)) = found.into_file() else { return };
        if attributes.id.ino != self.inode.get() || !self.believes.get().contains(Caching::R) {
            return;
        }
        let (read, read_buf) =
            file.read_at(0, 64, lane::current().buffers().get(BufClass::Small).await).await;
        read.unwrap();
        let is_same = self.open.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &open));
        // What a break has overtaken is used once and not kept.
        if is_same && self.believes.get().contains(Caching::R) && self.dirty.borrow().is_none() {
            self.cached.replace(Some(String::from_utf8(read_buf.to_vec()).unwrap()));
            self.all.saw(2);
        }
    }

    /// Writes back what the client has kept.
    async fn flush(&self) {
        // One at a time, and all that was kept meanwhile.
        while self.is_flushing.get() {
            time::sleep(Duration::from_micros(100)).await;
        }
        self.is_flushing.set(true);
        while let Some(text) = self.dirty.take() {
            self.write_back(text).await;
        }
        self.is_flushing.set(false);
    }

    async fn write_back(&self, text: String) {
        let Some(open) = self.open.borrow().clone() else { return };
        // By what the client had open then: the name may lead elsewhere by now.
        let Some(writer) = self.writer.borrow().clone() else { return };
        let buf = buf(&text).await;
        writer.write_at(&open.caller(&nobody()), 0, buf).await.0.unwrap();
        self.all.saw(3);
    }

    async fn close(&self) {
        if self.open.borrow().is_none() {
            return;
        }
        // A dead one loses what it had not written.
        if !self.is_dead {
            self.flush().await;
        }
        self.believes.set(Caching::NONE);
        self.cached.take();
        self.dirty.take();
        self.holder.set(None);
        self.writer.take();
        let open = self.open.take().unwrap();
        open.close(&self.volume, &nobody()).await.unwrap();
    }

    /// Tells the holder of a break.
    fn take(&self, asked: &LeaseBreak) {
        let to = asked.grant_break.to;
        if !to.contains(Caching::R) && !asked.grant_break.from.contains(Caching::W) {
            self.cached.take();
        }
        if !asked.grant_break.acknowledge {
            self.believes.set(to);
            return;
        }
        // Without anything to write back the holder relies at once on no more than is left.
        if !self.believes.get().contains(Caching::W) {
            self.believes.set(self.believes.get().and(to));
        }
        if self.is_dead {
            self.until.set(Some(time::now() + PATIENCE));
            return;
        }
        let me = self.me.borrow().upgrade().unwrap();
        let open = self.open.borrow().clone().unwrap();
        lane::spawn(async move { me.answer(open, to).await }).detach();
    }

    async fn answer(&self, open: Rc<Open>, to: Caching) {
        let pause = self.rng.borrow_mut().random_range(0..3000);
        time::sleep(Duration::from_micros(pause)).await;
        let is_same = self.open.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &open));
        if !is_same {
            return;
        }
        self.flush().await;
        let is_same = self.open.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &open));
        if !is_same {
            return;
        }
        self.believes.set(self.believes.get().and(to));
        if !to.contains(Caching::R) {
            self.cached.take();
        }
        match open.acknowledge(self.volume.cache(), to) {
            Ok(_) => self.all.saw(4),
            // The holder was told of a lease by an open that it has closed since. This one need have been
            // given nothing.
            Err(BadAcknowledgement::NoHolder) => {
                assert!(open.opened().caching.is_none())
            }
            Err(_) => {}
        }
    }
}

impl InvalidationListener for Client {
    fn invalidate(&self, _: &Invalidation) -> Option<ClientNotification> {
        None
    }

    fn break_lease(&self, asked: &LeaseBreak) {
        if self.holder.get() != Some(asked.grant_break.holder) {
            return;
        }
        if self.open.borrow().is_none() {
            self.early.borrow_mut().push(asked.clone());
            return;
        }
        self.take(asked);
        self.all.check();
    }
}

/// Runs a client without opens: HTTP and AFS change so.
async fn stranger(all: Rc<All>, volume: Volume, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let root = root(&volume).await;
    for _ in 0..8 {
        time::sleep(Duration::from_micros(rng.random_range(0..6000))).await;
        let old = all.host.fs().stat("/srv/page").map(|stat| stat.ino);
        let began = time::now();
        match rng.random_range(0..5) {
            0 | 1 => {
                let Ok(created) = root.create(&nobody(), name("page"), ANY).await else { continue };
                let text = all.unique();
                let buf = buf(&text).await;
                match created.writer.write_at(&nobody(), 0, buf).await.0 {
                    Ok(()) => {}
                    Err(Error::Locked) => all.saw(5),
                    Err(other) => panic!("{other}"),
                }
            }
            2 => {
                let staged = root.stage(&nobody(), 0o644).await.unwrap();
                let text = all.unique();
                let buf = buf(&text).await;
                staged.write_at(0, buf).await.0.unwrap();
                match staged.publish(&nobody(), name("page"), Expect::Anything).await {
                    Ok(_) => old.into_iter().for_each(|old| all.check_gone(old)),
                    Err(Error::Locked) => all.saw(5),
                    Err(other) => panic!("{other}"),
                }
            }
            3 => match root.remove(&nobody(), name("page")).await {
                Ok(()) => old.into_iter().for_each(|old| all.check_gone(old)),
                Err(Error::Locked) => all.saw(5),
                Err(Error::NotFound) => {}
                Err(other) => panic!("{other}"),
            },
            _ => {
                let (from, to) = (name("page"), name("other"));
                match root.rename(&nobody(), from, &root, to, Replace::Existing).await {
                    Ok(()) => root
                        .rename(&nobody(), to, &root, from, Replace::Existing)
                        .await
                        .or_else(locked)
                        .unwrap(),
                    Err(Error::Locked) => all.saw(5),
                    Err(Error::NotFound) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
        assert!(time::now() - began < Duration::from_secs(170), "nobody waits for ever");
        all.check();
    }
}

fn locked(error: Error) -> Result<(), Error> {
    if matches!(error, Error::Locked | Error::NotFound) { Ok(()) } else { Err(error) }
}

#[test]
fn changes_by_others_are_over_when_leases_are_given_back_or_have_run_out() {
    let (seen, kept, ran) = (RefCell::new([0; 6]), RefCell::new([0; 2]), Cell::new(0));
    seeds(SEEDS, |seed| {
        let world = World::new(seed, Config::rough());
        let process = Process::new(&world, 3);
        process.host.fs().write("/srv/page", "--------").unwrap();
        let all = Rc::new(All {
            host: process.host.clone(),
            clients: RefCell::default(),
            keeper: RefCell::default(),
            next: Cell::new(0),
            seen: Cell::default(),
            seen_by_keeper: Cell::default(),
        });
        let mut tasks = Vec::new();
        for lane in 0..3 {
            let (process, all) = (process.clone(), Rc::clone(&all));
            tasks.push(process.host.clone().start_on(process.lanes[lane], async move {
                let volume = process.volume();
                let runs: Vec<_> = (0..2)
                    .map(|n| {
                        let number = (lane * 2 + n) as u64 + 1;
                        let client = Client::new(number, &all, &volume, seed);
                        let breaker: Rc<dyn InvalidationListener> = Rc::clone(&client) as _;
                        volume.cache().add_invalidation_listener(&breaker);
                        all.clients.borrow_mut().push(Rc::clone(&client));
                        lane::spawn(client.run())
                    })
                    .collect();
                let keeper = (lane == 1).then(|| {
                    let keeper = Keeper::new(&volume);
                    let teller: Rc<dyn CallbackNotifier> = Rc::clone(&keeper) as _;
                    volume.cache().add_callback_notifier(&teller);
                    all.keeper.replace(Some(Rc::clone(&keeper)));
                    lane::spawn(keeper.run(seed * 1000 + 7))
                });
                if lane == 0 {
                    stranger(Rc::clone(&all), volume.clone(), seed).await;
                }
                for run in runs.into_iter().chain(keeper) {
                    run.await;
                }
                // A lane that is asked by others answers.
                time::sleep(Duration::from_secs(400)).await;
                if lane == 1 {
                    let keeper = all.keeper.take().unwrap();
                    let [kept, told] = keeper.seen.get();
                    all.seen_by_keeper.set([kept, told]);
                }
                all.clients.borrow_mut().retain(|client| client.number.div_ceil(2) as usize != lane + 1);
            }));
        }
        world.block_on(&process.host, async move {
            for task in tasks {
                task.await;
            }
        });
        for (sum, here) in seen.borrow_mut().iter_mut().zip(all.seen.get()) {
            *sum += here;
        }
        for (sum, here) in kept.borrow_mut().iter_mut().zip(all.seen_by_keeper.get()) {
            *sum += here;
        }
        ran.set(ran.get() + 1);
        world.end();
        assert_eq!(process.objects.in_use(), 0, "an object outlived its users");
    });
    let (seen, ran) = (seen.into_inner(), ran.get());
    // Kept writes, opens, kept reads, writes back, answers, refusals: more often than once in ten seeds; few need not have all.
    assert!(ran < 100 || seen.iter().all(|&count| count > ran / 10), "{seen:?} of {ran}");
    let kept = kept.into_inner();
    assert!(ran < 100 || kept.iter().all(|&count| count > ran / 10), "{kept:?} of {ran}");
}

impl Client {
    fn new(number: u64, all: &Rc<All>, volume: &Volume, seed: u64) -> Rc<Self> {
        let client = Rc::new(Self {
            number,
            all: Rc::clone(all),
            volume: volume.clone(),
            is_dead: number == 6 && seed.is_multiple_of(3),
            rng: RefCell::new(SmallRng::seed_from_u64(seed * 100 + number)),
            holder: Cell::new(None),
            open: RefCell::default(),
            writer: RefCell::default(),
            inode: Cell::new(0),
            share: Cell::new(Share::ALL),
            believes: Cell::new(Caching::NONE),
            until: Cell::new(None),
            cached: RefCell::default(),
            dirty: RefCell::default(),
            is_flushing: Cell::new(false),
            early: RefCell::default(),
            me: RefCell::default(),
        });
        client.me.replace(Rc::downgrade(&client));
        client
    }
}
