//! Use of a directory's pages by clients, and what they may rely on: a version has one length and the same
//! bytes, whichever lane tells them, whatever was let go of or begun anew meanwhile, and a copy that is
//! edited when a reply tells the version after its own has the bytes of that version.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use afs_wire::Fid;
use afs_wire::directory::Target;
use lane::backend::sim::seeds;
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use vfs::{Caller, CreateOptions, Name, RelPath};

use self::keeper::{Keeper, Told};
use super::lives::{LANES, Site};

mod keeper;

/// Events of a directory's pages on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Befalls {
    Nothing,
    Eviction,
    Stop,
    Kill,
    /// A client looks at it on another lane.
    AnotherLane,
}

impl Befalls {
    fn happen(self, site: &mut Site, keeper: &Rc<Keeper>, fid: Fid) {
        match self {
            Self::Nothing => {}
            Self::Eviction => (0..LANES).for_each(|lane| site.life().evict(lane)),
            Self::Stop | Self::Kill => {
                if self == Self::Stop {
                    site.stop()
                } else {
                    site.kill()
                }
                site.start();
                let keeper = Rc::clone(keeper);
                site.run(async move { keeper.connect() });
            }
            Self::AnotherLane => {
                let other = Keeper::new(site, 7050, &keeper.told);
                site.run(async move {
                    for which in 0..4 {
                        other.names(which, fid).await;
                    }
                });
            }
        }
    }
}

/// The pages of what was taken away stay with the client that saw it go, and not with one that makes them
/// anew.
#[test]
fn a_client_that_kept_its_copy_lists_what_is_there_whatever_the_server_let_go_of() {
    for befalls in [Befalls::Nothing, Befalls::Eviction, Befalls::Stop, Befalls::Kill, Befalls::AnotherLane] {
        let mut site = Site::new(3, 1 << 15);
        for n in 0..300 {
            site.server.fs().write(&format!("/srv/a rather long name of a file, number {n}"), "").unwrap();
        }
        site.start();
        let (told, root) = (Rc::new(Told::default()), site.life().root());
        let keeper = Keeper::new(&site, 7001, &told);
        let client = Rc::clone(&keeper);
        site.run(async move {
            client.fetch(0, root).await;
            for n in 0..290 {
                client.remove(0, root, &format!("a rather long name of a file, number {n}")).await;
            }
        });
        assert_eq!((keeper.edited.get(), keeper.given_up.get()), (290, 0));
        let kept = keeper.copies.borrow()[&root].directory.clone();
        assert!(kept.size() > 8 * afs_wire::directory::PAGE_SIZE, "it has pages of nothing");
        befalls.happen(&mut site, &keeper, root);
        let client = Rc::clone(&keeper);
        let names = site.run(async move {
            client.create(0, root, "new").await;
            client.names(0, root).await
        });
        let old = (290..300).map(|n| format!("a rather long name of a file, number {n}"));
        let there: BTreeSet<_> = old.chain(["new".to_owned()]).collect();
        assert_eq!(names, there, "{befalls:?}");
        let goes_on = befalls == Befalls::Nothing;
        assert_eq!(keeper.edited.get(), 290 + u32::from(goes_on), "{befalls:?}");
        assert_eq!(
            site.life().sum(|counters| counters.images_version_bumped.get()),
            u64::from(!goes_on),
            "{befalls:?}"
        );
        keeper.end();
        site.end();
    }
}

