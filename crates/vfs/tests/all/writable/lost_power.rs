//! Access lists over losses of power: the index, which is safe at once, knows of lists that the disk has not got yet.

use std::sync::Arc;
use std::time::Duration;

use identity::Rights;
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, Found, FoundKind, Fs, JournalKind, World};
use lane::time;
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use vfs::{Replace, Volume};

use super::access::{directory_as, list, operator, root_as, served};
use super::lost_lists::{CLOSED, LISTS, OPEN, readers};
use super::name;

/// Way in which a directory comes by a list, or by another place, or loses its list, just before the power
/// goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By AFS and the like.
    Set,
    /// By SMB.
    Described,
    /// The directory has a list, and gets another.
    SetAnew,
    MadeBeneathAList,
    MadeDescribed,
    /// By other programs, and a look at it.
    Seen,
    Moved,
    MovedOverAnother,
    Exchanged,
    /// By way of a third name.
    ChangesPlaces,
    TakenAway,
    RemovedAndMadeAnew,
}

const WAYS: [Way; 12] = [
    Way::Set,
    Way::Described,
    Way::SetAnew,
    Way::MadeBeneathAList,
    Way::MadeDescribed,
    Way::Seen,
    Way::Moved,
    Way::MovedOverAnother,
    Way::Exchanged,
    Way::ChangesPlaces,
    Way::TakenAway,
    Way::RemovedAndMadeAnew,
];

impl Way {
    /// Makes the step, where `d` and `d/e` have lists before it, and `f` and `f/e` have none.
    async fn happens(self, volume: &Volume, fs: &Fs) {
        let (top, who) = (root_as(volume).await, operator());
        let at = async |path| directory_as(volume, &who, path).await;
        let alices = list(&[("alice", Rights::READER)]);
        let granted = Ace { kind: ace_type::ACCESS_ALLOWED, flags: 3, mask: 0x1f01ff, sid: Sid::EVERYONE };
        let granted = Arc::new(Descriptor { dacl: Some(vec![granted]), ..Descriptor::default() });
        let rename = async |from, to, over| top.rename(&who, name(from), &top, name(to), over).await.unwrap();
        match self {
            Self::Set => at("f").await.set_access_list(&who, Some(&alices)).await.unwrap(),
            Self::Described => at("f").await.set_descriptor(&who, &granted).await.unwrap(),
            Self::SetAnew => at("d").await.set_access_list(&who, Some(&alices)).await.unwrap(),
            Self::MadeBeneathAList => {
                drop(at("d").await.make_directory(&who, name("made"), 0o755).await.unwrap());
            }
            Self::MadeDescribed => {
                let f = at("f").await;
                drop(f.make_directory_described(&who, name("made"), 0o755, Some(&granted)).await.unwrap());
            }
            Self::Seen => {
                fs.unsynced().set_xattr("/srv/f", LIST, &alices.encode()).unwrap();
                time::sleep(Duration::from_secs(2)).await;
                assert_eq!(readers(volume, "f").await, LISTS);
            }
            Self::Moved => rename("d", "g", Replace::Never).await,
            Self::MovedOverAnother => {
                at("f/e").await.remove(&who, name("page")).await.unwrap();
                at("f").await.rename(&who, name("e"), &top, name("g"), Replace::Never).await.unwrap();
                rename("d", "g", Replace::Existing).await;
            }
            Self::Exchanged => top.exchange(&who, name("d"), &top, name("f")).await.unwrap(),
            Self::ChangesPlaces => {
                for (from, to) in [("d", "g"), ("f", "d"), ("g", "f")] {
                    rename(from, to, Replace::Never).await;
                }
            }
            Self::TakenAway => at("d/e").await.set_access_list(&who, None).await.unwrap(),
            Self::RemovedAndMadeAnew => {
                at("d/e").await.remove(&who, name("page")).await.unwrap();
                at("d").await.remove_directory(&who, name("e")).await.unwrap();
                at("d").await.set_access_list(&who, None).await.unwrap();
                drop(at("d").await.make_directory(&who, name("e"), 0o755).await.unwrap());
            }
        }
    }

    /// A client that set the list by a request of its own relies on it from the answer on.
    fn is_kept_at_once(self) -> Option<&'static str> {
        match self {
            Self::Set => Some("f/user.linerate.acl"),
            Self::Described => Some("f/user.NTACL"),
            _ => None,
        }
    }
}

/// The directories of the tree, each with whether it has a list, a descriptor.
fn directories(fs: &Fs) -> Vec<(String, bool, bool)> {
    let tree = fs.tree().into_iter().filter(|(_, found)| found.kind == FoundKind::Directory);
    let named = tree.filter_map(|(path, found)| Some((path.strip_prefix("/srv/")?.to_owned(), found)));
    let has = |found: &Found, attribute: &str| found.xattrs.contains_key(attribute.as_bytes());
    named.map(|(path, found)| (path, has(&found, LIST), has(&found, DESCRIPTOR))).collect()
}

/// Returns which users read in a directory by the nearest list or descriptor that is there.
fn wanted(directories: &[(String, bool, bool)], at: &str) -> [bool; 3] {
    let above = at.match_indices('/').map(|(end, _)| &at[..end]).chain([at]);
    let nearest = above.rev().find_map(|above| {
        directories.iter().find(|(path, list, descriptor)| path == above && (*list || *descriptor))
    });
    nearest.map_or(OPEN, |(_, list, _)| if *list { LISTS } else { OPEN })
}

/// A machine with a tree, over losses of its power.
struct Machine {
    world: World,
    fs: Fs,
    kept: Memory,
    boot: u8,
}

