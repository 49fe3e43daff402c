//! A client of SMB that caches as Windows's and Linux's do: under a lease it keeps what it read, keeps files open that it needs no more,
//! and keeps back what it writes; when that is broken it writes back, closes, and says so.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use lane::Task;
use lane::buffer::Buf;
use lane::time::{sleep, timeout};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_client::{BreakNotification, Channel, Connection, Error, Open, OpenParams, Options, Tree};
use smb_wire::Guid;
use smb_wire::body::query_info::info_type;
use smb_wire::create::Disposition;
use smb_wire::create::access::rights;
use smb_wire::create::lease::{Lease, LeaseV2, state};
use smb_wire::info::file::class;
use smb_wire::{Status, create};
use zerocopy::FromZeros;

use super::server::{LANES, credentials, smb_address};
use super::shared::{Event, Reach, Shared};
use super::truth::{CUT, Effect, State, Ticket, WHOLE, Who, content};

/// A file that it keeps open.
struct Held {
    open: Open,
    key: Guid,
    /// State that is left of its lease.
    lease: Cell<u32>,
    cached: Cell<Option<State>>,
    /// Write that is kept back: the content, and which change that is.
    dirty: Cell<Option<(u32, Ticket)>>,
    is_flushing: Cell<bool>,
    breaks: Cell<u32>,
}

impl Held {
    fn has(&self, bits: u32) -> bool {
        self.lease.get() & bits == bits
    }
}

pub(crate) struct Redirector {
    number: usize,
    shared: Rc<Shared>,
    pub(crate) reach: Rc<Reach>,
    /// The client never answers some of the breaks.
    is_sloppy: bool,
    /// The lease that it asks for; at random without.
    wish: Option<u32>,
    tree: RefCell<Option<Tree>>,
    breaks: RefCell<Option<Task<()>>>,
    held: RefCell<BTreeMap<&'static str, Rc<Held>>>,
    /// Leases that were broken before the answer came that granted them.
    early: RefCell<VecDeque<Guid>>,
    made: Cell<u32>,
    rng: RefCell<SmallRng>,
}

