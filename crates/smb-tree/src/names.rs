//! Names between the wire and the tree: as [`smb_wire::spelling`] spells them, and paths are found in any case.

use identity::Rights;
use smb_wire::Status;
use smb_wire::name::Name as WireName;
pub(crate) use smb_wire::spelling::{to_bytes, to_stored, to_text, to_wire};
use vfs::{Directory, Error, FoundWithRights, Name, RelPath, RelPathBuf};

use crate::share::Share;
use crate::{short_names, status};

/// The result of a path look-up: the file, if there is one, and its parent directory.
pub(crate) struct PathLookup {
    /// The directory above; `None` for the share's root.
    pub(crate) above: Option<RelPathBuf>,
    /// The path, by names as they are stored, but for a last one that nothing has: past all symbolic links,
    /// so that what is done to what is opened is done where that is.
    pub(crate) path: RelPathBuf,
    /// The path by which it was found, where a symbolic link is on that.
    pub(crate) by_link: Option<RelPathBuf>,
    /// File that was found.
    pub(crate) found: Option<FoundWithRights>,
}

/// Returns whether a name is one of eight characters and three, as old clients have them (MS-FSCC 2.1.5.2.1).
pub(crate) fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "!#$%&'()-@^_`{}~".contains(c);
    (1..=8).contains(&base.len())
        && extension.len() <= 3
        && !name.ends_with('.')
        && base.chars().chain(extension.chars()).all(is_fine)
}

/// Returns a path from the share's root on as clients write it, with a backslash in front.
pub(crate) fn path_to_wire(path: RelPath<'_>) -> String {
    let mut out = String::new();
    for name in path.components() {
        out.push('\\');
        out.push_str(&to_wire(name.as_bytes()));
    }
    if out.is_empty() {
        out.push('\\');
    }
    out
}

/// Parses the path that a name says, in just this case.
///
/// # Errors
/// `STATUS_OBJECT_NAME_INVALID`.
pub(crate) fn exact(share: &Share, name: &WireName) -> Result<RelPathBuf, Status> {
    let mut path = share.root_path().into();
    for component in &name.path {
        push(&mut path, &to_stored(component).ok_or(Status::OBJECT_NAME_INVALID)?)?;
    }
    Ok(path)
}

/// Case rule by which names are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Names that differ in case alone are found too.
    Any,
    /// The exact name alone is found, as programs of POSIX want it.
    Exact,
}

/// Finds what a name means.
///
/// # Errors
/// `STATUS_OBJECT_PATH_NOT_FOUND` where something on the way is missing or no directory; `STATUS_ACCESS_DENIED` for what a link leads to
/// beside the share's root; else as the tree has it.
pub(crate) async fn find(
    share: &Share,
    caller: &vfs::Caller,
    name: &WireName,
    case: Case,
) -> Result<PathLookup, Status> {
    let exact = exact(share, name)?;
    match share.volume().lookup_with_rights(caller, exact.as_path(), Rights::NONE).await {
        Ok(found) => there(share, exact, found),
        Err(Error::NotFound | Error::NotADirectory) => match case {
            Case::Any => find_folded(share, caller, name).await,
            Case::Exact => nothing_at(share, caller, exact).await,
        },
        Err(error @ Error::Stale) => Err(status::of_way(error)),
        Err(error) => Err(status::of(error)),
    }
}

/// Returns the place of a name that does not exist, if it can be one.
async fn nothing_at(share: &Share, caller: &vfs::Caller, path: RelPathBuf) -> Result<PathLookup, Status> {
    let above = path.as_path().parent().filter(|_| path.as_path() != share.root_path());
    let above = above.ok_or(Status::OBJECT_PATH_NOT_FOUND)?;
    let above = share.volume().lookup_as(caller, above, Rights::NONE).await.map_err(status::of_way)?;
    absent_in(share, &below(above)?, path)
}

