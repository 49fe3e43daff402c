//! Names of eight characters and three beside longer ones (MS-FSCC 2.1.5.2.1), for programs that know no
//! others. They are made of the name alone: nothing is stored, and every server of the tree makes the same
//! ones. Two names of a directory may have one between them; the first in order is found by it then.

use vfs::{Caller, Directory};

use crate::cached_names::DirectoryNames;
use crate::names::{is_short, to_wire};
use crate::share::Share;
use crate::status;

/// Returns the short name beside a name that is none itself.
pub(crate) fn beside(name: &str) -> Option<String> {
    if is_short(name) || matches!(name, "." | "..") {
        return None;
    }
    let (base, extension) = name.rsplit_once('.').filter(|(base, _)| !base.is_empty()).unwrap_or((name, ""));
    let plain = |text: &str, max: usize| {
        let plain = text.chars().filter(char::is_ascii_alphanumeric).take(max);
        plain.map(|c| c.to_ascii_uppercase()).collect::<String>()
    };
    let mut short = plain(base, HEAD_LEN);
    short.push('~');
    let mut hash = hash(name);
    for _ in 0..HASH_LEN {
        short.push(char::from_digit(hash % 36, 36).expect("less than 36").to_ascii_uppercase());
        hash /= 36;
    }
    let extension = plain(extension, 3);
    if !extension.is_empty() {
        short.push('.');
        short.push_str(&extension);
    }
    Some(short)
}

/// Finds the name in a directory that has this one beside it, as it is stored. Only what looks like one is looked for.
pub(crate) async fn find(
    share: &Share,
    directory: &Directory,
    caller: &Caller,
    short: &str,
) -> Result<Option<Vec<u8>>, smb_wire::Status> {
    let base = short.split_once('.').map_or(short, |(base, _)| base);
    let is_one = base.len() > HASH_LEN && base.as_bytes()[base.len() - HASH_LEN - 1] == b'~';
    if !is_short(short) || !is_one {
        return Ok(None);
    }
    let has_it =
        |name: &[u8]| beside(&to_wire(name)).is_some_and(|beside| beside.eq_ignore_ascii_case(short));
    let (mut after, mut is_large) = (None::<Vec<u8>>, false);
    loop {
        let read = share.read_names(caller, directory, after.as_deref(), is_large).await;
        let page = match read.map_err(status::of)? {
            DirectoryNames::Whole(listing) => {
                return Ok(listing.iter().find(|entry| has_it(&entry.name)).map(|entry| entry.name.to_vec()));
            }
            DirectoryNames::Page(page) => page,
        };
        for at in 0..page.len() {
            if at % NAMES_PER_TURN == NAMES_PER_TURN - 1 {
                lane::yield_if_due().await;
            }
            if has_it(page.name(at)) {
                return Ok(Some(page.name(at).to_vec()));
            }
        }
        if page.is_last() {
            return Ok(None);
        }
        (after, is_large) = (page.len().checked_sub(1).map(|last| page.name(last).to_vec()), true);
    }
}

/// Computes FNV-1a of the name in one case.
fn hash(name: &str) -> u32 {
    let lower = name.to_lowercase();
    lower.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Names compared before others of the lane have their turn: about a tenth of a millisecond.
const NAMES_PER_TURN: usize = 256;
/// Letters of the name itself.
const HEAD_LEN: usize = 2;
/// Digits that tell names with the same letters apart: 36⁵ of them.
const HASH_LEN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_have_short_ones_whatever_their_case_and_short_ones_none() {
        for long in
            ["verylongfilename", "a.html", "two.dots.txt", " ", "\u{e9}t\u{e9}.TXT", "name with blanks.docx"]
        {
            let short = beside(long).unwrap();
            assert!(is_short(&short), "{long:?} {short:?}");
            assert_eq!(beside(&long.to_uppercase()).unwrap(), short);
        }
        for short in ["short.txt", ".", ".."] {
            assert_eq!(beside(short), None);
        }
        assert!(beside("two.dots.txt").unwrap().ends_with(".TXT"));
        let many: std::collections::HashSet<_> =
            (0..1000).map(|n| beside(&format!("a long name {n}")).unwrap()).collect();
        assert_eq!(many.len(), 1000);
    }
}
