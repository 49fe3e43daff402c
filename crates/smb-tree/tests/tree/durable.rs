//! Durable opens, CREATEs that come again, and instances of applications.

use identity::Accounts;
use lane::time::sleep;
use smb_wire::create::context::{
    AppInstanceId, AppInstanceVersion, ContextWriter, DurableReconnectV2, DurableRequestV2, tag,
};
use smb_wire::create::create_action;
use smb_wire::create::lease::LeaseV2;
use zerocopy::FromZeros;

use super::*;

pub(super) const BATCH: u8 = 9;
pub(super) const LEASE: u8 = 0xff;
pub(super) const GUID: Guid = Guid::new([7; 16]);

/// Wants a durable open of version 2 for so many milliseconds.
pub(super) fn durable(out: &mut ContextWriter, guid: Guid, timeout: u32) {
    let asked =
        DurableRequestV2 { timeout: timeout.into(), create_guid: guid, ..DurableRequestV2::new_zeroed() };
    out.push_plain(tag::DURABLE_REQUEST_V2, &asked);
}

pub(super) fn lease(out: &mut ContextWriter, key: u8, state: u32) {
    let asked =
        LeaseV2 { lease_key: Guid::new([key; 16]), lease_state: state.into(), ..LeaseV2::new_zeroed() };
    out.push_plain(tag::LEASE, &asked);
}

pub(super) fn wish(oplock: u8, contexts: impl FnOnce(&mut ContextWriter)) -> Wish {
    let mut out = ContextWriter::new();
    contexts(&mut out);
    Wish { oplock, contexts: out.bytes().to_vec(), ..Wish::new(Disposition::OpenIf) }
}

/// Wants this open again; nothing else of it is looked at.
pub(super) fn again(id: FileId, guid: Guid, more: impl FnOnce(&mut ContextWriter)) -> Wish {
    let mut out = ContextWriter::new();
    let asked = DurableReconnectV2 { file_id: id, create_guid: guid, ..DurableReconnectV2::new_zeroed() };
    out.push_plain(tag::DURABLE_RECONNECT_V2, &asked);
    more(&mut out);
    let nonsense =
        Wish { options: 0x1234_5678, access: 0x1234_5678, oplock: 0x78, ..Wish::new(Disposition::Create) };
    Wish { contexts: out.bytes().to_vec(), ..nonsense }
}

impl Side {
    pub(super) async fn lose(&self, request_context: &RequestContext) {
        let opens = self.tree.opens().of_session(request_context.session);
        self.tree.leave_session(request_context, opens).await;
    }

    pub(super) fn disconnected(&self) -> usize {
        self.tree.opens().usage().disconnected
    }

    async fn durable_file(
        &self,
        request_context: &RequestContext,
        name: &str,
        guid: Guid,
        timeout: u32,
    ) -> Arc<Open> {
        let open = self.open(request_context, name, &wish(BATCH, |out| durable(out, guid, timeout))).await;
        assert!(open.is_durable(), "{name}");
        open
    }
}

/// A CREATE that is cut as its session ends closes what it has made, while that puts it to rest.
#[test]
fn a_durable_open_that_is_closed_as_its_session_ends_waits_for_no_client() {
    for ms in 0..60 {
        on_slow_disk(1, move |side| async move {
            let one = request_context(1);
            let open = side.durable_file(&one, "a", GUID, 300_000).await;
            side.share.write_bytes(&one, &open, 0, b"kept", false).await.unwrap();
            let closing = {
                let (side, one, open) = (side.clone(), one.clone(), Arc::clone(&open));
                lane::spawn(async move { side.share.close(&one, &open, 0).await.map(drop) })
            };
            sleep(Duration::from_millis(ms)).await;
            side.tree.leave_session(&one, vec![open]).await;
            let closed = closing.await;
            assert!(matches!(closed, Ok(()) | Err(Status::FILE_CLOSED)), "{closed:?}");
            let usage = side.tree.opens().usage();
            assert_eq!((usage.opens, usage.disconnected), (0, 0), "after {ms} ms");
        });
    }
}

