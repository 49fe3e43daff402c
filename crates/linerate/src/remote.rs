//! What users name on a server: something of an AFS cell, or of an SMB share.

use std::fmt;
use std::str::FromStr;

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

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Afs(address) => address.fmt(f),
            Self::Smb(address) => address.fmt(f),
        }
    }
}
