//! Rules, a test each: marks and volumes, the file, the committer, hosts, the check.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use index::{
    Changing, Committer, Error, FileStamp, FileStorage, Finding, FirstUse, Health, HostRecord, HostState,
    Index, Kind, Listed, Looking, Memory, Number, ObjectRecord, OpenedVolume, Options, Place, PlaceRef,
    PreviousShutdown, Quota, Timestamp, Tree, Usage, Version, VolumeId,
};

mod kills;
mod lists;

fn open(memory: &Memory) -> Index {
    Index::open(memory.clone(), Options { boot: [1; 16], ..Options::default() }).unwrap()
}

fn open_volume(index: &Index, name: &str, mark: Option<&[u8]>) -> Result<OpenedVolume, Error> {
    let path = format!("/srv/{name}");
    let uuid_if_new = std::array::from_fn(|at| *name.as_bytes().get(at).unwrap_or(&0));
    let opened = index.open_volume(Tree { name, path: &path, mark, uuid_if_new }, later(0))?;
    index.marked(opened.volume, &opened.mark);
    Ok(opened)
}

fn later(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + secs)
}

#[test]
fn volumes_are_numbered_three_apart_and_keep_their_numbers() {
    let memory = Memory::default();
    let index = open(&memory);
    assert_eq!(index.previous_shutdown(), &PreviousShutdown::First);
    let home = open_volume(&index, "home", None).unwrap();
    let work = open_volume(&index, "work", None).unwrap();
    assert_eq!((home.volume, work.volume), (VolumeId(0x2000_0001), VolumeId(0x2000_0004)));
    index.set_quota(home.volume, Quota { bytes: Some(7), files: None }).unwrap();
    index.record_usage(home.volume, Usage { bytes: 5, files: 3 }, false).unwrap();
    index.close().unwrap();

    let index = open(&memory);
    assert_eq!(index.previous_shutdown(), &PreviousShutdown::Clean);
    let again = open_volume(&index, "home", Some(&home.mark.encode())).unwrap();
    assert_eq!((again.volume, again.index_was_behind), (home.volume, false));
    assert!(again.mark.generation > home.mark.generation, "in the same second too");
    let (_, record) = index.volume("home").unwrap();
    assert_eq!(record.quota, Quota { bytes: Some(7), files: None });
    assert_eq!(record.usage, Usage { bytes: 5, files: 3 });
    index.remove_volume("work").unwrap();
    let new = open_volume(&index, "work", None).unwrap();
    assert_eq!(new.volume, VolumeId(0x2000_0007), "a number is not given to another volume");
}

#[test]
fn a_lost_index_goes_on_above_the_mark() {
    let index = open(&Memory::default());
    let home = open_volume(&index, "home", None).unwrap();
    let before = index.load(home.volume, first_use(b"a", FileStamp::default(), later(1))).unwrap().object;
    drop(index);
    let index = open(&Memory::default());
    let again = open_volume(&index, "home", Some(&home.mark.encode())).unwrap();
    assert_eq!((again.volume, again.mark.uuid, again.index_was_behind), (home.volume, home.mark.uuid, true));
    let standing = |mark: &index::Mark| index.standing(again.volume, mark).unwrap();
    assert_eq!(standing(&again.mark), index::Standing::Agrees);
    assert_eq!(index.mark_of(again.volume).unwrap(), again.mark);
    assert_eq!(standing(&home.mark), index::Standing::TreeBehind);
    let ahead = index::Mark { files_to: again.mark.files_to + 1, ..again.mark };
    assert_eq!(standing(&ahead), index::Standing::IndexBehind);
    assert_eq!(standing(&index::Mark { uuid: [3; 16], ..again.mark }), index::Standing::Another);
    let after = index.load(home.volume, first_use(b"a", FileStamp::default(), later(1))).unwrap();
    assert!(after.is_new);
    assert!(after.object.number.vnode > before.number.vnode, "{after:?}");
    assert!(after.object.version > before.version, "{after:?}");
    assert!(open_volume(&index, "work", None).unwrap().volume > home.volume, "its number is taken");
}

