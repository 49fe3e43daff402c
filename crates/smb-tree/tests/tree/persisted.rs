//! Durable opens over a restart of the server: what is there again, and what is not.

use std::time::Duration;

use index::{Index, Memory, Options};
use smb_tree::{RestoredOpens, SavedOpens};
use smb_wire::create::create_action;

use super::durable::{BATCH, GUID, LEASE, again, durable, lease, next_session, wish};
use super::locks::{AT_ONCE, lock};
use super::*;

/// A server that ends and begins again, on one host.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) host: Host,
    storage: Memory,
    pub(super) accounts: Arc<Accounts>,
    lanes: usize,
    is_begun: bool,
}

/// One process of it.
pub(super) struct Process {
    index: Arc<Index>,
    pub(super) objects: Objects,
    pub(super) opens: Arc<Opens>,
    /// By lane.
    pub(super) sides: Vec<Side>,
}

impl Site {
    pub(super) fn new(seed: u64, lanes: usize) -> Self {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        for _ in 1..lanes {
            host.add_lane();
        }
        let accounts = users("");
        Self { world, host, storage: Memory::default(), accounts, lanes, is_begun: false }
    }

    /// A process begins, and takes this up.
    pub(super) fn begin(&mut self, page: Option<Vec<u8>>) -> (Process, RestoredOpens) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.host.kill();
            self.host.restart();
        }
        // Another file with the same bytes, as what is left of the last process may have that one.
        let image = self.storage.image();
        self.storage = Memory::default();
        self.storage.set_back(&image);
        let options = Options { boot: [1; 16], ..Options::default() };
        let index = Arc::new(Index::open(self.storage.clone(), options).unwrap());
        let options = ObjectsOptions { lanes_max: self.lanes, ..Default::default() };
        let objects = Objects::new(options, Arc::clone(&index));
        let opens = Opens::new(OpensLimits::default());
        let sides: Vec<_> = (0..self.lanes)
            .map(|lane| {
                let (objects, opens) = (objects.clone(), Arc::clone(&opens));
                let accounts = Arc::clone(&self.accounts);
                let opened = self.host.start_on(lane, async move { side_for(&objects, opens, accounts) });
                self.world.block_on(&self.host, opened)
            })
            .collect();
        let tree = sides[0].tree.clone();
        let taken = self.on(0, async move {
            match page {
                Some(page) => {
                    tree.restore_opens(&page, Duration::from_secs(10)).await.expect("it was written so")
                }
                None => RestoredOpens::default(),
            }
        });
        (Process { index, objects, opens, sides }, taken)
    }

    /// Does something on a lane.
    pub(super) fn on<T: 'static>(&self, lane: usize, what: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.host, self.host.start_on(lane, what))
    }

    /// A process ends in order.
    pub(super) fn end(&self, process: Process) -> SavedOpens {
        let Process { index, objects, opens, sides } = process;
        let tree = sides[0].tree.clone();
        let down = self.on(0, async move { tree.save_opens(Duration::from_secs(3)).await });
        for (lane, side) in sides.into_iter().enumerate() {
            self.on(lane, async move { drop(side) });
        }
        // What goes on its lane goes in its next turn.
        self.world.run_for(Duration::from_millis(1));
        assert_eq!(opens.usage().opens, 0, "they are let go");
        assert_eq!(objects.in_use(), 0, "so that the index can be closed in order");
        index.close().unwrap();
        down
    }

    /// Is away for so long.
    pub(super) fn rest(&self, time: Duration) {
        self.world.run_for(time);
    }
}

/// Alice and bob, with `more` about alice.
fn users(more: &str) -> Arc<Accounts> {
    let text = format!("version = 1\n[user.alice]\nid = 1000\n{more}[user.bob]\nid = 1001\n");
    Accounts::parse(&text).unwrap()
}

/// Makes the context of a user in a session of its own.
pub(super) fn user(accounts: &Accounts, name: &str, session: u64) -> RequestContext {
    RequestContext { caller: Caller::new(accounts.user(name).unwrap()), ..request_context(session) }
}

fn leased(key: u8, state: u32, guid: Guid) -> Wish {
    wish(LEASE, |out| {
        durable(out, guid, 0);
        lease(out, key, state);
    })
}

