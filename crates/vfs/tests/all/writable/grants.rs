//! Opens, one rule each, on two lanes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join;
use grants::conflict::RangeUse;
use grants::{Access, AdvisoryLock, Caching, Holder, LeaseKey, NameEnd, Range, RangeLock, Refused, Share};
use identity::Rights;
use lane::backend::sim::{Config, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    ClientNotification, CreateOptions, Error, Expect, Invalidation, InvalidationListener, LeaseBreak, Open,
    OpenError, OpenHow, RequestedCaching, Volume,
};

use super::changes::buf;
use super::{CLIENT, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
pub(super) const EVERYTHING: OpenHow<'_> = OpenHow {
    stream: b"",
    looks: grants::StatOpen::No,
    access: Access::from_bits(7),
    share: Share::ALL,
    need: Rights::LOOKUP,
    overwrites: false,
    consumer: CLIENT,
    wanted: None,
};

fn lease(client: u8, caching: Caching, parent: Option<u8>) -> Option<RequestedCaching> {
    let key = LeaseKey { client: [client; 16], key: [client; 16] };
    Some(RequestedCaching::Lease { key, caching, epoch: Some(0), parent: parent.map(|key| [key; 16]) })
}

pub(super) async fn open(volume: &Volume, at: &str, how: &OpenHow<'_>) -> Result<Open, OpenError> {
    Ok(volume.open_shared(&nobody(), path(at), how, &mut |_| {}).await?.0)
}

/// Holders that are told on this lane: all of it.
#[derive(Default)]
pub(super) struct Told(pub(super) RefCell<Vec<(Holder, Caching)>>);

impl InvalidationListener for Told {
    fn invalidate(&self, _: &Invalidation) -> Option<ClientNotification> {
        None
    }

    fn break_lease(&self, asked: &LeaseBreak) {
        self.0.borrow_mut().push((asked.grant_break.holder, asked.grant_break.to));
    }
}

pub(super) fn listen(volume: &Volume) -> (Rc<Told>, Rc<dyn InvalidationListener>) {
    let told = Rc::new(Told::default());
    let breaker: Rc<dyn InvalidationListener> = Rc::clone(&told) as _;
    volume.cache().add_invalidation_listener(&breaker);
    (told, breaker)
}

/// Runs it on one lane of two, as the other stands by.
fn alone<F: Future<Output = ()> + 'static>(each: impl Fn(Volume) -> F + Copy + 'static) {
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| async move {
        match lane {
            0 => each(volume).await,
            _ => {
                time::sleep(Duration::from_secs(400)).await;
                drop(volume);
            }
        }
    });
}

async fn page(volume: &Volume) {
    root(volume).await.create(&nobody(), name("page"), NEW).await.unwrap();
}

#[test]
fn who_does_not_share_is_not_written_replaced_or_removed_by_others() {
    alone(|volume| async move {
        page(&volume).await;
        let root = root(&volume).await;
        let reading = OpenHow { access: Access::READ, share: Share::from_bits(1), ..EVERYTHING };
        let kept = open(&volume, "page", &reading).await.unwrap();
        assert!(matches!(root.remove(&nobody(), name("page")).await, Err(Error::Locked)));
        let staged = root.stage(&nobody(), 0o644).await.unwrap();
        let published = staged.publish(&nobody(), name("page"), Expect::Anything).await;
        assert!(matches!(published, Err(Error::Locked)), "{published:?}");
        let writer = root.open_writer(&nobody(), name("page")).await.unwrap();
        assert!(matches!(writer.truncate(&nobody(), 5).await, Err(Error::Locked)));
        let refused = open(&volume, "page", &EVERYTHING).await.unwrap_err();
        assert!(matches!(refused, OpenError::Refused(Refused::Sharing)));
        kept.close(&volume, &nobody()).await.unwrap();
        writer.truncate(&nobody(), 5).await.unwrap();
        root.remove(&nobody(), name("page")).await.unwrap();
    });
}

