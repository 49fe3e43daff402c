//! Names in any case: what SMB clients mean when they ask for one. Two names are the same if Unicode's simple case folding
//! makes them so (CaseFolding.txt, C and S); of names that are no UTF-8 the letters of ASCII are folded.

use std::hash::{BuildHasher, RandomState};

use futures_util::future::LocalBoxFuture;
use identity::Rights;

use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::listing::Listing;
use crate::name::Name;
use crate::volume::Resolved;

/// The names of one listing, found in any case: 16 bytes a name.
pub(crate) struct FoldedNames {
    hasher: RandomState,
    /// Hashes of folded names and their places in the listing, in order.
    places: Box<[(u64, u32)]>,
}

/// A name as it is stored, and what it names.
type Stored = (Box<[u8]>, Resolved);

impl Directory {
    /// Looks up `name` in whatever case it is stored, and returns what it leads to with the stored name. That is
    /// `name` itself if it exists, else the first in the order of the listing. Takes [`Rights::LOOKUP`] here, and
    /// `need` there.
    ///
    /// Costs a look in a table while the lane keeps the directory's names, which it brings up to date with each
    /// change, else a listing of at most `max` entries.
    ///
    /// # Errors
    /// As [`Volume::lookup_as`](crate::Volume::lookup_as) and [`Directory::entries`].
    pub fn lookup_folded<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        need: Rights,
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Stored, Error>> {
        Box::pin(async move {
            match self.lookup_as(caller, name, need).await {
                Err(Error::NotFound) => {}
                found => return Ok((name.as_bytes().into(), found?)),
            }
            self.may_list(caller).await?;
            let image = self.folded_image(max).await;
            if let Some(image) = self.volume().report_listing_failure(self.path(), image)? {
                for stored in image.find(name.as_bytes()) {
                    match self.lookup_as(caller, Name::parse(&stored)?, need).await {
                        // What is no file or directory to clients is not there.
                        Err(Error::NotFound | Error::Hidden | Error::NotServable | Error::Reserved) => {}
                        found => return Ok((stored, found?)),
                    }
                }
                return self.volume().counted(Err(Error::NotFound));
            }
            let listing = self.entries(max).await?;
            let stored = listing.find_folded(name.as_bytes()).await.ok_or(Error::NotFound);
            let stored = self.volume().counted(stored)?;
            let found = self.lookup_as(caller, Name::parse(&stored)?, need).await?;
            Ok((stored, found))
        })
    }
}

impl FoldedNames {
    /// Folds all names of a listing, and lets other tasks of the lane run meanwhile.
    pub(crate) async fn of(listing: &Listing) -> Self {
        let hasher = RandomState::new();
        let mut places = Vec::with_capacity(listing.len());
        for (at, entry) in listing.iter().enumerate() {
            if at % NAMES_PER_TURN == NAMES_PER_TURN - 1 {
                lane::yield_if_due().await;
            }
            let at = u32::try_from(at).expect("listings are bounded far below 2^32 entries");
            places.push((hasher.hash_one(fold(&entry.name)), at));
        }
        places.sort_unstable();
        Self { hasher, places: places.into() }
    }

    /// Places of names that may be meant.
    pub(crate) fn find(&self, folded: &[u8]) -> impl Iterator<Item = usize> {
        let hash = self.hasher.hash_one(folded);
        let first = self.places.partition_point(|(other, _)| *other < hash);
        self.places[first..].iter().take_while(move |(other, _)| *other == hash).map(|(_, at)| *at as usize)
    }
}

/// Returns what all spellings of a name have in common.
pub(crate) fn fold(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let Ok(text) = std::str::from_utf8(name) else { return name.to_ascii_lowercase() };
    let folded = |letter: char| {
        let other = unicode_case_mapping::case_folded(letter);
        other.and_then(|other| char::from_u32(other.get())).unwrap_or(letter)
    };
    text.chars().map(folded).collect::<String>().into_bytes()
}

//@ limit: names of a directory kept to find one in another case
//@ section: SMB
//@ unit: name
//@ all: lane: 262,144; read again after 10 s; {} in a turn
//@ empty: the least used are forgotten; a directory that is not kept is read for each name
//@ counter: vfs_images_used
//@ attack: smb-pools
const NAMES_PER_TURN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_fold_to_one() {
        for (one, other) in [
            ("ReadMe.TXT", "readme.txt"),
            ("STRASSE", "strasse"),
            ("ÄÖÜ", "äöü"),
            ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
            ("K", "k"),
        ] {
            assert_eq!(fold(one.as_bytes()), fold(other.as_bytes()), "{one}");
        }
        // Simple folding keeps the number of letters; and the dotless i is a letter of its own.
        for (one, other) in [("straße", "strasse"), ("ı", "i"), ("a", "b")] {
            assert_ne!(fold(one.as_bytes()), fold(other.as_bytes()), "{one}");
        }
        assert_eq!(fold(b"A\xffB"), b"a\xffb");
    }
}
