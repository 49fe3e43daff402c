//! Histories of changes, stops and losses of power over a disk that tears unsynced data: numbers and versions
//! stay unique, and flushed state is never lost.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use index::{
    Changing, Error, FileStamp, FirstUse, Index, Kind, Loaded, Memory, Number, ObjectRecord, Options, Place,
    PlaceRef, SETTLES_IN, Slot, Timestamp, Tree, Version, VolumeId,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[test]
fn numbers_and_versions_never_come_back() {
    let seeds = match std::env::var("LINERATE_SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).expect("LINERATE_SEED is a number"),
        Err(_) => 0..1_000,
    };
    let mut stops = BTreeMap::new();
    for seed in seeds.clone() {
        History::new(seed).run(&mut stops);
    }
    // The histories were no easy ones.
    if seeds.end - seeds.start > 1 {
        let happened = ["clean", "crash", "power loss", "damaged", "write failed", "killed in a change"];
        for stop in
            happened.into_iter().chain(["counted on over a kill", "did not move over a kill", "had no room"])
        {
            assert!(stops.get(stop).is_some_and(|count| *count > 100), "{stop}: {stops:?}");
        }
    }
}

/// Tree and index over a fragile disk, with all answers so far.
struct History {
    seed: u64,
    rng: SmallRng,
    disk: Memory,
    boot: u8,
    now: SystemTime,
    mark: Option<Vec<u8>>,
    files: BTreeMap<u32, File>,
    made: u32,
    contents: u64,
    /// Files by number, and contents by version, for ever.
    numbers: HashMap<Number, u32>,
    versions: HashMap<(Number, Version), u64>,
    /// Time of the server's last sign of life.
    beat: SystemTime,
    /// True when the server was killed, and the next one may count on.
    was_killed: bool,
}

