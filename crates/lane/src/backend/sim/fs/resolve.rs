//! The walk from a path to an inode. It goes beneath a directory, by the rules of openat2's RESOLVE_BENEATH
//! (`openat2(2)`), or from the root for a test's own look-ups.

use std::io;
use std::rc::Rc;

use super::{Inode, SEARCH, errno};

/// Rules of a path walk.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// True where links are followed, in the middle of the path, and at its end unless `keep_last`.
    pub(super) follow: bool,
    /// True where a link at the end of the path is itself the result.
    pub(super) keep_last: bool,
    /// True where the start is the world's root: absolute paths start there and `..` stays there.
    pub(super) absolute: bool,
    /// True where permission bits do not bind the walk.
    pub(super) privileged: bool,
}

/// Walks `path` from `start` to an inode.
///
/// # Errors
/// `EXDEV` where the path leads out, `ELOOP` for links not followed or too many, `ENOENT`, `ENOTDIR`,
/// `EACCES`, `ENAMETOOLONG`.
pub(super) fn resolve(start: &Rc<Inode>, path: &[u8], rules: Rules) -> io::Result<Rc<Inode>> {
    if path.len() >= PATH_MAX {
        return Err(errno(libc::ENAMETOOLONG));
    }
    if path.is_empty() {
        return Err(errno(libc::ENOENT));
    }
    let mut walk = Walk { at: vec![Rc::clone(start)], names: Vec::new(), rules, links: 0 };
    walk.follow(path, true)?;
    Ok(walk.at.pop().expect("a walk never leaves its start"))
}

/// Returns the path without links of what `path` names, both from the world's root.
pub(super) fn canonical(root: &Rc<Inode>, path: &[u8]) -> io::Result<Vec<u8>> {
    let rules = Rules { follow: true, keep_last: false, absolute: true, privileged: true };
    let mut walk = Walk { at: vec![Rc::clone(root)], names: Vec::new(), rules, links: 0 };
    walk.follow(path, true)?;
    Ok([b"/", &walk.names.join(&b'/')[..]].concat())
}

/// Splits the last component off. The name is empty when the path ends in a slash.
pub(super) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash.max(usize::from(slash == 0))], &path[slash + 1..]),
        None => (b".", path),
    }
}

struct Walk {
    /// Inodes from the start to where the walk is.
    at: Vec<Rc<Inode>>,
    /// Names of all inodes in `at` but the first.
    names: Vec<Vec<u8>>,
    rules: Rules,
    links: u32,
}

impl Walk {
    /// Follows `path`, which is the end of the whole walk if `last`.
    fn follow(&mut self, path: &[u8], last: bool) -> io::Result<()> {
        if path.first() == Some(&b'/') {
            if !self.rules.absolute {
                return Err(errno(libc::EXDEV));
            }
            self.at.truncate(1);
            self.names.clear();
        }
        let mut components = path.split(|&b| b == b'/').filter(|c| !c.is_empty()).peekable();
        let must_be_directory = path.last() == Some(&b'/');
        while let Some(component) = components.next() {
            let ends_here = last && components.peek().is_none() && !must_be_directory;
            self.step(component, ends_here)?;
        }
        if must_be_directory {
            self.here().directory()?;
        }
        Ok(())
    }

    fn step(&mut self, name: &[u8], is_last: bool) -> io::Result<()> {
        let directory = Rc::clone(self.here());
        let entries = directory.directory()?;
        if !self.rules.privileged {
            directory.check_access(SEARCH)?;
        }
        match name {
            b"." => return Ok(()),
            b".." => return self.step_up(),
            _ if name.len() > NAME_MAX => return Err(errno(libc::ENAMETOOLONG)),
            _ => {}
        }
        let next = entries.borrow().get(name).cloned().ok_or_else(|| errno(libc::ENOENT))?;
        let target = match next.target() {
            Some(target) if !is_last || !self.rules.keep_last => target,
            _ => {
                next.found_in(&directory, name);
                self.at.push(next);
                self.names.push(name.to_vec());
                return Ok(());
            }
        };
        self.links += 1;
        if !self.rules.follow || self.links > LINKS_MAX {
            return Err(errno(libc::ELOOP));
        }
        self.follow(target, is_last)
    }

    fn step_up(&mut self) -> io::Result<()> {
        if self.at.len() > 1 {
            self.at.pop();
            self.names.pop();
            return Ok(());
        }
        if self.rules.absolute { Ok(()) } else { Err(errno(libc::EXDEV)) }
    }

    fn here(&self) -> &Rc<Inode> {
        self.at.last().expect("a walk never leaves its start")
    }
}

/// Linux's limits of a path in bytes and of links followed.
pub(super) const PATH_MAX: usize = 4096;
pub(super) const NAME_MAX: usize = 255;
const LINKS_MAX: u32 = 40;

#[cfg(test)]
mod tests {
    use super::split_last;

    #[test]
    fn the_last_component_is_split_off() {
        assert_eq!(split_last(b"a"), (&b"."[..], &b"a"[..]));
        assert_eq!(split_last(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(split_last(b"/a/b"), (&b"/a"[..], &b"b"[..]));
    }
}