/// Returns what nothing has the name of, in this directory.
fn absent_in(share: &Share, above: &Directory, path: RelPathBuf) -> Result<PathLookup, Status> {
    share.holds_directory(above)?;
    let (Some(named), Some(name)) = (path.as_path().parent(), path.as_path().file_name()) else {
        return Err(Status::OBJECT_PATH_NOT_FOUND);
    };
    if above.path() == named {
        return Ok(lookup(share, path, None));
    }
    let real = above.path().join(name).map_err(|_| Status::OBJECT_NAME_INVALID)?;
    Ok(PathLookup { by_link: Some(path), ..lookup(share, real, None) })
}

fn there(share: &Share, path: RelPathBuf, mut found: FoundWithRights) -> Result<PathLookup, Status> {
    share.holds_found(&found)?;
    Ok(match found.real.take() {
        None => lookup(share, path, Some(found)),
        Some(real) => PathLookup { by_link: Some(path), ..lookup(share, real, Some(found)) },
    })
}

async fn find_folded(share: &Share, caller: &vfs::Caller, name: &WireName) -> Result<PathLookup, Status> {
    let (volume, options) = (share.volume(), share.options());
    let components: Option<Vec<_>> = name.path.iter().map(|component| to_stored(component)).collect();
    let components = components.ok_or(Status::OBJECT_NAME_INVALID)?;
    let mut path: RelPathBuf = share.root_path().into();
    let root = volume.lookup_as(caller, path.as_path(), Rights::NONE).await.map_err(status::of_way)?;
    let mut directory = below(root)?;
    for (at, component) in components.iter().enumerate() {
        let is_last = at + 1 == components.len();
        let parsed = Name::parse(component).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        let mut found = directory.lookup_folded(caller, parsed, Rights::NONE, options.names_max).await;
        if options.short_names
            && matches!(found, Err(Error::NotFound))
            && let Some(long) = short_names::find(share, &directory, caller, &name.path[at]).await?
            && let Ok(long) = Name::parse(&long)
        {
            if is_last {
                share.opens().tunnel().keep(share.name(), path.as_path(), &name.path[at], long.as_bytes());
            }
            found = directory.lookup_folded(caller, long, Rights::NONE, options.names_max).await;
        }
        match found {
            Ok((stored, found)) => {
                push(&mut path, &stored)?;
                if !is_last {
                    directory = below(found)?;
                }
            }
            Err(Error::NotFound) if is_last => {
                push(&mut path, component)?;
                return absent_in(share, &directory, path);
            }
            // A directory that went was on the way, whatever was looked for in it.
            Err(error) if !is_last || matches!(error, Error::Stale) => return Err(status::of_way(error)),
            Err(error) => return Err(status::of(error)),
        }
    }
    let found = volume.lookup_with_rights(caller, path.as_path(), Rights::NONE).await;
    match found {
        Ok(found) => there(share, path, found),
        // It went as it was found.
        Err(Error::NotFound | Error::Stale) => nothing_at(share, caller, path).await,
        Err(error) => Err(status::of(error)),
    }
}

fn below(found: vfs::Resolved) -> Result<Directory, Status> {
    found.into_directory().map(|(directory, _)| directory).map_err(status::of_way)
}

/// Creates the look-up of a place by its real path.
pub(crate) fn lookup(share: &Share, path: RelPathBuf, found: Option<FoundWithRights>) -> PathLookup {
    let is_root = path.as_path() == share.root_path();
    let above = path.as_path().parent().filter(|_| !is_root).map(RelPathBuf::from);
    PathLookup { above, path, by_link: None, found }
}

