//! Callback breaks, one change at a time: which hear, of what, and which do not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Acl, Rights, Writable};
use lane::backend::sim::{Config, Fs, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    CacheOptions, CallbackNotifier, ChangeKind, Client, ClientNotification, CreateOptions, Expect, Holder,
    Identity, Invalidation, InvalidationListener, LookupWithCallback, Notice, NotifyFuture, NotifyOutcome,
    NumberedName, Replace, Volume,
};

use super::access::operator;
use super::changes::{buf, read, write};
use super::suspended_watches::come_and_go;
use super::{directory, name, nobody, on_lanes, path, root, watched, watched_in};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

/// Action of another program.
type Act = fn(&Fs);

#[test]
fn a_thousand_writes_in_a_row_by_one_client_take_one_permit() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let service = Service::on(&volume, &Rc::default());
        let [own, other] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
        let caller = nobody().sparing(own.holder());
        let root = root(&volume).await;
        root.create(&caller, name("page"), NEW).await.unwrap();
        let look = look_with_callback(&volume, &own, "page").await;
        let before = look.confirm().unwrap().version;
        let writers = [(); 2].map(|()| root.open_writer(&caller, name("page")));
        let [first, second] = writers;
        let writers = [first.await.unwrap(), second.await.unwrap()];
        let write = async |times: usize| {
            for n in 0..times {
                writers[n % 2].write_at(&caller, 0, buf("text").await).await.0.unwrap();
            }
        };
        service.contents_asked.set(0);
        write(1000).await;
        assert_eq!(service.contents_asked.get(), 1, "nobody else was asked or told for all but the first");
        let now = writers[0].file().object().unwrap().version();
        assert_eq!(u64::from(now), u64::from(before) + 1000, "and each has its version");
        // A look in between takes the permit back.
        look_with_callback(&volume, &other, "page").await;
        write(1000).await;
        assert_eq!(service.contents_asked.get(), 2);
        let page = writers[0].file().object().unwrap().identity().clone();
        assert_eq!(service.told.take(), [(2, Said::Object(page))], "who writes keeps his promise");
        assert!(look.confirm().is_none(), "but what he read before is no reply any more");
    });
}

#[test]
fn what_moves_or_opens_a_directory_is_told_as_its_whole_volume_and_to_everybody() {
    let (told, step): (Told, Rc<Cell<u32>>) = (Rc::default(), Rc::default());
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| {
        let (told, step) = (Rc::clone(&told), Rc::clone(&step));
        async move {
            let _service = Service::on(&volume, &told);
            if lane == 0 { change(&volume, &told, &step).await } else { rely(&volume, &step).await }
        }
    });
}

/// The clients' lane.
async fn rely(volume: &Volume, step: &Cell<u32>) {
    let [mover, other] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
    until(|| step.get() == 1).await;
    let beneath = look_with_callback(volume, &mover, "a/page").await;
    let beside = look_with_callback(volume, &other, "beside").await;
    step.set(2);
    until(|| step.get() == 3).await;
    assert!(beneath.confirm().is_some() && beside.confirm().is_none());
    look_with_callback(volume, &other, "elsewhere").await;
    step.set(4);
    until(|| step.get() == 5).await;
    assert!(beneath.confirm().is_none(), "no look of before the move is told to anybody");
    let beneath = look_with_callback(volume, &mover, "b/page").await;
    step.set(6);
    until(|| step.get() == 7).await;
    assert!(beneath.confirm().is_none());
}

/// The lane where changes are made, by the first of the clients.
async fn change(volume: &Volume, told: &Told, step: &Cell<u32>) {
    let top = root(volume).await;
    let a = top.make_directory(&nobody(), name("a"), 0o755).await.unwrap();
    a.create(&nobody(), name("page"), NEW).await.unwrap();
    let beside = top.create(&nobody(), name("beside"), NEW).await.unwrap();
    let beside = beside.writer.file().object().unwrap().identity().clone();
    let caller = operator().sparing(Holder(1));
    step.set(1);
    until(|| step.get() == 2).await;
    top.rename(&caller, name("beside"), &top, name("elsewhere"), Replace::Never).await.unwrap();
    assert_eq!(told.take(), [(2, Said::Object(beside))], "of a file those hear who rely on it");
    step.set(3);
    until(|| step.get() == 4).await;
    top.rename(&caller, name("a"), &top, name("b"), Replace::Never).await.unwrap();
    assert_eq!(sorted(told), [(1, Said::Volume), (2, Said::Volume)], "who moved it is not spared");
    step.set(5);
    until(|| step.get() == 6).await;
    let b = directory(volume, "b").await;
    b.set_access_list(&caller, Some(&Acl::new())).await.unwrap();
    assert_eq!(sorted(told), [(1, Said::Volume)], "the other has asked for nothing since");
    b.set_access_list(&caller, None).await.unwrap();
    assert_eq!(sorted(told), [], "nor has he");
    step.set(7);
}