#[test]
fn a_tree_that_is_not_the_volumes_is_refused() {
    let memory = Memory::default();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().mark.encode();
    let work = open_volume(&index, "work", None).unwrap().mark.encode();
    let refused =
        |name, mark: Option<&[u8]>| matches!(open_volume(&index, name, mark), Err(Error::OtherTree { .. }));
    assert!(refused("home", None), "its root bears no mark any more");
    assert!(refused("home", Some(&work)), "two trees changed places");
    assert!(refused("copy", Some(&home)), "a copy of a served tree");
    assert!(matches!(open_volume(&index, "home", Some(b"torn")), Err(Error::BadMark(_))));
    let (volume, _) = index.volume("home").unwrap();
    index.close_volume(volume);
    let renamed = open_volume(&index, "house", Some(&home)).unwrap();
    assert_eq!(renamed.volume, volume, "one that is not served may have got another name");
    assert!(index.volume("home").is_none());
}

#[test]
fn a_volume_gets_another_name_and_no_two_have_one() {
    let memory = Memory::default();
    let index = open(&memory);
    let [home, work] = ["home", "work"].map(|name| open_volume(&index, name, None).unwrap());
    let names =
        |index: &Index| [home.volume, work.volume].map(|volume| index.volume_of(volume).unwrap().name);
    index.rename_volume(home.volume, "house");
    assert_eq!(names(&index), ["house", "work"]);
    index.rename_volume(home.volume, "work");
    assert_eq!(names(&index), ["work", "house"], "the other has the name that this one had");
    assert_eq!(index.volume("work").unwrap().0, home.volume);
    assert!(index.volume("home").is_none());
    index.rename_volume(home.volume, "work");
    index.rename_volume(VolumeId(99), "house");
    assert_eq!(names(&index), ["work", "house"]);
    index.close().unwrap();
    drop(index);
    assert_eq!(names(&open(&memory)), ["work", "house"], "it lasts");
}

#[test]
fn a_volume_whose_making_was_broken_off_before_it_had_its_mark_is_made_at_the_next_opening() {
    let memory = Memory::default();
    let index = open(&memory);
    let tree = Tree { name: "home", path: "/srv/home", mark: None, uuid_if_new: [1; 16] };
    let begun = index.open_volume(tree, later(0)).unwrap();
    drop(index);
    let index = open(&memory);
    let elsewhere = index.open_volume(Tree { path: "/srv/other", ..tree }, later(1));
    assert!(matches!(elsewhere, Err(Error::OtherTree { .. })));
    let made = index.open_volume(Tree { uuid_if_new: [2; 16], ..tree }, later(1)).unwrap();
    assert_eq!((made.volume, made.mark.uuid), (begun.volume, [1; 16]));
    assert!(
        made.mark.files_to > begun.mark.files_to,
        "numbers that may have been given out are not given again"
    );
    index.marked(made.volume, &made.mark);
    index.close_volume(made.volume);
    assert!(matches!(index.open_volume(tree, later(2)), Err(Error::OtherTree { .. })), "the mark was there");
}

#[test]
fn versions_count_on_over_a_clean_stop_in_this_boot_and_over_nothing_else() {
    let memory = Memory::default();
    let mut mark = None;
    let mut life = |memory: &Memory, boot: u8, is_to_change: bool| {
        let options = Options { boot: [boot; 16], ..Options::default() };
        let index = Index::open(memory.clone(), options).unwrap();
        let opened = open_volume(&index, "home", mark.as_ref().map(|mark: &[u8; 64]| &mark[..])).unwrap();
        mark = Some(opened.mark.encode());
        let first = FirstUse { is_to_change, ..first_use(b"a", FileStamp::default(), later(9)) };
        let version = index.load(opened.volume, first).unwrap().object.version;
        (index, opened.first, version)
    };
    let end = |(index, ..): (Index, Version, Version)| index.close().unwrap();
    let (index, first, begun) = life(&memory, 1, true);
    assert_eq!(begun, first);
    index.close().unwrap();
    drop(index);
    let image = memory.image();

    let (index, first, version) = life(&memory, 1, true);
    assert_eq!((first, version), (begun, begun), "a clean stop");
    index.close_volume(VolumeId(0x2000_0001));
    let tree = Tree { name: "home", path: "/srv/home", mark: None, uuid_if_new: [0; 16] };
    let again = index.volume_of(VolumeId(0x2000_0001)).map(|record| record.generation).unwrap();
    assert!(matches!(index.open_volume(tree, later(0)), Err(Error::OtherTree { .. })));
    index.close().unwrap();
    drop(index);

    // A command looks between.
    let index = open(&memory);
    index.put_back().unwrap();
    drop(index);
    let (index, first, version) = life(&memory, 1, true);
    assert!(index.volume_of(VolumeId(0x2000_0001)).unwrap().generation > again);
    assert_eq!((first, version), (begun, begun), "a command between");
    drop(index);

    let (index, first, version) = life(&memory, 1, false);
    assert!(first > begun, "a kill");
    assert_eq!(version, begun, "who does not change it keeps what he had until then");
    drop(index);
    let after_kill = life(&memory, 1, true);
    assert_eq!(after_kill.2, after_kill.1, "who may change it does not find a jump with his change");
    let reached = after_kill.2;
    end(after_kill);

    let after_boot = life(&memory, 2, true);
    assert!(after_boot.1 > reached, "another boot, though memory kept the note");
    let reached = after_boot.1;
    end(after_boot);

    memory.set_back(&image);
    let index = open(&memory);
    index.put_back().unwrap();
    drop(index);
    let set_back = life(&memory, 1, true);
    assert!(
        set_back.1 > reached,
        "an index that was put back with its tree, and a command that did not see it"
    );
}

