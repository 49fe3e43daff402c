//! Extended attributes as SMB's clients know them: `user.` attributes of the file, but for those in which streams and DOS attributes
//! lie. Their names are found in any case.

use std::rc::Rc;

use smb_wire::Status;
use smb_wire::chain::{Entries, EntryWriter};
use smb_wire::info::ea;
use vfs::Caller;

use crate::lane_handle::{Edit, LaneHandle, VALUE_MAX};
use crate::share::Share;
use crate::{Answer, status, streams};
use smb_wire::dos;

/// Returns the names of a file's attributes that clients see.
async fn names(handle: &LaneHandle, hidden: &[String]) -> Result<Vec<Vec<u8>>, Status> {
    let mut names = handle.extended_names().await?;
    names.retain(|name| is_shown(name, hidden));
    Ok(names)
}

/// Returns whether clients see an attribute; `hidden` are those that the share keeps for itself. What other programs have given a name that
/// no attribute of SMB has is not seen.
fn is_shown(name: &[u8], hidden: &[String]) -> bool {
    let is_own = name == dos::NAME || name.starts_with(streams::PREFIX) || name.starts_with(b"SAMBA_");
    let is_hidden = hidden.iter().any(|hidden| name.eq_ignore_ascii_case(hidden.as_bytes()));
    !is_own && !is_hidden && name.len() <= NAME_MAX && ea::is_name(name)
}

/// Returns the number of bytes that a list of all of them takes; 0 where there are none.
pub(crate) async fn size(handle: &LaneHandle, hidden: &[String]) -> Result<u32, Status> {
    let mut size = 0;
    for name in names(handle, hidden).await? {
        let len = handle.extended(&name, VALUE_MAX).await?.map_or(0, |value| value.len());
        size += (HEAD_LEN + name.len() + 1 + len).next_multiple_of(4);
    }
    Ok(size as u32)
}

/// Lists the attributes from the entry `first` on, as many as fit; returns how many these were.
///
/// # Errors
/// `STATUS_NO_EAS_ON_FILE`; `STATUS_BUFFER_TOO_SMALL` where not even one fits.
pub(crate) async fn list(
    handle: &LaneHandle,
    hidden: &[String],
    first: usize,
    is_single: bool,
    len_max: usize,
) -> Result<(Answer, usize), Status> {
    let names = names(handle, hidden).await?;
    if names.len() <= first {
        //= MS-SMB2 3.3.5.20.1
        //# STATUS_NO_EAS_ON_FILE where there are none, STATUS_NO_MORE_EAS behind the last.
        return Err(if first == 0 { Status::NO_EAS_ON_FILE } else { Status::NO_MORE_EAS });
    }
    let mut output = Vec::new();
    let mut entries = EntryWriter::new(&mut output, 4, len_max);
    let mut told = 0;
    let mut status = Status::SUCCESS;
    for name in &names[first..] {
        let value = handle.extended(name, VALUE_MAX).await?.unwrap_or_default();
        if !ea::write(&mut entries, &ea::Ea { name, value: &value }) {
            if told == 0 {
                return Err(Status::BUFFER_TOO_SMALL);
            }
            status = Status::BUFFER_OVERFLOW;
            break;
        }
        told += 1;
        if is_single {
            break;
        }
    }
    Ok((Answer { status, output }, first + told))
}

/// Reads the attributes of a list of names (MS-FSCC 2.4.16.1); one that is not there has an empty value.
///
/// # Errors
/// `STATUS_INVALID_PARAMETER` for a list that is not whole; `STATUS_BUFFER_TOO_SMALL`.
pub(crate) async fn named(
    handle: &LaneHandle,
    hidden: &[String],
    wanted: &[u8],
    len_max: usize,
) -> Result<Answer, Status> {
    let known = names(handle, hidden).await?;
    let mut output = Vec::new();
    let mut entries = EntryWriter::new(&mut output, 4, len_max);
    for entry in Entries::new(wanted, 4, 5) {
        let entry = entry.map_err(|malformed| malformed.status())?;
        let name = entry.get(5..5 + usize::from(entry[4])).ok_or(Status::INVALID_PARAMETER)?;
        let stored = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        let value = match stored {
            Some(stored) => handle.extended(stored, VALUE_MAX).await?.unwrap_or_default(),
            None => Vec::new(),
        };
        if !ea::write(&mut entries, &ea::Ea { name, value: &value }) {
            return Err(Status::BUFFER_TOO_SMALL);
        }
    }
    Ok(Answer { status: Status::SUCCESS, output })
}

/// Parses the attributes of a list that a client sets.
///
/// # Errors
/// `STATUS_INVALID_EA_NAME` for a name that none has, `STATUS_INVALID_PARAMETER` for a list that is not whole.
pub(crate) fn checked_list(list: &[u8]) -> Result<Vec<ea::Ea<'_>>, Status> {
    let list = ea::parse(list).collect::<Result<Vec<_>, _>>().map_err(ea::status)?;
    let is_fine = list.iter().all(|item| item.name.len() <= SET_NAME_MAX);
    if is_fine { Ok(list) } else { Err(Status::INVALID_EA_NAME) }
}

impl Share {
    /// Sets the attributes of a list; one without a value goes.
    ///
    /// # Errors
    /// `STATUS_EA_TOO_LARGE`; those of [`checked_list`] and of the tree.
    pub(crate) async fn set_eas(
        &self,
        caller: &Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        list: &[u8],
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.15.6
        //# What is a reparse point has none: STATUS_EAS_NOT_SUPPORTED.
        if handle.link().is_some() {
            return Err(Status::EAS_NOT_SUPPORTED);
        }
        // All of it is read before any of it is set.
        let list = checked_list(list)?;
        let mut stored = handle.extended_names().await?;
        for item in list {
            let same = stored.iter().find(|name| name.eq_ignore_ascii_case(item.name));
            let name = same.map_or_else(|| item.name.to_vec(), Vec::clone);
            if !is_shown(&name, &self.options().hide_attributes) {
                return Err(Status::ACCESS_DENIED);
            }
            let value = (!item.value.is_empty()).then(|| item.value.to_vec());
            let edit: Edit = Rc::new(move |_| value.clone());
            let set = handle.edit_extended(self.volume(), caller, object, &name, VALUE_MAX, edit).await;
            set.map_err(|error| match error {
                vfs::Error::NoSpace => Status::EA_TOO_LARGE,
                error => status::of(error),
            })?;
            // A later item of the list may have the same name in another case.
            if same.is_none() {
                stored.push(name);
            }
        }
        Ok(())
    }
}

const HEAD_LEN: usize = 8;
/// Bytes that an attribute's name has room for behind `user.`.
const SET_NAME_MAX: usize = 250;
/// Longest name of an attribute, bytes; a longer one does not fit its field.
const NAME_MAX: usize = 254;
