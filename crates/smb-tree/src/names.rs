//! Names between the wire and the tree: what clients cannot spell is put into the private area of Unicode, as clients that need
//! such names do it on their side (Services for Macintosh; Linux's `mapposix`), and paths are found in any case.

use identity::Rights;
use smb_wire::Status;
use smb_wire::name::Name as WireName;
use vfs::{Directory, Error, Found, Name, RelPath, RelPathBuf};

use crate::share::Share;
use crate::{short, status};

/// Where a path leads.
pub(crate) struct Spot {
    /// The directory above; `None` for the share's root.
    pub(crate) above: Option<RelPathBuf>,
    /// It, by names as they are stored, but for a last one that nothing has.
    pub(crate) path: RelPathBuf,
    /// What is there.
    pub(crate) found: Option<Found>,
}

/// A component as the file system has it.
pub(crate) fn to_stored(component: &str) -> Vec<u8> {
    let stored = |c: char| match SPELLED.iter().find(|(_, wire)| *wire == c) {
        Some((stored, _)) => *stored,
        None => match u32::from(c) {
            code @ 0xf001..=0xf01f => char::from_u32(code - 0xf000).expect("a control character"),
            _ => c,
        },
    };
    component.chars().map(stored).collect::<String>().into_bytes()
}

/// A name as clients see it; `None` for one that is no Unicode, which none can name.
pub(crate) fn to_wire(stored: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(stored).ok()?;
    let last = text.chars().count().wrapping_sub(1);
    let wire = |(at, c): (usize, char)| match c {
        // Clients cut these off an end.
        ' ' if at == last => '\u{f028}',
        '.' if at == last && !matches!(text, "." | "..") => '\u{f029}',
        '\u{1}'..='\u{1f}' => char::from_u32(0xf000 + u32::from(c)).expect("in the private area"),
        _ => SPELLED[..8].iter().find(|(stored, _)| *stored == c).map_or(c, |(_, wire)| *wire),
    };
    Some(text.chars().enumerate().map(wire).collect())
}

/// Whether a name is one of eight characters and three, as old clients have them (MS-FSCC 2.1.5.2.1).
pub(crate) fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "!#$%&'()-@^_`{}~".contains(c);
    (1..=8).contains(&base.len())
        && extension.len() <= 3
        && !name.ends_with('.')
        && base.chars().chain(extension.chars()).all(is_fine)
}

/// A path from the share's root on as clients write it, with a backslash in front.
pub(crate) fn path_to_wire(path: RelPath<'_>) -> String {
    let mut out = String::new();
    for name in path.components() {
        out.push('\\');
        out.push_str(&to_wire(name.as_bytes()).unwrap_or_default());
    }
    if out.is_empty() {
        out.push('\\');
    }
    out
}

/// The path that a name says, in just this case.
///
/// # Errors
/// `STATUS_OBJECT_NAME_INVALID`.
pub(crate) fn exact(share: &Share, name: &WireName) -> Result<RelPathBuf, Status> {
    let mut path = share.root_path().into();
    for component in &name.path {
        push(&mut path, &to_stored(component))?;
    }
    Ok(path)
}

/// Which names are found by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Those that differ in case alone too.
    Any,
    /// It alone, as programs of POSIX want it.
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
) -> Result<Spot, Status> {
    let exact = exact(share, name)?;
    match share.volume().lookup_with_rights(caller, exact.as_path(), Rights::NONE).await {
        Ok(found) => there(share, exact, found),
        Err(Error::NotFound | Error::NotADirectory) => match case {
            Case::Any => find_folded(share, caller, name).await,
            Case::Exact => nothing_at(share, caller, exact).await,
        },
        Err(error) => Err(status::of(error)),
    }
}

/// Where there is nothing, if it is a place at all.
async fn nothing_at(share: &Share, caller: &vfs::Caller, path: RelPathBuf) -> Result<Spot, Status> {
    let spot = spot(share, path, None);
    let above = spot.above.as_ref().ok_or(Status::OBJECT_PATH_NOT_FOUND)?;
    let above = share.volume().lookup_as(caller, above.as_path(), Rights::NONE).await.map_err(on_the_way)?;
    share.holds_directory(&below(above)?)?;
    Ok(spot)
}