/// A file with a lease for everything, written and locked; stays open, by a session or without.
async fn locked_file(side: Side, who: RequestContext, is_lost: bool) -> FileId {
    let open = side.open(&who, "a", &leased(1, 7, GUID)).await;
    side.share.write_bytes(&who, &open, 0, &[7; 100], false).await.unwrap();
    lock(&side, &who, &open, 10, AT_ONCE).await.unwrap();
    let id = open.id();
    if is_lost {
        side.lose(&who).await;
    }
    id
}

#[test]
fn an_open_with_a_lease_and_a_lock_is_there_again_whether_its_session_had_ended_or_not() {
    for is_lost in [false, true] {
        let mut site = Site::new(1, 1);
        let (process, taken) = site.begin(None);
        assert_eq!(taken, RestoredOpens::default());
        let (one, two) = (user(&site.accounts, "alice", 1), user(&site.accounts, "bob", 2));
        let id = site.on(0, locked_file(process.sides[0].clone(), one.clone(), is_lost));
        let down = site.end(process);
        assert_eq!((down.kept, down.left_out), (1, 0));
        let (process, taken) = site.begin(down.page);
        assert_eq!(taken, RestoredOpens { restored: 1, lost: 0 });
        let side = process.sides[0].clone();
        site.on(0, async move {
            assert_eq!(side.disconnected(), 1);
            let fresh = side.open(&two, "b", &Wish::new(Disposition::Create)).await;
            assert!(fresh.id().volatile.get() > id.volatile.get(), "numbers go on behind it");
            // Neither another client nor another user has it.
            let other = RequestContext { client: Guid::new([99; 16]), ..next_session(&one) };
            let wanted = again(id, GUID, |out| lease(out, 1, 7));
            assert_eq!(side.status(&other, "a", &wanted).await, Status::OBJECT_NAME_NOT_FOUND);
            let bob = RequestContext { client: one.client, ..two.clone() };
            assert_eq!(side.status(&bob, "a", &wanted).await, Status::ACCESS_DENIED);
            let one = next_session(&one);
            let had = side.create(&one, "a", &wanted).await.unwrap();
            assert_eq!((had.open.id(), had.fixed.create_action.get()), (id, create_action::OPENED));
            assert_eq!(had.open.caching(), grants::Caching::RWH);
            assert_eq!(had.open.locked().len(), 1);
            assert_eq!(side.read(&one, &had.open, 0, 100).await.unwrap(), [7; 100]);
            side.share.write_bytes(&one, &had.open, 15, b"!", false).await.unwrap();
            // The others meet the lease first, and then the lock.
            let (waits, theirs) = (side.clone(), two.clone());
            let reader =
                lane::spawn(async move { waits.open(&theirs, "a", &Wish::new(Disposition::Open)).await });
            while side.heard.leases.borrow().is_empty() {
                lane::time::sleep(Duration::from_millis(1)).await;
            }
            let told = side.heard.leases.borrow()[0];
            assert_eq!((told.client, told.from), (one.client, 7));
            side.share.lease_break(&one, told.key, told.to).unwrap();
            let theirs = reader.await;
            assert_eq!(side.read(&two, &theirs, 0, 100).await, Err(Status::FILE_LOCK_CONFLICT));
            assert_eq!(lock(&side, &two, &theirs, 12, AT_ONCE).await, Err(Status::LOCK_NOT_GRANTED));
            for (who, open) in [(&two, &theirs), (&two, &fresh), (&one, &had.open)] {
                side.share.close(who, open, 0).await.unwrap();
            }
        });
        assert_eq!(site.end(process), SavedOpens::default());
    }
}

