//! Attributes of a file at one moment, and tokens that tell two moments apart.

use std::time::{Duration, SystemTime};

use identity::{Id, Owner};
use lane::fs::{FileKind, Stat, Timestamp};

/// Attributes of a file or directory at the moment they were asked for. Two of them are not compared as a whole, as a
/// mere reading moves one: see [`is_changed_since`](Self::is_changed_since).
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Regular file or directory; nothing else is served.
    pub kind: FileKind,
    /// Identity of the file, whatever its name.
    pub id: FileId,
    /// Bytes of content. Of no use for directories.
    pub size: u64,
    /// Bytes that it takes on disk, as every service reports them. Fewer than the size where there are holes, more
    /// where room is set aside.
    pub allocated: u64,
    /// Last reading, as far as the file system keeps it; see [`Stat::atime`]. A reading is no change: what is cached
    /// of a file may be older.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
    /// Permission bits.
    pub mode: u32,
    /// Names that lead to it; 0 once the last is gone.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The AFS number of the user that made the file, where that is recorded and was looked at.
    pub maker: Option<Id>,
    /// The permission bits without those that a POSIX access list takes, where that was looked at: these give
    /// rights.
    pub bits: u32,
}

/// Name of one version of a file: equal for equal versions, also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionName {
    /// Bytes of content.
    pub size: u64,
    /// Last change of the content. Any program that may write the file may set it.
    pub mtime: Timestamp,
    /// Last change of content or attributes. No client can set it, so other content has another time.
    pub ctime: Timestamp,
    /// [`Volume::distrusts_before`](crate::Volume::distrusts_before), of content that is older: a loss of power may
    /// have left other bytes under the rest of the name. 0: it is younger.
    pub distrusted: u32,
}

/// Certainty that a [`VersionName`] names one content only (a strong validator of RFC 9110 8.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionCertainty {
    /// Content that is written from now on has another name.
    Settled,
    /// The clock that stamped it moves on within this time, a few milliseconds.
    SettlesIn(Duration),
    /// Other content may get this name for seconds yet: it goes by whole ones.
    Open,
}

/// Identity of a file on this machine while it exists. Inode numbers come back after a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// Changes whenever the content does: the base of strong entity tags and of AFS data versions.
///
/// Attributes alone (a rename, a mode, another link) leave it as it is. It is as fine as the file system's
/// clock: two changes of one size within a tick look the same, see [`Attributes::is_settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeToken {
    /// Identity of the file.
    pub id: FileId,
    /// Bytes of content.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Timestamp,
}

impl Attributes {
    /// Returns what tells this content from an earlier or later one.
    pub fn change_token(&self) -> ChangeToken {
        ChangeToken { id: self.id, size: self.size, mtime: self.mtime }
    }