#[test]
fn opens_that_are_left_go_with_the_last_tree_that_has_their_table() {
    alone(async |beside: Side| {
        let tree = Tree::new(Opens::new(OpensLimits::default()), Rc::clone(&beside.heard) as _);
        let share = tree.add_share("test", beside.volume.clone(), ShareOptions::default());
        let side = Side { volume: beside.volume.clone(), share, tree, heard: Rc::clone(&beside.heard) };
        let one = request_context(1);
        drop(side.durable_file(&one, "resting", GUID, 300_000).await);
        side.lose(&one).await;
        let leased = wish(LEASE, |out| lease(out, 1, 7));
        drop(side.open(&request_context(2), "open", &leased).await);
        assert_eq!((side.disconnected(), side.tree.opens().usage().opens), (1, 2));
        let table = Arc::downgrade(side.tree.opens());
        drop(side);
        // A request that closes what rests for too long finds that the tree is gone.
        sleep(Duration::from_secs(2)).await;
        assert!(table.upgrade().is_none(), "its opens keep the table that has them");
    });
}

/// Returns the context of the same client in another session.
pub(super) fn next_session(request_context: &RequestContext) -> RequestContext {
    RequestContext { session: request_context.session + 100, tree: 5, ..request_context.clone() }
}

#[test]
fn a_durable_open_outlives_its_session_and_is_had_again_with_its_locks_and_content() {
    alone(async |side: Side| {
        let (one, two) = (request_context(1), next_session(&request_context(1)));
        let open = side.durable_file(&one, "a", GUID, 0).await;
        side.share.write_bytes(&one, &open, 0, b"kept", false).await.unwrap();
        let plain = side.open(&one, "b", &Wish::new(Disposition::Create)).await;
        let id = open.id();
        side.lose(&one).await;
        assert_eq!((side.disconnected(), open.session()), (1, 0));
        assert!(side.tree.opens().find(1, id).is_err() && side.tree.opens().find(1, plain.id()).is_err());
        for wrong in [again(id, Guid::new([8; 16]), |_| ()), again(FileId::new(9, 9), GUID, |_| ())] {
            assert_eq!(side.status(&two, "a", &wrong).await, Status::OBJECT_NAME_NOT_FOUND);
        }
        let leased = again(id, GUID, |out| lease(out, 1, 7));
        assert_eq!(side.status(&two, "a", &leased).await, Status::OBJECT_NAME_NOT_FOUND, "it has an oplock");
        let other = RequestContext { caller: Caller::new(Accounts::none().anonymous()), ..two.clone() };
        assert_eq!(side.status(&other, "a", &again(id, GUID, |_| ())).await, Status::ACCESS_DENIED);
        let had = side.create(&two, "anything", &again(id, GUID, |_| ())).await.unwrap();
        assert_eq!((had.fixed.create_action.get(), had.fixed.oplock_level), (create_action::OPENED, BATCH));
        assert_eq!((had.open.session(), had.open.tree(), side.disconnected()), (two.session, 5, 0));
        assert_eq!(side.read(&two, &had.open, 0, 10).await.unwrap(), b"kept");
        let twice = side.status(&two, "a", &again(id, GUID, |_| ())).await;
        assert_eq!(twice, Status::OBJECT_NAME_NOT_FOUND, "somebody has it");
        side.share.close(&two, &had.open, 0).await.unwrap();
    });
}