#[test]
fn a_file_of_the_first_format_is_read_and_written_anew() {
    let memory = Memory::default();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap();
    index.close().unwrap();
    drop(index);
    let database = redb::Database::builder().create_with_backend(memory.clone()).unwrap();
    let write = database.begin_write().unwrap();
    {
        use redb::ReadableTable;
        let state: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("state");
        let volumes: redb::TableDefinition<'_, u32, &[u8]> = redb::TableDefinition::new("volumes");
        let mut state = write.open_table(state).unwrap();
        state.insert("format", &1_u32.to_le_bytes()[..]).unwrap();
        let run = state.get("run").unwrap().unwrap().value().to_vec();
        state.insert("run", &run[..17]).unwrap();
        let mut volumes = write.open_table(volumes).unwrap();
        let mut record = volumes.get(home.volume.0).unwrap().unwrap().value().to_vec();
        // It did not say since when versions count on.
        record.drain(20..24);
        volumes.insert(home.volume.0, &record[..]).unwrap();
    }
    write.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let index = open(&memory);
        assert_eq!(index.previous_shutdown(), &PreviousShutdown::Clean);
        let (volume, record) = index.volume("home").unwrap();
        assert_eq!((volume, record.uuid, &*record.path), (home.volume, home.mark.uuid, "/srv/home"));
        assert_eq!(record.generation, home.mark.generation);
        index.close().unwrap();
    }
}

#[test]
fn a_tree_that_was_set_back_gets_new_numbers() {
    let memory = Memory::default();
    let mut index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap();
    let load = |index: &Index| {
        let seen = FileStamp { size: 1, ..FileStamp::default() };
        index.load(home.volume, first_use(b"a", seen, later(1))).unwrap().object
    };
    let first = load(&index);
    let (mut mark, mut last) = (home.mark, first.number);
    for (set_back, keeps) in [(false, true), (true, false), (false, true)] {
        index.close().unwrap();
        drop(index);
        index = open(&memory);
        let borne = if set_back { home.mark } else { mark };
        let opened = open_volume(&index, "home", Some(&borne.encode())).unwrap();
        assert_eq!((opened.tree_was_behind, opened.index_was_behind), (set_back, false));
        mark = opened.mark;
        assert_eq!(load(&index).number == last, keeps, "{set_back}");
        last = load(&index).number;
    }
    assert_ne!(load(&index).number, first.number);
    assert_eq!(index.find(home.volume, first.number).unwrap(), None);
}

#[test]
fn a_tools_use_does_not_change_how_the_server_stopped() {
    let memory = Memory::default();
    drop(open(&memory));
    open(&memory).put_back().unwrap();
    assert_eq!(open(&memory).previous_shutdown(), &PreviousShutdown::Crash);
    open(&memory).close().unwrap();
    open(&memory).put_back().unwrap();
    assert_eq!(open(&memory).previous_shutdown(), &PreviousShutdown::Clean);
}

