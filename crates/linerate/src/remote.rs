//! Addresses that users name on a server: something of an AFS cell, or of an SMB share.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};

/// `afs://…` or `smb://…`.
#[derive(Clone, Debug)]
pub(crate) enum Remote {
    Afs(afs_client::Address),
    Smb(smb_client::Address),
}

impl FromStr for Remote {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, anyhow::Error> {
        if text.starts_with("smb://") {
            Ok(Self::Smb(text.parse()?))
        } else if text.starts_with("afs://") {
            Ok(Self::Afs(text.parse()?))
        } else {
            anyhow::bail!("it begins neither with afs:// nor with smb://")
        }
    }
}

/// Takes an address in whatever bytes: those that are no UTF-8 are read as their escapes.
pub(crate) fn of_bytes<T>() -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = anyhow::Error> + Clone + Send + Sync + 'static,
{
    OsStringValueParser::new().try_map(|given: OsString| escaped(&given.into_vec()).parse::<T>())
}

fn escaped(given: &[u8]) -> String {
    let chunk = |chunk: std::str::Utf8Chunk<'_>| {
        let escapes: String = chunk.invalid().iter().map(|byte| format!("%{byte:02x}")).collect();
        format!("{}{escapes}", chunk.valid())
    };
    given.utf8_chunks().map(chunk).collect()
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Afs(address) => address.fmt(f),
            Self::Smb(address) => address.fmt(f),
        }
    }
}
