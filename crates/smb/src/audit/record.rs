//! Record of one request, and its packed form.

use service::log::audit::Act;
use service::log::packed::{put_text, take, take_text};
use service::log::{Format, LogRecord};
use smb_wire::{FileId, Status};

use super::{Event, put_line};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Time, user and status of a request: an NT status. Of a sign-in that failed the user is the name that
    /// was given.
    pub(crate) act: Act<'a>,
    pub(crate) event: Event,
    /// SessionId; 0 where there is none.
    pub(crate) session: u64,
    /// The share.
    pub(crate) share: &'a [u8],
    /// The file's path below the share, as it is stored; with its stream.
    pub(crate) path: &'a [u8],
    /// Target of a rename or a link; why a sign-in failed, or as what it went well.
    pub(crate) other: &'a [u8],
    /// FileId of the open.
    pub(crate) file: Option<FileId>,
    /// The first byte that READ, WRITE and LOCK are about.
    pub(crate) offset: u64,
    /// Number of bytes; the length that is set.
    pub(crate) length: u64,
    /// Rights that CREATE asks for, control code of IOCTL, or class of information.
    pub(crate) code: u32,
}

impl<'a> Record<'a> {
    /// Longest share's.
    pub(crate) const SHARE_MAX: usize = 320;
    /// Longest path.
    pub(crate) const PATH_MAX: usize = 4096;

    /// Returns what its request was answered with.
    pub(super) fn status(&self) -> Status {
        Status(self.act.code as u32)
    }

    /// Takes one record off the front of a batch; `None` at its end.
    fn unpack(batch: &mut &'a [u8]) -> Option<Self> {
        let act = Act::unpack(batch)?;
        let [event, has_file] = take(batch)?;
        let [session, persistent, volatile, offset, length] =
            [take(batch)?, take(batch)?, take(batch)?, take(batch)?, take(batch)?].map(u64::from_le_bytes);
        Some(Self {
            act,
            event: Event::from_repr(event)?,
            session,
            file: (has_file != 0).then(|| FileId::new(persistent, volatile)),
            offset,
            length,
            code: u32::from_le_bytes(take(batch)?),
            share: take_text(batch)?,
            path: take_text(batch)?,
            other: take_text(batch)?,
        })
    }
}

impl LogRecord for Record<'_> {
    const PACKED_MAX: usize =
        Act::PACKED_MAX + 2 + 5 * 8 + 4 + (2 + Self::SHARE_MAX) + 2 * (2 + Self::PATH_MAX);

    fn pack(&self, batch: &mut Vec<u8>) {
        let file = self.file.unwrap_or(FileId::new(0, 0));
        self.act.pack(batch);
        batch.extend_from_slice(&[self.event as u8, u8::from(self.file.is_some())]);
        for word in [self.session, file.persistent.get(), file.volatile.get(), self.offset, self.length] {
            batch.extend_from_slice(&word.to_le_bytes());
        }
        batch.extend_from_slice(&self.code.to_le_bytes());
        put_text(self.share, Self::SHARE_MAX, batch);
        put_text(self.path, Self::PATH_MAX, batch);
        put_text(self.other, Self::PATH_MAX, batch);
    }

    fn put_lines(format: Format, mut batch: &[u8], lines: &mut Vec<u8>) {
        while let Some(record) = Record::unpack(&mut batch) {
            put_line(format, &record, lines);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use service::log::packed::cut;
    use strum::VariantArray;

    use super::*;

    pub(in crate::audit) fn record() -> Record<'static> {
        Record {
            act: Act {
                unix_us: 784_111_777_000_042,
                duration_us: 1234,
                code: 0,
                peer: "192.0.2.1:50000".parse().unwrap(),
                user: b"alice",
                user_id: 1000,
            },
            event: Event::Read,
            session: 0x1234,
            share: b"files",
            path: b"/dir/a b",
            other: b"",
            file: Some(FileId::new(1, 2)),
            offset: 4096,
            length: 65_536,
            code: 0,
        }
    }

    #[test]
    fn packed_records_are_what_they_were_and_long_texts_are_cut() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let texts: [Vec<u8>; 4] =
                std::array::from_fn(|_| (0..rng.random_range(0..6000)).map(|_| rng.random()).collect());
            let whole = Record {
                act: Act { code: rng.random::<u32>().into(), user: &texts[0], ..record().act },
                event: Event::VARIANTS[rng.random_range(0..Event::VARIANTS.len())],
                session: rng.random(),
                share: &texts[1],
                path: &texts[2],
                other: &texts[3],
                file: rng.random::<bool>().then(|| FileId::new(rng.random(), rng.random())),
                code: rng.random(),
                ..record()
            };
            let mut batch = Vec::new();
            whole.pack(&mut batch);
            assert!(batch.len() <= Record::PACKED_MAX, "seed {seed}");
            record().pack(&mut batch);
            let wanted = Record {
                act: Act { user: cut(whole.act.user, 256), ..whole.act },
                share: cut(whole.share, 320),
                path: cut(whole.path, 4096),
                other: cut(whole.other, 4096),
                ..whole
            };
            let mut rest = &batch[..];
            assert_eq!(Record::unpack(&mut rest), Some(wanted), "seed {seed}");
            assert_eq!(Record::unpack(&mut rest), Some(record()), "seed {seed}");
            assert_eq!(Record::unpack(&mut rest), None, "seed {seed}");
        }
    }
}
