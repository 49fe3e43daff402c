//! The record of one saved open: everything that its client or others can see of it.

use std::net::IpAddr;
use std::time::Duration;

use grants::{Caching, Range, RangeLock};
use identity::{Accounts, Id, Principal};
use smb_wire::{Dialect, Guid};
use vfs::{Attributes, RelPath, Timestamp};

use super::fields::{RecordReader, RecordWriter};
use crate::app_instances::AppInstance;
use crate::breaks::GrantedCaching;
use crate::lock_sequences::ENTRIES;

/// A durable open as it is saved for the next server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenRecord {
    /// FileId.Volatile, of which FileId.Persistent is made.
    pub(super) volatile: u64,
    pub(super) recorded_user: RecordedUser,
    /// ClientGuid.
    pub(super) client: Guid,
    pub(super) address: IpAddr,
    pub(super) dialect: Dialect,
    pub(super) posix: bool,
    pub(super) share: String,
    /// Volume, and opening of it, that the open was made in.
    pub(super) opening: ([u8; 16], u32),
    /// Identity of the file in it.
    pub(super) words: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) stamp: ContentStamp,
    /// The named stream as it is stored.
    pub(super) stream: Option<String>,
    pub(super) access: u32,
    pub(super) maximal_access: u32,
    pub(super) share_access: u32,
    pub(super) options: u32,
    /// The open's client means this case of a name alone.
    pub(super) is_exact: bool,
    pub(super) action: u32,
    pub(super) allocation: u64,
    pub(super) held: GrantedCaching,
    pub(super) caching: Caching,
    /// Last epoch of a lease that has epochs.
    pub(super) epoch: Option<u16>,
    /// The key of the directory's lease that it spares.
    pub(super) parent: Option<[u8; 16]>,
    pub(super) timeout: Duration,
    /// Time that it still waits for its client.
    pub(super) left: Duration,
    pub(super) create_guid: Guid,
    /// The open's CREATE may be replayed.
    pub(super) is_replayable: bool,
    pub(super) app_instance: Option<AppInstance>,
    pub(super) locks: Vec<RangeLock>,
    pub(super) sequences: Option<[u8; ENTRIES]>,
    pub(super) position: u64,
    pub(super) mode: Option<u32>,
    pub(super) sticky: Option<Timestamp>,
}

/// The user that made a saved open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedUser {
    Nobody,
    User { name: String, id: Id },
}

/// Size and times of a file, by which a change since it was saved is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentStamp {
    pub(super) size: u64,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
}

impl RecordedUser {
    /// Returns the user to record; `None` for the machine's operator, which has no SMB session.
    pub(super) fn of(principal: &Principal) -> Option<Self> {
        if principal.is_anonymous() {
            return Some(Self::Nobody);
        }
        let user = || Self::User { name: principal.name().to_owned(), id: principal.id() };
        principal.is_user().then(user)
    }

    /// Returns the principal of the recorded user; `None` if the account is gone, disabled or another one by now.
    pub(super) fn principal(&self, accounts: &Accounts) -> Option<Principal> {
        match self {
            Self::Nobody => Some(accounts.anonymous()),
            Self::User { name, id } => accounts.user(name).ok().filter(|user| user.id() == *id),
        }
    }
}

impl From<&Attributes> for ContentStamp {
    fn from(attributes: &Attributes) -> Self {
        let Attributes { size, mtime, ctime, .. } = *attributes;
        Self { size, mtime, ctime }
    }
}

impl OpenRecord {
    pub(super) fn write(&self, out: &mut RecordWriter) {
        out.u64(self.volatile);
        out.option(Some(&self.recorded_user).and_then(RecordedUser::user), |out, (name, id)| {
            out.bytes(name.as_bytes());
            out.i32(id.0);
        });
        out.guid(self.client);
        match self.address {
            IpAddr::V4(address) => out.bytes(&address.octets()),
            IpAddr::V6(address) => out.bytes(&address.octets()),
        }
        out.u16(self.dialect as u16);
        out.flag(self.posix);
        out.bytes(self.share.as_bytes());
        out.raw(&self.opening.0);
        out.u32(self.opening.1);
        out.bytes(&self.words);
        out.bytes(&self.path);
        out.u64(self.stamp.size);
        write_time(out, self.stamp.mtime);
        write_time(out, self.stamp.ctime);
        out.option(self.stream.as_deref(), |out, stream| out.bytes(stream.as_bytes()));
        for number in [self.access, self.maximal_access, self.share_access, self.options, self.action] {
            out.u32(number);
        }
        out.flag(self.is_exact);
        out.u64(self.allocation);
        self.write_caching(out);
        out.u64(millis(self.timeout));
        out.u64(millis(self.left));
        out.guid(self.create_guid);
        out.flag(self.is_replayable);
        out.option(self.app_instance, |out, app_instance| {
            out.guid(app_instance.id);
            out.option(app_instance.version, |out, (high, low)| {
                out.u64(high);
                out.u64(low);
            });
        });
        out.u32(self.locks.len() as u32);
        for lock in &self.locks {
            out.u64(lock.range.offset);
            out.u64(lock.range.len);
            out.flag(lock.exclusive);
        }
        out.option(self.sequences, |out, sequences| out.raw(&sequences));
        out.u64(self.position);
        out.option(self.mode, RecordWriter::u32);
        out.option(self.sticky, write_time);
    }