#[test]
fn opens_of_one_lease_and_of_several_clients_are_there_again_beside_each_other() {
    let mut site = Site::new(2, 2);
    let (process, _) = site.begin(None);
    let (one, two) = (user(&site.accounts, "alice", 1), user(&site.accounts, "bob", 2));
    let (side, other) = (process.sides[0].clone(), process.sides[1].clone());
    let (by_one, by_two) = (one.clone(), two.clone());
    site.on(0, async move {
        for n in [1, 2] {
            side.open(&by_one, "a", &leased(1, 3, Guid::new([n; 16]))).await;
        }
        let oplock = wish(BATCH, |out| durable(out, Guid::new([3; 16]), 0));
        side.open(&by_one, "alone", &oplock).await;
        let plain = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
        side.open(&by_one, "alone", &plain).await;
    });
    site.on(1, async move { drop(other.open(&by_two, "a", &leased(2, 3, GUID)).await) });
    let down = site.end(process);
    // The oplock was broken by the second open, so neither of these is kept.
    assert_eq!(down.kept, 3);
    let (process, taken) = site.begin(down.page);
    assert_eq!(taken, RestoredOpens { restored: 3, lost: 0 });
    let side = process.sides[1].clone();
    site.on(1, async move {
        let opens = side.tree.opens().all();
        let caching: Vec<_> = opens.iter().map(|open| open.caching()).collect();
        assert_eq!(caching, [grants::Caching::RH; 3]);
        let (one, two) = (next_session(&one), next_session(&two));
        for open in opens {
            let who = if open.client() == one.client { &one } else { &two };
            let key = who.client;
            let guid = [Guid::new([1; 16]), Guid::new([2; 16]), GUID];
            let mut had = None;
            for guid in guid {
                let wanted = again(open.id(), guid, |out| {
                    lease(out, if key == one.client { 1 } else { 2 }, 3);
                });
                had = had.or(side.create(who, "a", &wanted).await.ok());
            }
            side.share.close(who, &had.expect("by one of its numbers").open, 0).await.unwrap();
        }
    });
    site.end(process);
}

/// Returns what becomes of the one open that a server has kept, after something happens while it is away.
fn kept_over(what: &str, meanwhile: impl FnOnce(&mut Site, &mut Vec<u8>), lost: u64) {
    let mut site = Site::new(3, 1);
    let (process, _) = site.begin(None);
    let one = user(&site.accounts, "alice", 1);
    site.on(0, locked_file(process.sides[0].clone(), one.clone(), true));
    let mut page = site.end(process).page.unwrap();
    meanwhile(&mut site, &mut page);
    let (process, taken) = site.begin(Some(page));
    let expected = RestoredOpens { restored: 1 - lost as usize, lost: lost as usize };
    assert_eq!(taken, expected, "{what}");
    assert_eq!(process.opens.usage().disconnected, expected.restored, "{what}");
    assert!(process.objects.in_use() < 10, "{what}");
    let side = process.sides[0].clone();
    let bob = user(&users(""), "bob", 2);
    // What became of it conflicts with no other.
    site.on(0, async move {
        side.status(&bob, "a", &Wish::new(Disposition::OpenIf)).await;
        assert_eq!(side.disconnected(), 0);
    });
    site.end(process);
}

#[test]
fn what_the_tree_the_users_or_the_time_do_not_bear_out_any_more_is_lost() {
    let secs = |secs| lane::fs::Timestamp { secs, nanos: 5 };
    kept_over("nothing", |_, _| {}, 0);
    kept_over("read by others", |site, _| drop(site.host.fs().read("/srv/a").unwrap()), 0);
    kept_over("written by another program", |site, _| site.host.fs().append("/srv/a", b"!").unwrap(), 1);
    kept_over("touched", |site, _| site.host.fs().set_mtime("/srv/a", secs(9)).unwrap(), 1);
    kept_over("removed", |site, _| site.host.fs().remove("/srv/a").unwrap(), 1);
    kept_over("renamed", |site, _| site.host.fs().rename("/srv/a", "/srv/c").unwrap(), 1);
    kept_over("another file by its name", |site, _| site.host.fs().replace("/srv/a", [7; 100]).unwrap(), 1);
    kept_over("a user who is disabled", |site, _| site.accounts = users("disabled = true\n"), 1);
    kept_over("half a minute", |site, _| site.rest(Duration::from_secs(30)), 0);
    kept_over("an hour", |site, _| site.rest(Duration::from_secs(3_600)), 1);
    kept_over(
        "another user of the name",
        |site, _| {
            let text = "version = 1\n[user.alice]\nid = 1002\n[user.bob]\nid = 1001\n";
            site.accounts = Accounts::parse(text).unwrap();
        },
        1,
    );
    kept_over("a server in between, which was killed", |site, _| drop(site.begin(None)), 1);
    kept_over(
        "a server in between, which ended in order",
        |site, _| {
            let (process, _) = site.begin(None);
            site.end(process);
        },
        1,
    );
}