    /// Returns whether the last change lies so far before `now` that any further one gets another time stamp. Until
    /// then a token does not prove that nothing changed. A stamp of whole seconds may come from a file system that
    /// keeps no finer ones (ext4 with small inodes, FAT), or from a client that knows none. So it takes as long to
    /// settle as theirs. Clients stamp by their own clocks, which may be behind: when the stamp was given counts, not
    /// what it says.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let tick = if self.mtime.nanos == 0 { COARSE_TICK_MAX } else { CLOCK_TICK_MAX };
        let changed = self.mtime.max(self.ctime).to_system_time();
        now.duration_since(changed).is_ok_and(|age| age >= tick)
    }

    /// Returns what names this version among all contents that a name has had: the one answer to what its
    /// time stamps are good for. It goes by the attributes and by what the volume
    /// [distrusts](crate::Volume::distrusts_before), so one version has one name however long it lasts, or
    /// until the power is lost.
    pub fn version(&self, distrusts_before: u32) -> VersionName {
        let is_older = self.ctime.secs <= distrusts_before.into();
        let distrusted = if is_older { distrusts_before } else { 0 };
        VersionName { size: self.size, mtime: self.mtime, ctime: self.ctime, distrusted }
    }

    /// Returns how sure it is at `now` that no other content has the name that [`Attributes::version`] gives. It goes
    /// by the clock that gave the change time, whatever the time of the content was set to.
    pub fn version_certainty(&self, now: SystemTime) -> VersionCertainty {
        let is_coarse = self.ctime.nanos == 0;
        let tick = if is_coarse { COARSE_TICK_MAX } else { CLOCK_TICK_MAX };
        let left = match now.duration_since(self.ctime.to_system_time()) {
            Ok(age) => tick.checked_sub(age).unwrap_or_default(),
            // The clock was set back: what is changed from now on has an earlier time.
            Err(ahead) if ahead.duration() > CLOCK_ERROR_MAX => Duration::ZERO,
            Err(ahead) => tick + ahead.duration(),
        };
        match left {
            Duration::ZERO => VersionCertainty::Settled,
            // A lane's clock stands still for a turn.
            left if !is_coarse && left <= 2 * CLOCK_TICK_MAX => VersionCertainty::SettlesIn(left),
            _ => VersionCertainty::Open,
        }
    }

    /// Returns the time of change as a date for clients: none for a stamp that says nothing, and none in the future
    /// (RFC 9110 8.8.2.1).
    pub fn modified_s(&self, now: SystemTime) -> Option<i64> {
        (self.mtime_says_when() && self.mtime.to_system_time() <= now).then_some(self.mtime.secs)
    }

    /// Returns whether the time of change is that of a clock as the content changed, and was not set, as `rsync -t`
    /// and `cp -p` do. Other content has another time then, as far as seconds tell. A later change of a mode hides
    /// that.
    pub fn is_mtime_of_change(&self) -> bool {
        self.mtime_says_when() && self.ctime.secs.saturating_sub(self.mtime.secs) <= 1
    }

    /// Returns whether the time of change says when the content changed. It does not where packaging gives one stamp
    /// to every file (OSTree 0, Nix 1 second after 1970). It does not where it was set to before 1970, or to a time in
    /// the future then.
    fn mtime_says_when(&self) -> bool {
        // A program that stamps by the time of day is ahead of the kernel's clock by up to a tick.
        let was_past = || self.mtime.to_system_time() <= self.ctime.to_system_time() + CLOCK_TICK_MAX;
        self.mtime.secs > NORMALISED_STAMP_S_MAX && (self.mtime <= self.ctime || was_past())
    }

    /// Returns whether anything but the time of the last reading is different.
    pub fn is_changed_since(&self, earlier: &Self) -> bool {
        let Self {
            kind,
            id,
            size,
            allocated: _,
            atime: _,
            mtime,
            ctime,
            mode,
            nlink,
            uid,
            gid,
            maker: _,
            bits: _,
        } = *self;
        (kind, id, size, mtime, ctime)
            != (earlier.kind, earlier.id, earlier.size, earlier.mtime, earlier.ctime)
            || (mode, nlink, uid, gid) != (earlier.mode, earlier.nlink, earlier.uid, earlier.gid)
    }

    /// Returns the file's owner: the user of its record, or that of its mode bits.
    pub(crate) fn owner(&self) -> Owner {
        Owner { uid: Some(self.uid), recorded: self.maker }
    }

    /// Returns whether both belong to one POSIX user, and to one user of AFS or SMB where a maker is
    /// recorded.
    pub fn has_owner_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.maker == other.maker
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

impl ChangeToken {
    /// Returns the time stamp as nanoseconds since 1970; negative before.
    pub fn mtime_ns(&self) -> i128 {
        i128::from(self.mtime.secs) * 1_000_000_000 + i128::from(self.mtime.nanos)
    }
}

impl From<Stat> for Attributes {
    fn from(stat: Stat) -> Self {
        Self {
            kind: stat.kind,
            id: FileId { dev: stat.dev, ino: stat.ino },
            size: stat.size,
            allocated: stat.allocated,
            atime: stat.atime,
            mtime: stat.mtime,
            ctime: stat.ctime,
            mode: stat.mode,
            nlink: stat.nlink,
            uid: stat.uid,
            gid: stat.gid,
            maker: None,
            bits: stat.mode,
        }
    }
}

