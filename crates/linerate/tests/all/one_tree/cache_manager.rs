//! A client of AFS that caches as OpenAFS's does: what it has read it keeps until it is told otherwise or its promise runs out, and its
//! copy of the directory it edits where its own change is the next.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use afs_wire::directory::{Directory, Target};
use afs_wire::{
    CALL_BACK_DROPPED, CallBack, Capabilities, Fid, Interfaces, SET_MOD_TIME, Status, StoreStatus, rxafs,
    rxafscb,
};
use lane::net::UdpSocket;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{AbortCode, Anonymous, CallError, Connection, Driver, LaneGroupLink, ServerCall};
use xdr::List;
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Failure, Received};

use super::server::{afs_address, config};
use super::shared::{Event, Reach, Shared};
use super::truth::{CUT, Effect, State, WHOLE, Who, content};

type Outcome<T> = Result<T, Failure<CallError>>;

/// Cached value, and until when it holds.
struct Kept<T> {
    what: T,
    version: u64,
    until: Instant,
}

type Names = BTreeMap<Vec<u8>, Target>;

pub(crate) struct CacheManager {
    number: usize,
    shared: Rc<Shared>,
    pub(crate) reach: Rc<Reach>,
    root: Fid,
    /// Seconds that its clock is behind.
    behind: u32,
    connections: RefCell<Vec<Connection>>,
    driver: RefCell<Option<Driver>>,
    directory: RefCell<Option<Kept<Names>>>,
    files: RefCell<BTreeMap<(u32, u32), Kept<State>>>,
    /// Number of times that it was told something: what came meanwhile is not believed.
    told: Cell<u64>,
    /// Number of misses of the server when the last served call began.
    misses: Cell<u64>,
    made: Cell<u32>,
    tally: rxafscb::Tally,
    rng: RefCell<SmallRng>,
}