#[test]
fn numbers_wait_for_the_mark_and_the_next_range_comes_in_time() {
    let index = open(&Memory::default());
    let tree = Tree { name: "home", path: "/srv", mark: None, uuid_if_new: [1; 16] };
    let opened = index.open_volume(tree, later(0)).unwrap();
    let home = opened.volume;
    let begin = |n: u32| index.begin(home, &n.to_le_bytes(), Kind::File);
    assert!(matches!(begin(0), Err(Error::Full)), "the root bears no mark yet");
    index.marked(home, &opened.mark);
    let mut last = None;
    let mut marks = 0;
    for n in 0..200_000 {
        if let Some(mark) = index.next_mark(home).unwrap() {
            index.marked(home, &mark);
            marks += 1;
        }
        let number = begin(n).unwrap().unwrap();
        assert!(last.is_none_or(|last: Number| last.vnode < number.vnode));
        last = Some(number);
    }
    assert!((3..9).contains(&marks), "{marks}");
}

#[test]
fn a_file_that_was_just_made_has_one_number_whoever_asks_first() {
    let memory = Memory::journaled();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().volume;
    let begin = |identity: &[u8]| index.begin(home, identity, Kind::File).unwrap();
    let load =
        |identity: &[u8]| index.load(home, first_use(identity, FileStamp::default(), later(9))).unwrap();
    let listed = |identity| {
        let place = PlaceRef { parent: 1, name: b"made" };
        index.numbers(home, &[Listed { identity, kind: Kind::File, place }]).unwrap()[0].number
    };
    let number = begin(b"made").unwrap();
    assert_eq!((load(b"made").object.number, load(b"made").is_new, listed(b"made")), (number, false, number));
    assert_eq!(begin(b"made"), None, "it is made once");
    let slot = index.reserve(home, Changing { number, identity: b"made", ..changing() });
    assert_eq!(index.backlog().objects, 0, "who made it tells of it");
    let after = open(&memory.parted());
    let kept = after.look_up(home, b"made").unwrap().unwrap();
    assert_eq!(kept.number, number, "over a kill too");
    index.record(home, b"made", kept, true, slot).unwrap();
    index.flush().unwrap();
    assert_eq!(load(b"made").object.number, number);
    // Found before its maker asks, it has the number of the finder.
    let found = load(b"found").object.number;
    assert_eq!((begin(b"found"), listed(b"found")), (None, found));
    // What is gone before any client was told leaves nothing.
    let gone = begin(b"gone").unwrap();
    let slot = index.reserve(home, Changing { number: gone, identity: b"gone", ..changing() });
    index.give_up(home, b"gone", slot);
    assert_eq!(index.look_up(home, b"gone").unwrap(), None);
    assert_ne!(begin(b"gone"), Some(gone), "no number names two files");
}

#[test]
fn memory_of_what_is_not_committed_is_bounded() {
    let options = Options { pending_max: 4, ..Options::default() };
    let index = Index::open(Memory::default(), options).unwrap();
    let home = open_volume(&index, "home", None).unwrap().volume;
    let load = |n: u8| index.load(home, first_use(&[n], FileStamp::default(), later(9)));
    let first = load(0).unwrap().object;
    assert!((1..4).all(|n| load(n).is_ok()));
    assert!(matches!(load(4), Err(Error::Full)));
    assert_eq!(load(0).unwrap().object, first, "what is there is found");
    assert!(index.is_full());
    let record = |object: &ObjectRecord, identity: &[u8]| {
        let slot = index.reserve(home, changing());
        index.record(home, identity, object.clone(), true, slot)
    };
    record(&first, &[0]).expect("and may change");
    index.flush().unwrap();
    assert_eq!(index.backlog().objects, 0);
    assert!(load(4).is_ok());
    let slots = [0; 3].map(|_| index.reserve(home, changing()));
    assert!(index.is_full(), "what is to come counts");
    assert!(matches!(load(5), Err(Error::Full)));
    slots.into_iter().for_each(|slot| index.give_back(slot));
    assert!(load(5).is_ok());
}

