//! Mounts, as `/proc/self/mountinfo` lists them (proc(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mount, which is a line of the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Number of the mount, the same as long as the mount is there.
    pub number: u32,
    /// Number of the mount below this one.
    pub above: u32,
    /// Device of the file system, major and minor number with a colon between.
    pub device: String,
    /// Directory of the file system that the mount shows, from that file system's own root.
    pub root: PathBuf,
    /// Directory that the mount covers.
    pub point: PathBuf,
}

impl Mount {
    /// Returns the mounts of a list, in the list's order: of several on one directory the last is seen. Lines
    /// that are no mounts are left out.
    pub fn all_in(list: &[u8]) -> impl Iterator<Item = Self> + '_ {
        list.split(|&byte| byte == b'\n').filter_map(Self::of)
    }

    fn of(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
        Some(Self {
            number: number(fields.next()?)?,
            above: number(fields.next()?)?,
            device: String::from_utf8(fields.next()?.to_vec()).ok()?,
            root: unescaped(fields.next()?),
            point: unescaped(fields.next()?),
        })
    }
}

/// Returns a field of the list with its blanks, tabs, line ends and backslashes, which are three octal digits
/// after a backslash.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| byte == b'\\' && digits.iter().all(u8::is_ascii_digit));
        match digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn lines_tell_of_mounts_with_blanks_in_their_names() {
        let line =
            br"36 35 98:0 /mnt1 /srv/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = Mount::of(line).unwrap();
        assert_eq!((mount.number, mount.above, &*mount.device), (36, 35, "98:0"));
        assert_eq!((&*mount.root, &*mount.point), (Path::new("/mnt1"), Path::new("/srv/a b\\c")));
        for line in [&b""[..], b"36 35 98:0 /", b"\n"] {
            assert_eq!(Mount::of(line), None);
        }
        assert_eq!(unescaped(br"a\04\1344\777\0"), Path::new(r"a\04\4\777\0"));
    }
}