    fn write_caching(&self, out: &mut RecordWriter) {
        let lease = match self.held {
            GrantedCaching::Lease { key, version } => Some((key, version)),
            GrantedCaching::Oplock | GrantedCaching::Nothing => None,
        };
        out.option(lease, |out, (key, version)| {
            out.guid(key);
            out.u8(version);
        });
        out.u8(self.caching.bits());
        out.option(self.epoch, RecordWriter::u16);
        out.option(self.parent, |out, key| out.raw(&key));
    }

    /// Reads a record; `None` where it says what no server writes.
    pub(super) fn read(fields: &mut RecordReader<'_>) -> Option<Self> {
        let volatile = fields.u64().filter(|volatile| *volatile < VOLATILE_END)?;
        let user = fields.option(|fields| Some((fields.text(NAME_MAX)?, Id(fields.i32()?))))?;
        let client = fields.guid()?;
        let address = read_address(fields.bytes(16)?)?;
        let dialect = Dialect::from_wire(fields.u16()?)?;
        let posix = fields.flag()?;
        let share = fields.text(NAME_MAX)?;
        let opening = (fields.array()?, fields.u32()?);
        let words = fields.bytes(WORDS_MAX)?.to_vec();
        let path = fields.bytes(RelPath::BYTES_MAX)?.to_vec();
        RelPath::parse(&path).ok()?;
        let stamp =
            ContentStamp { size: fields.u64()?, mtime: read_time(fields)?, ctime: read_time(fields)? };
        let stream = fields.option(|fields| fields.text(NAME_MAX))?;
        let [access, maximal_access, share_access, options, action] =
            [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        let (is_exact, allocation) = (fields.flag()?, fields.u64()?);
        let lease = fields.option(|fields| Some((fields.guid()?, fields.u8()?)))?;
        let held = match lease {
            Some((key, version @ 1..=2)) => GrantedCaching::Lease { key, version },
            Some(_) => return None,
            None => GrantedCaching::Oplock,
        };
        let caching = Caching::from_bits(fields.u8()?);
        let (epoch, parent) = (fields.option(RecordReader::u16)?, fields.option(RecordReader::array)?);
        let (timeout, left) = (read_millis(fields)?, read_millis(fields)?);
        let (create_guid, is_replayable) = (fields.guid()?, fields.flag()?);
        let app_instance = fields.option(|fields| {
            let id = fields.guid()?;
            let version = fields.option(|fields| Some((fields.u64()?, fields.u64()?)))?;
            Some(AppInstance { id, version })
        })?;
        let locks = fields.u32().filter(|count| *count <= LOCKS_MAX)?;
        let locks = (0..locks).map(|_| read_lock(fields)).collect::<Option<Vec<_>>>()?;
        let sequences = fields.option(RecordReader::array)?;
        let position = fields.u64()?;
        let (mode, sticky) = (fields.option(RecordReader::u32)?, fields.option(read_time)?);
        let recorded_user = user.map_or(RecordedUser::Nobody, |(name, id)| RecordedUser::User { name, id });
        // As `outlives_session` has it.
        let is_sound = held.keeps_handle(caching)
            && left <= timeout
            && timeout <= TIMEOUT_MAX
            && (locks.is_empty() || caching.contains(Caching::W));
        is_sound.then_some(Self {
            volatile,
            recorded_user,
            client,
            address,
            dialect,
            posix,
            share,
            opening,
            words,
            path,
            stamp,
            stream,
            access,
            maximal_access,
            share_access,
            options,
            is_exact,
            action,
            allocation,
            held,
            caching,
            epoch,
            parent,
            timeout,
            left,
            create_guid,
            is_replayable,
            app_instance,
            locks,
            sequences,
            position,
            mode,
            sticky,
        })
    }
}

impl RecordedUser {
    fn user(&self) -> Option<(&str, Id)> {
        match self {
            Self::Nobody => None,
            Self::User { name, id } => Some((name, *id)),
        }
    }
}

fn write_time(out: &mut RecordWriter, time: Timestamp) {
    out.i64(time.secs);
    out.u32(time.nanos);
}

fn read_time(fields: &mut RecordReader<'_>) -> Option<Timestamp> {
    Some(Timestamp { secs: fields.i64()?, nanos: fields.u32().filter(|nanos| *nanos < 1_000_000_000)? })
}

fn read_address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

fn read_lock(fields: &mut RecordReader<'_>) -> Option<RangeLock> {
    let range = Range { offset: fields.u64()?, len: fields.u64()? };
    Some(RangeLock { range, exclusive: fields.flag()? })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn read_millis(fields: &mut RecordReader<'_>) -> Option<Duration> {
    fields.u64().map(Duration::from_millis)
}

/// Numbers of opens are counted from below 2^48, and go on behind those that were kept.
const VOLATILE_END: u64 = 1 << 63;
/// Longest name of a user, share or stream, bytes.
const NAME_MAX: usize = 1024;
/// Largest length of identity words, that of the index.
const WORDS_MAX: usize = 160;
/// Largest number of locks, that of `grants` for one open.
const LOCKS_MAX: u32 = 1024;
/// Longest timeout that an open is given (MS-SMB2 3.3.5.9.10).
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn full() -> OpenRecord {
        OpenRecord {
            volatile: 7,
            recorded_user: RecordedUser::User { name: "alice".to_owned(), id: Id(1000) },
            client: Guid::new([1; 16]),
            address: "2001:db8::7".parse().unwrap(),
            dialect: Dialect::Smb311,
            posix: true,
            share: "Files".to_owned(),
            opening: ([9; 16], 1_700_000_000),
            words: vec![1, 2, 3],
            path: b"plans/a.txt".to_vec(),
            stamp: ContentStamp {
                size: 5,
                mtime: Timestamp { secs: -1, nanos: 999_999_999 },
                ctime: Timestamp { secs: 7, nanos: 0 },
            },
            stream: Some("notes".to_owned()),
            access: 0x0012_019f,
            maximal_access: 0x001f_01ff,
            share_access: 3,
            options: 0x40,
            is_exact: true,
            action: 2,
            allocation: 4096,
            held: GrantedCaching::Lease { key: Guid::new([2; 16]), version: 2 },
            caching: Caching::RWH,
            epoch: Some(65_535),
            parent: Some([4; 16]),
            timeout: Duration::from_secs(60),
            left: Duration::from_millis(59_001),
            create_guid: Guid::new([5; 16]),
            is_replayable: true,
            app_instance: Some(AppInstance { id: Guid::new([6; 16]), version: Some((1, 2)) }),
            locks: vec![RangeLock { range: Range { offset: 1, len: u64::MAX - 1 }, exclusive: true }],
            sequences: Some([3; ENTRIES]),
            position: 77,
            mode: Some(8),
            sticky: Some(Timestamp { secs: 5, nanos: 6 }),
        }
    }

    fn plain() -> OpenRecord {
        OpenRecord {
            recorded_user: RecordedUser::Nobody,
            address: "10.0.0.1".parse().unwrap(),
            stream: None,
            held: GrantedCaching::Oplock,
            epoch: None,
            parent: None,
            app_instance: Some(AppInstance { id: Guid::new([6; 16]), version: None }),
            locks: Vec::new(),
            sequences: None,
            mode: None,
            sticky: None,
            ..full()
        }
    }

    fn written(record: &OpenRecord) -> Vec<u8> {
        let mut out = RecordWriter::default();
        record.write(&mut out);
        out.into_bytes()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        for record in [full(), plain()] {
            let bytes = written(&record);
            let mut fields = RecordReader::new(&bytes);
            assert_eq!(OpenRecord::read(&mut fields).as_ref(), Some(&record));
            assert!(fields.is_empty());
            for len in 0..bytes.len() {
                assert_eq!(OpenRecord::read(&mut RecordReader::new(&bytes[..len])), None, "{len}");
            }
        }
    }

    #[test]
    fn what_no_server_writes_is_no_record() {
        let wrongs = [
            OpenRecord { volatile: 1 << 63, ..full() },
            OpenRecord { caching: Caching::RW, ..full() },
            OpenRecord { held: GrantedCaching::Lease { key: Guid::new([2; 16]), version: 3 }, ..full() },
            OpenRecord { held: GrantedCaching::Oplock, caching: Caching::RH, locks: Vec::new(), ..full() },
            OpenRecord { caching: Caching::RH, ..full() },
            OpenRecord { left: Duration::from_secs(61), ..full() },
            OpenRecord { timeout: Duration::from_secs(301), ..full() },
            OpenRecord { path: b"../../etc/passwd".to_vec(), ..full() },
            OpenRecord { path: vec![b'a'; 5000], ..full() },
            OpenRecord { words: vec![0; 161], ..full() },
            OpenRecord { locks: vec![full().locks[0]; 1025], ..full() },
        ];
        for wrong in wrongs {
            assert_eq!(OpenRecord::read(&mut RecordReader::new(&written(&wrong))), None, "{wrong:?}");
        }
    }

    #[test]
    fn bytes_at_random_are_read_or_refused_and_nothing_else() {
        let bytes = written(&full());
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut wrong = bytes.clone();
            for _ in 0..1 + state % 4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % wrong.len();
                wrong[at] = (state >> 17) as u8;
            }
            if let Some(read) = OpenRecord::read(&mut RecordReader::new(&wrong)) {
                assert!(read.timeout <= TIMEOUT_MAX && read.held.keeps_handle(read.caching));
            }
        }
    }
}
