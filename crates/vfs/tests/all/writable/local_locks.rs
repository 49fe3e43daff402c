//! Locks of clients and of other programs of the server's machine, which exclude each other.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Range as Bytes;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use grants::{Access, AdvisoryLock, Range, RangeLock, Refused, Share};
use identity::Rights;
use lane::backend::sim::{Config, ForeignLock, Fs, World, seeds};
use lane::fs::LockKind;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{CreateOptions, Open, OpenError, OpenHow, Volume, VolumeOptions, VolumeSpec};

use super::{CLIENT, Process, name, nobody, path, root};

const EVERYTHING: OpenHow<'_> = OpenHow {
    stream: b"",
    looks: grants::StatOpen::No,
    access: Access::from_bits(7),
    share: Share::ALL,
    need: Rights::WRITE,
    overwrites: false,
    consumer: CLIENT,
    wanted: None,
};
const PAGE: &str = "/srv/page";

/// Runs a test on the first of two lanes.
fn alone<F: Future<Output = ()> + 'static>(test: impl FnOnce(Process, Volume) -> F + 'static) {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 2);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        page(&volume).await;
        test(process, volume).await;
    });
}

async fn page(volume: &Volume) {
    let how = CreateOptions { exclusive: false, mode: 0o644 };
    root(volume).await.create(&nobody(), name("page"), how).await.unwrap();
}

async fn open(volume: &Volume) -> Open {
    volume.open_shared(&nobody(), path("page"), &EVERYTHING, &mut |_| {}).await.unwrap().0
}

fn lock(offset: u64, len: u64, exclusive: bool) -> RangeLock {
    RangeLock { range: Range { offset, len }, exclusive }
}

/// Locks bytes as another program does.
fn foreign(fs: &Fs, bytes: Bytes<u64>, exclusive: bool) -> Option<ForeignLock> {
    let kind = if exclusive { LockKind::Exclusive } else { LockKind::Shared };
    match fs.lock(PAGE, bytes, kind) {
        Ok(lock) => Some(lock),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
            None
        }
    }
}

/// Locks that are over go a moment later.
async fn moment() {
    time::sleep(Duration::from_millis(5)).await;
}

fn is_locked<T>(came: &Result<T, OpenError>) -> bool {
    matches!(came, Err(OpenError::Refused(Refused::Locked)))
}

#[test]
fn other_programs_find_locked_what_clients_have_locked() {
    alone(|process, volume| async move {
        let fs = process.host.fs();
        let [one, other] = [open(&volume).await, open(&volume).await];
        one.lock(&volume, &[lock(0, 10, false), lock(20, 5, true)], false).await.unwrap();
        other.lock(&volume, &[lock(5, 10, false)], false).await.unwrap();
        assert!(foreign(&fs, 0..15, false).is_some());
        assert!(foreign(&fs, 14..15, true).is_none());
        assert!(foreign(&fs, 24..25, false).is_none());
        assert!(foreign(&fs, 15..20, true).is_some() && foreign(&fs, 25..99, true).is_some());
        one.unlock(&volume, &[Range { offset: 0, len: 10 }]).unwrap();
        moment().await;
        assert!(foreign(&fs, 0..5, true).is_some());
        assert!(foreign(&fs, 5..6, true).is_none(), "the other has it still");
        one.close(&volume, &nobody()).await.unwrap();
        moment().await;
        assert!(foreign(&fs, 15..99, true).is_some());
        drop(other);
        moment().await;
        assert!(foreign(&fs, 0..99, true).is_some());
        assert_eq!(volume.counters().locked_for_others.get(), 1);
    });
}