/// File as the file system has it, with the index's answers.
#[derive(Clone)]
struct File {
    /// States of the file so far, the last one now: content and stamp.
    states: Vec<(u64, FileStamp)>,
    /// State that a flush made safe, behind which the index may not go back.
    safe: Option<(Number, Version)>,
    told: Option<(Number, Version)>,
    /// Slot and record of a file in use that has changed and is not recorded yet.
    held: Option<(Slot, ObjectRecord)>,
    /// True when this run of the server has recorded the file.
    is_said: bool,
    /// True when the file must have its recorded version, if its stamp is the recorded one.
    stays: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            rng: SmallRng::seed_from_u64(seed),
            disk: Memory::journaled(),
            boot: 1,
            now: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            mark: None,
            files: BTreeMap::new(),
            made: 0,
            contents: 0,
            numbers: HashMap::new(),
            versions: HashMap::new(),
            beat: UNIX_EPOCH,
            was_killed: false,
        }
    }

    fn run(mut self, stops: &mut BTreeMap<&'static str, u32>) {
        for _ in 0..6 {
            let journal_max = if self.rng.random_bool(0.2) { 8 } else { 512 };
            let options =
                Options { boot: [self.boot; 16], pending_max: 16, journal_max, ..Options::default() };
            let index = match Index::open(self.disk.clone(), options) {
                Err(Error::Damaged(_) | Error::FileFormat { .. }) => {
                    *stops.entry("damaged").or_default() += 1;
                    self.forget_what_was_safe();
                    Index::replace(self.disk.clone(), options)
                }
                opened => opened,
            };
            let index = index.unwrap_or_else(|error| self.fail(&error));
            let was_killed = std::mem::take(&mut self.was_killed);
            if !(was_killed && index.counts_on()) {
                for file in self.files.values_mut() {
                    (file.told, file.stays) = (None, false);
                }
                *stops.entry("had no room").or_default() += u32::from(was_killed);
            } else {
                *stops.entry("counted on over a kill").or_default() += 1;
            }
            let volume = self.open_volume(&index);
            self.look_at_what_stays(&index, volume, stops);
            for _ in 0..self.rng.random_range(1..60) {
                self.step(&index, volume, stops);
            }
            self.stop(index, volume, stops);
        }
    }

    /// Checks after a kill that files not changed since count on from their records.
    fn look_at_what_stays(
        &mut self,
        index: &Index,
        volume: VolumeId,
        stops: &mut BTreeMap<&'static str, u32>,
    ) {
        let staying: Vec<_> =
            self.files.iter().filter(|(_, file)| file.stays).map(|(file, _)| *file).collect();
        for file in staying {
            let told = self.files[&file].told;
            let object = self.load(index, volume, file).object;
            assert_eq!(
                told,
                Some((object.number, object.version)),
                "seed {}: {file} moved over a kill",
                self.seed
            );
            *stops.entry("did not move over a kill").or_default() += 1;
        }
        self.files.values_mut().for_each(|file| file.stays = false);
    }

    fn open_volume(&mut self, index: &Index) -> VolumeId {
        let mark = self.mark.clone();
        let tree = Tree { name: "home", path: "/srv", mark: mark.as_deref(), uuid_if_new: self.rng.random() };
        let opened = index.open_volume(tree, self.now).unwrap_or_else(|error| self.fail(&error));
        self.mark = Some(opened.mark.encode().to_vec());
        index.marked(opened.volume, &opened.mark);
        opened.volume
    }

    fn step(&mut self, index: &Index, volume: VolumeId, stops: &mut BTreeMap<&'static str, u32>) {
        self.now += Duration::from_millis(self.rng.random_range(0..40));
        match self.rng.random_range(0..20) {
            0..3 => {
                self.made += 1;
                let first = vec![self.new_state()];
                self.files.insert(
                    self.made,
                    File { states: first, safe: None, told: None, held: None, is_said: false, stays: false },
                );
                self.load(index, volume, self.made);
            }
            3..9 => self.change(index, volume),
            9..13 => {
                let Some(file) = self.any() else { return };
                self.load(index, volume, file);
            }
            13..15 => {
                // Behind the server's back, at a time of its own.
                self.now += Duration::from_millis(25);
                let Some(file) = self.any() else { return };
                let state = self.new_state();
                self.files.get_mut(&file).unwrap().states.push(state);
            }
            15 => self.remove(index, volume),
            17 => self.beat(index),
            16 => {
                self.disk.set_failing(true);
                self.change(index, volume);
                let failed = index.flush().is_err();
                self.disk.set_failing(false);
                *stops.entry("write failed").or_default() += u32::from(failed);
            }
            _ => self.flush(index),
        }
    }

    /// Changes a file by the server: the next version, recorded at once.
    fn change(&mut self, index: &Index, volume: VolumeId) {
        let Some(file) = self.any() else { return };
        let Some((slot, mut object)) = self.begin_change(index, volume, file) else { return };
        let state = self.new_state();
        self.files.get_mut(&file).unwrap().states.push(state);
        object.seen = state.1;
        // Some time goes by before it is over.
        self.now += Duration::from_micros(self.rng.random_range(0..9_000));
        index.changed(slot, self.now);
        self.said(file, (object.number, object.version));
        let record = self.files.get_mut(&file).unwrap();
        record.held = Some((slot, object));
        if self.rng.random_bool(0.6) {
            self.let_go(index, volume, file);
        }
    }

    /// Begins a change: the file is in use, and its version about to rise.
    fn begin_change(&mut self, index: &Index, volume: VolumeId, file: u32) -> Option<(Slot, ObjectRecord)> {
        let held = self.files.get_mut(&file).unwrap().held.take();
        let (slot, mut object) = match held {
            Some(held) => held,
            None => {
                let mut object = self.load(index, volume, file).object;
                if index.is_full() && index.flush().is_err() {
                    // This server will not change the file now.
                    return None;
                }
                object.place = Place { parent: 1, name: file.to_string().into_bytes() };
                let place = Some(PlaceRef { parent: 1, name: &object.place.name });
                let identity = identity(file);
                let (number, version) = (object.number, object.version);
                (index.reserve(volume, Changing { identity: &identity, number, version, place }), object)
            }
        };
        object.version = object.version.next();
        index.changing(slot, object.version, self.now);
        Some((slot, object))
    }

    /// Records a file that is no longer in use.
    fn let_go(&mut self, index: &Index, volume: VolumeId, file: u32) {
        let Some((slot, object)) = self.files.get_mut(&file).unwrap().held.take() else { return };
        let settled = object.seen.is_settled(self.now);
        index
            .record(volume, &identity(file), object, settled, slot)
            .unwrap_or_else(|error| self.fail(&error));
    }

    fn let_all_go(&mut self, index: &Index, volume: VolumeId) {
        let files: Vec<_> = self.files.keys().copied().collect();
        files.into_iter().for_each(|file| self.let_go(index, volume, file));
    }

    fn beat(&mut self, index: &Index) {
        index.beat(self.now);
        self.beat = self.now;
    }

    fn load(&mut self, index: &Index, volume: VolumeId, file: u32) -> Loaded {
        self.let_go(index, volume, file);
        let seen = self.files[&file].states.last().unwrap().1;
        let loaded = loop {
            match index.load(volume, first_use(&identity(file), seen, self.now)) {
                Ok(loaded) => break loaded,
                Err(Error::Full) => {
                    // A disk that fails now works again for waiters.
                    self.disk.set_failing(false);
                    self.flush(index);
                }
                Err(error) if self.disk.is_failing() => {
                    assert!(matches!(error, Error::Storage(_)), "seed {}: {error}", self.seed);
                    self.disk.set_failing(false);
                }
                Err(error) => self.fail(&error),
            }
        };
        let object = &loaded.object;
        if let Some((number, version)) = self.files[&file].safe {
            assert_eq!(object.number, number, "seed {}: a safe number is kept", self.seed);
            assert!(object.version >= version, "seed {}: versions do not go back", self.seed);
        }
        if let Some((number, version)) = self.files[&file].told {
            assert_eq!(object.number, number, "seed {}: what was told counts", self.seed);
            assert!(object.version >= version, "seed {}: what was told counts", self.seed);
        }
        let found = index.find(volume, object.number).unwrap().expect("it was just loaded");
        assert_eq!((&*found.identity, &found.object), (&identity(file)[..], object), "seed {}", self.seed);
        self.said(file, (object.number, object.version));
        loaded
    }

    fn said(&mut self, file: u32, (number, version): (Number, Version)) {
        let seed = self.seed;
        let owner = *self.numbers.entry(number).or_insert(file);
        assert_eq!(owner, file, "seed {seed}: {number} names two files");
        let record = self.files.get_mut(&file).unwrap();
        let content = record.states.last().unwrap().0;
        let before = *self.versions.entry((number, version)).or_insert(content);
        assert_eq!(before, content, "seed {seed}: {number} has two contents in {version:?}");
        (record.told, record.is_said) = (Some((number, version)), true);
    }

    fn remove(&mut self, index: &Index, volume: VolumeId) {
        let Some(file) = self.any() else { return };
        let number = self.load(index, volume, file).object.number;
        // Behind it is nothing that could be told.
        index.forget(volume, &identity(file), number, None);
        assert_eq!(index.find(volume, number).unwrap(), None);
        self.files.remove(&file);
    }

    fn flush(&mut self, index: &Index) {
        index.flush().unwrap_or_else(|error| self.fail(&error));
        for file in self.files.values_mut().filter(|file| file.held.is_none()) {
            file.safe = file.told;
        }
    }

    fn stop(&mut self, index: Index, volume: VolumeId, stops: &mut BTreeMap<&'static str, u32>) {
        match self.rng.random_range(0..10) {
            0..3 => {
                self.let_all_go(&index, volume);
                self.now += SETTLES_IN;
                self.flush(&index);
                index.close().unwrap_or_else(|error| self.fail(&error));
                *stops.entry("clean").or_default() += 1;
            }
            3..6 => {
                // What the kernel was given is still there. A change whose record was lost, in the tick of the one before.
                self.kill(index, volume, stops);
                if let Some(file) = self.any() {
                    let content = self.new_state().0;
                    let states = &mut self.files.get_mut(&file).unwrap().states;
                    let (_, seen) = *states.last().unwrap();
                    let in_its_tick = self.now < time_of(seen) + Duration::from_millis(20);
                    if in_its_tick {
                        states.push((content, seen));
                        self.files.get_mut(&file).unwrap().stays = false;
                    }
                }
                *stops.entry("crash").or_default() += 1;
            }
            6..9 => {
                drop(index);
                let keeps = self.rng.random_range(0.0..1.0);
                self.disk.lose_power(|| self.rng.random_bool(keeps));
                self.boot += 1;
                for file in self.files.values_mut() {
                    let left = self.rng.random_range(1..=file.states.len());
                    file.states.truncate(left);
                }
                *stops.entry("power loss").or_default() += 1;
            }
            _ => {
                drop(index);
                // Another program writes into the file what does not belong there.
                let foreign: Vec<u8> =
                    (0..self.rng.random_range(1..5_000)).map(|_| self.rng.random()).collect();
                self.disk.set_back(&foreign);
            }
        }
        for file in self.files.values_mut() {
            (file.told, file.held) = (file.told.filter(|_| self.was_killed), None);
            file.is_said = false;
        }
        self.now += Duration::from_millis(self.rng.random_range(0..3_000));
    }

    /// Kills the server in the middle of a change, or between two.
    fn kill(&mut self, index: Index, volume: VolumeId, stops: &mut BTreeMap<&'static str, u32>) {
        if self.rng.random() {
            self.now += Duration::from_millis(self.rng.random_range(0..30));
            self.beat(&index);
        }
        if self.rng.random_bool(0.4)
            && let Some(file) = self.any()
            && self.begin_change(&index, volume, file).is_some()
        {
            // Done or not, and not reported.
            if self.rng.random() {
                let state = self.new_state();
                self.files.get_mut(&file).unwrap().states.push(state);
            }
            self.files.get_mut(&file).unwrap().told.take();
            *stops.entry("killed in a change").or_default() += 1;
        }
        drop(index);
        let beat = self.beat;
        for file in self.files.values_mut() {
            let (content, seen) = *file.states.last().unwrap();
            let is_as_told = file.told.is_some_and(|told| self.versions.get(&told) == Some(&content));
            file.stays = is_as_told
                && file.is_said
                && time_of(seen) + Duration::from_millis(21) < beat
                && seen.changed.nanos != 0;
        }
        self.was_killed = true;
    }

    fn forget_what_was_safe(&mut self) {
        for file in self.files.values_mut() {
            file.safe = None;
        }
    }

    fn new_state(&mut self) -> (u64, FileStamp) {
        self.contents += 1;
        let since = self.now.duration_since(UNIX_EPOCH).unwrap();
        let changed = Timestamp { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() };
        (self.contents, FileStamp { changed, size: self.rng.random_range(0..3) })
    }

    fn any(&mut self) -> Option<u32> {
        let at = self.rng.random_range(0..self.files.len().max(1));
        self.files.keys().nth(at).copied()
    }

    fn fail(&self, error: &Error) -> ! {
        panic!("seed {}: {error}", self.seed);
    }
}

fn identity(file: u32) -> Vec<u8> {
    [&file.to_be_bytes()[..], b"handle"].concat()
}

fn time_of(seen: FileStamp) -> SystemTime {
    UNIX_EPOCH + Duration::new(seen.changed.secs.cast_unsigned(), seen.changed.nanos)
}

fn first_use(identity: &[u8], seen: FileStamp, now: SystemTime) -> FirstUse<'_> {
    FirstUse { identity, kind: Kind::File, seen, place: None, is_to_change: true, now }
}