#[test]
fn a_name_goes_with_its_last_open_and_a_new_file_of_that_name_stays() {
    alone(|volume| async move {
        page(&volume).await;
        let first = open(&volume, "page", &EVERYTHING).await.unwrap();
        let second = open(&volume, "page", &EVERYTHING).await.unwrap();
        first.delete_on_close(Some(NameEnd::LastClose)).unwrap();
        first.close(&volume, &nobody()).await.unwrap();
        let refused = open(&volume, "page", &EVERYTHING).await.unwrap_err();
        assert!(matches!(refused, OpenError::Refused(Refused::DeletePending)));
        second.close(&volume, &nobody()).await.unwrap();
        assert!(matches!(volume.lookup(path("page")).await, Err(Error::NotFound)));

        page(&volume).await;
        let open_still = open(&volume, "page", &EVERYTHING).await.unwrap();
        open_still.set_deletion(&volume, Some(NameEnd::LastClose)).await.unwrap();
        let root = root(&volume).await;
        let staged = root.stage(&nobody(), 0o644).await.unwrap();
        staged.publish(&nobody(), name("page"), Expect::Anything).await.unwrap();
        open_still.close(&volume, &nobody()).await.unwrap();
        assert!(volume.lookup(path("page")).await.is_ok(), "it is another file");
        drop(open(&volume, "page", &EVERYTHING).await.unwrap());
    });
}

/// AFS's clients store, and are answered with the file's status afterwards. The share mode ends with the
/// open, the name a moment later.
#[test]
fn nothing_is_done_for_good_to_a_file_that_goes_with_who_let_nobody_do_it() {
    seeds(300, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        on_lanes(seed, config, 1, move |_, _, volume| async move {
            let mut dice = SmallRng::seed_from_u64(seed);
            page(&volume).await;
            let root = root(&volume).await;
            let writer = root.open_writer(&nobody(), name("page")).await.unwrap();
            let number = writer.file().object().unwrap().number();
            let reading = OpenHow { share: Share::from_bits(1), ..EVERYTHING };
            let kept = open(&volume, "page", &reading).await.unwrap();
            kept.delete_on_close(Some(NameEnd::LastClose)).unwrap();
            let (closes_at, stores) = (dice.random_range(0..2_000), dice.random_bool(0.7));
            let closed = async {
                time::sleep(Duration::from_micros(closes_at)).await;
                kept.close(&volume, &nobody()).await.unwrap();
            };
            let changed = async {
                loop {
                    let done = match stores {
                        true => writer.write_at(&nobody(), 0, buf("text").await).await.0,
                        false => {
                            let over = vfs::Replace::Never;
                            root.rename(&nobody(), name("page"), &root, name("moved"), over).await
                        }
                    };
                    match done {
                        Err(Error::Locked) => time::sleep(Duration::from_micros(20)).await,
                        Err(Error::NotFound) if !stores => return,
                        done => {
                            done.unwrap();
                            let found = volume.find(&nobody(), number, Rights::LOOKUP).await;
                            assert!(matches!(found, Err(Error::Stale)), "it is found: {:?}", found.is_ok());
                            return;
                        }
                    }
                }
            };
            join(closed, changed).await;
            assert!(matches!(volume.lookup(path("page")).await, Err(Error::NotFound)));
            assert!(matches!(volume.lookup(path("moved")).await, Err(Error::NotFound)));
        });
    });
}

#[test]
fn a_deletion_goes_with_the_file_when_it_is_renamed() {
    alone(|volume| async move {
        page(&volume).await;
        let root = root(&volume).await;
        let it = open(&volume, "page", &EVERYTHING).await.unwrap();
        it.set_deletion(&volume, Some(NameEnd::LastClose)).await.unwrap();
        root.rename(&it.caller(&nobody()), name("page"), &root, name("moved"), vfs::Replace::Never)
            .await
            .unwrap();
        it.close(&volume, &nobody()).await.unwrap();
        assert!(matches!(volume.lookup(path("moved")).await, Err(Error::NotFound)));
    });
}

