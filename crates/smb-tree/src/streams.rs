//! Named streams, which lie in extended attributes as Samba's `streams_xattr` keeps them: `user.DosStream.<name>:$DATA`, the data and
//! one zero byte. They are found in any case, and are as long as an attribute can be.

use std::rc::Rc;

use smb_wire::Status;
use vfs::{Caller, Error};

use crate::lane_handle::{Edit, LaneHandle, VALUE_MAX};
use crate::share::Share;
use crate::status;

/// Longest stream, bytes: what an attribute holds beside Samba's zero byte.
pub(crate) const STREAM_MAX: u64 = VALUE_MAX as u64 - 1;
/// Prefix of attributes that hold streams.
pub(crate) const PREFIX: &[u8] = b"DosStream.";
const SUFFIX: &[u8] = b":$DATA";

/// A stream of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// Returns the attribute that holds a stream.
pub(crate) fn attribute(stream: &str) -> Vec<u8> {
    [PREFIX, stream.as_bytes(), SUFFIX].concat()
}

/// Returns the stream that an attribute holds; `None` for another.
fn stream_of(attribute: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(attribute.strip_prefix(PREFIX)?).ok()?;
    let Some((name, kind)) = name.rsplit_once(':') else { return Some(name) };
    kind.eq_ignore_ascii_case("$DATA").then_some(name)
}

/// Folds the case of a stream's name, by which share modes of streams are kept.
pub(crate) fn folded(stream: &str) -> String {
    stream.to_lowercase()
}

/// Finds the stream of this name in whatever case, as it is stored.
pub(crate) async fn find(handle: &LaneHandle, stream: &str) -> Result<Option<String>, Status> {
    let names = handle.extended_names().await?;
    let stored = || names.iter().filter_map(|name| stream_of(name));
    let wanted = folded(stream);
    let found =
        stored().find(|name| *name == stream).or_else(|| stored().find(|name| folded(name) == wanted));
    Ok(found.map(str::to_owned))
}

/// Returns all streams, with their sizes.
pub(crate) async fn all(handle: &LaneHandle) -> Result<Vec<Stream>, Status> {
    let mut streams = Vec::new();
    for attribute in handle.extended_names().await? {
        let Some(name) = stream_of(&attribute) else { continue };
        // It may have gone meanwhile.
        if let Some(value) = handle.extended(&attribute, VALUE_MAX).await? {
            streams.push(Stream { name: name.to_owned(), size: data(&value).len() as u64 });
        }
    }
    streams.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(streams)
}

/// Returns what a stream holds.
///
/// # Errors
/// `STATUS_FILE_DELETED` once it is gone.
pub(crate) async fn read(handle: &LaneHandle, stream: &str) -> Result<Vec<u8>, Status> {
    content(handle, stream).await?.ok_or(Status::FILE_DELETED)
}

/// Returns what the stream of just this name holds; `None` without one.
pub(crate) async fn content(handle: &LaneHandle, stream: &str) -> Result<Option<Vec<u8>>, Status> {
    let value = handle.extended(&attribute(stream), VALUE_MAX).await?;
    Ok(value.map(|mut value| {
        value.truncate(data(&value).len());
        value
    }))
}

/// Returns a stream's content: the value without Samba's zero byte.
fn data(value: &[u8]) -> &[u8] {
    value.split_last().map_or(value, |(_, data)| data)
}

/// A change of a named stream.
pub(crate) enum StreamChange {
    /// Makes the stream, if it does not exist.
    Make,
    /// Empties the stream, and makes it if it does not exist.
    Empty,
    /// Bytes are written; what lies between is zeros.
    Write(u64, Vec<u8>),
    /// Bytes become zeros, as far as there are any: the first, and how many.
    Zero(u64, u64),
    /// Sets the stream's length.
    Resize(u64),
    /// Removes the stream.
    Remove,
}