#[test]
fn the_committer_commits_without_being_asked() {
    let memory = Memory::default();
    let index = open(&memory);
    let committer = Committer::start(&index, Duration::from_millis(1)).unwrap();
    let home = open_volume(&index, "home", None).unwrap();
    let number =
        index.load(home.volume, first_use(b"a", FileStamp::default(), later(1))).unwrap().object.number;
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    while index.backlog().objects > 0 {
        assert!(std::time::Instant::now() < give_up, "nothing is committed");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(index.health(), Health::Well);
    drop((committer, index));
    let index = open(&memory);
    assert_eq!(index.previous_shutdown(), &PreviousShutdown::Crash);
    open_volume(&index, "home", Some(&home.mark.encode())).unwrap();
    assert_eq!(&*index.find(home.volume, number).unwrap().unwrap().identity, b"a");
}

#[test]
fn hosts_are_there_after_a_crash() {
    let memory = Memory::default();
    let index = open(&memory);
    let record = HostRecord {
        epoch: 7,
        state: HostState::Down,
        seen: 1_800_000_000,
        addresses: vec!["10.0.0.1:7001".parse().unwrap(), "[2001:db8::1]:7001".parse().unwrap()],
    };
    index.record_host([1; 16], record.clone()).unwrap();
    index.record_host([2; 16], record.clone()).unwrap();
    index.flush().unwrap();
    index.forget_host([2; 16]);
    index.flush().unwrap();
    drop(index);
    let index = open(&memory);
    assert!(!index.previous_shutdown().is_clean(), "so they are to be reset");
    assert_eq!(index.hosts().unwrap(), [([1; 16], record.clone())]);
    let crowd = HostRecord { addresses: vec!["10.0.0.1:7001".parse().unwrap(); 33], ..record };
    assert!(matches!(index.record_host([3; 16], crowd), Err(Error::TooLong { max: 32, .. })));
}

#[test]
fn a_check_finds_and_mends_what_does_not_agree() {
    let memory = Memory::default();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().volume;
    let mut object = index.load(home, first_use(b"sound", FileStamp::default(), later(1))).unwrap().object;
    let stranger = ObjectRecord {
        number: Number { vnode: 4_000_000, uniquifier: 9 },
        version: Version { generation: 1, count: 1 },
        seen: FileStamp::default(),
        place: Place::default(),
    };
    let record = |identity: &[u8], object: &ObjectRecord| {
        let slot = index.reserve(home, changing());
        index.record(home, identity, object.clone(), true, slot).unwrap();
    };
    let ahead = index.load(home, first_use(b"ahead", FileStamp::default(), later(1))).unwrap().object;
    let generation = ahead.version.generation + 1;
    record(b"ahead", &ObjectRecord { version: Version { generation, count: 0 }, ..ahead.clone() });
    record(b"stranger", &stranger);
    object.place = Place { parent: 77, name: b"sound".to_vec() };
    record(b"sound", &object);
    let found = index.check(home, false).unwrap();
    let no_parent = Finding::NoParent { number: object.number, parent: 77 };
    let is_ahead = Finding::Ahead { number: ahead.number, generation };
    let unreserved = Finding::Unreserved { number: stranger.number };
    assert_eq!(found.findings, [no_parent, is_ahead, unreserved]);
    assert_eq!((found.objects, found.count), (3, 3));
    assert_eq!(index.check(home, true).unwrap().count, 3);
    let after = index.check(home, true).unwrap();
    assert_eq!((after.objects, after.count), (1, 0), "there is nothing left to do");
    let page = index.objects(home, 0, 10).unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!((&*page[0].identity, &page[0].object.place), (&b"sound"[..], &Place::default()));
    let place = Place { parent: 1, name: b"here".to_vec() };
    index.set_place(home, b"sound", place.clone()).unwrap();
    index.set_place(home, b"unknown", place.clone()).unwrap();
    let placed = ObjectRecord { place, ..page[0].object.clone() };
    assert_eq!(index.look_up(home, b"sound").unwrap(), Some(placed));
    assert_eq!(index.look_up(home, b"unknown").unwrap(), None);
}

#[test]
fn a_hint_may_outlive_its_directory() {
    let memory = Memory::default();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().volume;
    let object = index.load(home, first_use(b"parted", FileStamp::default(), later(1))).unwrap().object;
    let place = Place { parent: 77, name: Vec::new() };
    let slot = index.reserve(home, changing());
    index.record(home, b"parted", ObjectRecord { place, ..object }, true, slot).unwrap();
    assert_eq!(index.check(home, false).unwrap().findings, []);
}

#[test]
fn a_place_that_is_not_known_now_leaves_the_one_that_was_recorded() {
    let memory = Memory::default();
    let index = open(&memory);
    let home = open_volume(&index, "home", None).unwrap().volume;
    let here = Place { parent: 1, name: b"here".to_vec() };
    let there = Place { parent: 3, name: b"there".to_vec() };
    let record = |object: &ObjectRecord, place: &Place| {
        let slot = index.reserve(home, changing());
        index
            .record(home, b"file", ObjectRecord { place: place.clone(), ..object.clone() }, true, slot)
            .unwrap();
    };
    let place = || index.look_up(home, b"file").unwrap().unwrap().place;
    let by_number = |number| index.find(home, number).unwrap().unwrap().object.place;
    let object = index.load(home, first_use(b"file", FileStamp::default(), later(1))).unwrap().object;
    // What waits to be committed knows it, or what is committed does, or both in turn.
    record(&object, &here);
    record(&object, &Place::default());
    assert_eq!((place(), by_number(object.number)), (here.clone(), here.clone()));
    index.flush().unwrap();
    assert_eq!(place(), here);
    for _ in 0..2 {
        record(&object, &Place::default());
        assert_eq!((place(), by_number(object.number)), (here.clone(), here.clone()));
    }
    // It is used again, and looks like another.
    let seen = FileStamp { size: 7, ..FileStamp::default() };
    index.load(home, first_use(b"file", seen, later(2))).unwrap();
    assert_eq!(place(), here);
    index.flush().unwrap();
    assert_eq!((place(), by_number(object.number)), (here.clone(), here));
    record(&object, &Place::default());
    record(&object, &there);
    index.flush().unwrap();
    assert_eq!(place(), there);
    // A repair of the index may forget one; of a file that is gone nothing stays.
    index.set_place(home, b"file", Place::default()).unwrap();
    record(&object, &Place::default());
    index.flush().unwrap();
    assert_eq!(place(), Place::default());
    record(&object, &there);
    index.forget(home, b"file", object.number, None);
    record(&object, &Place::default());
    assert_eq!(place(), Place::default());
    index.flush().unwrap();
    assert_eq!(place(), Place::default());
}

#[test]
fn the_file_is_private_and_belongs_to_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let at = || FileStorage::in_directory(dir.path());
    let index = Index::open(at(), Options::default()).unwrap();
    let mode = dir.path().join("index.redb").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(Index::open(at(), Options::default()), Err(Error::InUse)));
    index.close().unwrap();
    drop(index);
    assert_eq!(Index::open(at(), Options::default()).unwrap().previous_shutdown(), &PreviousShutdown::Clean);
}