#[test]
fn a_page_is_used_once() {
    let mut site = Site::new(4, 1);
    let (process, _) = site.begin(None);
    let one = user(&site.accounts, "alice", 1);
    site.on(0, locked_file(process.sides[0].clone(), one, true));
    let page = site.end(process).page;
    let (process, taken) = site.begin(page.clone());
    assert_eq!(taken.restored, 1);
    // It is killed.
    drop(process);
    let (process, taken) = site.begin(page);
    assert_eq!(taken, RestoredOpens { restored: 0, lost: 1 }, "it was for the server before");
    assert_eq!(process.sides[0].tree.counters().durable_lost_share.get(), 1);
    site.end(process);
}

#[test]
fn a_damaged_page_is_refused_as_a_whole() {
    let mut site = Site::new(5, 1);
    let (process, _) = site.begin(None);
    let one = user(&site.accounts, "alice", 1);
    site.on(0, locked_file(process.sides[0].clone(), one, true));
    let page = site.end(process).page.unwrap();
    let (process, _) = site.begin(None);
    for len in [0, 7, 9, 30, page.len() - 1] {
        let (tree, torn) = (process.sides[0].tree.clone(), page[..len].to_vec());
        let taken = site.on(0, async move { tree.restore_opens(&torn, Duration::from_secs(10)).await });
        assert!(taken.is_err(), "{len}");
    }
    assert_eq!(process.opens.usage().opens, 0);
    site.end(process);
}

#[test]
fn what_goes_with_its_open_or_is_not_durable_is_not_kept() {
    let mut site = Site::new(6, 1);
    let (process, _) = site.begin(None);
    let (side, one) = (process.sides[0].clone(), user(&site.accounts, "alice", 1));
    site.on(0, async move {
        let delete =
            wish(BATCH, |out| durable(out, GUID, 0)).with(smb_wire::create::options::DELETE_ON_CLOSE);
        side.open(&one, "gone", &delete).await;
        side.open(&one, "plain", &wish(BATCH, |_| ())).await;
        side.open(&one, "nothing", &Wish::new(Disposition::Create)).await;
    });
    assert_eq!(site.end(process), SavedOpens::default());
}

#[test]
fn a_create_that_was_not_used_may_come_again_after_the_restart_too() {
    let mut site = Site::new(7, 1);
    let (process, _) = site.begin(None);
    let (side, one) = (process.sides[0].clone(), user(&site.accounts, "alice", 1));
    let who = one.clone();
    let id = site.on(0, async move { side.open(&who, "a", &leased(1, 7, GUID)).await.id() });
    let down = site.end(process);
    let (process, taken) = site.begin(down.page);
    assert_eq!(taken.restored, 1);
    let side = process.sides[0].clone();
    site.on(0, async move {
        let one = next_session(&one);
        let had = side.replay(&one, "a", &leased(1, 7, GUID)).await.unwrap();
        assert_eq!((had.open.id(), had.fixed.create_action.get()), (id, create_action::CREATED));
        side.share.close(&one, &had.open, 0).await.unwrap();
    });
    site.end(process);
}

#[test]
fn an_open_that_may_delete_a_link_is_not_kept_as_one_of_what_it_leads_to() {
    let mut site = Site::new(1, 1);
    let (process, _) = site.begin(None);
    let who = user(&site.accounts, "alice", 1);
    let side = process.sides[0].clone();
    site.on(0, async move {
        side.make(&who, "a", b"content").await;
        super::links::make_links(&side, &[("to-a", "a")]).await;
        for (key, access) in [(1, EVERYTHING), (2, rights::FILE_READ)] {
            let guid = Guid::new([key; 16]);
            let wish = Wish { access, disposition: Disposition::Open, ..leased(1, 3, guid) };
            let open = side.open(&who, "to-a", &wish).await;
            assert!(open.is_durable());
        }
    });
    let down = site.end(process);
    assert_eq!((down.kept, down.left_out), (1, 1));
    site.rest(Duration::from_secs(1));
}