impl Machine {
    fn new(seed: u64, journal: JournalKind) -> Self {
        let world = World::new(seed, Config::clean());
        let fs = world.host("10.0.0.1").fs();
        fs.configure(|config| {
            config.privileged = true;
            config.journal = journal;
        });
        for at in ["d", "d/e", "f", "f/e"] {
            fs.write(&format!("/srv/{at}/page"), "").unwrap();
        }
        for at in ["d", "d/e"] {
            let list = list(&[("alice", Rights::READER)]).encode();
            fs.set_xattr(&format!("/srv/{at}"), LIST, &list).unwrap();
        }
        fs.sync_all().unwrap();
        Self { world, fs, kept: Memory::default(), boot: 1 }
    }

    /// Serves the tree; all that the index was told is safe as this returns.
    fn serve(&mut self, test: impl AsyncFnOnce(Volume) + 'static) {
        let options = Options { boot: [self.boot; 16], ..Options::default() };
        let index = Arc::new(Index::open(self.kept.clone(), options).unwrap());
        served(&self.world, &index, false, test);
        index.flush().unwrap();
        self.kept = self.kept.parted();
    }

    fn loses_power(&mut self) {
        let host = self.world.host("10.0.0.1");
        host.lose_power();
        host.restart();
        self.boot += 1;
    }

    /// A copy that leaves attributes out: the directories that have lost lists.
    fn is_copied(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for (at, has_list, is_described) in directories(&self.fs) {
            for attribute in [(has_list, LIST), (is_described, DESCRIPTOR)].iter().filter(|(has, _)| *has) {
                self.fs.remove_xattr(&format!("/srv/{at}"), attribute.1).unwrap();
                lost.push(at.clone());
            }
        }
        lost
    }

    /// Checks which users read in each directory; `lost`: those that are closed.
    fn is_read(&mut self, lost: Vec<String>, why: String, goes_on: Duration) {
        let found = directories(&self.fs);
        let wanted = found.iter().map(|(at, ..)| {
            let beneath = |top: &String| at == top || at.starts_with(&format!("{top}/"));
            (at.clone(), if lost.iter().any(beneath) { CLOSED } else { wanted(&found, at) })
        });
        let wanted: Vec<_> = wanted.collect();
        for (at, _) in &wanted {
            self.fs.write(&format!("/srv/{at}/page"), "").unwrap();
        }
        self.serve(async move |volume| {
            for (at, wanted) in &wanted {
                assert_eq!(readers(&volume, at).await, *wanted, "{why}: {at}");
            }
            let shared = volume.shared().unwrap();
            assert_eq!(shared.lost_lists().is_empty(), lost.is_empty(), "{why}");
            time::sleep(goes_on).await;
        });
    }
}

#[test]
fn a_loss_of_power_closes_no_directory_whose_list_the_disk_had_not() {
    for (way, journal, seed) in cases() {
        let mut machine = Machine::new(seed, journal);
        let why = format!("{way:?}, {journal:?}, seed {seed}");
        machine.is_read(Vec::new(), why.clone(), SYNCED_AFTER);
        let fs = machine.fs.clone();
        machine.serve(async move |volume| way.happens(&volume, &fs).await);
        machine.loses_power();
        if let Some((at, attribute)) = way.is_kept_at_once().and_then(|kept| kept.split_once('/')) {
            let tree = machine.fs.tree();
            assert!(tree[&format!("/srv/{at}")].xattrs.contains_key(attribute.as_bytes()), "{why}");
        }
        machine.is_read(Vec::new(), why.clone(), SYNCED_AFTER);
        // The list that is there after it is noticed as ever.
        machine.loses_power();
        let lost = machine.is_copied();
        machine.is_read(lost, format!("{why}, and copied"), Duration::ZERO);
    }
}

#[test]
fn a_list_that_was_there_for_a_while_is_missed_after_a_loss_of_power() {
    for (way, journal, seed) in cases() {
        let mut machine = Machine::new(seed, journal);
        let why = format!("{way:?}, {journal:?}, seed {seed}");
        machine.is_read(Vec::new(), why.clone(), SYNCED_AFTER);
        let fs = machine.fs.clone();
        machine.serve(async move |volume| {
            way.happens(&volume, &fs).await;
            time::sleep(SYNCED_AFTER).await;
        });
        let before = directories(&machine.fs);
        machine.loses_power();
        let lists = |found: &[(String, bool, bool)]| -> Vec<String> {
            let with = found.iter().filter(|(_, list, descriptor)| *list || *descriptor);
            with.map(|(at, ..)| at.clone()).collect()
        };
        assert_eq!(lists(&directories(&machine.fs)), lists(&before), "{why}");
        let lost = machine.is_copied();
        assert!(!lost.is_empty() || way == Way::RemovedAndMadeAnew, "{why}");
        machine.is_read(lost, why, Duration::ZERO);
    }
}

fn cases() -> impl Iterator<Item = (Way, JournalKind, u64)> {
    let journals = [JournalKind::Ordered, JournalKind::Unordered];
    WAYS.into_iter().flat_map(move |way| {
        journals.into_iter().flat_map(move |journal| (0..SEEDS).map(move |seed| (way, journal, seed)))
    })
}

const LIST: &str = "user.linerate.acl";
const DESCRIPTOR: &str = "user.NTACL";
const SEEDS: u64 = 12;
/// Long enough for lists to have been synced, and for the index to have been told.
const SYNCED_AFTER: Duration = Duration::from_secs(100);