#[test]
fn a_durable_open_with_a_lease_is_had_again_by_its_client_key_and_name_alone() {
    alone(async |side: Side| {
        let (one, two) = (request_context(1), next_session(&request_context(1)));
        let made = wish(LEASE, |out| {
            durable(out, GUID, 0);
            lease(out, 1, 7);
        });
        let id = side.open(&one, "a", &made).await.id();
        side.lose(&one).await;
        side.make(&two, "b", b"").await;
        let other_client = RequestContext { client: Guid::new([99; 16]), ..two.clone() };
        for (request_context, name, wrong, status) in [
            (&two, "a", again(id, GUID, |_| ()), Status::OBJECT_NAME_NOT_FOUND),
            (&two, "a", again(id, GUID, |out| lease(out, 2, 7)), Status::OBJECT_NAME_NOT_FOUND),
            (&other_client, "a", again(id, GUID, |out| lease(out, 1, 7)), Status::OBJECT_NAME_NOT_FOUND),
            (&two, "b", again(id, GUID, |out| lease(out, 1, 7)), Status::INVALID_PARAMETER),
            (&two, "none", again(id, GUID, |out| lease(out, 1, 7)), Status::INVALID_PARAMETER),
        ] {
            assert_eq!(side.status(request_context, name, &wrong).await, status, "{name}");
        }
        let had = side.create(&two, "A", &again(id, GUID, |out| lease(out, 1, 0))).await.unwrap();
        assert_eq!(had.fixed.oplock_level, LEASE);
        assert_eq!(had.open.caching(), grants::Caching::RWH);
        side.share.close(&two, &had.open, 0).await.unwrap();
    });
}

const WRITTEN: usize = 60_000;

/// Begins a write of `o`s and gives it up after so many turns of the lane, as when its connection is lost.
async fn give_up_a_write(side: &Side, request_context: &RequestContext, open: &Arc<Open>, turns: u64) {
    let under_way = {
        let (side, request_context, open) = (side.clone(), request_context.clone(), Arc::clone(open));
        lane::spawn(async move {
            side.share.write_bytes(&request_context, &open, 0, &[b'o'; WRITTEN], false).await
        })
    };
    for _ in 0..turns {
        lane::yield_now().await;
    }
    drop(under_way);
}

#[test]
fn a_write_that_was_given_up_is_over_before_its_client_has_the_open_again() {
    for seed in 0..40 {
        on_slow_disk(seed, move |side| async move {
            let (one, two) = (request_context(1), next_session(&request_context(1)));
            let open = side.durable_file(&one, "a", GUID, 0).await;
            give_up_a_write(&side, &one, &open, seed / 2 % 10).await;
            side.lose(&one).await;
            let had = side.create(&two, "a", &again(open.id(), GUID, |_| ())).await.unwrap().open;
            if seed % 2 == 0 {
                side.share.write_bytes(&two, &had, 0, &[b'n'; WRITTEN], false).await.unwrap();
            }
            let read = side.read(&two, &had, 0, WRITTEN as u32).await;
            assert!(seed % 2 == 1 || read.as_ref().is_ok_and(|read| *read == [b'n'; WRITTEN]), "seed {seed}");
            sleep(Duration::from_secs(1)).await;
            let later = side.read(&two, &had, 0, WRITTEN as u32).await;
            assert!(read == later, "seed {seed}: a write of the lost session came late");
            side.share.close(&two, &had, 0).await.unwrap();
        });
    }
}

#[test]
fn who_is_in_conflict_with_a_disconnected_open_has_it_closed_and_waits_for_nobody() {
    alone(async |side: Side| {
        let (one, two) = (request_context(1), request_context(2));
        let id = side.durable_file(&one, "a", GUID, 0).await.id();
        side.lose(&one).await;
        let begun = lane::time::now();
        let open = side.open(&two, "a", &Wish::new(Disposition::Open)).await;
        assert!(lane::time::now() - begun < Duration::from_secs(1), "nobody is there to answer");
        assert_eq!(side.disconnected(), 0);
        assert!(side.heard.oplocks.borrow().is_empty());
        let late = side.status(&next_session(&one), "a", &again(id, GUID, |_| ())).await;
        assert_eq!(late, Status::OBJECT_NAME_NOT_FOUND);
        side.share.close(&two, &open, 0).await.unwrap();
        assert_eq!(side.tree.counters().durable_gave_way_conflict.get(), 1);
    });
}