#[test]
fn what_other_programs_have_locked_clients_do_not_get_or_wait_for() {
    alone(|process, volume| async move {
        let fs = process.host.fs();
        let (it, theirs) = (open(&volume).await, foreign(&fs, 10..20, true));
        assert!(is_locked(&it.lock(&volume, &[lock(0, 5, true), lock(15, 1, false)], false).await));
        moment().await;
        assert!(foreign(&fs, 0..10, true).is_some(), "all of them, or none");
        assert!(it.unlock(&volume, &[Range { offset: 0, len: 5 }]).is_err());
        assert_eq!(volume.counters().grants_refused_local.get(), 1);
        let until = Some(time::now() + Duration::from_secs(300));
        let whole = AdvisoryLock { owner: 7, lock: lock(0, u64::MAX, false), until };
        assert!(is_locked(&volume.lock_advisory(it.object(), CLIENT, whole).await));
        let begun = time::now();
        let ends = lane::spawn(async move {
            time::sleep(Duration::from_secs(3)).await;
            drop(theirs);
        });
        it.lock(&volume, &[lock(15, 1, false)], true).await.unwrap();
        ends.await;
        assert_eq!((time::now() - begun).as_secs(), 3);
        assert!(foreign(&fs, 15..16, true).is_none());
        // A waiter that gives up leaves nothing behind.
        let theirs = foreign(&fs, 30..31, false);
        let wanted = [lock(30, 1, true)];
        let waits = it.lock(&volume, &wanted, true);
        assert!(time::timeout(Duration::from_secs(2), waits).await.is_err());
        drop(theirs);
        moment().await;
        assert!(foreign(&fs, 30..31, true).is_some());
        it.close(&volume, &nobody()).await.unwrap();
    });
}

#[test]
fn a_lock_outlasts_the_lane_that_took_it_and_ends_with_its_time() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 2);
    let (host, fs) = (process.host.clone(), process.host.fs());
    let (at_work, held) = (process.clone(), Rc::<Cell<Option<_>>>::default());
    let holding = Rc::clone(&held);
    let first = async move {
        let volume = at_work.volume();
        page(&volume).await;
        let it = open(&volume).await;
        it.lock(&volume, &[lock(0, 10, true)], false).await.unwrap();
        let object = std::sync::Arc::clone(it.object());
        let until = time::now() + Duration::from_secs(300);
        let advisory = AdvisoryLock { owner: 7, lock: lock(50, 10, false), until: Some(until) };
        volume.lock_advisory(&object, CLIENT, advisory).await.unwrap();
        volume.extend_advisory(&object, 7, until + Duration::from_secs(50)).unwrap();
        holding.set(Some(it));
    };
    let task = host.start_on(process.lanes[1], first);
    world.block_on(&host, task);
    host.end_lane(process.lanes[1]);
    world.run_for(Duration::from_millis(10));
    assert!(foreign(&fs, 0..10, false).is_none() && foreign(&fs, 50..51, true).is_none());
    let it = held.take().unwrap();
    let (at_work, fs) = (process.clone(), host.fs());
    world.block_on(&host, async move {
        let volume = at_work.volume();
        // Another lane goes on with it.
        volume.lookup(path("page")).await.unwrap();
        let until = time::now() + Duration::from_secs(20);
        volume.extend_advisory(it.object(), 7, until).unwrap();
        it.unlock(&volume, &[Range { offset: 0, len: 10 }]).unwrap();
        moment().await;
        assert!(foreign(&fs, 0..10, true).is_some() && foreign(&fs, 50..51, true).is_none());
        time::sleep(Duration::from_secs(21)).await;
        assert!(foreign(&fs, 50..51, true).is_some(), "nobody has asked for anything");
        it.close(&volume, &nobody()).await.unwrap();
    });
}