#[test]
fn what_nobody_changed_lies_as_it_did_and_keeps_its_version() {
    for befalls in [Befalls::Eviction, Befalls::Stop, Befalls::Kill, Befalls::AnotherLane] {
        let mut site = Site::new(5, 1 << 15);
        // Not the volume's own, whose mark is written at each start, and not at a whole second, which would prove nothing.
        site.world.run_for(Duration::from_millis(123));
        site.server.fs().create_dir_all("/srv/d").unwrap();
        for n in 0..300 {
            site.server.fs().write(&format!("/srv/d/{n}-{}", "x".repeat(n % 60)), "").unwrap();
        }
        // What changed in the last moments before a kill proves nothing either.
        site.world.run_for(Duration::from_millis(200));
        site.start();
        let (told, root) = (Rc::new(Told::default()), site.life().root());
        let keeper = Keeper::new(&site, 7001, &told);
        let client = Rc::clone(&keeper);
        let (d, before) = site.run(async move {
            client.fetch(0, root).await;
            let d = client.copies.borrow()[&root].directory.lookup(b"d").unwrap();
            let d = Fid { vnode: d.vnode, uniquifier: d.uniquifier, ..root };
            (d, client.fetch(0, d).await)
        });
        let relaid = |site: &Site| site.life().sum(|counters| counters.images_version_bumped.get());
        // It was found by its name, and it is not known which client knew it before.
        let is_new_life = matches!(befalls, Befalls::Stop | Befalls::Kill);
        let known = if is_new_life { 0 } else { relaid(&site) };
        befalls.happen(&mut site, &keeper, d);
        let client = Rc::clone(&keeper);
        site.run(async move {
            assert_eq!(client.fetch(1, d).await, before, "{befalls:?}");
            client.create(1, d, "new").await;
        });
        assert_eq!((keeper.edited.get(), keeper.given_up.get()), (1, 0), "{befalls:?}");
        assert_eq!(relaid(&site), known, "{befalls:?}");
        keeper.end();
        site.end();
    }
}

/// Histories of clients on both lanes, of changes of names beside them, and of a server that lets go of
/// directories, is stopped, killed and started again.
#[test]
fn a_version_of_a_directory_has_one_image_over_any_history() {
    let totals: Rc<RefCell<BTreeMap<&'static str, u64>>> = Rc::default();
    let counted = Rc::clone(&totals);
    let all = 30;
    seeds(all, move |seed| {
        for (what, count) in History::new(seed).run() {
            *counted.borrow_mut().entry(what).or_default() += count;
        }
    });
    let totals = totals.borrow();
    if totals.get("seeds").is_some_and(|seeds| *seeds == all) {
        for what in
            ["edited", "given up", "relaid", "evicted", "stopped", "killed", "beside", "at once", "behind"]
        {
            assert!(totals.get(what).is_some_and(|count| *count > 5), "{what}: {totals:?}");
        }
    }
}

struct History {
    keepers: Vec<Rc<Keeper>>,
    site: Site,
    random: SmallRng,
    /// Directories by their vnodes.
    tree: BTreeMap<u32, Place>,
    counts: BTreeMap<&'static str, u64>,
    next: u32,
    /// Other programs have changed something since all was seen.
    is_unseen: bool,
}

/// A directory, and what is there.
#[derive(Clone)]
struct Place {
    fid: Fid,
    path: String,
    names: BTreeSet<String>,
}

impl Place {
    fn any_file(&self, random: &mut SmallRng) -> Option<String> {
        self.names.iter().filter(|name| !name.starts_with(DIRECTORY)).choose(random).cloned()
    }
}

/// Within this time what another program has changed is found.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
/// Names of directories begin so.
const DIRECTORY: &str = "dir";

