//! FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1): what has changed in a directory.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use crate::chain::{Entries, EntryWriter};
use crate::fixed::{part, prefix, wire};
use crate::malformed::Malformed;
use crate::text::{Text, encode};

/// `Action`.
pub mod action {
    /// A name came.
    pub const ADDED: u32 = 1;
    /// A name went.
    pub const REMOVED: u32 = 2;
    /// FILE_ACTION_MODIFIED: what has the name was changed.
    pub const MODIFIED: u32 = 3;
    /// Renamed: the name it had.
    pub const RENAMED_OLD_NAME: u32 = 4;
    /// Renamed: the name it has.
    pub const RENAMED_NEW_NAME: u32 = 5;
    /// A stream came.
    pub const ADDED_STREAM: u32 = 6;
    /// A stream went.
    pub const REMOVED_STREAM: u32 = 7;
    /// A stream changed.
    pub const MODIFIED_STREAM: u32 = 8;
}

wire! {
    /// Fixed part of an entry.
    pub struct NotifyHead {
        next_entry_offset: U32,
        action: U32,
        file_name_length: U32,
    }
}

/// Appends a change of `name`, which is relative to the watched directory. `false` if it does not fit: then the answer
/// is `STATUS_NOTIFY_ENUM_DIR`, and the client looks for itself.
pub fn write(list: &mut EntryWriter<'_>, action: u32, name: &str) -> bool {
    list.push(|out| {
        let file_name_length = U32::new(2 * name.encode_utf16().count() as u32);
        out.extend(
            NotifyHead { next_entry_offset: U32::ZERO, action: action.into(), file_name_length }.as_bytes(),
        );
        encode(name, out);
    })
}

/// Reads changes: action and name of each.
pub fn parse(data: &[u8]) -> impl Iterator<Item = Result<(u32, Text<'_>), Malformed>> {
    Entries::new(data, 4, size_of::<NotifyHead>()).map(|entry| {
        let entry = entry?;
        let (head, _) = prefix::<NotifyHead>(entry)?;
        let name = part(entry, size_of::<NotifyHead>(), head.file_name_length.get() as usize)?;
        Ok((head.action.get(), Text::new(name)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_order_and_too_many_are_noticed() {
        let mut out = Vec::new();
        let mut list = EntryWriter::new(&mut out, 4, 40);
        assert!(write(&mut list, action::RENAMED_OLD_NAME, "abc"));
        assert!(write(&mut list, action::RENAMED_NEW_NAME, "d"));
        assert!(!write(&mut list, action::ADDED, "e"));
        let read: Vec<_> =
            parse(&out).map(Result::unwrap).map(|(action, name)| (action, name.lossy())).collect();
        assert_eq!(read, [(4, "abc".to_owned()), (5, "d".to_owned())]);
        assert_eq!(parse(&out[..11]).last(), Some(Err(Malformed::Short)));
    }
}