#[test]
fn one_task_waits_for_the_end_of_a_files_locks_however_often_they_are_taken() {
    alone(|process, volume| async move {
        let it = open(&volume).await;
        let tasks = || lane::current().counters().tasks.get();
        let until = || Some(time::now() + Duration::from_secs(300));
        let advisory = |owner| AdvisoryLock { owner, lock: lock(50, 10, false), until: until() };
        volume.lock_advisory(it.object(), CLIENT, advisory(7)).await.unwrap();
        moment().await;
        let with_one = tasks();
        for owner in [7, 8].repeat(100) {
            let _ = volume.unlock_advisory(it.object(), owner, advisory(owner).lock.range);
            volume.lock_advisory(it.object(), CLIENT, advisory(owner)).await.unwrap();
            volume.extend_advisory(it.object(), owner, until().unwrap()).unwrap();
            time::sleep(Duration::from_millis(100)).await;
        }
        assert!(tasks() <= with_one + 1, "{} tasks, {with_one} for one lock", tasks());
        // The last of them was taken 20 s after the first.
        time::sleep(Duration::from_secs(299)).await;
        assert!(foreign(&process.host.fs(), 50..51, true).is_none());
        time::sleep(Duration::from_secs(2)).await;
        assert!(foreign(&process.host.fs(), 50..51, true).is_some(), "nobody has asked for anything");
        moment().await;
        let with_none = tasks();
        for _ in 0..100 {
            volume.lock_advisory(it.object(), CLIENT, advisory(7)).await.unwrap();
            volume.unlock_advisory(it.object(), 7, advisory(7).lock.range).unwrap();
            volume.unlocked_for_others(it.object()).await;
        }
        moment().await;
        assert!(tasks() <= with_none + 1, "{} tasks, {with_none} without a lock", tasks());
        it.close(&volume, &nobody()).await.unwrap();
        moment().await;
        assert!(tasks() <= with_none, "{} tasks, {with_none} before", tasks());
    });
}

#[test]
fn a_lock_whose_asker_has_gone_is_seen_by_others_no_longer_than_its_time() {
    alone(|process, volume| async move {
        let it = open(&volume).await;
        let object = std::sync::Arc::clone(it.object());
        it.close(&volume, &nobody()).await.unwrap();
        time::sleep(Duration::from_secs(302)).await;
        let tasks = lane::current().counters().tasks.get();
        let mut answered = 0;
        for polls in 0..8 {
            let until = Some(time::now() + Duration::from_secs(300));
            let advisory = AdvisoryLock { owner: polls, lock: lock(50, 10, true), until };
            let (mut locking, mut left) = (volume.lock_advisory(&object, CLIENT, advisory), polls);
            answered += u32::from(
                poll_fn(|cx| {
                    if left == 0 {
                        return Poll::Ready(false);
                    }
                    left -= 1;
                    locking.as_mut().poll(cx).map(|locked| locked.is_ok())
                })
                .await,
            );
            drop(locking);
            time::sleep(Duration::from_secs(302)).await;
            assert!(foreign(&process.host.fs(), 50..51, true).is_some(), "given up after {polls} turns");
            moment().await;
            assert_eq!(lane::current().counters().tasks.get(), tasks, "given up after {polls} turns");
        }
        assert!((1..7).contains(&answered), "some were given up and some were not: {answered}");
    });
}

#[test]
fn a_volume_without_local_locks_leaves_other_programs_alone() {
    alone(|process, volume| async move {
        let options = VolumeOptions { serve_hidden: true, ..Default::default() };
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", options);
        let spec = VolumeSpec { local_locks: false, ..spec.writable_by(process.writable.clone()) };
        let volume = Volume::open(volume.cache(), &spec).unwrap();
        let it = open(&volume).await;
        it.lock(&volume, &[lock(0, 10, true)], false).await.unwrap();
        let theirs = foreign(&process.host.fs(), 0..20, true);
        assert!(theirs.is_some());
        it.lock(&volume, &[lock(10, 10, true)], false).await.unwrap();
        it.close(&volume, &nobody()).await.unwrap();
    });
}