impl History {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let pages = [4, 12, 1 << 15][random.random_range(0..3)];
        let mut site = Site::new(seed, pages);
        let mut names = BTreeMap::new();
        for at in 0..4 {
            let directory = format!("{DIRECTORY}{at}");
            site.server.fs().create_dir_all(&format!("/srv/{directory}")).unwrap();
            let mut there = BTreeSet::new();
            for n in 0..random.random_range(0..120) {
                let name = format!("{n}{}", "x".repeat(random.random_range(0..70)));
                site.server.fs().write(&format!("/srv/{directory}/{name}"), "").unwrap();
                there.insert(name);
            }
            names.insert(directory, there);
        }
        site.start();
        let told = Rc::new(Told::default());
        let keepers: Vec<_> = (0..2).map(|n| Keeper::new(&site, 7001 + n, &told)).collect();
        let (first, root) = (Rc::clone(&keepers[0]), site.life().root());
        let numbers = site.run(async move {
            first.fetch(0, root).await;
            let copies = first.copies.borrow();
            let entries = copies[&root].directory.entries();
            entries
                .map(|(name, target)| (String::from_utf8(name.to_vec()).unwrap(), target))
                .collect::<Vec<_>>()
        });
        let place = |(name, target): (String, Target)| {
            let fid = Fid { vnode: target.vnode, uniquifier: target.uniquifier, ..root };
            let there = names.remove(&name).unwrap();
            (fid.vnode, Place { fid, path: name, names: there })
        };
        let tree = numbers.into_iter().map(place).collect();
        Self { site, random, keepers, tree, counts: BTreeMap::new(), next: 0, is_unseen: false }
    }

    fn run(mut self) -> BTreeMap<&'static str, u64> {
        for _ in 0..60 {
            self.step();
            if self.random.random_bool(0.15) {
                self.check();
            }
        }
        self.check();
        for keeper in &self.keepers {
            *self.counts.entry("edited").or_default() += u64::from(keeper.edited.get());
            *self.counts.entry("given up").or_default() += u64::from(keeper.given_up.get());
        }
        self.count_relaid();
        self.count("seeds");
        self.keepers.iter().for_each(|keeper| keeper.end());
        self.site.end();
        self.counts
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn count_relaid(&mut self) {
        *self.counts.entry("relaid").or_default() +=
            self.site.life().sum(|counters| counters.images_version_bumped.get());
    }

    fn step(&mut self) {
        match self.random.random_range(0..40) {
            0..3 => {
                let lane = self.random.random_range(0..LANES);
                self.site.life().evict(lane);
                self.count("evicted");
            }
            3 => {
                self.count_relaid();
                let is_killed = self.random.random();
                if is_killed {
                    self.site.kill()
                } else {
                    // A client that is just told of what another program did holds what it is about.
                    self.see();
                    self.site.stop()
                }
                self.count(if is_killed { "killed" } else { "stopped" });
                self.site.start();
                let keepers = self.keepers.clone();
                self.site.run(async move { keepers.iter().for_each(|keeper| keeper.connect()) });
            }
            4..7 => self.beside(),
            7..12 => self.look(),
            12..16 => self.at_once(),
            16..20 => self.behind(),
            _ => self.change(),
        }
    }

    fn any_directory(&mut self) -> u32 {
        *self.tree.keys().choose(&mut self.random).unwrap()
    }

    fn new_name(&mut self) -> String {
        self.next += 1;
        format!("new{}{}", self.next, "y".repeat(self.random.random_range(0..70)))
    }

    fn any_keeper(&mut self) -> (Rc<Keeper>, usize) {
        let at = self.random.random_range(0..self.keepers.len());
        (Rc::clone(&self.keepers[at]), self.random.random_range(0..4))
    }

    fn place(&mut self, at: u32) -> &mut Place {
        self.tree.get_mut(&at).unwrap()
    }

    /// Makes or removes a file by another service of this server.
    fn beside(&mut self) {
        let (at, new) = (self.any_directory(), self.new_name());
        let volume = self.site.life().volume(0);
        let is_to_go = self.random.random();
        let gone = self.tree[&at].any_file(&mut self.random).filter(|_| is_to_go);
        match &gone {
            Some(gone) => drop(self.place(at).names.remove(gone)),
            None => drop(self.place(at).names.insert(new.clone())),
        }
        let path = self.tree[&at].path.clone();
        self.site.world.block_on(&self.site.server, async move {
            let found = volume.lookup(RelPath::parse(path.as_bytes()).unwrap()).await.unwrap();
            let (found, _) = found.into_directory().unwrap();
            let caller = Caller::anonymous();
            match &gone {
                Some(gone) => found.remove(&caller, Name::parse(gone.as_bytes()).unwrap()).await.unwrap(),
                None => {
                    let how = CreateOptions { exclusive: true, mode: 0o644 };
                    found.create(&caller, Name::parse(new.as_bytes()).unwrap(), how).await.map(drop).unwrap();
                }
            }
        });
        self.count("beside");
    }

    /// Makes, removes or renames a file as another program, within the tick of the file system's clock in
    /// which a change or a reading of ours falls or not. Some time later every client has heard, and it may
    /// be that the server has changed something since.
    fn behind(&mut self) {
        let (at, new) = (self.any_directory(), self.new_name());
        let to = if self.random.random_bool(0.3) { self.any_directory() } else { at };
        let old = self.tree[&at].any_file(&mut self.random);
        let what = self.random.random_range(0..3);
        self.run_up_to(Duration::from_millis(8));
        let path = |history: &Self, at: u32, name: &str| format!("/srv/{}/{name}", history.tree[&at].path);
        let fs = self.site.server.fs();
        match (what, old) {
            (0, Some(old)) => {
                fs.remove(&path(self, at, &old)).unwrap();
                self.place(at).names.remove(&old);
            }
            (1, Some(old)) => {
                fs.rename(&path(self, at, &old), &path(self, to, &new)).unwrap();
                self.place(at).names.remove(&old);
                self.place(to).names.insert(new);
            }
            _ => {
                fs.write(&path(self, at, &new), "").unwrap();
                self.place(at).names.insert(new);
            }
        }
        self.is_unseen = true;
        self.run_up_to(Duration::from_millis(8));
        if self.random.random() {
            self.check();
        }
        self.count("behind");
    }

    /// Has the server see what other programs have done.
    fn see(&mut self) {
        if std::mem::take(&mut self.is_unseen) {
            self.site.world.run_for(SEEN_WITHIN);
        }
    }

    /// Time passes.
    fn run_up_to(&mut self, max: Duration) {
        let time = self.random.random_range(Duration::ZERO..max);
        self.site.world.run_for(time);
    }

    fn look(&mut self) {
        let ((keeper, which), at) = (self.any_keeper(), self.any_directory());
        let fid = self.tree[&at].fid;
        let fids: Vec<_> = self.tree.values().map(|place| place.fid).collect();
        let how = self.random.random_range(0..4);
        self.site.run(async move {
            match how {
                0 => _ = keeper.status(which, fid).await,
                1 => keeper.statuses(which, &fids).await,
                _ => _ = keeper.fetch(which, fid).await,
            }
        });
    }

    /// Two clients change one directory at once.
    fn at_once(&mut self) {
        let at = self.any_directory();
        let names = [self.new_name(), self.new_name()];
        self.place(at).names.extend(names.clone());
        let fid = self.tree[&at].fid;
        let keepers = self.keepers.clone();
        let which: [u8; 2] = self.random.random();
        self.site.run(async move {
            let each = keepers.into_iter().zip(names).zip(which);
            let create = |((keeper, name), which): ((Rc<Keeper>, String), u8)| {
                lane::spawn(async move { keeper.create(which.into(), fid, &name).await })
            };
            let tasks: Vec<_> = each.map(create).collect();
            for task in tasks {
                task.await;
            }
        });
        self.count("at once");
    }

    fn change(&mut self) {
        let (keeper, which) = self.any_keeper();
        let (at, new) = (self.any_directory(), self.new_name());
        let to = if self.random.random_bool(0.3) { self.any_directory() } else { at };
        let (fid, to_fid) = (self.tree[&at].fid, self.tree[&to].fid);
        let old = self.tree[&at].any_file(&mut self.random);
        let what = self.random.random_range(0..10);
        match (what, old) {
            (0..4, Some(old)) => {
                self.place(at).names.remove(&old);
                self.site.run(async move { keeper.remove(which, fid, &old).await });
            }
            (4..7, Some(old)) => {
                self.place(at).names.remove(&old);
                self.place(to).names.insert(new.clone());
                self.site.run(async move { keeper.rename(which, (fid, &old), (to_fid, &new)).await });
            }
            (7, _) => {
                self.place(at).names.insert(new.clone());
                self.site.run(async move { keeper.symlink(which, fid, &new).await });
            }
            (8, _) if self.tree.len() < 6 => {
                let new = format!("{DIRECTORY}{new}");
                self.place(at).names.insert(new.clone());
                let path = format!("{}/{new}", self.tree[&at].path);
                let fid = self.site.run(async move { keeper.make_dir(which, fid, &new).await });
                self.tree.insert(fid.vnode, Place { fid, path, names: BTreeSet::new() });
            }
            _ => {
                self.place(at).names.insert(new.clone());
                self.site.run(async move { keeper.create(which, fid, &new).await });
            }
        }
    }

    /// Checks that every client lists what is there.
    fn check(&mut self) {
        self.see();
        let (keepers, which) = (self.keepers.clone(), self.random.random_range(0..4));
        let tree = self.tree.clone();
        self.site.run(async move {
            for keeper in &keepers {
                for place in tree.values() {
                    assert_eq!(keeper.names(which, place.fid).await, place.names, "{}", place.path);
                }
            }
        });
    }
}