#[test]
fn a_reply_on_its_way_comes_before_the_word_that_its_promise_is_over() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let top = root(&volume).await;
        let a = top.make_directory(&nobody(), name("a"), 0o755).await.unwrap();
        let made = a.create(&nobody(), name("page"), NEW).await.unwrap();
        let page = made.writer.file().object().unwrap().identity().clone();
        let arrive = async |at: &str| {
            let replies = [(); 2].map(|()| look_with_callback(&volume, &client, at));
            let [first, second] = replies;
            let replies = [first.await.in_flight_reply(), second.await.in_flight_reply()];
            let told = Rc::clone(&service.told);
            lane::spawn(async move {
                for reply in replies {
                    time::sleep(Duration::from_millis(100)).await;
                    assert!(told.borrow().is_empty(), "he would keep what he gets now");
                    drop(reply);
                }
            })
            .detach();
        };
        arrive("a/page").await;
        write(&made.writer, 0, "text").await.unwrap();
        assert_eq!(service.told.take(), [(1, Said::Object(page))]);
        arrive("a/page").await;
        top.rename(&nobody(), name("a"), &top, name("b"), Replace::Never).await.unwrap();
        assert_eq!(service.told.take(), [(1, Said::Volume)]);
    });
}

#[test]
fn replies_on_their_way_from_any_lane_come_before_the_word_that_all_is_void() {
    let (told, step): (Told, Rc<Cell<u32>>) = (Rc::default(), Rc::default());
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| {
        let (told, step) = (Rc::clone(&told), Rc::clone(&step));
        async move {
            let _service = Service::on(&volume, &told);
            let client = volume.cache().client(Holder(1)).unwrap();
            if lane == 0 {
                root(&volume).await.create(&nobody(), name("page"), NEW).await.unwrap();
                step.set(1);
                until(|| step.get() == 2).await;
                let here = look_with_callback(&volume, &client, "").await;
                let reply = here.in_flight_reply();
                let voiding = lane::spawn({
                    let (volume, client) = (volume.clone(), Arc::clone(&client));
                    async move { volume.cache().void_all(&client).await }
                });
                time::sleep(Duration::from_millis(10)).await;
                assert!(here.confirm().is_none(), "nothing is promised any more at once");
                drop(reply);
                time::sleep(Duration::from_millis(10)).await;
                assert!(told.borrow().is_empty(), "there is one more on its way from the other lane");
                // A change meanwhile waits for it too.
                let began = time::now();
                root(&volume).await.remove(&nobody(), name("page")).await.unwrap();
                assert!(time::now() - began > Duration::from_millis(50));
                assert_eq!(told.take(), [(1, Said::All)]);
                voiding.await;
                step.set(3);
                // A reply that never comes keeps no change waiting for ever.
                let lost = look_with_callback(&volume, &client, "").await;
                let _lost = lost.in_flight_reply();
                let began = time::now();
                volume.cache().void_all(&client).await;
                let waited = time::now() - began;
                assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
                assert_eq!(told.take(), [(1, Said::All)]);
            } else {
                until(|| step.get() == 1).await;
                let reply = look_with_callback(&volume, &client, "page").await.in_flight_reply();
                step.set(2);
                time::sleep(Duration::from_millis(100)).await;
                assert!(told.borrow().is_empty());
                drop(reply);
                until(|| step.get() == 3).await;
            }
        }
    });
}

