//! Directories that have lists of their own, by their paths.

use std::collections::BTreeMap;

use index::{Index, ListRecord, Memory, Number, Options, VolumeId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{open, open_volume};

fn record(vnode: u32) -> ListRecord {
    ListRecord {
        directory: Number { vnode, uniquifier: 1 },
        generation: 7,
        seen_ms: 1 << 40,
        is_synced: false,
    }
}

#[test]
fn a_removed_volume_takes_its_lists_along_and_no_other() {
    let memory = Memory::default();
    let index = open(&memory);
    let volumes: Vec<_> =
        ["home", "work"].iter().map(|name| open_volume(&index, name, None).unwrap().volume).collect();
    for &volume in &volumes {
        index.record_list(volume, b"a", Some(record(3)));
        index.flush().unwrap();
        index.record_list(volume, b"b", Some(record(5)));
    }
    index.remove_volume("home").unwrap();
    index.close().unwrap();
    let index = open(&memory);
    for path in [&b"a"[..], b"b"] {
        assert_eq!(index.list_at(volumes[0], path).unwrap(), None);
        assert!(index.list_at(volumes[1], path).unwrap().is_some());
    }
}

/// Returns the index as opened in the next boot of the machine.
fn rebooted(memory: &Memory, index: Index, boot: u8) -> Index {
    index.close().unwrap();
    drop(index);
    Index::open(memory.clone(), Options { boot: [boot; 16], ..Options::default() }).unwrap()
}

#[test]
fn a_list_that_the_disk_may_not_have_had_counts_for_nothing_in_another_boot() {
    let memory = Memory::default();
    let mut index = open(&memory);
    let volume = open_volume(&index, "home", None).unwrap().volume;
    for path in [&b"a"[..], b"a/b", b"a/c", b"d", b"e", b"e/f"] {
        index.record_list(volume, path, Some(record(3)));
    }
    let paths = |index: &Index, behind: Option<&[u8]>, most| -> Vec<_> {
        let found = index.unsynced_lists(volume, behind, most).unwrap();
        found.into_iter().map(|(path, _)| String::from_utf8(path.to_vec()).unwrap()).collect()
    };
    assert_eq!(paths(&index, None, 3), ["a", "a/b", "a/c"]);
    assert_eq!(paths(&index, Some(b"a/c"), 9), ["d", "e", "e/f"]);
    for path in [&b"a"[..], b"a/c", b"e", b"e/f"] {
        index.note_synced_list(volume, path, record(3)).unwrap();
    }
    // What was recorded anew since is another.
    index.note_synced_list(volume, b"d", record(5)).unwrap();
    index.note_synced_list(volume, b"none", record(3)).unwrap();
    assert_eq!(paths(&index, None, 9), ["a/b", "d"]);
    // The disk need not have the new names.
    index.move_lists(volume, b"e", b"g");
    assert_eq!(paths(&index, None, 9), ["a/b", "d", "g", "g/f"]);
    index.note_synced_list(volume, b"g", record(3)).unwrap();
    // Killed in this boot nothing is forgotten.
    index.close().unwrap();
    drop(index);
    index = open(&memory);
    assert_eq!(paths(&index, None, 9), ["a/b", "d", "g/f"]);
    assert!(index.list_at(volume, b"g/f").unwrap().is_some());
    let index = rebooted(&memory, index, 2);
    assert_eq!(paths(&index, None, 9), Vec::<String>::new());
    for (path, is_known) in
        [(&b"a"[..], true), (b"a/b", false), (b"a/c", true), (b"d", false), (b"g", true), (b"g/f", false)]
    {
        assert_eq!(index.list_at(volume, path).unwrap().is_some(), is_known, "{}", path.escape_ascii());
    }
    // What counts no more is not made to count by another name, and is by another look.
    index.move_lists(volume, b"g", b"h");
    index.record_list(volume, b"d", Some(record(7)));
    index.flush().unwrap();
    let index = rebooted(&memory, index, 2);
    assert_eq!(paths(&index, None, 9), ["d", "h"]);
    assert_eq!(index.list_at(volume, b"h/f").unwrap(), None);
    index.remove_volume("home").unwrap();
    assert_eq!(paths(&index, None, 9), Vec::<String>::new());
}

#[test]
fn records_of_lists_follow_renames_over_commits_failures_and_restarts() {
    for seed in 0..200 {
        let mut dice = StdRng::seed_from_u64(seed);
        let memory = Memory::default();
        let mut index = open(&memory);
        let opened = open_volume(&index, "home", None).unwrap();
        let volume = opened.volume;
        let mut model: BTreeMap<String, ListRecord> = BTreeMap::new();
        let paths: Vec<String> = ["a", "a-b", "a0", "b", "c"]
            .iter()
            .flat_map(|top| ["", "/a", "/a/a", "/b"].map(|rest| format!("{top}{rest}")))
            .collect();
        for vnode in 1..120 {
            let (one, other) = (pick(&mut dice, &paths), pick(&mut dice, &paths));
            match dice.random_range(0..10) {
                0..4 => {
                    index.record_list(volume, one.as_bytes(), Some(record(vnode)));
                    model.insert(one, record(vnode));
                }
                4 => {
                    index.record_list(volume, one.as_bytes(), None);
                    model.remove(&one);
                }
                5 if apart(&one, &other) => {
                    index.move_lists(volume, one.as_bytes(), other.as_bytes());
                    let moved = taken(&mut model, &one);
                    taken(&mut model, &other);
                    model.extend(moved.into_iter().map(|(rest, record)| (format!("{other}{rest}"), record)));
                }
                6 if apart(&one, &other) => {
                    index.exchange_lists(volume, one.as_bytes(), other.as_bytes());
                    let (at_one, at_other) = (taken(&mut model, &one), taken(&mut model, &other));
                    model.extend(at_one.into_iter().map(|(rest, record)| (format!("{other}{rest}"), record)));
                    model.extend(at_other.into_iter().map(|(rest, record)| (format!("{one}{rest}"), record)));
                }
                7 => index.flush().unwrap(),
                8 => {
                    memory.set_failing(true);
                    let _ = index.flush();
                    memory.set_failing(false);
                }
                _ => {
                    index.close().unwrap();
                    drop(index);
                    index = open(&memory);
                }
            }
            check(&index, volume, &paths, &model, seed);
        }
    }
}

fn check(
    index: &index::Index,
    volume: VolumeId,
    paths: &[String],
    model: &BTreeMap<String, ListRecord>,
    seed: u64,
) {
    for path in paths {
        assert_eq!(
            // Where a path moves the disk may have no list there yet.
            index
                .list_at(volume, path.as_bytes())
                .unwrap()
                .map(|found| ListRecord { is_synced: false, ..found }),
            model.get(path).copied(),
            "seed {seed}: {path}"
        );
    }
}

fn pick(dice: &mut StdRng, paths: &[String]) -> String {
    paths[dice.random_range(0..paths.len())].clone()
}

fn apart(one: &str, other: &str) -> bool {
    let within = |path: &str, top: &str| path == top || path.starts_with(&format!("{top}/"));
    !within(one, other) && !within(other, one)
}

/// Removes and returns the model's records at and beneath a path, by the rest of their paths.
fn taken(model: &mut BTreeMap<String, ListRecord>, top: &str) -> Vec<(String, ListRecord)> {
    let within: Vec<_> =
        model.keys().filter(|path| *path == top || path.starts_with(&format!("{top}/"))).cloned().collect();
    within
        .into_iter()
        .map(|path| {
            let record = model.remove(&path).expect("it is there");
            (path[top.len()..].to_owned(), record)
        })
        .collect()
}