#[test]
fn a_directory_is_not_renamed_by_smb_while_something_beneath_is_open_but_by_others() {
    alone(|volume| async move {
        let (told, _breaker) = listen(&volume);
        let root = root(&volume).await;
        let a = root.make_directory(&nobody(), name("a"), 0o755).await.unwrap();
        let deep = a.make_directory(&nobody(), name("deep"), 0o755).await.unwrap();
        deep.create(&nobody(), name("page"), NEW).await.unwrap();
        root.make_directory(&nobody(), name("b"), 0o755).await.unwrap();
        let mover = open(&volume, "a", &EVERYTHING).await.unwrap();
        let by = mover.caller(&nobody());
        let rename = async |by| root.rename(by, name("a"), &root, name("c"), vfs::Replace::Never).await;
        for how in [EVERYTHING, OpenHow { share: Share::from_bits(0), ..EVERYTHING }] {
            let kept = open(&volume, "a/deep/page", &how).await.unwrap();
            assert!(matches!(rename(&by).await, Err(Error::AccessDenied)));
            let exchanged = root.exchange(&by, name("b"), &root, name("a")).await;
            assert!(matches!(exchanged, Err(Error::AccessDenied)));
            kept.close(&volume, &nobody()).await.unwrap();
        }
        assert_eq!(volume.counters().refused_access.get(), 4);
        // What its client keeps open for later is asked back.
        let caching = OpenHow { wanted: lease(1, Caching::RH, None), ..EVERYTHING };
        let kept = Rc::new(open(&volume, "a/deep/page", &caching).await.unwrap());
        let asked = Rc::clone(&told);
        let closing = lane::spawn({
            let (kept, volume) = (Rc::clone(&kept), volume.clone());
            async move {
                while asked.0.borrow().is_empty() {
                    time::sleep(Duration::from_millis(1)).await;
                }
                kept.close(&volume, &nobody()).await.unwrap();
            }
        });
        rename(&by).await.unwrap();
        closing.await;
        assert_eq!(told.0.take(), [(kept.holder(), Caching::R)]);
        // Beside, and without an open, nothing is in the way.
        let beside = open(&volume, "b", &EVERYTHING).await.unwrap();
        let beneath = open(&volume, "c/deep/page", &EVERYTHING).await.unwrap();
        root.rename(&nobody(), name("c"), &root, name("a"), vfs::Replace::Never).await.unwrap();
        for open in [mover, beside, beneath] {
            open.close(&volume, &nobody()).await.unwrap();
        }
    });
}

#[test]
fn names_end_leases_of_their_directory_but_for_the_parents_own_and_data_does_at_close() {
    alone(|volume| async move {
        let (told, _breaker) = listen(&volume);
        page(&volume).await;
        let root = root(&volume).await;
        let directory = |client| OpenHow { wanted: lease(client, Caching::RH, None), ..EVERYTHING };
        let one = open(&volume, "", &directory(1)).await.unwrap();
        let two = open(&volume, "", &directory(2)).await.unwrap();
        assert_eq!([&one, &two].map(|open| open.opened().caching), [Caching::RH; 2]);
        // By the first one's open of the page, with its directory's key as the parent's.
        let key = LeaseKey { client: [1; 16], key: [9; 16] };
        let wanted =
            RequestedCaching::Lease { key, caching: Caching::RH, epoch: Some(0), parent: Some([1; 16]) };
        let it = open(&volume, "page", &OpenHow { wanted: Some(wanted), ..EVERYTHING }).await.unwrap();
        let writer = root.open_writer(&it.caller(&nobody()), name("page")).await.unwrap();
        it.check(Range { offset: 0, len: 5 }, RangeUse::Writing).unwrap();
        writer.truncate(&it.caller(&nobody()), 5).await.unwrap();
        assert_eq!(*told.0.borrow(), [], "data shows at close");
        it.close(&volume, &nobody()).await.unwrap();
        assert_eq!(told.0.take(), [(two.holder(), Caching::NONE)]);
        two.acknowledge(volume.cache(), Caching::NONE).unwrap();
        // A caller without an open spares no holder, and a new name shows at once.
        root.create(&nobody(), name("new"), NEW).await.unwrap();
        assert_eq!(told.0.take(), [(one.holder(), Caching::NONE)]);
        for open in [one, two] {
            open.close(&volume, &nobody()).await.unwrap();
        }
    });
}

