//! FileStreamInformation (MS-FSCC 2.4.49): the streams of a file.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::chain::{Entries, EntryWriter};
use crate::fixed::{part, prefix, wire};
use crate::malformed::Malformed;
use crate::text::{Text, encode};

wire! {
    /// Fixed part of an entry.
    pub struct StreamHead {
        next_entry_offset: U32,
        stream_name_length: U32,
        stream_size: U64,
        stream_allocation_size: U64,
    }
}

/// Appends a stream, by its name without colon and type; `""` is the file itself. `false` if it does not fit.
pub fn write(list: &mut EntryWriter<'_>, name: &str, size: u64, allocation: u64) -> bool {
    list.push(|out| {
        let name = format!(":{name}:$DATA");
        let head = StreamHead {
            next_entry_offset: U32::ZERO,
            stream_name_length: U32::new(2 * name.encode_utf16().count() as u32),
            stream_size: size.into(),
            stream_allocation_size: allocation.into(),
        };
        out.extend(head.as_bytes());
        encode(&name, out);
    })
}

/// Reads a list of streams: each with its name as it travels, `:name:$DATA`.
pub fn parse(data: &[u8]) -> impl Iterator<Item = Result<(&StreamHead, Text<'_>), Malformed>> {
    Entries::new(data, 8, size_of::<StreamHead>()).map(|entry| {
        let entry = entry?;
        let (head, _) = prefix::<StreamHead>(entry)?;
        let name = part(entry, size_of::<StreamHead>(), head.stream_name_length.get() as usize)?;
        Ok((head, Text::new(name)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_come_back_with_their_type() {
        let mut out = Vec::new();
        let mut list = EntryWriter::new(&mut out, 8, 1024);
        assert!(write(&mut list, "", 5, 4096) && write(&mut list, "AFP_AfpInfo", 60, 60));
        let read: Vec<_> = parse(&out).map(Result::unwrap).collect();
        assert_eq!(read[0].1.lossy(), "::$DATA");
        assert_eq!((read[1].1.lossy(), read[1].0.stream_size.get()), (":AFP_AfpInfo:$DATA".to_owned(), 60));
        out.truncate(out.len() - 1);
        assert_eq!(parse(&out).last(), Some(Err(Malformed::Offset)));
    }
}
