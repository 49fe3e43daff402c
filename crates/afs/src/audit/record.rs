//! Record of one call, and its packed form.

use afs_wire::{FIDS_MAX, Fid, NAME_MAX, OPAQUE_MAX};
use service::log::audit::Act;
use service::log::packed::{put_text, take, take_text};
use smallvec::SmallVec;

use super::Event;

/// Files of a call, in the order of its parameters and results. Two are common, more come with bulk calls alone.
pub type Files = SmallVec<[Fid; 2]>;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time, user and result of a call: 0, or what it was aborted with.
    pub act: Act<'a>,
    /// Kind of the event.
    pub event: Event,
    /// The files; the n-th has the n-th name, if there is one.
    pub files: Files,
    /// Names in directories among them; cut at [`NAME_MAX`] bytes.
    pub names: [&'a [u8]; 2],
    /// An access list as the call had it; cut at [`OPAQUE_MAX`] bytes.
    pub acl: &'a [u8],
}

impl<'a> Record<'a> {
    /// Bytes of the longest packed record.
    pub(super) const PACKED_MAX: usize = Act::PACKED_MAX
        + 2
        + FIDS_MAX as usize * 12
        + 2 * (2 + NAME_MAX as usize)
        + (2 + OPAQUE_MAX as usize);

    /// Appends the record to a batch. What is longer than the log shows is cut.
    pub(super) fn pack(&self, batch: &mut Vec<u8>) {
        let files = &self.files[..self.files.len().min(FIDS_MAX as usize)];
        self.act.pack(batch);
        batch.extend_from_slice(&[self.event as u8, files.len() as u8]);
        for Fid { volume, vnode, uniquifier } in files {
            [volume, vnode, uniquifier].iter().for_each(|word| batch.extend_from_slice(&word.to_le_bytes()));
        }
        self.names.iter().for_each(|name| put_text(name, NAME_MAX as usize, batch));
        put_text(self.acl, OPAQUE_MAX as usize, batch);
    }

    /// Takes one record off the front of a batch; `None` at its end.
    pub(super) fn unpack(batch: &mut &'a [u8]) -> Option<Self> {
        let act = Act::unpack(batch)?;
        let [event, files] = take(batch)?;
        let files = (0..files).map(|_| {
            let [volume, vnode, uniquifier] =
                [take(batch)?, take(batch)?, take(batch)?].map(u32::from_le_bytes);
            Some(Fid { volume, vnode, uniquifier })
        });
        let files = files.collect::<Option<Files>>()?;
        let names = [take_text(batch)?, take_text(batch)?];
        Some(Self { act, event: Event::from_repr(event)?, files, names, acl: take_text(batch)? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use service::log::packed::cut;
    use strum::VariantArray;

    use super::*;

    pub(in crate::audit) fn record() -> Record<'static> {
        Record {
            act: Act {
                unix_us: 784_111_777_000_042,
                duration_us: 1234,
                code: 0,
                peer: "192.0.2.1:7001".parse().unwrap(),
                user: b"",
                user_id: 32_766,
            },
            event: Event::FetchData,
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
            event in 0..Event::VARIANTS.len(),
        ) {
            let files = fids.iter().map(|&(volume, vnode, uniquifier)| Fid { volume, vnode, uniquifier });
            let whole = Record {
                files: files.collect(),
                act: Act { user: &texts[0], code: code.into(), ..record().act },
                names: [&texts[1], &texts[2]],
                acl: &texts[3],
                event: Event::VARIANTS[event],
            };
            let mut batch = Vec::new();
            whole.pack(&mut batch);
            prop_assert!(batch.len() <= Record::PACKED_MAX);
            record().pack(&mut batch);
            let mut rest = &batch[..];
            let mut wanted = whole.clone();
            wanted.files.truncate(50);
            wanted.act.user = cut(wanted.act.user, 256);
            wanted.names = wanted.names.map(|name| cut(name, 256));
            wanted.acl = cut(wanted.acl, 1024);
            prop_assert_eq!(Record::unpack(&mut rest), Some(wanted));
            prop_assert_eq!(Record::unpack(&mut rest), Some(record()));
            prop_assert_eq!(Record::unpack(&mut rest), None);
        }
    }
}