#[test]
fn an_index_that_was_not_whole_when_its_server_was_killed_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.redb");
    for left in [&b""[..], b"redb and no more"] {
        std::fs::write(dir.path().join("index.redb.unfinished"), left).unwrap();
        let index = Index::open(FileStorage::in_directory(dir.path()), Options::default()).unwrap();
        assert_eq!(index.previous_shutdown(), &PreviousShutdown::First);
        index.close().unwrap();
        drop(index);
        let names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names, std::slice::from_ref(&path));
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_left_alone_until_it_is_replaced_by_name() {
    let is_damaged: fn(&Error) -> bool = |error| matches!(error, Error::Damaged(_));
    let is_later: fn(&Error) -> bool = |error| matches!(error, Error::Format { found: 3, known: 2 });
    let is_of_later_redb: fn(&Error) -> bool =
        |error| matches!(error, Error::FileFormat { found: 9, known: 3 });
    for (file, is_right) in [
        (b"precious, though no index".to_vec(), is_damaged),
        (Vec::new(), is_damaged),
        (of_format(3), is_later),
        (of_redb_format(9), is_of_later_redb),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.redb");
        std::fs::write(&path, &file).unwrap();
        let at = || FileStorage::in_directory(dir.path());
        let looked = Index::open(Looking::at(at()), Options::default()).unwrap_err();
        assert!(is_right(&looked), "{looked}");
        assert_eq!(std::fs::read(&path).unwrap(), file, "{looked}");
        let opened = Index::open(at(), Options::default()).unwrap_err();
        assert!(is_right(&opened), "{opened}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{opened}");
        assert!(Index::replace(Looking::at(at()), Options::default()).is_err());
        assert!(is_right(&Index::open(at(), Options::default()).unwrap_err()), "as often as one tries");
        let index = Index::replace(at(), Options::default()).unwrap();
        let PreviousShutdown::Replaced(aside, why) = index.previous_shutdown() else {
            panic!("{:?}", index.previous_shutdown())
        };
        assert_eq!((aside.clone(), why), (dir.path().join("index.redb.replaced-1"), &opened.to_string()));
        assert!(!index.previous_shutdown().is_clean() && index.volumes().is_empty());
        index.put_back().unwrap();
        drop(index);
        assert!(matches!(Index::replace(at(), Options::default()), Err(Error::Sound)));
    }
}