fn push(path: &mut RelPathBuf, component: &[u8]) -> Result<(), Status> {
    let name = Name::parse(component).map_err(|_| Status::OBJECT_NAME_INVALID)?;
    path.push(name).map_err(|_| Status::OBJECT_NAME_INVALID)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_no_client_can_spell_go_over_and_come_back() {
        for stored in ["a:b", "what?", "<*>|\"\\", "dot.", "blank ", "\u{1}\u{1f}", "plain.txt", ".", ".."] {
            let wire = to_wire(stored.as_bytes());
            if stored.len() > 2 {
                assert!(smb_wire::name::check_component(&wire).is_ok(), "{wire:?}");
            }
            assert_eq!(to_stored(&wire).unwrap(), stored.as_bytes(), "{stored:?}");
        }
        assert_eq!(to_wire(b"a.b c"), "a.b c", "inside they are fine");
        let path = RelPath::parse(b"a/b:c").unwrap();
        assert_eq!(path_to_wire(path), "\\a\\b\u{f022}c");
        assert_eq!(path_to_wire(RelPath::ROOT), "\\");
    }

    #[test]
    fn bytes_that_are_no_text_and_characters_that_stand_for_others_have_names_of_their_own() {
        for (stored, wire) in [
            (&b"\xff"[..], "\u{efff}"),
            (b"caf\xe9.txt", "caf\u{efe9}.txt"),
            (b"\xc3", "\u{efc3}"),
            ("\u{f022}".as_bytes(), "\u{efef}\u{ef80}\u{efa2}"),
            ("\u{efff}".as_bytes(), "\u{efee}\u{efbf}\u{efbf}"),
            ("\u{f8ff}".as_bytes(), "\u{f8ff}"),
            (b"\xff ", "\u{efff}\u{f028}"),
            (b"\xff:", "\u{efff}\u{f022}"),
        ] {
            assert_eq!(to_wire(stored), wire);
            assert_eq!(to_stored(wire).unwrap(), stored);
        }
        // Two bytes that are a letter are that one's name, and no other leads there.
        assert_eq!(to_stored("\u{efc3}\u{efa9}"), None);
        assert_eq!(to_stored("a\u{efc3}\u{efa9}b"), None);
    }

    fn names() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            prop::char::range('\u{ef70}', '\u{f0ff}').prop_map(|c| c.to_string().into_bytes()),
            any::<u8>().prop_map(|byte| vec![byte]),
            Just(b" ".to_vec()),
            Just(b".".to_vec()),
        ];
        let is_name = |name: &Vec<u8>| name.len() <= 255 && !name.contains(&b'/') && !name.contains(&0);
        prop::collection::vec(part, 1..40)
            .prop_map(|parts| parts.concat())
            .prop_filter("a name of a file system", is_name)
    }

    proptest! {
        #[test]
        fn each_name_goes_over_as_one_that_clients_may_use_and_comes_back(stored in names()) {
            let wire = to_wire(&stored);
            prop_assert!(to_stored(&wire).as_ref() == Some(&stored), "{:?}", wire);
            if stored != b"." && stored != b".." {
                prop_assert!(smb_wire::name::check_component(&wire).is_ok(), "{:?}", wire);
                prop_assert!(!wire.ends_with([' ', '.']), "{:?}", wire);
            }
        }

        #[test]
        fn two_names_never_go_over_as_one(one in names(), other in names()) {
            prop_assert_eq!(to_wire(&one) == to_wire(&other), one == other);
        }

        #[test]
        fn a_client_finds_what_it_makes_by_the_name_that_it_gave(
            wire in "[a-z\u{ef70}-\u{f027}\u{e9}\u{1f600}]{1,40}",
        ) {
            if let Some(stored) = to_stored(&wire) {
                prop_assert_eq!(to_wire(&stored), wire);
            }
        }
    }

    #[test]
    fn short_names_are_eight_and_three() {
        for short in ["a", "bufsize.txt", "A-B_C~1", "12345678.123"] {
            assert!(is_short(short), "{short}");
        }
        for long in ["", ".txt", "123456789", "a.html", "a.b.c", "a b", "a.", "\u{e9}", "a+b"] {
            assert!(!is_short(long), "{long}");
        }
    }
}