#[test]
fn a_look_at_the_attributes_and_another_reader_leave_a_disconnected_open_alone() {
    alone(async |side: Side| {
        let (one, two) = (request_context(1), request_context(2));
        let made = wish(LEASE, |out| {
            durable(out, GUID, 0);
            lease(out, 1, 3);
        });
        let id = side.open(&one, "a", &made).await.id();
        side.lose(&one).await;
        let looking = Wish { access: rights::READ_ATTRIBUTES, ..Wish::new(Disposition::Open) };
        let reading = wish(LEASE, |out| lease(out, 2, 3));
        for beside in [looking, reading] {
            assert_eq!(side.status(&two, "a", &beside).await, Status::SUCCESS);
        }
        let one = next_session(&one);
        let had = side.create(&one, "a", &again(id, GUID, |out| lease(out, 1, 0))).await.unwrap().open;
        side.share.close(&one, &had, 0).await.unwrap();
    });
}

#[test]
fn a_disconnected_open_is_closed_when_its_time_is_over() {
    alone(async |side: Side| {
        let one = request_context(1);
        side.durable_file(&one, "short", GUID, 2_000).await;
        side.durable_file(&one, "long", Guid::new([8; 16]), 900_000).await;
        side.lose(&one).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(side.disconnected(), 2);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(side.disconnected(), 1);
        sleep(Duration::from_secs(298)).await;
        assert_eq!(side.disconnected(), 0, "five minutes at most");
        assert_eq!(side.tree.counters().durable_expired.get(), 2);
    });
}

