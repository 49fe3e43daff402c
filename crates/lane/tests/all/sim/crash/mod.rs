//! Tests of losses of power, by rules written a second time: nothing comes back that may not, and over the
//! seeds all comes back that may.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lane::backend::sim::{Config, FoundKind, Fs, JournalKind, World, seeds};
use lane::fs::RenameHow;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use self::checker::{History, Tree};

mod checker;

#[test]
fn what_an_ordered_journal_leaves_is_legal_and_every_kind_of_it_is_seen() {
    let seen = crash_often(JournalKind::Ordered);
    let all = [
        "a name was kept",
        "a name was lost",
        "a new file was empty",
        "a removed file is back",
        "a size was new and its bytes were not",
        "a size was old",
        "content was torn",
    ];
    assert_eq!(seen, all.into());
}

#[test]
fn what_is_left_without_any_order_is_legal_and_every_kind_of_it_is_seen() {
    let seen = crash_often(JournalKind::Unordered);
    let all = [
        "a name was kept",
        "a name was lost",
        "a new file was empty",
        "a removed file is back",
        "a rename left both names",
        "a rename left no name",
        "a size was new and its bytes were not",
        "a size was old",
        "content was torn",
    ];
    assert_eq!(seen, all.into());
}

#[test]
fn the_checker_refuses_what_may_not_be() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let fs = host.fs();
    fs.write("/one", vec![1; 3000]).unwrap();
    let mut history = History::new(fs.tree());
    let step = |history: &mut History, change: &dyn Fn(&Fs)| {
        change(&fs.unsynced());
        history.trees.push(fs.tree());
    };
    step(&mut history, &|fs| fs.write_at("/one", 0, &[2; 2000]).unwrap());
    step(&mut history, &|fs| fs.write("/new", "").unwrap());
    history.sync_all();
    step(&mut history, &|fs| fs.rename("/new", "/newer").unwrap());
    let with = |change: &dyn Fn(&mut Tree)| {
        let mut tree = history.last().clone();
        change(&mut tree);
        [JournalKind::Ordered, JournalKind::Unordered].map(|kind| history.check(&tree, kind).is_ok())
    };
    let content = |bytes: Vec<u8>| {
        with(&move |tree| tree.get_mut("/one").unwrap().kind = FoundKind::File(bytes.clone()))
    };
    assert_eq!(with(&|_| ()), [true, true]);
    assert_eq!(content(vec![1; 3000]), [false, false], "it was synced");
    assert_eq!(content([vec![2; 1999], vec![1; 1001]].concat()), [false, false], "a byte is another");
    assert_eq!(content([vec![2; 2000], vec![1; 500]].concat()), [false, false], "it was never so short");
    assert_eq!(with(&|tree| drop(tree.remove("/one"))), [false, false], "its name was synced");
    assert_eq!(with(&|tree| tree.get_mut("/one").unwrap().mode = 0o600), [false, false]);
    let stranger = |tree: &mut Tree| {
        let mut found = tree["/one"].clone();
        found.generation += 1;
        tree.insert("/stranger".to_owned(), found);
    };
    assert_eq!(with(&stranger), [false, false]);
    let attribute = |tree: &mut Tree| {
        tree.get_mut("/one").unwrap().xattrs.insert(b"user.a".to_vec(), Vec::new());
    };
    assert_eq!(with(&attribute), [false, false]);
    // What only an order forbids.
    let both = |tree: &mut Tree| {
        let found = tree["/newer"].clone();
        tree.insert("/new".to_owned(), found);
    };
    assert_eq!(with(&both), [false, true]);
    assert_eq!(with(&|tree| drop(tree.remove("/newer"))), [false, true]);
}

/// Changes a tree at random, cuts the power, and checks what is left; and again from there.
fn crash_often(journal: JournalKind) -> BTreeSet<&'static str> {
    let seen = RefCell::new(BTreeSet::new());
    seeds(1000, |seed| {
        let mut config = Config::clean();
        config.fs.journal = journal;
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        let fs = host.fs();
        let mut dice = StdRng::seed_from_u64(seed);
        for name in ["/d/one", "/d/two", "/three"] {
            fs.write(name, vec![1; dice.random_range(0..3000)]).unwrap();
        }
        for _ in 0..2 {
            let mut history = History::new(fs.tree());
            for _ in 0..dice.random_range(1..30) {
                change(&fs.unsynced(), &mut history, &mut dice);
            }
            let safe = fs.tree_on_disk();
            host.lose_power();
            host.restart();
            let left = fs.tree();
            match history.check(&left, journal) {
                Ok(kinds) => seen.borrow_mut().extend(kinds),
                Err(why) => panic!("{why}\nleft {:#?}", short(&left)),
            }
            // What was surely safe could have been all there was, and nothing is wrong with that either.
            history.check(&safe, journal).unwrap_or_else(|why| panic!("{why}\nsafe {:#?}", short(&safe)));
            check_room(&fs, &left);
            assert_eq!(fs.tree_on_disk(), left, "what came back is safe");
        }
    });
    seen.into_inner()
}

