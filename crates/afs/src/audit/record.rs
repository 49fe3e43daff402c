//! What is told of one call, and its packed form.

use std::net::SocketAddr;

use afs_wire::{FIDS_MAX, Fid, NAME_MAX, OPAQUE_MAX};
use service::log::packed::{cut, put_address, take, take_address};
use service::log::{Format, LogRecord};
use smallvec::SmallVec;

use super::{Event, put_line};

/// Files of a call, in the order of its parameters and results. Two are common, more come with bulk calls alone.
pub type Files = SmallVec<[Fid; 2]>;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it ended, in microseconds since 1970.
    pub unix_us: u64,
    /// How long it took.
    pub duration_us: u32,
    /// Which.
    pub event: Event,
    /// 0, or what it was aborted with.
    pub code: i32,
    /// The client.
    pub peer: SocketAddr,
    /// Whom it acted for; empty: nobody that it named.
    pub user: &'a [u8],
    /// His AFS number.
    pub user_id: i32,
    /// The files; the n-th has the n-th name, if there is one.
    pub files: Files,
    /// Names in directories among them; cut at [`NAME_MAX`] bytes.
    pub names: [&'a [u8]; 2],
    /// An access list as the call had it; cut at [`OPAQUE_MAX`] bytes.
    pub acl: &'a [u8],
}

impl<'a> Record<'a> {
    /// Longest user's name that the log shows.
    pub const USER_MAX: usize = 256;

    /// Takes one record off the front of a batch; `None` at its end.
    fn unpack(batch: &mut &'a [u8]) -> Option<Self> {
        let unix_us = u64::from_le_bytes(take(batch)?);
        let duration_us = u32::from_le_bytes(take(batch)?);
        let code = i32::from_le_bytes(take(batch)?);
        let user_id = i32::from_le_bytes(take(batch)?);
        let ip = take_address(batch)?;
        let port = u16::from_le_bytes(take(batch)?);
        let [event, files] = take(batch)?;
        let lengths = [take(batch)?, take(batch)?, take(batch)?, take(batch)?].map(u16::from_le_bytes);
        let files = (0..files).map(|_| {
            let [volume, vnode, uniquifier] =
                [take(batch)?, take(batch)?, take(batch)?].map(u32::from_le_bytes);
            Some(Fid { volume, vnode, uniquifier })
        });
        let files = files.collect::<Option<Files>>()?;
        let mut texts = [&[][..]; 4];
        for (text, length) in texts.iter_mut().zip(lengths) {
            (*text, *batch) = batch.split_at_checked(length.into())?;
        }
        let [user, name, other, acl] = texts;
        let (event, peer, names) = (Event::of_number(event)?, SocketAddr::new(ip, port), [name, other]);
        Some(Self { unix_us, duration_us, event, code, peer, user, user_id, files, names, acl })
    }
}

impl LogRecord for Record<'_> {
    const PACKED_MAX: usize =
        FIXED_LEN + FIDS_MAX as usize * 12 + Self::USER_MAX + 2 * NAME_MAX as usize + OPAQUE_MAX as usize;

    fn pack(&self, batch: &mut Vec<u8>) {
        let [name, other] = self.names.map(|name| cut(name, NAME_MAX as usize));
        let texts = [cut(self.user, Self::USER_MAX), name, other, cut(self.acl, OPAQUE_MAX as usize)];
        let files = &self.files[..self.files.len().min(FIDS_MAX as usize)];
        batch.extend_from_slice(&self.unix_us.to_le_bytes());
        batch.extend_from_slice(&self.duration_us.to_le_bytes());
        batch.extend_from_slice(&self.code.to_le_bytes());
        batch.extend_from_slice(&self.user_id.to_le_bytes());
        put_address(self.peer.ip(), batch);
        batch.extend_from_slice(&self.peer.port().to_le_bytes());
        batch.extend_from_slice(&[self.event as u8, files.len() as u8]);
        for text in texts {
            batch.extend_from_slice(&(text.len() as u16).to_le_bytes());
        }
        for Fid { volume, vnode, uniquifier } in files {
            [volume, vnode, uniquifier].iter().for_each(|word| batch.extend_from_slice(&word.to_le_bytes()));
        }
        texts.iter().for_each(|text| batch.extend_from_slice(text));
    }

    fn put_lines(format: Format, mut batch: &[u8], lines: &mut Vec<u8>) {
        while let Some(record) = Record::unpack(&mut batch) {
            put_line(format, &record, lines);
        }
    }
}

/// What is packed before files and texts.
const FIXED_LEN: usize = 8 + 4 + 4 + 4 + 16 + 2 + 2 + 4 * 2;

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    pub(in crate::audit) fn record() -> Record<'static> {
        Record {
            unix_us: 784_111_777_000_042,
            duration_us: 1234,
            event: Event::FetchData,
            code: 0,
            peer: "192.0.2.1:7001".parse().unwrap(),
            user: b"",
            user_id: 32_766,
            files: Files::from_slice(&[Fid { volume: 536_870_912, vnode: 4, uniquifier: 7 }]),
            names: [b"", b""],
            acl: b"",
        }
    }

    proptest! {
        #[test]
        fn packed_records_are_what_they_were(
            fids in vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..60),
            texts in vec(vec(any::<u8>(), 0..1200), 4),
            code in any::<i32>(),
            event in 0..Event::ALL.len(),
        ) {
            let files = fids.iter().map(|&(volume, vnode, uniquifier)| Fid { volume, vnode, uniquifier });
            let whole = Record {
                files: files.collect(),
                user: &texts[0],
                names: [&texts[1], &texts[2]],
                acl: &texts[3],
                code,
                event: Event::ALL[event],
                ..record()
            };
            let mut batch = Vec::new();
            whole.pack(&mut batch);
            prop_assert!(batch.len() <= Record::PACKED_MAX);
            record().pack(&mut batch);
            let mut rest = &batch[..];
            let mut wanted = whole.clone();
            wanted.files.truncate(50);
            wanted.user = cut(wanted.user, 256);
            wanted.names = wanted.names.map(|name| cut(name, 256));
            wanted.acl = cut(wanted.acl, 1024);
            prop_assert_eq!(Record::unpack(&mut rest), Some(wanted));
            prop_assert_eq!(Record::unpack(&mut rest), Some(record()));
            prop_assert_eq!(Record::unpack(&mut rest), None);
        }
    }
}