/// Returns the bytes of an index of this format.
fn of_format(format: u32) -> Vec<u8> {
    let memory = Memory::default();
    open(&memory).close().unwrap();
    let database = redb::Database::builder().create_with_backend(memory.clone()).unwrap();
    let write = database.begin_write().unwrap();
    let state: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("state");
    write.open_table(state).unwrap().insert("format", &format.to_le_bytes()[..]).unwrap();
    write.commit().unwrap();
    drop(database);
    memory.image()
}

/// Returns the bytes of an index in this format of redb's, which is the first byte of both its commit slots.
fn of_redb_format(format: u8) -> Vec<u8> {
    let mut bytes = of_format(2);
    for slot in [64, 192] {
        assert_eq!(bytes[slot], 3, "redb has moved its version");
        bytes[slot] = format;
    }
    bytes
}

#[test]
fn who_looks_sees_what_was_told_and_leaves_the_file_and_the_stop_as_they_are() {
    for is_killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let at = || FileStorage::in_directory(dir.path());
        let options = Options { boot: index::boot(), ..Options::default() };
        let index = Index::open(at(), options).unwrap();
        let home = open_volume(&index, "home", None).unwrap();
        index.flush().unwrap();
        let held = Index::open(Looking::at(at()), options);
        assert!(matches!(held, Err(Error::InUse)), "a server has it");
        let killed = tempfile::tempdir().unwrap();
        let dir = if is_killed {
            // As a kill leaves it: nothing is closed.
            std::fs::copy(dir.path().join("index.redb"), killed.path().join("index.redb")).unwrap();
            killed.path()
        } else {
            index.close().unwrap();
            dir.path()
        };
        drop(index);
        let path = dir.join("index.redb");
        let before = std::fs::read(&path).unwrap();
        for _ in 0..2 {
            let looks = || Index::open(Looking::at(FileStorage::in_directory(dir)), options).unwrap();
            // Two at once, of which one says what is not to stay.
            let (index, other) = (looks(), looks());
            assert_eq!(
                index.previous_shutdown(),
                if is_killed { &PreviousShutdown::Crash } else { &PreviousShutdown::Clean }
            );
            assert_eq!((index.counts_on(), other.counts_on()), (!is_killed, !is_killed));
            assert_eq!(index.volume("home").unwrap().0, home.volume);
            open_volume(&index, "work", None).unwrap();
            index.put_back().unwrap();
            assert_eq!(other.volumes().len(), 1);
            assert!(matches!(Index::open(FileStorage::in_directory(dir), options), Err(Error::InUse)));
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
        let index = Index::open(FileStorage::in_directory(dir), options).unwrap();
        assert_eq!(index.counts_on(), !is_killed, "the note was left too");
    }
}

fn seen_at(changed: SystemTime) -> FileStamp {
    let since = changed.duration_since(UNIX_EPOCH).unwrap();
    let changed = Timestamp { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() };
    FileStamp { changed, size: 1 }
}

fn place_of(place: PlaceRef<'_>) -> Place {
    Place { parent: place.parent, name: place.name.to_vec() }
}

/// Returns a file whose state after a kill does not matter.
fn changing() -> Changing<'static> {
    Changing { identity: b"any", number: Number::ROOT, version: Version::from(0), place: None }
}

fn first_use(identity: &[u8], seen: FileStamp, now: SystemTime) -> FirstUse<'_> {
    FirstUse { identity, kind: Kind::File, seen, place: None, is_to_change: true, now }
}