#[test]
fn who_locks_many_files_for_other_programs_leaves_as_many_to_others() {
    let world = World::new(1, Config::clean());
    let process = Process::with(&world, 1, |options| options.local_locks_max = 4);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        let mut opens = Vec::new();
        for n in 0..4 {
            let (name_of, consumer) = (format!("page{n}"), IpAddr::from([192, 0, 2, n / 3]).into());
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            root(&volume).await.create(&nobody(), name(&name_of), how).await.unwrap();
            let how = OpenHow { consumer, ..EVERYTHING };
            let it = volume.open_shared(&nobody(), path(&name_of), &how, &mut |_| {}).await.unwrap().0;
            let came = it.lock(&volume, &[lock(0, 1, true)], false).await;
            match n {
                2 => {
                    assert!(matches!(came, Err(OpenError::Refused(Refused::TooMany))), "{came:?}");
                    assert!(it.unlock(&volume, &[Range { offset: 0, len: 1 }]).is_err(), "it has no lock");
                }
                _ => came.unwrap(),
            }
            opens.push(it);
        }
        assert_eq!(volume.counters().grants_refused_limit.get(), 1);
        opens[0].close(&volume, &nobody()).await.unwrap();
        opens[2].lock(&volume, &[lock(0, 1, true)], false).await.unwrap();
        for it in opens {
            it.close(&volume, &nobody()).await.unwrap();
        }
    });
}

/// Clients and other programs lock and unlock at random: both find what a list of all locks says.
#[test]
fn clients_and_other_programs_find_each_others_locks_after_any_history() {
    seeds(200, |seed| {
        let world = World::new(seed, Config::clean());
        let process = Process::new(&world, 1);
        let host = process.host.clone();
        world.block_on(&host, async move {
            let (volume, fs) = (process.volume(), process.host.fs());
            page(&volume).await;
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut opens = Vec::new();
            for _ in 0..3 {
                opens.push((open(&volume).await, Vec::<RangeLock>::new()));
            }
            let mut theirs: Vec<(ForeignLock, RangeLock)> = Vec::new();
            for _ in 0..60 {
                let wanted = lock(rng.random_range(0..30), rng.random_range(1..12), rng.random());
                let bytes = wanted.range.offset..wanted.range.offset + wanted.range.len;
                let in_the_way = |held: &RangeLock| {
                    held.range.overlaps(wanted.range) && (held.exclusive || wanted.exclusive)
                };
                let at = rng.random_range(0..opens.len());
                match rng.random_range(0..6) {
                    0 | 1 => {
                        let by_clients = opens.iter().enumerate().any(|(n, (_, held))| {
                            held.iter().any(|held| {
                                // An open's own exclusive lock stands beside a shared one of its own alone.
                                let own = n == at && held.exclusive && !wanted.exclusive;
                                in_the_way(held) && !own
                            })
                        });
                        let is_free = !by_clients && !theirs.iter().any(|(_, held)| in_the_way(held));
                        let (it, held) = &mut opens[at];
                        let came = it.lock(&volume, &[wanted], false).await;
                        assert_eq!(came.is_ok(), is_free, "seed {seed}: {wanted:?}, {came:?}");
                        if is_free {
                            held.push(wanted);
                        }
                    }
                    2 => {
                        let (it, held) = &mut opens[at];
                        if !held.is_empty() {
                            let gone = held.remove(rng.random_range(0..held.len()));
                            // Of two of the same bytes an exclusive one goes first.
                            let stronger = held.iter().position(|other| {
                                other.range == gone.range && other.exclusive && !gone.exclusive
                            });
                            if let Some(stronger) = stronger {
                                held[stronger] = gone;
                            }
                            it.unlock(&volume, &[gone.range]).unwrap();
                        }
                    }
                    3 => {
                        let (it, held) = &mut opens[at];
                        it.close(&volume, &nobody()).await.unwrap();
                        held.clear();
                        *it = open(&volume).await;
                    }
                    4 => {
                        let by_clients = opens.iter().any(|(_, held)| held.iter().any(in_the_way));
                        let is_free = !by_clients && !theirs.iter().any(|(_, held)| in_the_way(held));
                        let came = foreign(&fs, bytes, wanted.exclusive);
                        assert_eq!(came.is_some(), is_free, "seed {seed}: {wanted:?}");
                        theirs.extend(came.map(|lock| (lock, wanted)));
                    }
                    _ => drop(theirs.pop()),
                }
                moment().await;
            }
            for (it, _) in opens {
                it.close(&volume, &nobody()).await.unwrap();
            }
            theirs.clear();
            moment().await;
            assert!(foreign(&fs, 0..1 << 40, true).is_some(), "seed {seed}: something is left");
        });
    });
}
