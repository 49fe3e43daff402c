//! Extensions of macOS beside the specification (`AAPL`): what it is, and listings whose entries tell what
//! Finder would else ask of each file by itself.

use std::sync::atomic::{AtomicBool, Ordering};

use smb_wire::Status;
use smb_wire::create::context::{AaplRequest, aapl_response};

use crate::attributes::Info;
use crate::lane_handle::{LaneHandle, VALUE_MAX};
use crate::names::PathLookup;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::streams;

/// Extensions of macOS that a client agreed on in a tree connect, by whichever of its channels.
#[derive(Debug, Default)]
pub struct Apple {
    is_spoken: AtomicBool,
    lists: AtomicBool,
}

/// The parts of a file's AFP_AfpInfo and AFP_Resource streams that listings report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinderInfo {
    /// Type and creator, flags, further flags; the date of arrival has a field of its own.
    finder: [u8; 12],
    resource_len: u64,
    is_known: bool,
}

/// The extra fields of a directory entry for macOS (`AAPL` kAAPL_SUPPORTS_READ_DIR_ATTR).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppleDirEntry {
    pub(crate) access: u32,
    kept: FinderInfo,
}

impl Apple {
    /// Returns whether anything was agreed on.
    pub(crate) fn is_spoken(&self) -> bool {
        self.is_spoken.load(Ordering::Relaxed)
    }

    /// Returns whether listings are to tell it what else it wants to know.
    pub(crate) fn lists(&self) -> bool {
        self.lists.load(Ordering::Relaxed)
    }

    /// Returns the answer about the server, and notes what it agrees on; `None` if the client asks anything else.
    pub(crate) fn answer(&self, asked: &AaplRequest) -> Option<Vec<u8>> {
        if asked.command.get() != SERVER_QUERY {
            return None;
        }
        self.is_spoken.store(true, Ordering::Relaxed);
        let wants = |bit: u64| asked.bitmap.get() & bit != 0;
        let lists = asked.client_capabilities.get() & READ_DIR_ATTR;
        if wants(SERVER_CAPABILITIES) && lists != 0 {
            self.lists.store(true, Ordering::Relaxed);
        }
        let server = wants(SERVER_CAPABILITIES).then_some(UNIX_BASED | lists);
        let volume = wants(VOLUME_CAPABILITIES).then_some(FULL_SYNC);
        Some(aapl_response(server, volume, wants(MODEL).then_some(MODEL_NAME)))
    }
}

impl FinderInfo {
    /// Reads it from a file's streams.
    pub(crate) async fn of(handle: &LaneHandle) -> Result<Self, Status> {
        let information = streams::content(handle, INFORMATION_STREAM).await?;
        let resource = streams::content(handle, RESOURCE_STREAM).await?;
        let resource_len = resource.map_or(0, |fork| fork.len() as u64);
        let finder = information.as_deref().and_then(finder_of);
        Ok(Self { finder: finder.unwrap_or_default(), resource_len, is_known: finder.is_some() })
    }
}

impl AppleDirEntry {
    /// Returns the bytes where other clients find a short name: how long the resource fork is, and what
    /// Finder keeps.
    pub(crate) fn in_short_name(&self, info: &Info) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&self.kept.resource_len.to_le_bytes());
        let mut finder = self.kept.finder;
        if info.is_directory {
            finder[..8].fill(0);
        }
        out[8..20].copy_from_slice(&finder);
        let added = if self.kept.is_known { since_2000(info.created) } else { DATE_UNSET };
        out[20..].copy_from_slice(&added.to_be_bytes());
        out
    }

    /// Returns the two bytes that the specification reserves: what kind of file it is, and its permissions.
    pub(crate) fn mode(info: &Info) -> u16 {
        let kind = if info.is_directory { libc::S_IFDIR } else { libc::S_IFREG };
        (kind | info.mode & 0o7777) as u16
    }
}

impl Share {
    /// Returns the extra fields for macOS of a directory entry. A user that may not look at it sees no rights.
    pub(crate) async fn apple_dir_entry(&self, ctx: &RequestContext, lookup: &PathLookup) -> AppleDirEntry {
        let nothing = FinderInfo { finder: [0; 12], resource_len: 0, is_known: false };
        match self.try_apple_dir_entry(ctx, lookup).await {
            Ok(listed) => listed,
            Err(_) => AppleDirEntry { access: 0, kept: nothing },
        }
    }