impl CacheManager {
    /// Begins on the current lane.
    pub(crate) fn begin(
        number: usize,
        seed: u64,
        root: Fid,
        behind: u32,
        shared: &Rc<Shared>,
        reach: &Rc<Reach>,
    ) -> Rc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let socket = UdpSocket::bind(([0, 0, 0, 0], 7001).into(), &config().socket).unwrap();
        let driver = Driver::start_seeded(socket, LaneGroupLink::alone(), config(), rng.random());
        let me = Rc::new(Self {
            number,
            shared: Rc::clone(shared),
            reach: Rc::clone(reach),
            root,
            behind,
            connections: RefCell::default(),
            driver: RefCell::default(),
            directory: RefCell::default(),
            files: RefCell::default(),
            told: Cell::default(),
            misses: Cell::default(),
            made: Cell::default(),
            tally: rxafscb::Tally::default(),
            rng: RefCell::new(rng),
        });
        let called = Rc::clone(&me);
        driver.serve(1, move |mut call: ServerCall| {
            let me = Rc::clone(&called);
            async move { Ok::<(), AbortCode>(rxafscb::serve(&*me, &mut call, &me.tally).await?) }
        });
        me.driver.replace(Some(driver));
        me.connect();
        me
    }

    /// New connections, some of which are on each lane of the server.
    fn connect(&self) {
        let driver = self.driver.borrow().clone().expect("it has begun");
        let connect = |_| driver.connect(afs_address(), afs::fileserver::SERVICE, &Anonymous).unwrap();
        self.connections.replace((0..4).map(connect).collect());
    }

    pub(crate) fn end(&self) {
        self.connections.borrow_mut().clear();
        self.driver.replace(None);
        self.forgets();
    }

    pub(crate) fn forgets(&self) {
        self.directory.replace(None);
        self.files.borrow_mut().clear();
    }

    fn who(&self) -> Who {
        Who::Afs(self.number)
    }

    /// Begins a call on a connection to some lane; says what was so before it.
    async fn start(&self) -> Outcome<(rx_lane::Call, Before)> {
        let which = self.rng.borrow_mut().random_range(0..4);
        let connection = self.connections.borrow()[which].clone();
        let before =
            Before { at: self.shared.truth.now(), misses: self.shared.misses(), told: self.told.get() };
        Ok((connection.call().await.map_err(Failure::Stream)?, before))
    }

    /// Returns what came of a call.
    fn ends<T>(&self, outcome: Outcome<T>, before: &Before) -> Outcome<T> {
        match &outcome {
            Ok(_) => {
                self.reach.is_served(before.at);
                self.misses.set(before.misses);
            }
            Err(Failure::Stream(CallError::Aborted(_))) => {}
            Err(_) => self.connect(),
        }
        outcome
    }

    async fn call<P: Call>(&self, request: &P) -> Outcome<(Received<P>, Before)> {
        let (mut call, before) = self.start().await?;
        let outcome = xdr::rpc::call(&mut call, request).await;
        Ok((self.ends(outcome, &before)?, before))
    }

    async fn fetch(&self, fid: Fid) -> Outcome<(Vec<u8>, rxafs::FetchData64Reply, Before)> {
        let (mut call, before) = self.start().await?;
        let outcome = async {
            let request = rxafs::FetchData64 { fid, offset: 0, length: 1 << 20 };
            xdr::rpc::start(&mut call, &request).await?;
            call.finish().await.map_err(Failure::Stream)?;
            let mut head = [0; 8];
            call.read_exact(&mut head).await.map_err(Failure::Stream)?;
            let mut bytes = vec![0; u64::from_be_bytes(head) as usize];
            call.read_exact(&mut bytes).await.map_err(Failure::Stream)?;
            Ok((bytes, xdr::rpc::end::<rxafs::FetchData64, _>(&mut call).await?.get()))
        };
        let outcome = outcome.await;
        let (bytes, reply) = self.ends(outcome, &before)?;
        Ok((bytes, reply, before))
    }

    async fn store(&self, fid: Fid, bytes: &[u8], file_length: usize) -> Outcome<(Status, Before)> {
        let (mut call, before) = self.start().await?;
        let outcome = async {
            let now = time::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap();
            let client_mod_time = now.as_secs() as u32 - self.behind;
            let change = StoreStatus { mask: SET_MOD_TIME, client_mod_time, ..StoreStatus::default() };
            let (length, file_length) = (bytes.len() as u64, file_length as u64);
            let request = rxafs::StoreData64 { fid, change, offset: 0, length, file_length };
            xdr::rpc::start(&mut call, &request).await?;
            call.write(bytes).await.map_err(Failure::Stream)?;
            call.finish().await.map_err(Failure::Stream)?;
            Ok(xdr::rpc::end::<rxafs::StoreData64, _>(&mut call).await?.get().status)
        };
        let outcome = outcome.await;
        Ok((self.ends(outcome, &before)?, before))
    }

    /// Until when what a reply promised counts, if it was told nothing meanwhile.
    fn until(&self, call_back: &CallBack, asked: Instant, before: &Before) -> Option<Instant> {
        let is_promised = call_back.r#type != CALL_BACK_DROPPED && call_back.expires > 0;
        let is_believed = is_promised && self.told.get() == before.told;
        // It counts from before it asked.
        is_believed.then(|| asked + Duration::from_secs(call_back.expires.into()))
    }

    fn fid(&self, target: Target) -> Fid {
        Fid { volume: self.root.volume, vnode: target.vnode, uniquifier: target.uniquifier }
    }

    /// Returns what a name leads to, and whether its cache said so.
    async fn find(&self, name: &str) -> Outcome<(Option<Fid>, bool)> {
        let now = time::now();
        if let Some(kept) = &*self.directory.borrow()
            && kept.until > now
        {
            return Ok((kept.what.get(name.as_bytes()).map(|target| self.fid(*target)), true));
        }
        let (bytes, reply, before) = self.fetch(self.root).await?;
        let directory = Directory::parse(&bytes).expect("a directory's pages");
        let names: Names = directory.entries().map(|(name, target)| (name.to_vec(), target)).collect();
        let found = names.get(name.as_bytes()).map(|target| self.fid(*target));
        let kept = self.until(&reply.call_back, now, &before).map(|until| Kept {
            what: names,
            version: reply.status.data_version(),
            until,
        });
        self.directory.replace(kept);
        Ok((found, false))
    }

    /// Reads a file, from its cache where that counts.
    pub(crate) async fn read(&self, name: &'static str) -> Option<State> {
        let began = self.shared.truth.now();
        let (found, by_cache) = self.find(name).await.ok()?;
        let Some(fid) = found else {
            self.is_read(name, State::Absent, began, by_cache);
            return Some(State::Absent);
        };
        let now = time::now();
        let at_hand =
            self.files.borrow().get(&key(fid)).filter(|kept| kept.until > now).map(|kept| kept.what);
        if let Some(state) = at_hand {
            self.shared.count("afs: read from the cache");
            self.is_read(name, state, if by_cache { self.shared.truth.now() } else { began }, true);
            return Some(state);
        }
        let Ok((bytes, reply, before)) = self.fetch(fid).await else {
            // It may have been taken away since, which the cache is told of.
            return None;
        };
        let state = State::of(&bytes);
        match self.until(&reply.call_back, now, &before) {
            Some(until) => {
                let kept = Kept { what: state, version: reply.status.data_version(), until };
                self.files.borrow_mut().insert(key(fid), kept);
            }
            None => drop(self.files.borrow_mut().remove(&key(fid))),
        }
        // What was fetched while it changed is told of as that: the client asks anew.
        if reply.call_back.r#type == CALL_BACK_DROPPED {
            return None;
        }
        self.shared.count("afs: read");
        self.is_read(name, state, began, by_cache);
        Some(state)
    }

    fn is_read(&self, name: &'static str, state: State, began: Duration, by_cache: bool) {
        let is_sure = self.reach.is_sure() && self.misses.get() == self.shared.misses();
        if by_cache && !is_sure {
            return;
        }
        self.shared.truth.is_read(self.who(), name, state, (began, self.shared.truth.now()));
    }

    /// Notes the state of a file that it has stored.
    fn has_stored(&self, fid: Fid, state: State, status: &Status, before: &Before) {
        let mut files = self.files.borrow_mut();
        match files.get_mut(&key(fid)) {
            Some(kept) if self.told.get() == before.told => {
                (kept.what, kept.version) = (state, status.data_version())
            }
            _ => drop(files.remove(&key(fid))),
        }
    }

    /// Notes the state of the directory after a change of its own: edited where that was the next one, and it
    /// was told nothing.
    fn has_changed(&self, status: &Status, before: &Before, edit: impl FnOnce(&mut Names)) {
        let mut directory = self.directory.borrow_mut();
        match &mut *directory {
            Some(kept)
                if self.told.get() == before.told
                    && kept.until > time::now()
                    && status.data_version() == kept.version + 1 =>
            {
                edit(&mut kept.what);
                kept.version += 1;
                self.shared.count("afs: directory edited");
            }
            kept => *kept = None,
        }
    }

    /// Writes what there is anew, in place.
    pub(crate) async fn write(&self, name: &'static str) -> Option<()> {
        let fid = self.find(name).await.ok()?.0?;
        let number = self.shared.truth.number();
        self.changes(name, Effect::Write(number), async || {
            let (status, before) = self.store(fid, &content(number), WHOLE).await?;
            self.has_stored(fid, State::Whole(number), &status, &before);
            Ok(())
        })
        .await
    }

    /// Cuts what there is.
    pub(crate) async fn cut(&self, name: &'static str) -> Option<()> {
        let fid = self.find(name).await.ok()?.0?;
        self.changes(name, Effect::Cut, async || {
            self.store(fid, &[], CUT).await?;
            self.files.borrow_mut().remove(&key(fid));
            Ok(())
        })
        .await
    }

    /// Writes a file aside and gives it the name.
    pub(crate) async fn replace(&self, name: &'static str) -> Option<()> {
        let number = self.shared.truth.number();
        let aside = format!("afs-{}-{}", self.number, self.made.replace(self.made.get() + 1));
        let fid = self.create(&aside).await.ok()?;
        let (status, before) = self.store(fid, &content(number), WHOLE).await.ok()?;
        self.has_stored(fid, State::Whole(number), &status, &before);
        self.changes(name, Effect::Write(number), async || {
            let (old_name, new_name) = (aside.as_bytes().into(), name.as_bytes().into());
            let request = rxafs::Rename { from: self.root, old_name, to: self.root, new_name };
            let (reply, before) = self.call(&request).await?;
            self.has_changed(&reply.get().to_status, &before, |names| {
                let moved = names.remove(aside.as_bytes());
                names.extend(moved.map(|moved| (name.as_bytes().to_vec(), moved)));
            });
            Ok(())
        })
        .await
    }

    pub(crate) async fn remove(&self, name: &'static str) -> Option<()> {
        self.changes(name, Effect::Remove, async || {
            let request = rxafs::RemoveFile { directory: self.root, name: name.as_bytes().into() };
            let (reply, before) = self.call(&request).await?;
            self.has_changed(&reply.get().status, &before, |names| {
                names.remove(name.as_bytes());
            });
            Ok(())
        })
        .await
    }

    /// Makes a file, and writes it.
    pub(crate) async fn make(&self, name: &'static str) -> Option<()> {
        self.changes(name, Effect::Make, async || self.create(name).await.map(drop)).await?;
        self.write(name).await
    }

    async fn create(&self, name: &str) -> Outcome<Fid> {
        let change = StoreStatus::default();
        let request = rxafs::CreateFile { directory: self.root, name: name.as_bytes().into(), change };
        let asked = time::now();
        let (reply, before) = self.call(&request).await?;
        let reply = reply.get();
        let target = Target { vnode: reply.fid.vnode, uniquifier: reply.fid.uniquifier };
        self.has_changed(&reply.directory_status, &before, |names| {
            names.insert(name.as_bytes().to_vec(), target);
        });
        if let Some(until) = self.until(&reply.call_back, asked, &before) {
            let kept = Kept { what: State::Empty, version: reply.status.data_version(), until };
            self.files.borrow_mut().insert(key(reply.fid), kept);
        }
        Ok(reply.fid)
    }

    pub(crate) async fn gives_up_all(&self) -> Option<()> {
        self.forgets();
        self.call(&rxafs::GiveUpAllCallBacks).await.ok().map(drop)
    }

    async fn changes(
        &self,
        name: &'static str,
        effect: Effect,
        change: impl AsyncFnOnce() -> Outcome<()>,
    ) -> Option<()> {
        let truth = &self.shared.truth;
        let ticket = truth.begins(self.who(), name, effect);
        match change().await {
            Ok(()) => {
                truth.is_done(ticket);
                self.shared.count("afs: change");
                return Some(());
            }
            Err(Failure::Stream(CallError::Aborted(_))) => truth.is_refused(ticket),
            Err(_) => truth.is_lost(ticket),
        }
        // It does not know what became of it.
        self.forgets();
        None
    }
}

