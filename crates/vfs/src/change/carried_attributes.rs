//! Attributes that stay with a name when another file replaces its file whole, as by HTTP's PUT: DOS attributes and
//! time of creation, named streams, extended attributes. The server's own attributes do not come along here.

use std::ffi::CString;

use lane::fs::{File, XattrHow};
use smb_wire::dos::{self, Dos};
use smb_wire::time::from_unix;

use super::extended::{names_of, stored, value_of};
use super::located_directory::LocatedDirectory;
use crate::name::Name;
use crate::usage::bytes_of;

/// The attributes to carry over, by name.
pub(super) struct CarriedAttributes(Vec<(CString, Vec<u8>)>);

impl CarriedAttributes {
    pub(super) fn nothing() -> Self {
        Self(Vec::new())
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(name, value)| bytes_of(name, value.len())).sum()
    }

    /// Gives it to the file that takes the place. What there is no room for is lost: the content counts for more.
    pub(super) async fn give(self, file: &File) {
        for (name, value) in self.0 {
            let _ = file.set_xattr(&name, value, XattrHow::Any).await;
        }
    }
}

impl LocatedDirectory {
    /// Reads the attributes to carry over from the file that `name` leads to.
    pub(super) async fn carried_attributes(&self, name: Name<'_>) -> CarriedAttributes {
        let Ok(file) = self.open_described(name).await else { return CarriedAttributes::nothing() };
        let Ok(names) = names_of(&file).await else { return CarriedAttributes::nothing() };
        if names.is_empty() {
            return CarriedAttributes::nothing();
        }
        let (mut kept, mut left) = (Vec::new(), BYTES_MAX);
        let mut own = Dos::default();
        for name in names.into_iter().take(COUNT_MAX) {
            let Ok(stored) = stored(&name) else { continue };
            let Ok(Some(value)) = value_of(&file, &stored, left).await else { continue };
            debug_assert!(value.len() <= left, "a value is read up to what is left");
            left -= value.len();
            if name == dos::NAME {
                own = Dos::parse(&value);
            } else {
                kept.push((stored, value));
            }
        }
        let born = file.statx_extra().await.ok().and_then(|statx_extra| statx_extra.born);
        let own = own.replaced(born.map(|born| from_unix(born.secs, born.nanos)));
        if let (true, Ok(name)) = (own != Dos::default(), stored(dos::NAME)) {
            kept.push((name, own.to_bytes()));
        }
        CarriedAttributes(kept)
    }
}

/// Attributes that come along, and bytes of them together.
const COUNT_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;