    async fn try_apple_dir_entry(
        &self,
        ctx: &RequestContext,
        lookup: &PathLookup,
    ) -> Result<AppleDirEntry, Status> {
        let path = lookup.path.as_path();
        let found = self.volume().lookup_with_rights(&ctx.caller, path, identity::Rights::NONE).await;
        let found = found.map_err(crate::status::of)?;
        let is_directory = found.resolved.attributes().is_directory();
        let access = self.allowed(ctx, lookup, &found, is_directory).await?.mask();
        let kept = self.finder_info(&LaneHandle::new(found.resolved, None)).await?;
        Ok(AppleDirEntry { access, kept })
    }
}

/// Returns the parts of `AFP_AfpInfo` that listings tell; `None` for what is none.
fn finder_of(information: &[u8]) -> Option<[u8; 12]> {
    let finder = information.strip_prefix(INFORMATION_MAGIC)?.get(12..44)?;
    let mut out = [0; 12];
    out[..10].copy_from_slice(&finder[..10]);
    out[10..].copy_from_slice(&finder[24..26]);
    Some(out)
}

/// Seconds from 2000 on, as two's complement; `time` is in 100 ns from 1601 on.
fn since_2000(time: u64) -> u32 {
    (time / 10_000_000).wrapping_sub(SECONDS_1601_TO_2000) as u32
}

const SERVER_QUERY: u32 = 1;
/// Bits of the answers that a client asks for.
const SERVER_CAPABILITIES: u64 = 1;
const VOLUME_CAPABILITIES: u64 = 2;
const MODEL: u64 = 4;
/// Capabilities of clients and servers.
const READ_DIR_ATTR: u64 = 1;
const UNIX_BASED: u64 = 4;
/// Capability of a volume: data that a client flushes with this wish is on the disk.
const FULL_SYNC: u64 = 4;
const MODEL_NAME: &str = "Linerate";

const INFORMATION_STREAM: &str = "AFP_AfpInfo";
const RESOURCE_STREAM: &str = "AFP_Resource";
const INFORMATION_MAGIC: &[u8] = b"AFP\0";
const SECONDS_1601_TO_2000: u64 = 12_591_158_400;
const DATE_UNSET: u32 = 0x8000_0000;
/// A resource fork is a stream, and no longer than that.
const _: () = assert!(VALUE_MAX as u64 == streams::STREAM_MAX + 1);

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(command: u32, bitmap: u64, client: u64) -> AaplRequest {
        AaplRequest {
            command: command.into(),
            reserved: 0.into(),
            bitmap: bitmap.into(),
            client_capabilities: client.into(),
        }
    }

    #[test]
    fn a_mac_is_told_what_it_asks_for_and_listings_change_only_for_who_can_read_them() {
        let apple = Apple::default();
        let answer = apple.answer(&asked(1, 7, 0)).unwrap();
        assert_eq!(answer[8..32], [7u64, UNIX_BASED, FULL_SYNC].map(u64::to_le_bytes).concat());
        assert!(!apple.lists());
        let answer = apple.answer(&asked(1, 2, 1)).unwrap();
        assert_eq!((answer.len(), apple.lists()), (24, false), "it did not ask what the server can");
        let answer = apple.answer(&asked(1, 1, 1)).unwrap();
        assert_eq!((answer[16], apple.lists()), (5, true));
        assert_eq!(apple.answer(&asked(2, 7, 1)), None, "numbers are not resolved to names");
    }

    #[test]
    fn what_finder_keeps_is_read_where_macos_has_put_it() {
        let mut information = [0u8; 60];
        information[..4].copy_from_slice(INFORMATION_MAGIC);
        information[16..24].copy_from_slice(b"TEXTttxt");
        information[24..26].copy_from_slice(&[0x40, 0]);
        information[40..42].copy_from_slice(&[1, 2]);
        assert_eq!(finder_of(&information), Some(*b"TEXTttxt\x40\0\x01\x02"));
        assert_eq!(finder_of(&information[..40]), None);
        assert_eq!(finder_of(&[0; 60]), None);
        assert_eq!(since_2000(SECONDS_1601_TO_2000 * 10_000_000 + 20_000_000), 2);
    }
}