impl Redirector {
    pub(crate) fn begin(
        number: usize,
        seed: u64,
        is_sloppy: bool,
        wish: Option<u32>,
        shared: &Rc<Shared>,
        reach: &Rc<Reach>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            shared: Rc::clone(shared),
            reach: Rc::clone(reach),
            is_sloppy,
            wish,
            tree: RefCell::default(),
            breaks: RefCell::default(),
            held: RefCell::default(),
            early: RefCell::default(),
            made: Cell::default(),
            rng: RefCell::new(SmallRng::seed_from_u64(seed)),
        })
    }

    pub(crate) fn end(&self) {
        self.forgets();
        self.breaks.replace(None);
        self.tree.replace(None);
    }

    fn who(&self) -> Who {
        Who::Smb(self.number)
    }

    fn draws(&self, one_in: u32) -> bool {
        self.rng.borrow_mut().random_range(0..one_in) == 0
    }

    fn serial(&self) -> u32 {
        self.made.replace(self.made.get() + 1)
    }

    /// Returns the client's session, or a new one.
    async fn tree(self: &Rc<Self>) -> Option<Tree> {
        if let Some(tree) = &*self.tree.borrow()
            && tree.channel().connection().ended().is_none()
        {
            return Some(tree.clone());
        }
        self.end();
        let lane = self.rng.borrow_mut().random_range(0..LANES);
        let signing_in = async {
            let connection = Connection::open(smb_address(lane), self.options()).await?;
            let channel = Channel::sign_in(&connection, credentials()).await?;
            Tree::connect(&channel, r"\\10.0.0.1\files").await
        };
        let began = self.shared.truth.now();
        let tree = timeout(PATIENCE, signing_in).await.ok()?.ok()?;
        self.reach.is_served(began);
        let (me, connection) = (Rc::clone(self), tree.channel().connection().clone());
        self.breaks.replace(Some(lane::spawn(async move {
            while let Ok(broken) = connection.next_break().await {
                me.is_broken(broken);
            }
            // What it held is the server's to give to others.
            me.forgets();
        })));
        self.tree.replace(Some(tree.clone()));
        Some(tree)
    }

    fn options(&self) -> Options {
        let state = Cell::new(u64::from(self.rng.borrow_mut().random::<u32>()));
        let random = move |bytes: &mut [u8]| {
            for byte in bytes {
                state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = (state.get() >> 33) as u8;
            }
        };
        Options::new(Guid::new([self.number as u8 + 1; 16]), Rc::new(random))
    }

    /// Drops all that it has: what was kept back may be made yet, or not.
    pub(crate) fn forgets(&self) {
        for held in std::mem::take(&mut *self.held.borrow_mut()).into_values() {
            held.lease.set(0);
            self.loses(&held);
        }
    }

    /// Notes that what is kept back may never be made.
    fn loses(&self, held: &Held) {
        if let Some((_, ticket)) = held.dirty.take() {
            self.shared.truth.is_lost(ticket);
        }
    }

    fn holds(&self, name: &str) -> Option<Rc<Held>> {
        self.held.borrow().get(name).cloned()
    }

    fn is_broken(self: &Rc<Self>, broken: BreakNotification) {
        let BreakNotification::Lease { key, new, acknowledge, .. } = broken else { return };
        self.shared.count("smb: lease broken");
        self.shared.note(self.who(), Event::Broken);
        let found = self
            .held
            .borrow()
            .iter()
            .find(|(_, held)| held.key == key)
            .map(|(name, held)| (*name, Rc::clone(held)));
        let Some((name, held)) = found else {
            self.early.borrow_mut().push_back(key);
            return;
        };
        held.breaks.update(|breaks| breaks + 1);
        held.lease.set(held.lease.get() & new);
        if !held.has(state::READ) {
            held.cached.set(None);
        }
        if self.is_sloppy && self.draws(20) {
            self.shared.count("smb: break ignored");
            self.held.borrow_mut().remove(name);
            self.loses(&held);
            return;
        }
        let me = Rc::clone(self);
        lane::spawn(async move { me.gives_back(name, held, acknowledge).await }).detach();
    }

    /// Answers a break.
    async fn gives_back(&self, name: &'static str, held: Rc<Held>, acknowledge: bool) {
        if self.draws(4) {
            let delay = self.rng.borrow_mut().random_range(0..30_000);
            sleep(Duration::from_micros(delay)).await;
        }
        self.flush(&held).await;
        self.shared.note(self.who(), Event::GivesBack);
        if held.has(RH) {
            if acknowledge {
                // Broken once more meanwhile, it is answered to that.
                let _ = held.open.tree().acknowledge_lease(held.key, held.lease.get()).await;
            }
            return;
        }
        let is_it = self.holds(name).is_some_and(|known| Rc::ptr_eq(&known, &held));
        if is_it {
            self.held.borrow_mut().remove(name);
        }
        // Its lease goes with its last open.
        let _ = held.open.close(0).await;
    }

    /// Writes what is kept back.
    async fn flush(&self, held: &Rc<Held>) {
        while held.is_flushing.replace(true) {
            sleep(Duration::from_micros(50)).await;
        }
        if let Some((number, ticket)) = held.dirty.get() {
            self.shared.count("smb: written back");
            let began = self.shared.truth.now();
            let written = held.open.write(0, vec![Buf::from(content(number))]).await.0;
            match written {
                Ok(len) => {
                    assert_eq!(len as usize, WHOLE);
                    self.reach.is_served(began);
                    self.shared.note(self.who(), Event::WrittenBack);
                    held.dirty.set(None);
                    self.shared.truth.is_done(ticket);
                }
                Err(_) => self.loses(held),
            }
        }
        held.is_flushing.set(false);
    }

    /// Notes what an answer tells of its client.
    fn served<T>(&self, answered: Result<T, Error>, began: Duration) -> Result<T, Error> {
        match &answered {
            Err(error) if error.status().is_none() => {}
            _ => self.reach.is_served(began),
        }
        answered
    }

    /// Opens a file, with some lease.
    async fn open(self: &Rc<Self>, name: &str, how: OpenParams) -> Option<Result<(Open, Guid, u32), Error>> {
        let tree = self.tree().await?;
        let mut key = [self.number as u8; 16];
        key[..4].copy_from_slice(&self.serial().to_le_bytes());
        let key = Guid::new(key);
        let wishes = [RWH, RWH, RWH, RWH, RH, RH, state::READ, state::READ | state::WRITE, 0];
        let drawn = wishes[self.rng.borrow_mut().random_range(0..wishes.len())];
        let wish = self.wish.unwrap_or(drawn);
        let lease = LeaseV2 { lease_key: key, lease_state: wish.into(), ..LeaseV2::new_zeroed() };
        let how = if wish == 0 { how } else { how.lease(&Lease::V2(&lease)) };
        let began = self.shared.truth.now();
        let opened = self.served(Open::create(&tree, name, &how).await, began);
        Some(opened.map(|open| {
            let granted = open.lease().map_or(0, |(state, _)| state);
            (open, key, granted)
        }))
    }

    /// Keeps a file open, if it may; else what is to be closed comes back.
    fn keeps(&self, name: &'static str, open: Open, key: Guid, lease: u32) -> Result<Rc<Held>, Open> {
        let is_broken = self.early.borrow().contains(&key);
        if is_broken || lease & RH != RH || self.holds(name).is_some() {
            return Err(open);
        }
        let held = Rc::new(Held {
            open,
            key,
            lease: Cell::new(lease),
            cached: Cell::default(),
            dirty: Cell::default(),
            is_flushing: Cell::default(),
            breaks: Cell::default(),
        });
        self.shared.count("smb: lease held");
        self.held.borrow_mut().insert(name, Rc::clone(&held));
        Ok(held)
    }

    /// Lets go of a file.
    pub(crate) async fn lets_go(&self, name: &'static str) {
        let Some(held) = self.holds(name) else { return };
        self.flush(&held).await;
        let is_it = self.holds(name).is_some_and(|known| Rc::ptr_eq(&known, &held));
        if is_it {
            self.held.borrow_mut().remove(name);
            let _ = held.open.close(0).await;
        }
    }

    /// Reads a file, from its cache where that counts.
    pub(crate) async fn read(self: &Rc<Self>, name: &'static str) -> Option<State> {
        let truth = &self.shared.truth;
        let Some(held) = self.holds(name) else { return self.reads_anew(name).await };
        let kept_back = held.dirty.get().map(|(number, _)| State::Whole(number));
        if let Some(state) = kept_back.or(held.cached.get()) {
            self.shared.count("smb: read from the cache");
            // What is kept back is not known to other clients.
            if self.reach.is_sure() && kept_back.is_none() {
                let now = truth.now();
                truth.is_read(self.who(), name, state, (now.saturating_sub(self.shared.grace), now));
            }
            return Some(state);
        }
        // What was broken is just being closed.
        if !held.has(RH) {
            return None;
        }
        let (began, breaks) = (truth.now(), held.breaks.get());
        let read = self.served(held.open.read(0, WHOLE as u32).await, began).ok()?;
        let state = State::of(&read);
        // Else the name may lead to another file.
        if breaks != held.breaks.get() {
            return None;
        }
        held.cached.set(Some(state));
        truth.is_read(self.who(), name, state, (began, truth.now()));
        Some(state)
    }

    async fn reads_anew(self: &Rc<Self>, name: &'static str) -> Option<State> {
        let began = self.shared.truth.now();
        let how = OpenParams { access: rights::FILE_READ | rights::FILE_WRITE, ..OpenParams::read() };
        let (open, key, lease) = match self.open(name, how).await? {
            Ok(opened) => opened,
            Err(error) if error.status() == Some(Status::OBJECT_NAME_NOT_FOUND) => {
                self.is_read(name, State::Absent, began);
                return Some(State::Absent);
            }
            Err(_) => return None,
        };
        let held = self.keeps(name, open.clone(), key, lease).ok();
        let breaks = held.as_ref().map(|held| held.breaks.get());
        let read = self.served(open.read(0, WHOLE as u32).await, began);
        let state = read.ok().map(|read| State::of(&read));
        match &held {
            Some(held) if breaks == Some(held.breaks.get()) => held.cached.set(state),
            Some(_) => {}
            None => drop(open.close(0).await),
        }
        self.shared.count("smb: read");
        self.is_read(name, state?, began);
        state
    }

    fn is_read(&self, name: &'static str, state: State, began: Duration) {
        self.shared.truth.is_read(self.who(), name, state, (began, self.shared.truth.now()));
    }

    /// A file to be written to: one that is kept open, or one to be closed.
    async fn writable(self: &Rc<Self>, name: &'static str) -> Option<Result<Rc<Held>, Open>> {
        if let Some(held) = self.holds(name) {
            return Some(Ok(held));
        }
        let how = OpenParams { access: rights::FILE_READ | rights::FILE_WRITE, ..OpenParams::read() };
        let (open, key, lease) = self.open(name, how).await?.ok()?;
        Some(self.keeps(name, open, key, lease))
    }

    /// Writes what there is anew, in place; or keeps that back.
    pub(crate) async fn write(self: &Rc<Self>, name: &'static str) -> Option<()> {
        let number = self.shared.truth.number();
        let effect = Effect::Write(number);
        let held = match self.writable(name).await? {
            Ok(held) => held,
            Err(open) => {
                let done = self.changes(name, effect, None, async || write(&open, number).await).await;
                let _ = open.close(0).await;
                return done;
            }
        };
        if held.has(RWH) && self.reach.is_sure() && !held.is_flushing.get() {
            let ticket = self.shared.truth.begins(self.who(), name, effect);
            // Another that was kept back is never made.
            if let Some((_, earlier)) = held.dirty.replace(Some((number, ticket))) {
                self.shared.truth.is_off(earlier);
            }
            held.cached.set(Some(State::Whole(number)));
            self.shared.count("smb: kept back");
            return Some(());
        }
        self.flush(&held).await;
        let breaks = held.breaks.get();
        held.cached.set(None);
        self.changes(name, effect, Some(&held), async || write(&held.open, number).await).await?;
        if breaks == held.breaks.get() && held.has(RH) {
            held.cached.set(Some(State::Whole(number)));
        }
        Some(())
    }

    /// Cuts what there is.
    pub(crate) async fn cut(self: &Rc<Self>, name: &'static str) -> Option<()> {
        match self.writable(name).await? {
            Ok(held) => {
                self.flush(&held).await;
                held.cached.set(None);
                self.changes(name, Effect::Cut, Some(&held), async || cut(&held.open).await).await
            }
            Err(open) => {
                let done = self.changes(name, Effect::Cut, None, async || cut(&open).await).await;
                let _ = open.close(0).await;
                done
            }
        }
    }

    /// Writes a file aside and gives it the name.
    pub(crate) async fn replace(self: &Rc<Self>, name: &'static str) -> Option<()> {
        let number = self.shared.truth.number();
        let aside = format!("smb-{}-{}", self.number, self.serial());
        let tree = self.tree().await?;
        let how = OpenParams { disposition: Disposition::Create, ..OpenParams::overwrite() };
        let open = Open::create(&tree, &aside, &how).await.ok()?;
        let written = write(&open, number).await;
        self.lets_go(name).await;
        let moved = match written {
            Ok(()) => {
                let ask = async || open.rename(name, true).await;
                self.asks(name, Effect::Write(number), ask).await
            }
            Err(_) => None,
        };
        let _ = open.close(0).await;
        moved
    }

    /// Takes a file away, as soon as all have closed it.
    pub(crate) async fn remove(self: &Rc<Self>, name: &'static str) -> Option<()> {
        self.lets_go(name).await;
        let tree = self.tree().await?;
        let ticket = self.shared.truth.begins(self.who(), name, Effect::Remove);
        let removed = async { Open::create(&tree, name, &OpenParams::delete()).await?.close(0).await };
        match removed.await {
            Ok(_) => self.shared.truth.is_lost(ticket),
            Err(error) => {
                match error.status() {
                    Some(_) => self.shared.truth.is_refused(ticket),
                    None => self.shared.truth.is_lost(ticket),
                }
                return None;
            }
        }
        Some(())
    }

    /// Makes a file, and writes it.
    pub(crate) async fn make(self: &Rc<Self>, name: &'static str) -> Option<()> {
        self.lets_go(name).await;
        let ticket = self.shared.truth.begins(self.who(), name, Effect::Make);
        let access = rights::FILE_READ | rights::FILE_WRITE;
        let how = OpenParams { access, disposition: Disposition::Create, ..OpenParams::read() };
        let opened = self.open(name, how).await;
        match &opened {
            Some(Ok((open, ..))) => {
                assert_eq!(open.created().create_action.get(), create::create_action::CREATED);
                self.shared.truth.is_done(ticket);
            }
            Some(Err(error)) if error.status().is_some() => self.shared.truth.is_refused(ticket),
            _ => self.shared.truth.is_lost(ticket),
        }
        let (open, key, lease) = opened?.ok()?;
        if let Err(open) = self.keeps(name, open, key, lease) {
            let _ = open.close(0).await;
        }
        self.write(name).await
    }

    /// A change of the file that a name led to when it was opened: it leads there still as long as the handle is held.
    async fn changes(
        &self,
        name: &'static str,
        effect: Effect,
        held: Option<&Rc<Held>>,
        change: impl AsyncFnOnce() -> Result<(), Error>,
    ) -> Option<()> {
        let truth = &self.shared.truth;
        let (ticket, began) = (truth.begins(self.who(), name, effect), truth.now());
        match self.served(change().await, began) {
            Ok(()) if held.is_some_and(|held| held.has(state::HANDLE)) => {
                truth.is_done(ticket);
                self.shared.count("smb: change");
                Some(())
            }
            // Perhaps of a file that had lost its name.
            Ok(()) => {
                truth.is_refused(ticket);
                Some(())
            }
            Err(error) => {
                match error.status() {
                    Some(_) => truth.is_refused(ticket),
                    None => truth.is_lost(ticket),
                }
                None
            }
        }
    }

    /// A change of what a name leads to.
    async fn asks(
        &self,
        name: &'static str,
        effect: Effect,
        change: impl AsyncFnOnce() -> Result<(), Error>,
    ) -> Option<()> {
        let truth = &self.shared.truth;
        let (ticket, began) = (truth.begins(self.who(), name, effect), truth.now());
        match self.served(change().await, began) {
            Ok(()) => {
                truth.is_done(ticket);
                self.shared.count("smb: change");
                Some(())
            }
            Err(error) => {
                match error.status() {
                    Some(_) => truth.is_refused(ticket),
                    None => truth.is_lost(ticket),
                }
                None
            }
        }
    }
}

async fn write(open: &Open, number: u32) -> Result<(), Error> {
    let len = open.write(0, vec![Buf::from(content(number))]).await.0?;
    assert_eq!(len as usize, WHOLE);
    Ok(())
}

async fn cut(open: &Open) -> Result<(), Error> {
    open.set(info_type::FILE, class::END_OF_FILE, 0, &(CUT as u64).to_le_bytes()).await
}

pub(crate) const RH: u32 = state::READ | state::HANDLE;
pub(crate) const RWH: u32 = RH | state::WRITE;
/// Time for which a sign-in may take.
const PATIENCE: Duration = Duration::from_secs(10);
