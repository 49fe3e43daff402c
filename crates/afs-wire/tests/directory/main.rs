//! unit, fuzz, interop: directories against a model, against any bytes, and against OpenAFS's own code.

use std::collections::BTreeMap;
use std::path::Path;

use afs_wire::directory::{AddError, BadDirectory, Directory, NAME_MAX, PAGE_SIZE, PAGES_MAX, Target};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::stock_directory::StockDirectory;

const OWN: Target = Target { vnode: 5, uniquifier: 7 };
const PARENT: Target = Target { vnode: 1, uniquifier: 1 };

fn bytes_of(directory: &Directory) -> Vec<u8> {
    let mut bytes = vec![0; directory.size()];
    assert_eq!(directory.read_at(0, &mut bytes), bytes.len());
    bytes
}

/// Generates a name, short ones more often.
fn any_name(random: &mut StdRng) -> Vec<u8> {
    let len_max = *[8, 8, 20, 60, NAME_MAX].get(random.random_range(0..5)).unwrap();
    let len = random.random_range(1..=len_max);
    // Neither zero nor a dot.
    (0..len).map(|_| random.random_range(b'/'..=255)).collect()
}

fn any_target(random: &mut StdRng) -> Target {
    Target { vnode: random.random(), uniquifier: random.random() }
}

/// Changes a directory at random, and calls `change` with each change.
fn edit(random: &mut StdRng, steps: usize, removes: f64, mut change: impl FnMut(&[u8], Option<Target>)) {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..steps {
        if !names.is_empty() && random.random_bool(removes) {
            let name = names.swap_remove(random.random_range(0..names.len()));
            change(&name, None);
        } else {
            let (name, target) = (any_name(random), any_target(random));
            change(&name, Some(target));
            names.push(name);
        }
    }
}

#[test]
fn an_edited_directory_says_what_a_model_says_and_parses_to_itself() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut directory = Directory::new(OWN, PARENT);
        let mut model: BTreeMap<Vec<u8>, Target> = BTreeMap::new();
        edit(&mut random, 400, 0.4, |name, target| match target {
            Some(target) => {
                let before = directory.clone();
                let expected = if model.contains_key(name) { Err(AddError::Exists) } else { Ok(()) };
                assert_eq!(directory.add(name, target), expected, "seed {seed}");
                if expected.is_err() {
                    assert_eq!(directory, before, "seed {seed}: a refusal changes nothing");
                } else {
                    model.insert(name.to_vec(), target);
                }
            }
            None => assert_eq!(directory.remove(name), model.remove(name), "seed {seed}"),
        });
        let parsed =
            Directory::parse(&bytes_of(&directory)).unwrap_or_else(|bad| panic!("seed {seed}: {bad}"));
        assert_eq!(parsed, directory, "seed {seed}");
        let listed: BTreeMap<Vec<u8>, Target> =
            parsed.entries().map(|(name, target)| (name.to_vec(), target)).collect();
        assert_eq!(listed, model, "seed {seed}");
        for (name, target) in &model {
            assert_eq!(parsed.lookup(name), Some(*target), "seed {seed}");
        }
        assert_eq!((parsed.lookup(b"."), parsed.lookup(b"..")), (Some(OWN), Some(PARENT)), "seed {seed}");
        assert_eq!(parsed.lookup(b"no such name"), None);
    }
}

#[test]
fn what_is_added_and_taken_away_leaves_no_trace() {
    let mut directory = Directory::new(OWN, PARENT);
    directory.add(b"stays", Target { vnode: 2, uniquifier: 2 }).unwrap();
    let before = directory.clone();
    directory.add(&[b'n'; NAME_MAX], Target { vnode: 4, uniquifier: 3 }).unwrap();
    assert_ne!(directory, before);
    directory.remove(&[b'n'; NAME_MAX]).unwrap();
    assert_eq!(directory, before);
}

#[test]
fn a_clone_is_not_changed_with_its_original() {
    let mut directory = Directory::new(OWN, PARENT);
    let before = directory.clone();
    directory.add(b"new", OWN).unwrap();
    assert_eq!(before.lookup(b"new"), None);
    assert_eq!(directory.lookup(b"new"), Some(OWN));
}