/// Makes a random step of the history.
fn change(fs: &Fs, history: &mut History, dice: &mut StdRng) {
    let tree = history.last().clone();
    let path = |dice: &mut StdRng| PATHS[dice.random_range(0..PATHS.len())];
    let (one, other) = (path(dice), path(dice));
    let is_file =
        |path: &str| matches!(tree.get(path), Some(found) if matches!(found.kind, FoundKind::File(_)));
    let fill = u8::try_from(history.now() % 200 + 2).expect("below 256");
    match dice.random_range(0..100) {
        // One change each: what makes directories on the way is several.
        0..15 if !tree.contains_key(one) && has_parent(&tree, one) => drop(fs.write(one, "")),
        0..30 if is_file(one) => {
            let (offset, len) = (dice.random_range(0..9000), dice.random_range(1..6000));
            fs.write_at(one, offset, &vec![fill; len]).unwrap();
        }
        30..36 if is_file(one) => {
            let len = dice.random_range(0..12_000);
            fs.truncate(one, len).unwrap();
            let set = (history.now() + 1, len);
            history.sizes_set.entry(tree[one].generation).or_default().push(set);
        }
        36..42 if has_parent(&tree, one) => drop(fs.create_dir_all(one)),
        42..50 if !tree.keys().any(|path| path.starts_with(&format!("{one}/"))) => drop(fs.remove(one)),
        50..70 => {
            let hows = [RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
            drop(fs.rename_with(one, other, hows[dice.random_range(0..3)]));
        }
        70..75 => drop(fs.hard_link(one, other)),
        75..78 if has_parent(&tree, one) => drop(fs.symlink("wherever", one)),
        78..82 => drop(fs.set_mode(one, dice.random_range(0..0o1000))),
        82..87 => drop(fs.set_xattr(one, ["user.a", "user.b"][usize::from(fill % 2)], &[fill])),
        87..89 => drop(fs.remove_xattr(one, "user.a")),
        89..95 if tree.get(one).is_some_and(|found| !matches!(found.kind, FoundKind::Symlink(_))) => {
            fs.sync(one).unwrap();
            history.trees.push(fs.tree());
            return history.sync(one);
        }
        95..98 => {
            fs.sync("/").unwrap();
            history.trees.push(fs.tree());
            return history.sync("/");
        }
        98..100 => {
            fs.sync_all().unwrap();
            history.trees.push(fs.tree());
            return history.sync_all();
        }
        _ => return,
    }
    history.trees.push(fs.tree());
}

fn has_parent(tree: &Tree, path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(dir, _)| dir.is_empty() || tree.contains_key(dir))
}

/// Checks that inodes and blocks in use are those of the tree.
fn check_room(fs: &Fs, tree: &Tree) {
    let system = fs.system();
    let numbers: BTreeSet<_> = tree.values().map(|found| found.ino).collect();
    let ids: BTreeSet<_> = tree.values().map(|found| found.generation).collect();
    assert_eq!(numbers.len(), ids.len(), "no two files have one number");
    assert_eq!(system.files - system.files_free, numbers.len() as u64 + 1);
    for (path, found) in tree {
        let names = tree.values().filter(|other| other.ino == found.ino).count();
        let nlink = fs.stat(path).unwrap().nlink as usize;
        let beneath = |other: &&String| other.rsplit_once('/').is_some_and(|(dir, _)| dir == path);
        match found.kind {
            FoundKind::Directory => {
                let inner =
                    tree.keys().filter(beneath).filter(|path| tree[*path].kind == FoundKind::Directory);
                assert_eq!(nlink, inner.count() + 2, "{path}");
            }
            _ => assert_eq!(nlink, names, "{path}"),
        }
    }
    let bytes = tree.values().map(|found| match &found.kind {
        FoundKind::File(bytes) => bytes.len() as u64,
        _ => 0,
    });
    let most: u64 = bytes.map(|bytes| bytes.div_ceil(system.block_bytes)).sum();
    assert!(system.blocks - system.blocks_free <= most, "holes take no room");
}

/// Returns a tree in words, without the bytes of files.
fn short(tree: &Tree) -> Vec<String> {
    let told = |(path, found): (&String, &lane::backend::sim::Found)| {
        let kind = match &found.kind {
            FoundKind::File(bytes) => format!("{} bytes", bytes.len()),
            kind => format!("{kind:?}"),
        };
        format!("{path} {} {:o} {kind} {:?}", found.generation, found.mode, found.xattrs)
    };
    tree.iter().map(told).collect()
}

const PATHS: [&str; 9] = ["/d", "/e", "/d/f", "/d/one", "/d/two", "/three", "/e/four", "/d/f/five", "/six"];