#[test]
fn a_file_that_goes_with_its_open_and_a_lock_without_a_write_lease_do_not_wait_for_who_is_gone() {
    alone(async |side: Side| {
        let one = request_context(1);
        let delete =
            wish(BATCH, |out| durable(out, GUID, 0)).with(smb_wire::create::options::DELETE_ON_CLOSE);
        assert!(side.open(&one, "a", &delete).await.is_durable());
        side.lose(&one).await;
        assert_eq!(side.disconnected(), 0);
        let open = side.status(&one, "a", &Wish::new(Disposition::Open)).await;
        assert_eq!(open, Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn a_create_that_comes_again_finds_what_the_first_has_opened_until_that_is_used() {
    alone(async |side: Side| {
        let one = request_context(1);
        let wish = wish(BATCH, |out| durable(out, GUID, 0));
        let first = side.create(&one, "a", &wish).await.unwrap();
        assert_eq!(first.fixed.create_action.get(), create_action::CREATED);
        let again = side.replay(&one, "a", &wish).await.unwrap();
        assert!(Arc::ptr_eq(&first.open, &again.open));
        assert_eq!(again.fixed.create_action.get(), create_action::CREATED);
        assert_eq!(again.contexts, first.contexts);
        assert_eq!(side.status(&one, "a", &wish).await, Status::DUPLICATE_OBJECTID, "it does not say so");
        let elsewhere = side.replay(&next_session(&one), "a", &wish).await;
        assert_eq!(elsewhere.unwrap_err().status, Status::DUPLICATE_OBJECTID);
        // Any request about it.
        side.tree.opens().find(1, first.open.id()).unwrap();
        let shared = Wish { share: 7, ..wish };
        let other = side.replay(&one, "a", &shared).await.unwrap();
        assert!(!Arc::ptr_eq(&first.open, &other.open), "it is a request of its own by now");
        for open in [first.open, other.open] {
            side.share.close(&one, &open, 0).await.unwrap();
        }
    });
}

#[test]
fn a_create_that_comes_again_while_the_first_waits_is_told_to_come_later() {
    on_lanes(3, 1, |_, side| async move {
        let (one, two) = (request_context(1), request_context(2));
        let holder = side.open(&one, "a", &wish(BATCH, |_| ())).await;
        let wish = wish(BATCH, |out| durable(out, GUID, 0));
        let waits = {
            let (side, two, wish) = (side.clone(), two.clone(), wish.clone());
            lane::spawn(async move { side.create(&two, "a", &wish).await })
        };
        while side.heard.oplocks.borrow().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        let early = side.replay(&two, "a", &wish).await;
        assert_eq!(early.unwrap_err().status, Status::FILE_NOT_AVAILABLE);
        side.share.close(&one, &holder, 0).await.unwrap();
        let made = waits.await.unwrap().open;
        let again = side.replay(&two, "a", &wish).await.unwrap().open;
        assert!(Arc::ptr_eq(&made, &again));
        side.share.close(&two, &made, 0).await.unwrap();
    });
}

#[test]
fn an_instance_that_comes_from_another_client_takes_over_unless_it_is_older() {
    alone(async |side: Side| {
        let instance = |version: Option<u64>, guid| {
            let mut wish = wish(0, |out| {
                durable(out, guid, 0);
                let id = AppInstanceId {
                    structure_size: 20.into(),
                    app_instance_id: GUID,
                    ..AppInstanceId::new_zeroed()
                };
                out.push_plain(tag::APP_INSTANCE_ID, &id);
                if let Some(version) = version {
                    let version = AppInstanceVersion {
                        structure_size: 24.into(),
                        high: version.into(),
                        ..AppInstanceVersion::new_zeroed()
                    };
                    out.push_plain(tag::APP_INSTANCE_VERSION, &version);
                }
            });
            wish.share = 0;
            wish
        };
        let (one, two, three) = (request_context(1), request_context(2), request_context(3));
        let old = side.open(&one, "a", &instance(Some(2), Guid::new([1; 16]))).await.id();
        for version in [None, Some(1), Some(2)] {
            let refused = side.status(&two, "a", &instance(version, Guid::new([2; 16]))).await;
            assert_eq!(refused, Status::FILE_FORCED_CLOSED, "{version:?}");
        }
        let new = side.open(&two, "a", &instance(Some(3), Guid::new([3; 16]))).await;
        assert_eq!(side.tree.opens().find(1, old).unwrap_err(), Status::FILE_CLOSED);
        let other = side.status(&three, "b", &instance(None, Guid::new([4; 16]))).await;
        assert_eq!(other, Status::SUCCESS, "another file");
        side.share.close(&two, &new, 0).await.unwrap();
    });
}

#[test]
fn a_network_of_many_addresses_gives_way_before_an_address_that_has_more_than_each_of_them() {
    let limits = OpensLimits { disconnected_max: 10, ..Default::default() };
    limited(limits, async |side: Side| {
        let lose = async |request_context: RequestContext, n: u8| {
            side.durable_file(&request_context, &format!("f{n}"), Guid::new([n; 16]), 0).await;
            side.lose(&request_context).await;
        };
        lose(request_context(1), 1).await;
        lose(request_context(1), 2).await;
        for n in 10..20 {
            let address = format!("2001:db8:1:{n}00::").parse().unwrap();
            lose(RequestContext { address, ..request_context(n.into()) }, n).await;
        }
        let opens = side.tree.opens().all();
        assert_eq!(opens.iter().filter(|open| open.client() == request_context(1).client).count(), 2);
        assert_eq!(side.disconnected(), 10);
        sleep(Duration::from_secs(62)).await;
        assert_eq!(side.disconnected(), 0);
    });
}

#[test]
fn the_oldest_of_who_has_most_gives_way_when_there_are_too_many() {
    let limits = OpensLimits { disconnected_max: 3, disconnected_per_address_max: 2, ..Default::default() };
    limited(limits, async |side: Side| {
        let guid = |n: u8| Guid::new([n; 16]);
        let lost = async |session: u64, names: &[(&str, u8)]| {
            for (name, n) in names {
                side.durable_file(&request_context(session), name, guid(*n), 0).await;
                side.lose(&request_context(session)).await;
            }
        };
        lost(1, &[("a", 1), ("b", 2), ("c", 3)]).await;
        assert_eq!(side.disconnected(), 2, "an address has two at most");
        lost(2, &[("d", 4), ("e", 5)]).await;
        assert_eq!(side.disconnected(), 3);
        assert_eq!(side.tree.counters().durable_gave_way_limit.get(), 2);
        let still = |session: u64, n: u8| {
            let opens = side.tree.opens().all();
            opens.iter().filter(|open| open.client() == request_context(session).client).count()
                == usize::from(n)
        };
        assert!(still(1, 1) && still(2, 2));
        sleep(Duration::from_secs(62)).await;
        assert_eq!(side.disconnected(), 0);
    });
}