#[test]
fn a_file_that_waits_for_its_name_is_no_change_of_its_directory() {
    for has_unnamed in [true, false] {
        watched(Writable::anyone(), move |volume, fs| async move {
            fs.configure(|config| config.unnamed = has_unnamed);
            fs.create_dir_all("/srv/many").unwrap();
            let service = Service::on(&volume, &Rc::default());
            let client = volume.cache().client(Holder(1)).unwrap();
            let many = directory(&volume, "many").await;
            let look = look_with_callback(&volume, &client, "many").await;
            for publishes in [false, false, true] {
                let staged = many.stage(&nobody(), 0o644).await.unwrap();
                time::sleep(Duration::from_secs(1)).await;
                // A look at the directory, too, finds it as it was.
                look_with_callback(&volume, &client, "many").await;
                assert_eq!((service.told.take(), look.confirm().is_some()), (vec![], true));
                match publishes {
                    true => drop(staged.publish(&nobody(), name("page"), Expect::Absent).await.unwrap()),
                    false => drop(staged),
                }
                time::sleep(Duration::from_secs(1)).await;
                assert_eq!(service.told.take().len(), usize::from(publishes));
            }
            assert_eq!(volume.counters().external_changes.get(), 0);
        });
    }
}

#[test]
fn a_file_that_is_made_anew_after_a_look_found_its_name_gone_was_not_replaced() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/stays", "there").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        look_with_callback(&volume, &client, "stays").await;
        let root = root(&volume).await;
        // What the second look found is gone through two seconds after the first.
        for _ in 0..2 {
            root.create(&nobody(), name("page"), NEW).await.unwrap();
            root.remove(&nobody(), name("page")).await.unwrap();
            time::sleep(Duration::from_millis(10)).await;
        }
        // Then so much is changed that the watch rests, and tells nothing of what comes next.
        come_and_go(&root, 100).await;
        assert_eq!(volume.counters().watches_rested.get(), 1);
        root.create(&nobody(), name("page"), NEW).await.unwrap();
        look_with_callback(&volume, &client, "page").await;
        time::sleep(Duration::from_secs(5)).await;
        assert_eq!(service.told.take(), []);
        assert_eq!(volume.counters().external_changes.get(), 0);
    });
}

#[test]
fn what_somebody_external_changes_the_servers_back_is_told_when_notification_tells() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let [one, two] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
        let look = look_with_callback(&volume, &one, "page").await;
        let before = look.confirm().unwrap().version;
        let page = look.resolved().object().unwrap().identity().clone();
        look_with_callback(&volume, &two, "").await;
        fs.write("/srv/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(page))], "nobody had to look");
        assert!(look.confirm().is_none());
        assert_eq!(volume.counters().external_changes.get(), 1);
        let look = look_with_callback(&volume, &one, "page").await;
        assert!(look.confirm().unwrap().version > before);
        let (file, _) = look.resolved().clone().into_file().unwrap();
        assert_eq!(read(&file).await, "second");
        // What the server itself changes is none of these.
        let root = root(&volume).await;
        let caller = nobody().sparing(one.holder());
        let writer = root.open_writer(&caller, name("page")).await.unwrap();
        write(&writer, 0, "third!").await.unwrap();
        time::sleep(Duration::from_secs(1)).await;
        assert_eq!(volume.counters().external_changes.get(), 1);
        service.told.take();
        // A new name: clients that rely on the directory hear of it.
        fs.write("/srv/new", "").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        let top = root.object().unwrap().identity().clone();
        assert_eq!(service.told.take(), [(2, Said::Object(top))]);
        assert_eq!(volume.counters().external_changes.get(), 2);
    });
}

#[test]
fn what_others_do_in_a_directory_is_told_for_as_long_as_somebody_relies_on_it() {
    watched(Writable::anyone(), |volume, fs| async move {
        for at in ["/srv/empty", "/srv/dir"] {
            fs.create_dir_all(at).unwrap();
        }
        fs.write("/srv/dir/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        // The looks themselves are over.
        let rely_on = async |at| {
            look_with_callback(&volume, &client, at).await.resolved().object().unwrap().identity().clone()
        };
        let (empty, page) = (rely_on("empty").await, rely_on("dir/page").await);
        // Long after all else of them is forgotten.
        time::sleep(CacheOptions::default().idle_max * 10).await;
        assert_eq!(volume.counters().open_cached.get(), 0);
        assert_eq!(volume.counters().watches.get(), 3, "and of the volume itself");
        fs.write("/srv/empty/new", "").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(empty))]);
        fs.write("/srv/dir/page", "second").unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::Object(page))]);
        // Two hours later no client relies on anything.
        time::sleep(Duration::from_secs(7200)).await;
        assert_eq!(volume.counters().watches.get(), 0);
        assert_eq!(volume.counters().pinned_watches_evicted.get(), 0);
    });
}

