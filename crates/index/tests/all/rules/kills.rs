//! Tests of journals in memory over a kill.

use super::*;

#[test]
fn what_was_not_committed_is_taken_over_after_a_kill_and_by_nobody_else() {
    let memory = Memory::journaled();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap();
    index.flush().unwrap();
    let earlier = memory.image();
    let (at, over) = (later(1), later(1) + Duration::from_millis(5));
    let load = |index: &Index, name: &'static [u8], changed: SystemTime| {
        index.load(home.volume, first_use(name, seen_at(changed), later(9))).unwrap().object
    };
    let mut object = load(&index, b"changed", later(0) + Duration::from_nanos(1));
    let place = PlaceRef { parent: 1, name: b"name" };
    let of =
        Changing { identity: b"changed", number: object.number, version: object.version, place: Some(place) };
    let slot = index.reserve(home.volume, of);
    object.version = object.version.next();
    index.changing(slot, object.version, at);
    index.changed(slot, over);
    // Another is just being changed, in a life that goes on for a while.
    let other = load(&index, b"changing", at);
    let of = Changing { identity: b"changing", number: other.number, version: other.version, place: None };
    let slot = index.reserve(home.volume, of);
    index.beat(later(8));
    index.changing(slot, other.version.next(), later(8));
    index.flush().unwrap();
    let killed = memory.parted();

    let next = |memory: &Memory, boot: u8| {
        let index = Index::open(memory.clone(), Options { boot: [boot; 16], ..Options::default() }).unwrap();
        let mark = home.mark.encode();
        let tree = Tree { name: "home", path: "/srv/home", mark: Some(&mark), uuid_if_new: [0; 16] };
        let opened = index.open_volume(tree, later(20)).unwrap();
        index.marked(opened.volume, &opened.mark);
        index
    };
    let found = next(&killed.parted(), 1);
    assert_eq!((found.previous_shutdown(), found.counts_on()), (&PreviousShutdown::Crash, true));
    let kept = load(&found, b"changed", over);
    assert_eq!((kept.number, kept.version), (object.number, object.version));
    assert_eq!(kept.place, place_of(place));
    assert_eq!(load(&found, b"changing", at).version, other.version.next().next(), "it may have had it");
    drop(found);
    for (changed, why) in
        [(at - Duration::from_millis(21), "before"), (over + Duration::from_nanos(1), "after")]
    {
        let found = next(&killed.parted(), 1);
        assert_eq!(
            load(&found, b"changed", changed).version,
            object.version.next(),
            "changed {why} its window"
        );
    }
    let is_broken = |index: &Index| {
        !index.counts_on() && load(index, b"changed", over).version.generation > object.version.generation
    };
    assert!(is_broken(&next(&killed.parted(), 2)), "the machine was started anew");
    let set_back = killed.parted();
    set_back.set_back(&earlier);
    assert!(!next(&set_back, 1).counts_on(), "the index is as it was before");
    let tool = Index::open(killed.clone(), Options { boot: [1; 16], ..Options::default() }).unwrap();
    tool.put_back().unwrap();
    drop(tool);
    let found = next(&killed, 1);
    assert_eq!(
        (found.previous_shutdown(), found.counts_on()),
        (&PreviousShutdown::Crash, true),
        "after a tool"
    );
    assert_eq!(load(&found, b"changed", over).version, object.version);
}

#[test]
fn a_journal_without_room_for_all_is_none() {
    let memory = Memory::journaled();
    let options = Options { boot: [1; 16], journal_max: 2, ..Options::default() };
    let index = Index::open(memory.clone(), options).unwrap();
    let home = open_volume(&index, "home", None).unwrap().volume;
    let slots = [0; 3].map(|_| index.reserve(home, changing()));
    let counts_on = |memory: &Memory| Index::open(memory.parted(), options).unwrap().counts_on();
    assert!(!counts_on(&memory));
    let in_journal = || (index.backlog().journaled, index.backlog().lacking);
    assert_eq!(in_journal(), (2, 1));
    index.give_back(slots[2]);
    assert_eq!(in_journal(), (2, 0));
    assert!(counts_on(&memory), "the file that lacked one is no more");
    let [first, second, _] = slots;
    index.give_back(first);
    index.reserve(home, changing());
    assert!(counts_on(&memory), "one that is free is taken again");
    index.give_back(second);
    index.close().unwrap();
}

#[test]
fn what_was_removed_before_a_kill_is_forgotten_after_it() {
    let memory = Memory::journaled();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().volume;
    let load =
        |identity: &[u8]| index.load(home, first_use(identity, FileStamp::default(), later(9))).unwrap();
    let names: [&[u8]; 4] = [b"changed", b"unchanged", b"open", b"kept"];
    let numbers = names.map(|name| load(name).object.number);
    index.flush().unwrap();
    let reserve =
        |n: usize| index.reserve(home, Changing { number: numbers[n], identity: names[n], ..changing() });
    index.forget(home, names[0], numbers[0], Some(reserve(0)));
    index.forget(home, names[1], numbers[1], None);
    // Its last name is gone, and it is still open.
    index.going(reserve(2));
    let after = open(&memory.parted());
    let known = names.map(|name| after.look_up(home, name).unwrap().map(|kept| kept.number));
    assert_eq!(known, [None, None, None, Some(numbers[3])]);
    after.flush().unwrap();
    assert_eq!(after.find(home, numbers[0]).unwrap(), None);
    // Once it is committed nothing of it is in the journal.
    index.flush().unwrap();
    for now in [later(10), later(13)] {
        index.beat(now);
    }
    assert_eq!(index.backlog().journaled, 1, "of what is open");
}
