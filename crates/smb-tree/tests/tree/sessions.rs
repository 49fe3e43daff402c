//! Clients whose sessions end at any moment and that come back to their durable opens, over many seeds,
//! against what a plain count and a list of opens say.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use lane::backend::sim::seeds;
use lane::time::sleep;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_wire::create::context::{ContextWriter, DurableReconnectV2, DurableRequestV2, tag};
use smb_wire::create::lease::{LeaseV2, state};
use smb_wire::create::oplock_level;
use zerocopy::FromZeros;

use super::locks::{AT_ONCE, lock};
use super::*;

/// Truth that all clients of a world know: which has the file open now, and what it must say.
#[derive(Default)]
pub(super) struct Truth {
    held: RefCell<Vec<Held>>,
    count: Cell<u64>,
    pub(super) had_again: Cell<u32>,
}

/// An open of a connected client.
#[derive(Clone, Copy)]
struct Held {
    id: FileId,
    writes: bool,
    share: u32,
    has_locked: bool,
}

/// An open that a client has lost with its session, and remembers.
pub(super) struct Lost {
    held: Held,
    guid: Guid,
    is_lease: bool,
}

impl Truth {
    fn add(&self, new: Held) {
        let read = 1;
        for other in self.held.borrow().iter() {
            let bears = |share: u32, writes: bool| {
                let wanted = read | (2 * u32::from(writes));
                share & wanted == wanted
            };
            let both = bears(other.share, new.writes) && bears(new.share, other.writes);
            assert!(both, "two opens that exclude each other");
            assert!(!(new.has_locked && other.has_locked), "a lock was taken twice");
        }
        self.held.borrow_mut().push(new);
    }

    fn remove(&self, id: FileId) {
        self.held.borrow_mut().retain(|held| held.id != id);
    }

    /// The server has ended with all that was held.
    pub(super) fn all_lost(&self) {
        self.held.borrow_mut().clear();
    }
}

impl Lost {
    /// CreateGuid of the request that made it.
    pub(super) fn guid(&self) -> Guid {
        self.guid
    }

    /// The number that the server gave.
    pub(super) fn id(&self) -> FileId {
        self.held.id
    }
}

/// One client: at most one open at a time.
pub(super) struct Client {
    pub(super) side: Side,
    pub(super) who: RequestContext,
    pub(super) key: Guid,
    pub(super) creates: u8,
    pub(super) rng: SmallRng,
    pub(super) truth: Rc<Truth>,
}

impl Client {
    /// Says to each break that it has given back what it was asked for.
    fn answer(&self) {
        let oplocks: Vec<_> = self.side.heard.oplocks.borrow_mut().drain(..).collect();
        for (id, level) in oplocks {
            // It may have been closed since.
            if let Ok(open) = self.side.tree.opens().find(self.who.session, id) {
                let _ = self.side.share.oplock_break(&self.who, &open, level);
            }
        }
        let leases: Vec<_> = self.side.heard.leases.borrow_mut().drain(..).collect();
        for told in leases.into_iter().filter(|told| told.acknowledge) {
            let _ = self.side.share.lease_break(&self.who, told.key, told.to);
        }
    }

    /// Makes an open, if others bear it.
    async fn begin(&mut self) -> Option<(Arc<Open>, Guid)> {
        self.creates += 1;
        let mut guid = [self.creates; 16];
        guid[..8].copy_from_slice(&self.who.session.to_le_bytes());
        let (guid, writes, alone) = (Guid::new(guid), self.rng.random(), self.rng.random());
        let mut contexts = ContextWriter::new();
        let asked =
            DurableRequestV2 { timeout: 400.into(), create_guid: guid, ..DurableRequestV2::new_zeroed() };
        contexts.push_plain(tag::DURABLE_REQUEST_V2, &asked);
        let is_lease = self.rng.random();
        if is_lease {
            contexts.push_plain(tag::LEASE, &self.lease());
        }
        let wish = Wish {
            access: if writes { rights::READ_DATA | rights::WRITE_DATA } else { rights::READ_DATA },
            share: if alone { 0 } else { 3 },
            oplock: if is_lease { oplock_level::LEASE } else { oplock_level::BATCH },
            contexts: contexts.bytes().to_vec(),
            ..Wish::new(Disposition::OpenIf)
        };
        let made = self.side.create(&self.who, "page", &wish).await;
        match made {
            Ok(created) => {
                let caching = created.open.caching();
                let mut held = Held { id: created.open.id(), writes, share: wish.share, has_locked: false };
                self.truth.add(held);
                // A client that caches writes keeps its locks too.
                if caching.contains(grants::Caching::W) && self.rng.random() {
                    let locked = lock(&self.side, &self.who, &created.open, 100, AT_ONCE).await;
                    if locked.is_ok() {
                        self.truth.remove(held.id);
                        held.has_locked = true;
                        self.truth.add(held);
                    }
                }
                Some((created.open, guid))
            }
            Err(error) => {
                assert_eq!(error.status, Status::SHARING_VIOLATION);
                None
            }
        }
    }

    fn lease(&self) -> LeaseV2 {
        let wanted = state::READ | state::WRITE | state::HANDLE;
        LeaseV2 { lease_key: self.key, lease_state: wanted.into(), ..LeaseV2::new_zeroed() }
    }