#[test]
fn who_relies_on_a_file_alone_hears_that_somebody_else_has_replaced_it_or_taken_it_away() {
    watched(Writable::anyone(), |volume, fs| async move {
        for at in ["replaced", "removed", "moved", "stays", "ours"] {
            fs.write(&format!("/srv/{at}"), at).unwrap();
        }
        let service = Service::on(&volume, &Rc::default());
        let [one, other] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
        let mut of = std::collections::BTreeMap::new();
        for at in ["replaced", "removed", "moved", "stays", "ours"] {
            let look = look_with_callback(&volume, &one, at).await;
            of.insert(at, look.resolved().object().unwrap().identity().clone());
        }
        look_with_callback(&volume, &other, "ours").await;
        time::sleep(Duration::from_millis(20)).await;
        fs.replace("/srv/replaced", "by another").unwrap();
        fs.remove("/srv/removed").unwrap();
        fs.rename("/srv/moved", "/srv/elsewhere").unwrap();
        until(|| service.told.borrow().len() >= 3).await;
        let heard = ["replaced", "removed", "moved"].map(|at| (1, Said::Object(of[at].clone())));
        assert_eq!(sorted(&service.told), sorted(&Rc::new(RefCell::new(heard.into()))));
        // A client that makes the change itself keeps its callback.
        let caller = nobody().sparing(one.holder());
        root(&volume).await.remove(&caller, name("ours")).await.unwrap();
        time::sleep(Duration::from_secs(5)).await;
        assert_eq!(service.told.take(), [(2, Said::Object(of["ours"].clone()))]);
        assert_eq!(volume.counters().external_changes.get(), 3);
        assert_eq!(volume.counters().replaced_scans_skipped.get(), 0);
    });
}

#[test]
fn what_somebody_else_changes_beside_a_files_content_is_told_and_leaves_its_version() {
    watched(Writable::anyone(), |volume, fs| async move {
        // A stamp of a whole second may be all that a file system keeps.
        time::sleep(Duration::from_millis(100)).await;
        fs.write("/srv/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let look = look_with_callback(&volume, &client, "page").await;
        let (before, page) =
            (look.confirm().unwrap().version, look.resolved().object().unwrap().identity().clone());
        let acts: [(&str, Act); 6] = [
            ("a further name", |fs| fs.hard_link("/srv/page", "/srv/other").unwrap()),
            ("a mode", |fs| fs.set_mode("/srv/page", 0o600).unwrap()),
            ("an owner", |fs| fs.set_owner("/srv/page", 7, 8).unwrap()),
            ("a name that goes", |fs| fs.remove("/srv/other").unwrap()),
            ("a further name again", |fs| fs.hard_link("/srv/page", "/srv/other").unwrap()),
            ("a name that is replaced", |fs| fs.replace("/srv/other", "another").unwrap()),
        ];
        for (what, act) in acts {
            time::sleep(Duration::from_millis(50)).await;
            act(&fs);
            until(|| !service.told.borrow().is_empty()).await;
            assert_eq!(service.told.take(), [(1, Said::Object(page.clone()))], "{what}");
            let look = look_with_callback(&volume, &client, "page").await;
            let (now, stat) = (look.confirm().unwrap(), fs.stat("/srv/page").unwrap());
            assert_eq!(now.version, before, "{what}");
            let told = now.attributes;
            assert_eq!((told.nlink, told.mode, told.uid), (stat.nlink, stat.mode, stat.uid), "{what}");
        }
        // What shows by nothing but the time of change may be as many other bytes, of which the time was set back.
        time::sleep(Duration::from_millis(50)).await;
        let mtime = fs.stat("/srv/page").unwrap().mtime;
        fs.write_at("/srv/page", 0, b"FIRST").unwrap();
        fs.set_mtime("/srv/page", mtime).unwrap();
        until(|| !service.told.borrow().is_empty()).await;
        let look = look_with_callback(&volume, &client, "page").await;
        assert!(look.confirm().unwrap().version > before);
    });
}

/// Between two times that what is gone is sought a look finds the file, and another that it is gone.
#[test]
fn who_relies_on_a_file_hears_that_it_was_taken_away_right_after_it_was_found() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/stays", "there").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        look_with_callback(&volume, &client, "stays").await;
        let root = root(&volume).await;
        for is_ours in [true, false] {
            fs.replace("/srv/other", "another").unwrap();
            time::sleep(Duration::from_millis(10)).await;
            match is_ours {
                true => drop(root.create(&nobody(), name("page"), NEW).await.unwrap()),
                false => fs.write("/srv/page", "").unwrap(),
            }
            time::sleep(Duration::from_millis(1)).await;
            let look = look_with_callback(&volume, &client, "page").await;
            let page = look.resolved().object().unwrap().identity().clone();
            drop(look);
            time::sleep(Duration::from_millis(10)).await;
            service.told.take();
            fs.remove("/srv/page").unwrap();
            time::sleep(Duration::from_secs(1)).await;
            assert_eq!(service.told.take(), [(1, Said::Object(page))]);
        }
    });
}