/// Longest tick of the clocks that file systems stamp with: jiffies at 100 Hz, doubled for good measure.
const CLOCK_TICK_MAX: Duration = Duration::from_millis(20);
/// The tick of file systems that stamp with whole seconds, or as FAT with every other one.
const COARSE_TICK_MAX: Duration = Duration::from_millis(2020);
/// Change time further ahead than this: the clock was set back since. Less is what the clocks of machines differ by.
const CLOCK_ERROR_MAX: Duration = Duration::from_secs(10);
/// Time stamps up to this one say no time of change.
const NORMALISED_STAMP_S_MAX: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_content_and_not_attributes() {
        let before = Attributes::from(STAT);
        let nine = Timestamp { secs: 9, nanos: 0 };
        let chmod = Stat { mode: 0o600, ctime: nine, nlink: 2, atime: nine, ..STAT };
        assert_eq!(Attributes::from(chmod).change_token(), before.change_token());
        for changed in [
            Stat { size: 6, ..STAT },
            Stat { ino: 3, ..STAT },
            Stat { mtime: Timestamp { secs: 7, nanos: 1 }, ..STAT },
        ] {
            assert_ne!(Attributes::from(changed).change_token(), before.change_token());
        }
        assert_eq!(before.change_token().mtime_ns(), 7_000_000_005);
    }

    #[test]
    fn a_reading_is_no_change() {
        let (before, later) = (Attributes::from(STAT), Timestamp { secs: 9, nanos: 0 });
        assert!(!Attributes::from(Stat { atime: later, ..STAT }).is_changed_since(&before));
        for changed in [
            Stat { size: 6, ..STAT },
            Stat { ino: 3, ..STAT },
            Stat { mtime: later, ..STAT },
            Stat { ctime: later, ..STAT },
            Stat { mode: 0o600, ..STAT },
            Stat { nlink: 2, ..STAT },
            Stat { uid: 1, ..STAT },
            Stat { gid: 1, ..STAT },
        ] {
            assert!(Attributes::from(changed).is_changed_since(&before), "{changed:?}");
        }
    }

    #[test]
    fn a_change_within_the_clock_tick_is_not_settled() {
        let attributes = Attributes::from(STAT);
        let changed = STAT.mtime.to_system_time();
        assert!(!attributes.is_settled(changed));
        assert!(!attributes.is_settled(changed - Duration::from_secs(1)));
        assert!(attributes.is_settled(changed + CLOCK_TICK_MAX));
    }

    #[test]
    fn a_stamp_of_a_clock_that_is_behind_is_not_settled_when_it_is_given() {
        let given = Timestamp { secs: 17, nanos: 5 };
        let attributes = Attributes::from(Stat { ctime: given, ..STAT });
        let given = given.to_system_time();
        assert!(!attributes.is_settled(given));
        assert!(attributes.is_settled(given + CLOCK_TICK_MAX));
    }

    #[test]
    fn a_stamp_of_whole_seconds_may_be_a_coarse_clocks() {
        let whole = Timestamp { secs: 7, nanos: 0 };
        let attributes = Attributes::from(Stat { mtime: whole, ctime: whole, ..STAT });
        let changed = attributes.mtime.to_system_time();
        assert!(!attributes.is_settled(changed + Duration::from_secs(2)));
        assert!(attributes.is_settled(changed + COARSE_TICK_MAX));
    }

    #[test]
    fn stamps_that_say_nothing_are_no_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let changed = Timestamp { secs: 1_700_000_000, nanos: 5 };
        for (secs, says, is_of_change) in [
            (-1, false, false),
            (0, false, false),
            (1, false, false),
            (2, true, false),
            (1_699_999_998, true, false),
            (1_699_999_999, true, true),
            (1_700_000_000, true, true),
            (1_700_000_001, false, false),
            (1_900_000_000, false, false),
            (i64::MIN, false, false),
            (i64::MAX, false, false),
        ] {
            let mtime = Timestamp { secs, nanos: 0 };
            let attributes = Attributes::from(Stat { mtime, ctime: changed, ..STAT });
            assert_eq!(attributes.modified_s(now), says.then_some(secs), "{secs}");
            assert_eq!(attributes.is_mtime_of_change(), is_of_change, "{secs}");
        }
    }

    /// Whatever time of change a program sets on as many other bytes, the name is another; and it is the same from the
    /// first.
    #[test]
    fn the_time_that_nobody_sets_is_part_of_each_name() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let changed = Timestamp { secs: 1_700_000_000, nanos: 5 };
        for secs in [-1, 0, 1, 2, 1_000_000_000, 1_700_000_000, 1_900_000_000] {
            let mtime = Timestamp { secs, nanos: 0 };
            let of = |ctime| Attributes::from(Stat { mtime, ctime, ..STAT });
            assert_eq!(of(changed).version_certainty(now), VersionCertainty::Settled);
            for later in [Timestamp { nanos: 6, ..changed }, Timestamp { secs: 1_700_000_001, ..changed }] {
                assert_ne!(of(later).version(0), of(changed).version(0), "{secs}");
            }
        }
    }

    /// A file's time of change may be from before the loss of power, and its bytes not, or the reverse.
    #[test]
    fn a_loss_of_power_gives_another_name_to_what_is_older() {
        let named = |secs, distrusts_before| {
            let changed = Timestamp { secs, nanos: 5 };
            Attributes::from(Stat { mtime: changed, ctime: changed, ..STAT }).version(distrusts_before)
        };
        let lost = 1_700_000_100;
        for secs in [1_600_000_000, 1_700_000_099, 1_700_000_100] {
            assert_ne!(named(secs, lost), named(secs, 0), "{secs}");
            assert_ne!(named(secs, lost), named(secs, lost + 1), "{secs}: lost again");
        }
        assert_eq!(named(1_700_000_101, lost), named(1_700_000_101, 0), "written since");
    }

    #[test]
    fn names_settle_with_the_clock_that_gave_them() {
        let at = |ns: u64| Timestamp {
            secs: 1_000_000 + (ns / 1_000_000_000) as i64,
            nanos: (ns % 1_000_000_000) as u32,
        };
        let standing = |mtime, ctime, now: Timestamp| {
            Attributes::from(Stat { mtime, ctime, ..STAT }).version_certainty(now.to_system_time())
        };
        let ms = 1_000_000;
        let (fine, whole) = (at(5 * ms), at(0));
        let settles_in = |ms| VersionCertainty::SettlesIn(Duration::from_millis(ms));
        let set = |secs, nanos| Timestamp { secs, nanos };
        for mtime in [fine, set(7, 5), set(7, 0), set(0, 0), set(1_000_000, 0), set(4_102_444_800, 0)] {
            assert_eq!(standing(mtime, fine, at(12 * ms)), settles_in(13), "{mtime:?}");
            assert_eq!(standing(mtime, fine, at(25 * ms)), VersionCertainty::Settled, "{mtime:?}");
            assert_eq!(
                standing(mtime, whole, at(1000 * ms)),
                VersionCertainty::Open,
                "{mtime:?}: a coarse clock"
            );
            assert_eq!(standing(mtime, whole, at(2020 * ms)), VersionCertainty::Settled, "{mtime:?}");
        }
        assert_eq!(standing(fine, fine, whole), settles_in(25), "the lane's clock is behind");
        let ahead = at(9000 * ms + 5);
        assert_eq!(standing(ahead, ahead, whole), VersionCertainty::Open, "another machine's clock");
        let set_back = at(11_000 * ms + 5);
        assert_eq!(standing(set_back, set_back, whole), VersionCertainty::Settled, "the clock was set back");
    }

    const STAT: Stat = Stat {
        kind: FileKind::File,
        dev: 1,
        ino: 2,
        size: 5,
        allocated: 4096,
        atime: Timestamp { secs: 7, nanos: 5 },
        mtime: Timestamp { secs: 7, nanos: 5 },
        ctime: Timestamp { secs: 7, nanos: 5 },
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
    };
}