#[test]
fn names_that_cannot_be_are_refused() {
    let mut directory = Directory::new(OWN, PARENT);
    for bad in [&b""[..], b"a\0b", &[b'n'; NAME_MAX + 1]] {
        assert_eq!(directory.add(bad, OWN), Err(AddError::BadName));
        assert!(!directory.has_room(bad));
    }
    assert_eq!(directory.add(b".", OWN), Err(AddError::Exists));
}

#[test]
fn a_directory_ends_below_2_mib_and_room_comes_back_with_removals() {
    let name = |number: usize| format!("{number:05}").into_bytes();
    let names: Vec<_> = (0..70_000).map(name).collect();
    let all = names.iter().map(|name| (&name[..], OWN));
    assert_eq!(Directory::build(OWN, PARENT, all.clone()), Err(AddError::Full));
    // 63 names in each page, and 51 in the first, of which two are `.` and `..`.
    let fits = (PAGES_MAX - 1) * 63 + 49;
    let mut directory = Directory::build(OWN, PARENT, all.clone().take(fits)).unwrap();
    assert_eq!(directory.size(), PAGES_MAX * PAGE_SIZE);
    assert!(directory.size() < 2 << 20);
    assert!(!directory.has_room(b"more"));
    assert_eq!(directory.add(b"more", OWN), Err(AddError::Full));
    assert_eq!(Directory::parse(&bytes_of(&directory)), Ok(directory.clone()));
    directory.remove(&names[40_000]).unwrap();
    assert!(directory.has_room(b"more"));
    assert!(!directory.has_room(b"more than one slot takes"));
    directory.add(b"more", OWN).unwrap();
    assert_eq!(Directory::parse(&bytes_of(&directory)), Ok(directory));
}

#[test]
fn reads_end_with_the_directory() {
    let names: Vec<_> = (0..200).map(|number: u32| number.to_string().into_bytes()).collect();
    let directory = Directory::build(OWN, PARENT, names.iter().map(|name| (&name[..], OWN))).unwrap();
    let all = bytes_of(&directory);
    let mut part = [0xff; 3000];
    assert_eq!(directory.read_at(1500, &mut part), 3000);
    assert_eq!(part[..], all[1500..4500]);
    assert_eq!(directory.read_at(all.len() - 10, &mut part), 10);
    assert_eq!(part[..10], all[all.len() - 10..]);
    assert_eq!(directory.read_at(all.len(), &mut part), 0);
    assert_eq!(directory.read_at(usize::MAX - 1, &mut part), 0);
}

#[test]
fn damaged_directories_are_told() {
    let mut directory = Directory::new(OWN, PARENT);
    directory.add(b"name", OWN).unwrap();
    let good = bytes_of(&directory);
    let damage = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Directory::parse(&bytes).unwrap_err()
    };
    assert_eq!(Directory::parse(&[]), Err(BadDirectory::Size(0)));
    assert_eq!(Directory::parse(&good[1..]), Err(BadDirectory::Size(PAGE_SIZE - 1)));
    assert_eq!(damage(3, 0), BadDirectory::Magic(0));
    assert_eq!(damage(1, 2), BadDirectory::Pages { told: 2, there: 1 });
    assert_eq!(damage(32, 3), BadDirectory::Slots(0));
    // An entry less, whose slot is in use still: in the hash table, then in the bitmap.
    let slot = 15;
    let head = (0..128).map(|chain| 160 + 2 * chain).find(|at| good[at + 1] == slot as u8).unwrap();
    assert_eq!(damage(head + 1, 0), BadDirectory::Slots(0));
    assert!(matches!(damage(head, 4), BadDirectory::Chain(_)));
    assert!(matches!(damage(slot * 32 + 12, b'm'), BadDirectory::Name(15)));
    assert!(matches!(damage(slot * 32, 0), BadDirectory::Chain(_)));
    assert!(matches!(damage(slot * 32 + 3, slot as u8), BadDirectory::Chain(_)));
}

#[test]
fn any_bytes_are_a_directory_that_can_be_edited_or_none() {
    bolero::check!().for_each(|input: &[u8]| {
        // Most of what a fuzzer finds is not even a page: what it does to a good one says more.
        let mut bytes = bytes_of(&a_directory());
        for patch in input.chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([patch[0], patch[1]])) % bytes.len();
            bytes[at] = patch[2];
        }
        let _ = Directory::parse(input);
        let Ok(mut directory) = Directory::parse(&bytes) else { return };
        let names: Vec<_> = directory.entries().map(|(name, _)| name.to_vec()).collect();
        for name in &names {
            assert!(directory.lookup(name).is_some());
        }
        let added = directory.add(b"one more", OWN);
        assert_eq!(added.is_ok(), !names.iter().any(|name| name == b"one more"));
        for name in &names {
            directory.remove(name);
        }
        Directory::parse(&bytes_of(&directory)).expect("edits keep a directory whole");
    });
}