#[test]
fn ranges_bind_opens_and_who_waits_gets_his_turn_on_any_lane() {
    let order: Rc<RefCell<Vec<usize>>> = Rc::default();
    let (seen, is_made) = (Rc::clone(&order), Rc::new(Cell::new(false)));
    on_lanes(1, Config::rough(), 3, move |lane, _, volume| {
        let (order, is_made) = (Rc::clone(&order), Rc::clone(&is_made));
        async move {
            if lane == 0 {
                page(&volume).await;
                is_made.set(true);
            }
            while !is_made.get() {
                time::sleep(Duration::from_micros(100)).await;
            }
            let it = open(&volume, "page", &EVERYTHING).await.unwrap();
            let whole = RangeLock { range: Range { offset: 0, len: 10 }, exclusive: true };
            // However long it took to open it.
            while lane != 0 && order.borrow().is_empty() {
                time::sleep(Duration::from_micros(100)).await;
            }
            if lane == 1 {
                // The waiter gives up before its turn.
                let lock = [whole];
                let waits = it.lock(&volume, &lock, true);
                assert!(time::timeout(Duration::from_millis(5), waits).await.is_err());
            }
            it.lock(&volume, &[whole], true).await.unwrap();
            order.borrow_mut().push(lane);
            assert!(it.check(whole.range, RangeUse::Writing).is_ok());
            time::sleep(Duration::from_millis(30)).await;
            assert_eq!(order.borrow().last(), Some(&lane), "nobody else has it meanwhile");
            let again = it.unlock(&volume, &[whole.range, whole.range]);
            assert!(matches!(again, Err(OpenError::Refused(Refused::NotLocked))));
            it.close(&volume, &nobody()).await.unwrap();
        }
    });
    let mut seen = seen.take();
    assert_eq!(seen[0], 0);
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn a_lane_that_never_looked_at_the_volume_tells_where_an_open_is() {
    let kept: Rc<RefCell<Option<Open>>> = Rc::default();
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| {
        let kept = Rc::clone(&kept);
        async move {
            if lane == 0 {
                let deep = root(&volume).await.make_directory(&nobody(), name("deep"), 0o755).await.unwrap();
                deep.create(&nobody(), name("page"), NEW).await.unwrap();
                *kept.borrow_mut() = Some(open(&volume, "deep/page", &EVERYTHING).await.unwrap());
                return time::sleep(Duration::from_millis(50)).await;
            }
            while kept.borrow().is_none() {
                time::sleep(Duration::from_micros(100)).await;
            }
            let it = kept.take().unwrap();
            assert_eq!(it.path(&volume).unwrap().as_path().to_string(), "deep/page");
            it.close(&volume, &nobody()).await.unwrap();
        }
    });
}

#[test]
fn locks_of_others_meet_locks_alone() {
    alone(|volume| async move {
        page(&volume).await;
        let it = open(&volume, "page", &EVERYTHING).await.unwrap();
        let until = Some(time::now() + Duration::from_secs(300));
        let lock = RangeLock { range: Range::WHOLE, exclusive: true };
        volume.lock_advisory(it.object(), CLIENT, AdvisoryLock { owner: 7, lock, until }).await.unwrap();
        assert!(it.check(Range { offset: 0, len: 5 }, RangeUse::Writing).is_ok());
        let refused = it.lock(&volume, &[lock], false).await;
        assert!(matches!(refused, Err(OpenError::Refused(Refused::Locked))));
        time::sleep(Duration::from_secs(301)).await;
        it.lock(&volume, &[lock], false).await.unwrap();
        it.close(&volume, &nobody()).await.unwrap();
    });
}

#[test]
fn a_holder_who_never_answers_is_waited_for_no_longer_than_his_time() {
    alone(|volume| async move {
        let (told, _breaker) = listen(&volume);
        page(&volume).await;
        let root = root(&volume).await;
        let how = OpenHow { wanted: lease(1, Caching::RWH, None), ..EVERYTHING };
        let it = open(&volume, "page", &how).await.unwrap();
        let began = time::now();
        root.remove(&nobody(), name("page")).await.unwrap();
        let took = time::now() - began;
        assert!((Duration::from_secs(35)..Duration::from_secs(36)).contains(&took), "{took:?}");
        assert_eq!(told.0.take(), [(it.holder(), Caching::NONE)]);
        assert_eq!(it.caching(), Some(Caching::NONE));
        let counters = volume.counters();
        assert_eq!(counters.grants_expired.get(), 1);
        assert_eq!(counters.grants_waited.get(), 1);
        it.close(&volume, &nobody()).await.unwrap();
    });
}

#[test]
fn a_key_of_another_file_is_refused_and_what_is_dropped_is_given_back() {
    alone(|volume| async move {
        page(&volume).await;
        root(&volume).await.create(&nobody(), name("other"), NEW).await.unwrap();
        let how = OpenHow { wanted: lease(1, Caching::RWH, None), ..EVERYTHING };
        let it = open(&volume, "page", &how).await.unwrap();
        let refused = open(&volume, "other", &how).await.unwrap_err();
        assert!(matches!(refused, OpenError::LeaseOfOtherFile(_)));
        drop(it);
        let again = open(&volume, "other", &how).await.unwrap();
        assert_eq!(again.opened().caching, Caching::RWH);
        again.close(&volume, &nobody()).await.unwrap();
    });
}