fn there(share: &Share, path: RelPathBuf, found: Found) -> Result<Spot, Status> {
    share.holds_found(&found)?;
    Ok(spot(share, path, Some(found)))
}

async fn find_folded(share: &Share, caller: &vfs::Caller, name: &WireName) -> Result<Spot, Status> {
    let (volume, options) = (share.volume(), share.options());
    let components: Vec<_> = name.path.iter().map(|component| to_stored(component)).collect();
    let mut path: RelPathBuf = share.root_path().into();
    let root = volume.lookup_as(caller, path.as_path(), Rights::NONE).await.map_err(on_the_way)?;
    let mut directory = below(root)?;
    for (at, component) in components.iter().enumerate() {
        let is_last = at + 1 == components.len();
        let parsed = Name::parse(component).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        let mut found = directory.lookup_folded(caller, parsed, Rights::NONE, options.names_max).await;
        if options.short_names
            && matches!(found, Err(Error::NotFound))
            && let Some(long) = short::find(&directory, caller, &name.path[at], options.names_max).await?
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
                share.holds_directory(&directory)?;
                push(&mut path, component)?;
                return Ok(spot(share, path, None));
            }
            Err(error) if !is_last => return Err(on_the_way(error)),
            Err(error) => return Err(status::of(error)),
        }
    }
    let found = volume.lookup_with_rights(caller, path.as_path(), Rights::NONE).await;
    match found {
        Ok(found) => there(share, path, found),
        // It went as it was found.
        Err(Error::NotFound) => nothing_at(share, caller, path).await,
        Err(error) => Err(status::of(error)),
    }
}

fn below(found: vfs::Resolved) -> Result<Directory, Status> {
    found.into_directory().map(|(directory, _)| directory).map_err(on_the_way)
}

//= MS-SMB2 3.3.5.9
//# A path of which a component but the last is missing fails with STATUS_OBJECT_PATH_NOT_FOUND.
fn on_the_way(error: Error) -> Status {
    match error {
        Error::NotFound | Error::Hidden | Error::NotADirectory => Status::OBJECT_PATH_NOT_FOUND,
        error => status::of(error),
    }
}

fn spot(share: &Share, path: RelPathBuf, found: Option<Found>) -> Spot {
    let is_root = path.as_path() == share.root_path();
    let above = path.as_path().parent().filter(|_| !is_root).map(RelPathBuf::from);
    Spot { above, path, found }
}

fn push(path: &mut RelPathBuf, component: &[u8]) -> Result<(), Status> {
    let name = Name::parse(component).map_err(|_| Status::OBJECT_NAME_INVALID)?;
    path.push(name).map_err(|_| Status::OBJECT_NAME_INVALID)
}

/// What no client's name may hold, and what stands for it; the last two only at an end.
const SPELLED: [(char, char); 10] = [
    ('"', '\u{f020}'),
    ('*', '\u{f021}'),
    (':', '\u{f022}'),
    ('<', '\u{f023}'),
    ('>', '\u{f024}'),
    ('?', '\u{f025}'),
    ('\\', '\u{f026}'),
    ('|', '\u{f027}'),
    (' ', '\u{f028}'),
    ('.', '\u{f029}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_client_can_spell_go_over_and_come_back() {
        for stored in ["a:b", "what?", "<*>|\"\\", "dot.", "blank ", "\u{1}\u{1f}", "plain.txt", ".", ".."] {
            let wire = to_wire(stored.as_bytes()).unwrap();
            if stored.len() > 2 {
                assert!(smb_wire::name::check_component(&wire).is_ok(), "{wire:?}");
            }
            assert_eq!(to_stored(&wire), stored.as_bytes(), "{stored:?}");
        }
        assert_eq!(to_wire(b"\xff"), None);
        assert_eq!(to_wire(b"a.b c").unwrap(), "a.b c", "inside they are fine");
        let path = RelPath::parse(b"a/b:c").unwrap();
        assert_eq!(path_to_wire(path), "\\a\\b\u{f022}c");
        assert_eq!(path_to_wire(RelPath::ROOT), "\\");
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
