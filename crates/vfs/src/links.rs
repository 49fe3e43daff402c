//! Absolute symbolic links that stay inside the volume.
//!
//! openat2's `RESOLVE_BENEATH` refuses every absolute link (`EXDEV`), wherever it leads. One whose target
//! lies under the volume's own path leads to a name beneath the volume, and the look-up starts again with
//! that name. Each try is made by the kernel beneath the volume, so whatever a link says, and whatever
//! program swaps one meanwhile, no try leads out; what is done here is to choose the next name to try.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lane::fs::Dir;

/// The absolute paths that mean the volume's directory: as configured, and without symbolic links.
#[derive(Debug)]
pub(crate) struct VolumePaths {
    paths: Vec<Box<[u8]>>,
}

/// Rest of one look-up's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    links: u32,
    looks: u32,
}

impl VolumePaths {
    /// Asks where the directory really is; blocks. A place that cannot be found is left out.
    pub(crate) fn of(path: &Path) -> Self {
        let canonical = lane::fs::canonical(path).ok();
        let absolute = Some(path).filter(|path| path.is_absolute());
        let mut paths: Vec<Box<[u8]>> = Vec::new();
        for path in absolute.into_iter().chain(canonical.as_deref()) {
            let bytes = path.as_os_str().as_bytes();
            let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            if !paths.iter().any(|known| **known == bytes[..end]) {
                paths.push(bytes[..end].into());
            }
        }
        Self { paths }
    }

    /// Returns the path beneath the volume that an absolute path means, if it means one. Several slashes are one, and
    /// `.` is passed over; a way up before the volume is not followed.
    pub(crate) fn beneath<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        self.paths.iter().find_map(|place| {
            let mut rest = target.strip_prefix(b"/")?;
            for name in place.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
                rest = at_name(rest).strip_prefix(name).filter(|rest| matches!(rest, [] | [b'/', ..]))?;
            }
            let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
            Some(&rest[start..])
        })
    }

    /// Returns the next name to try for `path`, which the kernel said leads out.
    ///
    /// The link to blame is the last one on the way that can be reached: what is before it resolves beneath the
    /// volume, what is behind it does not. Its place is taken by where it points.
    ///
    /// # Errors
    /// `EXDEV` if it does lead out, `ELOOP` when the budget is spent; whatever reading a link gives.
    pub(crate) async fn redirected(
        &self,
        dir: &Dir,
        path: &CString,
        budget: &mut Budget,
    ) -> io::Result<CString> {
        let bytes = path.as_bytes();
        let mut end = bytes.len();
        loop {
            let (prefix, suffix) = bytes.split_at(end);
            budget.looks = budget.looks.checked_sub(1).ok_or_else(|| errno(libc::ELOOP))?;
            let name = CString::new(prefix).expect("a part of a path that holds no zero byte");
            match dir.read_link_at(&name).await {
                Ok(target) => {
                    budget.links = budget.links.checked_sub(1).ok_or_else(|| errno(libc::ELOOP))?;
                    return self.spliced(prefix, &target, suffix);
                }
                // Something before leads out.
                Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
                // Reached, and no link: what leads out behind it is a `..`.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Err(errno(libc::EXDEV)),
                Err(error) => return Err(error),
            }
            let upper = prefix.iter().rposition(|byte| *byte == b'/').ok_or_else(|| errno(libc::EXDEV))?;
            end = prefix[..upper].iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            if end == 0 {
                return Err(errno(libc::EXDEV));
            }
        }
    }

    fn spliced(&self, link: &[u8], target: &[u8], suffix: &[u8]) -> io::Result<CString> {
        let mut next = Vec::with_capacity(link.len() + target.len() + suffix.len() + 2);
        if target.first() == Some(&b'/') {
            next.extend_from_slice(self.beneath(target).ok_or_else(|| errno(libc::EXDEV))?);
        } else {
            let upper = link.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            next.extend_from_slice(&link[..upper]);
            next.extend_from_slice(target);
        }
        if next.is_empty() {
            next.push(b'.');
        }
        next.extend_from_slice(suffix);
        CString::new(next).map_err(|_| errno(libc::EXDEV))
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { links: LINKS_MAX, looks: LOOKS_MAX }
    }
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

//@ limit: symbolic links of one look-up
//@ section: Files and listings
//@ unit: link
//@ connection: {}, {LOOKS_MAX} read by helpers; 1,024 names on their ways
//@ all: process: the helpers' queue
//@ empty: 404; others wait in the helpers' queue
//@ counter: vfs_refused{reason="symlink"}, vfs_link_steps_used_up
//@ attack: http-link-chains
/// Links put in place in one look-up; as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// Links read in one look-up, each a job of a helper thread.
const LOOKS_MAX: u32 = 64;

/// Returns a path from its first name on.
fn at_name(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"/").or_else(|| path.strip_prefix(b"./")) {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(paths: &[&str]) -> VolumePaths {
        VolumePaths { paths: paths.iter().map(|path| path.as_bytes().into()).collect() }
    }

    #[test]
    fn only_whole_names_under_the_volume_are_beneath_it() {
        let places = places(&["/srv/pub", "/mnt/disk7/pub"]);
        for (target, beneath) in [
            ("/srv/pub", Some("")),
            ("/srv/pub/", Some("")),
            ("/srv/pub//a/b/", Some("a/b/")),
            ("/mnt/disk7/pub/../x", Some("../x")),
            ("/srv/public", None),
            ("/srv", None),
            ("/", None),
            ("/srv/./pub/a", Some("a")),
            ("//srv//./pub/./a", Some("./a")),
            ("/./srv/pub", Some("")),
            ("/srv/../srv/pub/a", None),
            ("/.srv/pub/a", None),
            ("srv/pub/a", None),
        ] {
            assert_eq!(places.beneath(target.as_bytes()), beneath.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn everything_is_beneath_the_root_directory() {
        let places = places(&[""]);
        assert_eq!(places.beneath(b"/"), Some(&b""[..]));
        assert_eq!(places.beneath(b"/etc/x"), Some(&b"etc/x"[..]));
    }

    #[test]
    fn a_link_gives_way_to_where_it_points() {
        let places = places(&["/srv"]);
        for (link, target, suffix, next) in [
            ("a/link", "/srv/b", "/c", Some("b/c")),
            ("a/link", "b", "/c", Some("a/b/c")),
            ("link", "../b", "", Some("../b")),
            ("link", "/srv", "/c", Some("./c")),
            ("link", "/srv/", "", Some(".")),
            ("link", "/etc", "/passwd", None),
        ] {
            let spliced = places.spliced(link.as_bytes(), target.as_bytes(), suffix.as_bytes());
            assert_eq!(
                spliced.ok().as_deref().map(|path| path.to_str().unwrap()),
                next,
                "{link} -> {target}"
            );
        }
    }
}