fn a_directory() -> Directory {
    let names: Vec<_> =
        (0..90).map(|number: usize| "n".repeat(number % 40 + 1) + &number.to_string()).collect();
    Directory::build(OWN, PARENT, names.iter().map(|name| (name.as_bytes(), OWN))).unwrap()
}

/// Starts OpenAFS's code; `None` where it is not installed, and the test is skipped.
#[track_caller]
fn stock() -> Option<StockDirectory> {
    let stock = StockDirectory::start(Path::new(env!("CARGO_TARGET_TMPDIR")));
    if stock.is_none() {
        testkit::skip("the Debian package libopenafs-dev is not installed; `cargo xtask test` installs it");
    }
    stock
}

/// Returns the bytes with zeros where no client looks: OpenAFS 1.8 leaves the ends of long names in slots
/// that it frees.
fn meant(mut bytes: Vec<u8>) -> Vec<u8> {
    for (number, page) in bytes.as_chunks_mut::<PAGE_SIZE>().0.iter_mut().enumerate() {
        let bitmap = u64::from_le_bytes(*page[5..].first_chunk().unwrap());
        let mut slot = if number == 0 { 13 } else { 1 };
        while slot < 64 {
            let mut end = slot + 1;
            if bitmap >> slot & 1 == 1 {
                // Of no use to any client.
                page[slot * 32 + 1] = 0;
                let name = slot * 32 + 12;
                let len = page[name..].iter().position(|byte| *byte == 0).unwrap();
                end = slot + 1 + (len + 16) / 32;
                page[name + len..end * 32].fill(0);
            } else {
                page[slot * 32..end * 32].fill(0);
            }
            slot = end;
        }
    }
    bytes
}

#[test]
fn edits_leave_the_very_bytes_that_stock_code_leaves() {
    let Some(mut stock) = stock() else { return };
    let mut random = StdRng::seed_from_u64(11);
    let mut ours = Directory::new(OWN, PARENT);
    stock.begin((OWN.vnode, OWN.uniquifier), (PARENT.vnode, PARENT.uniquifier));
    assert_eq!(bytes_of(&ours), stock.bytes());
    for removes in [0.1, 0.6, 0.05] {
        let (mut step, mut differ) = (0, None);
        edit(&mut random, 3000, removes, |name, target| {
            match target {
                Some(target) => {
                    let refused = stock.add(name, (target.vnode, target.uniquifier));
                    assert_eq!(ours.add(name, target).is_ok(), refused == 0);
                }
                None => assert_eq!(ours.remove(name).is_some(), stock.remove(name) == 0),
            }
            step += 1;
            if step % 100 == 0 && differ.is_none() && meant(bytes_of(&ours)) != meant(stock.bytes()) {
                differ = Some(step);
            }
        });
        assert_eq!(differ, None, "the first step in a hundred with other bytes");
    }
    assert!(
        ours.size() > 128 * PAGE_SIZE,
        "{} bytes: beyond what the map of free slots tells of",
        ours.size()
    );
}

#[test]
fn stock_code_finds_nothing_wrong_and_each_name() {
    let Some(mut stock) = stock() else { return };
    let mut random = StdRng::seed_from_u64(12);
    let mut ours = Directory::new(OWN, PARENT);
    edit(&mut random, 2000, 0.3, |name, target| {
        let _ = match target {
            Some(target) => ours.add(name, target).is_ok(),
            None => ours.remove(name).is_some(),
        };
    });
    assert!(stock.check(&bytes_of(&ours)));
    for (name, target) in ours.entries() {
        assert_eq!(stock.lookup(name), Some((target.vnode, target.uniquifier)));
    }
    assert_eq!(stock.lookup(b"no such name"), None);
    // And it would tell: what is refused here is refused there.
    let mut damaged = bytes_of(&ours);
    damaged[5] = 0;
    assert!(!stock.check(&damaged));
    assert!(Directory::parse(&damaged).is_err());
}