/// Names come and go by this server and by others, so fast that a listing finds them before notification has told of them.
#[test]
fn who_has_listed_a_directory_hears_of_each_name_that_comes_or_goes_afterwards() {
    seeds(300, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        watched_in(World::new(seed, config), Writable::anyone(), move |volume, fs| async move {
            let mut dice = SmallRng::seed_from_u64(seed);
            let service = Service::on(&volume, &Rc::default());
            let client = volume.cache().client(Holder(1)).unwrap();
            let (root, by) = (root(&volume).await, nobody());
            let there = || -> BTreeSet<String> {
                fs.tree().keys().filter_map(|at| at.strip_prefix("/srv/")).map(ToOwned::to_owned).collect()
            };
            let mut done = Vec::new();
            for _ in 0..8 {
                let mut listed = None;
                for _ in 0..dice.random_range(2..8) {
                    let (at, act) = (["a", "b"][dice.random_range(0..2)], dice.random_range(0..6));
                    done.push((at, act));
                    let beside = format!("/srv/{at}");
                    // What is there already, or is not, is refused.
                    match act {
                        0 => drop(root.create(&by, name(at), NEW).await),
                        1 => drop(root.remove(&by, name(at)).await),
                        2 => fs.write(&beside, "").unwrap(),
                        3 if there().contains(at) => fs.remove(&beside).unwrap(),
                        _ => {
                            service.told.take();
                            let look = look_with_callback(&volume, &client, "").await;
                            let names = root.names(100).await.unwrap();
                            let is_one =
                                look.confirm().is_some_and(|now| now.version == names.history.version());
                            let name = |entry: &NumberedName| String::from_utf8(entry.name.to_vec()).unwrap();
                            listed = is_one.then(|| names.entries.iter().map(name).collect::<BTreeSet<_>>());
                        }
                    }
                    time::sleep(Duration::from_micros(dice.random_range(0..400))).await;
                }
                time::sleep(Duration::from_secs(1)).await;
                if let Some(listed) = listed.filter(|_| service.told.borrow().is_empty()) {
                    assert_eq!(listed, there(), "after {done:?}");
                }
            }
        });
    });
}

#[test]
fn without_notification_it_is_told_before_somebody_else_is_answered() {
    let seen: Told = Rc::default();
    let told = Rc::clone(&seen);
    on_lanes(1, Config::clean(), 1, move |_, process, volume| {
        let told = Rc::clone(&told);
        async move {
            let fs = process.host.fs();
            fs.write("/srv/page", "first").unwrap();
            let service = Service::on(&volume, &told);
            let [one, two] = [1, 2].map(|n| volume.cache().client(Holder(n)).unwrap());
            let page = look_with_callback(&volume, &one, "page")
                .await
                .resolved()
                .object()
                .unwrap()
                .identity()
                .clone();
            fs.write("/srv/page", "second").unwrap();
            time::sleep(Duration::from_secs(1)).await;
            assert_eq!(service.told.take(), [], "nothing says so");
            let look = look_with_callback(&volume, &two, "page").await;
            assert_eq!(service.told.take(), [(1, Said::Object(page))]);
            assert_eq!(volume.counters().external_changes.get(), 1);
            let (file, _) = look.resolved().clone().into_file().unwrap();
            assert_eq!(read(&file).await, "second");
        }
    });
    assert!(seen.take().is_empty());
}