/// State when a call began.
struct Before {
    at: Duration,
    misses: u64,
    told: u64,
}

fn key(fid: Fid) -> (u32, u32) {
    (fid.vnode, fid.uniquifier)
}

impl rxafscb::Server<ServerCall> for CacheManager {
    async fn call_back(&self, _: &ServerCall, request: rxafscb::CallBack) -> Outcome<rxafscb::CallBackReply> {
        self.told.set(self.told.get() + 1);
        self.shared.count("afs: callback broken");
        self.shared.note(self.who(), Event::Broken);
        for fid in request.files.0 {
            if fid.vnode == 0 {
                self.forgets();
            } else if fid == self.root {
                self.directory.replace(None);
            } else {
                self.files.borrow_mut().remove(&key(fid));
            }
        }
        Ok(rxafscb::CallBackReply)
    }

    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState3,
    ) -> Outcome<rxafscb::InitCallBackState3Reply> {
        self.told.set(self.told.get() + 1);
        self.forgets();
        Ok(rxafscb::InitCallBackState3Reply)
    }

    async fn probe(&self, _: &ServerCall, _: rxafscb::Probe) -> Outcome<rxafscb::ProbeReply> {
        Ok(rxafscb::ProbeReply)
    }

    async fn probe_uuid(
        &self,
        _: &ServerCall,
        request: rxafscb::ProbeUuid,
    ) -> Outcome<rxafscb::ProbeUuidReply> {
        let is_it = request.client == self.uuid();
        if is_it { Ok(rxafscb::ProbeUuidReply) } else { Err(Failure::Refused(1)) }
    }

    async fn tell_me_about_yourself(
        &self,
        _: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Outcome<rxafscb::TellMeAboutYourselfReply> {
        let interfaces = Interfaces { count: 1, uuid: self.uuid(), ..Interfaces::default() };
        let capabilities: Capabilities = List(vec![1]);
        Ok(rxafscb::TellMeAboutYourselfReply { interfaces, capabilities })
    }
}

impl CacheManager {
    fn uuid(&self) -> AfsUuid {
        AfsUuid([self.number as u8 + 1; 16])
    }
}