impl Share {
    /// Changes a stream, in one step.
    ///
    /// # Errors
    /// `STATUS_DISK_FULL` where it would be longer than [`STREAM_MAX`].
    pub(crate) async fn change_stream(
        &self,
        caller: &Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        stream: &str,
        change: StreamChange,
    ) -> Result<(), Status> {
        let len = match &change {
            StreamChange::Write(offset, bytes) => offset.saturating_add(bytes.len() as u64),
            StreamChange::Resize(len) => *len,
            StreamChange::Make | StreamChange::Empty | StreamChange::Zero(..) | StreamChange::Remove => 0,
        };
        if len > STREAM_MAX {
            return Err(Status::DISK_FULL);
        }
        let edit: Edit = Rc::new(move |before| changed(before, &change));
        let edited =
            handle.edit_extended(self.volume(), caller, object, &attribute(stream), VALUE_MAX, edit).await;
        edited.map_err(of_stream)
    }
}

fn changed(before: Option<Vec<u8>>, change: &StreamChange) -> Option<Vec<u8>> {
    let had = before.is_some();
    let mut value = before.unwrap_or_default();
    value.truncate(data(&value).len());
    match change {
        StreamChange::Remove => return None,
        StreamChange::Empty => value.clear(),
        StreamChange::Make => {}
        // It was deleted by another name of the file's.
        StreamChange::Write(..) | StreamChange::Zero(..) | StreamChange::Resize(_) if !had => return None,
        StreamChange::Write(offset, bytes) => {
            let at = *offset as usize;
            let end = at + bytes.len();
            if value.len() < end {
                value.resize(end, 0);
            }
            value[at..end].copy_from_slice(bytes);
        }
        StreamChange::Zero(offset, len) => {
            let within = |at: u64| at.min(value.len() as u64) as usize;
            let zeros = within(*offset)..within(offset.saturating_add(*len));
            value[zeros].fill(0);
        }
        StreamChange::Resize(len) => value.resize(*len as usize, 0),
    }
    value.push(0);
    Some(value)
}

/// Returns where the file system keeps no attributes there are no streams.
fn of_stream(error: Error) -> Status {
    if crate::lane_handle::is_unsupported(&error) { Status::OBJECT_NAME_INVALID } else { status::of(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_lies_where_samba_has_it() {
        assert_eq!(attribute("str"), b"DosStream.str:$DATA");
        assert_eq!(stream_of(b"DosStream.str:$DATA"), Some("str"));
        assert_eq!(stream_of(b"DOSATTRIB"), None);
        // As smbd 4.17 has written it.
        assert_eq!(data(b"hello\n\0"), b"hello\n");
    }

    #[test]
    fn changes_keep_the_zero_byte_behind_the_data() {
        let after = |before: Option<&[u8]>, change| changed(before.map(<[u8]>::to_vec), &change);
        assert_eq!(after(None, StreamChange::Make), Some(vec![0]));
        assert_eq!(after(Some(b"ab\0"), StreamChange::Make), Some(b"ab\0".to_vec()));
        assert_eq!(after(Some(b"ab\0"), StreamChange::Empty), Some(vec![0]));
        assert_eq!(after(Some(b"ab\0"), StreamChange::Write(1, b"XY".to_vec())), Some(b"aXY\0".to_vec()));
        assert_eq!(after(Some(b"a\0"), StreamChange::Write(3, b"Z".to_vec())), Some(b"a\0\0Z\0".to_vec()));
        assert_eq!(after(Some(b"abc\0"), StreamChange::Zero(1, 1)), Some(b"a\0c\0".to_vec()));
        assert_eq!(after(Some(b"abc\0"), StreamChange::Zero(2, u64::MAX)), Some(b"ab\0\0".to_vec()));
        assert_eq!(after(Some(b"abc\0"), StreamChange::Zero(4, 9)), Some(b"abc\0".to_vec()));
        assert_eq!(after(Some(b"abc\0"), StreamChange::Resize(1)), Some(b"a\0".to_vec()));
        assert_eq!(after(Some(b"abc\0"), StreamChange::Remove), None);
        assert_eq!(after(None, StreamChange::Write(0, b"x".to_vec())), None, "it is gone");
    }
}