#[test]
fn of_more_changes_than_are_looked_at_one_by_one_clients_hear_that_all_is_void() {
    watched(Writable::anyone(), |volume, fs| async move {
        fs.write("/srv/page", "first").unwrap();
        let service = Service::on(&volume, &Rc::default());
        let client = volume.cache().client(Holder(1)).unwrap();
        let look = look_with_callback(&volume, &client, "page").await;
        for n in 0..400 {
            fs.write(&format!("/srv/new{n}"), "").unwrap();
        }
        until(|| !service.told.borrow().is_empty()).await;
        assert_eq!(service.told.take(), [(1, Said::All)]);
        assert!(look.confirm().is_none());
        assert!(volume.counters().callbacks_voided_all.get() > 0);
    });
}

/// Clients and what they were told, in turn.
pub(super) type Told = Rc<RefCell<Vec<(u64, Said)>>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Object(Identity),
    Volume,
    All,
}

/// A service whose clients hear at once.
pub(super) struct Service {
    pub(super) told: Told,
    /// Permits taken for content: each begins with a question to every lane.
    contents_asked: Cell<usize>,
}

impl Service {
    pub(super) fn on(volume: &Volume, told: &Told) -> Rc<Self> {
        let service = Rc::new(Self { told: Rc::clone(told), contents_asked: Cell::new(0) });
        volume.cache().add_callback_notifier(&(Rc::clone(&service) as Rc<dyn CallbackNotifier>));
        volume.cache().add_invalidation_listener(&(Rc::clone(&service) as Rc<dyn InvalidationListener>));
        service
    }

    /// Makes a notifier that only tells clients of their callbacks.
    pub(super) fn teller_on(volume: &Volume) -> Rc<Self> {
        let service = Rc::new(Self { told: Rc::default(), contents_asked: Cell::new(0) });
        volume.cache().add_callback_notifier(&(Rc::clone(&service) as Rc<dyn CallbackNotifier>));
        service
    }
}

impl CallbackNotifier for Service {
    fn knows(&self, _: Holder) -> bool {
        true
    }

    fn notify(&self, client: &Arc<Client>, notices: Vec<Notice>) -> NotifyFuture {
        let said = notices.iter().map(|notice| match notice {
            Notice::Object(object) => Said::Object(object.identity().clone()),
            Notice::Volume(_) => Said::Volume,
            Notice::All => Said::All,
        });
        self.told.borrow_mut().extend(said.map(|said| (client.holder().0, said)));
        Box::pin(async { NotifyOutcome::Acknowledged })
    }
}

impl InvalidationListener for Service {
    fn invalidate(&self, broken: &Invalidation) -> Option<ClientNotification> {
        if broken.what == ChangeKind::Content {
            self.contents_asked.set(self.contents_asked.get() + 1);
        }
        None
    }
}

/// Has a client promised what has this name; the reply is on its way.
pub(super) async fn look_with_callback(
    volume: &Volume,
    client: &Arc<Client>,
    at: &str,
) -> LookupWithCallback {
    let caller = nobody().sparing(client.holder());
    let until = time::now() + Duration::from_secs(3600);
    let look_with_callback =
        volume.lookup_with_callback(&caller, client, path(at), Rights::LOOKUP, until).await.unwrap();
    assert!(look_with_callback.confirm().is_some());
    look_with_callback
}

pub(super) async fn until(is_so: impl Fn() -> bool) {
    let began = time::now();
    while !is_so() {
        assert!(time::now() - began < Duration::from_secs(60), "it never comes");
        time::sleep(Duration::from_millis(1)).await;
    }
}

/// In the order of clients, whichever was told first.
pub(super) fn sorted(told: &Told) -> Vec<(u64, Said)> {
    let mut told = told.take();
    told.sort();
    told
}