    /// Counts one more, where no other client can.
    async fn count(&self, open: &Arc<Open>) {
        let has =
            [rights::WRITE_DATA, rights::READ_DATA].iter().all(|right| open.granted_access() & right != 0);
        if !has || open.share_access() != 0 {
            return;
        }
        let before = match self.side.read(&self.who, open, 0, 8).await {
            Ok(bytes) => u64::from_le_bytes(bytes.try_into().unwrap()),
            Err(status) => {
                assert_eq!(status, Status::END_OF_FILE);
                0
            }
        };
        assert_eq!(before, self.truth.count.get(), "a write was lost, or came twice");
        let after = (before + 1).to_le_bytes();
        self.side.share.write_bytes(&self.who, open, 0, &after, false).await.unwrap();
        self.truth.count.set(before + 1);
    }

    /// Ends the client's session, which comes back in another: with its open, unless another was in conflict
    /// with that, or time is over.
    async fn come_back(&mut self, open: Arc<Open>, guid: Guid) -> Option<Arc<Open>> {
        let lost = self.lose(open, guid);
        let opens = self.side.tree.opens().of_session(self.who.session);
        self.side.tree.leave_session(&self.who, opens).await;
        sleep(Duration::from_millis(self.rng.random_range(0..600))).await;
        self.have_again(lost).await.ok()
    }

    /// Notes that the client has no session any more, or will have none in a moment.
    pub(super) fn lose(&self, open: Arc<Open>, guid: Guid) -> Lost {
        let held = Held {
            id: open.id(),
            writes: open.granted_access() & rights::WRITE_DATA != 0,
            share: open.share_access(),
            has_locked: !open.locked().is_empty(),
        };
        self.truth.remove(held.id);
        Lost { held, guid, is_lease: open.is_leased() }
    }

    /// Asks for its open in a new session.
    pub(super) async fn have_again(&mut self, lost: Lost) -> Result<Arc<Open>, Status> {
        let Lost { held, guid, is_lease } = lost;
        self.who.session += 100;
        let mut contexts = ContextWriter::new();
        let asked =
            DurableReconnectV2 { file_id: held.id, create_guid: guid, ..DurableReconnectV2::new_zeroed() };
        contexts.push_plain(tag::DURABLE_RECONNECT_V2, &asked);
        if is_lease {
            contexts.push_plain(tag::LEASE, &self.lease());
        }
        let wish = Wish { contexts: contexts.bytes().to_vec(), ..Wish::new(Disposition::Open) };
        match self.side.create(&self.who, "page", &wish).await {
            Ok(created) => {
                assert_eq!(!created.open.locked().is_empty(), held.has_locked, "its locks are as they were");
                self.truth.add(held);
                self.truth.had_again.update(|times| times + 1);
                Ok(created.open)
            }
            Err(error) => {
                assert_eq!(error.status, Status::OBJECT_NAME_NOT_FOUND);
                Err(error.status)
            }
        }
    }

    async fn run(mut self, rounds: u32) {
        let has = self.go_on(None, rounds).await;
        if let Some((open, _)) = has {
            self.truth.remove(open.id());
            self.side.share.close(&self.who, &open, 0).await.unwrap();
        }
        // What it did not come back to is over by then.
        sleep(Duration::from_secs(5)).await;
    }

    /// Runs so many rounds; gives what it has open then.
    pub(super) async fn go_on(
        &mut self,
        mut has: Option<(Arc<Open>, Guid)>,
        rounds: u32,
    ) -> Option<(Arc<Open>, Guid)> {
        for _ in 0..rounds {
            sleep(Duration::from_millis(self.rng.random_range(0..30))).await;
            self.answer();
            has = match (has, self.rng.random_range(0..4)) {
                (None, _) => self.begin().await,
                (Some((open, guid)), 0) => self.come_back(open, guid).await.map(|open| (open, guid)),
                (Some((open, _)), 1) => {
                    self.truth.remove(open.id());
                    self.side.share.close(&self.who, &open, 0).await.unwrap();
                    None
                }
                (Some((open, guid)), _) => {
                    self.count(&open).await;
                    Some((open, guid))
                }
            };
        }
        has
    }
}

#[test]
fn who_loses_his_session_loses_no_write_and_keeps_nobody_out_who_may_come_in() {
    let had_again = Rc::new(Cell::new(0));
    let times = Rc::clone(&had_again);
    let all = seeds(1_000, |seed| {
        let truth = Rc::<Truth>::default();
        let known = Rc::clone(&truth);
        on_lanes(seed, 3, move |lane, side| {
            let client = Client {
                side,
                who: request_context(lane as u64 + 1),
                key: Guid::new([lane as u8 + 1; 16]),
                creates: 0,
                rng: SmallRng::seed_from_u64(seed * 3 + lane as u64),
                truth: Rc::clone(&known),
            };
            client.run(12)
        });
        times.update(|times| times + truth.had_again.get());
    });
    // A few seeds may be of those in which no client comes back in time.
    if all {
        assert!(had_again.get() > 0, "nobody ever had his open again");
    }
}
