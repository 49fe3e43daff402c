//! The way from a volume's root to a file: names, symbolic links, mount points.

use std::collections::VecDeque;
use std::rc::Rc;

use afs_wire::Fid;

use crate::cell::{Cell, Found, Volume};
use crate::directory;
use crate::error::{Error, LINKS_MAX};
use crate::fetch;
use crate::location::Kind;
use crate::mount::MountPoint;
use crate::status::{FileType, root_of};

/// A directory on the way.
#[derive(Clone)]
struct Place {
    volume: Rc<Volume>,
    fid: Fid,
}

impl Cell {
    /// Finds the root directory of a volume.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn root(&self, volume: &str) -> Result<Found, Error> {
        self.find(volume, &[], true).await
    }

    /// Walks from a volume's root along `path`, through symbolic links and mount points. A link at its end is followed with
    /// `follow` alone, a mount point always.
    ///
    /// # Errors
    /// [`Error`] in many ways, each of which names what it met.
    pub async fn find(&self, volume: &str, path: &[Vec<u8>], follow: bool) -> Result<Found, Error> {
        match walk(self, volume, path, follow).await {
            Err(Error::Refused(code)) if code.is_moved() => {
                // The volume is no longer where its entry says.
                self.volumes.borrow_mut().clear();
                walk(self, volume, path, follow).await
            }
            done => done,
        }
    }
}

/// Walks from the root of `volume`.
///
/// # Errors
/// [`Error`].
async fn walk(cell: &Cell, volume: &str, path: &[Vec<u8>], follow: bool) -> Result<Found, Error> {
    let mut walk = Walk {
        cell,
        above: Vec::new(),
        here: root(cell.volume(volume).await?),
        ahead: path.iter().cloned().collect(),
        links: 0,
        told: shown(volume, path),
    };
    while let Some(name) = walk.ahead.pop_front() {
        match name.as_slice() {
            b"" | b"." => {}
            b".." => {
                // Above the first root there is nothing of this cell.
                if let Some(above) = walk.above.pop() {
                    walk.here = above;
                }
            }
            name => {
                if let Some(found) = walk.step(name, follow).await? {
                    return Ok(found);
                }
            }
        }
    }
    let Place { volume, fid } = walk.here;
    let metadata = volume.server.status(fid).await?;
    Ok(Found { server: volume.server.clone(), fid, metadata })
}

struct Walk<'c> {
    cell: &'c Cell,
    above: Vec<Place>,
    here: Place,
    /// Names to come.
    ahead: VecDeque<Vec<u8>>,
    links: usize,
    /// The whole way, for errors.
    told: String,
}

impl Walk<'_> {
    /// Goes on by one name; what it leads to, if the way ends there.
    async fn step(&mut self, name: &[u8], follow: bool) -> Result<Option<Found>, Error> {
        let server = self.here.volume.server.clone();
        let fid = directory::look_up(&server, self.here.fid, name).await?;
        let fid = fid.ok_or_else(|| Error::NotFound(self.told.clone()))?;
        if fid.is_directory() {
            let volume = Rc::clone(&self.here.volume);
            self.enter(Place { volume, fid });
            return Ok(None);
        }
        let metadata = server.status(fid).await?;
        // A slash at the end, or a dot, wants a directory.
        let last = self.ahead.is_empty();
        match metadata.kind {
            FileType::MountPoint => {
                let text = fetch::small(&server, fid, TEXT_MAX).await?;
                self.mount(&text).await?;
                Ok(None)
            }
            FileType::Link if !last || follow => {
                let text = fetch::small(&server, fid, TEXT_MAX).await?;
                self.link(&text)?;
                Ok(None)
            }
            _ if last => Ok(Some(Found { server, fid, metadata })),
            _ => Err(Error::NotADirectory(self.told.clone())),
        }
    }

    fn enter(&mut self, place: Place) {
        let left = std::mem::replace(&mut self.here, place);
        self.above.push(left);
    }

    /// Goes on along a symbolic link's text.
    fn link(&mut self, text: &[u8]) -> Result<(), Error> {
        self.count_link()?;
        if text.starts_with(b"/") {
            let target = String::from_utf8_lossy(text).into_owned();
            return Err(Error::LeavesAfs(self.told.clone(), target));
        }
        for name in text.split(|&byte| byte == b'/').rev() {
            self.ahead.push_front(name.to_vec());
        }
        Ok(())
    }

    /// Goes on at the root of the volume that a mount point names.
    async fn mount(&mut self, text: &[u8]) -> Result<(), Error> {
        self.count_link()?;
        let Some(point) = MountPoint::parse(text) else { return self.link(text) };
        if point.cell.is_some() && point.cell.as_deref() != self.cell.name() {
            return Err(Error::OtherCell(self.told.clone(), point));
        }
        // Read-only copies are stayed in where there are some, but for mount points that say otherwise.
        let copies = !point.read_write && self.here.volume.kind == Kind::ReadOnly;
        let volume = if copies {
            let read_only = format!("{}.readonly", point.volume);
            match self.cell.volume(&read_only).await {
                Ok(volume) => volume,
                Err(Error::Refused(_) | Error::NoServer(_)) => self.cell.volume(&point.volume).await?,
                Err(error) => return Err(error),
            }
        } else {
            self.cell.volume(&point.volume).await?
        };
        self.enter(root(volume));
        Ok(())
    }

    fn count_link(&mut self) -> Result<(), Error> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Error::TooManyLinks(self.told.clone()));
        }
        Ok(())
    }
}

fn root(volume: Rc<Volume>) -> Place {
    let fid = root_of(volume.id);
    Place { volume, fid }
}

fn shown(volume: &str, path: &[Vec<u8>]) -> String {
    let mut told = volume.to_owned();
    for name in path {
        told.push('/');
        told.push_str(&String::from_utf8_lossy(name));
    }
    told
}

//@ limit: a symbolic link's text
//@ section: Clients of AFS
//@ unit: byte
//@ connection: 1,024
//@ all: process: one at a time
//@ empty: the rest is not read
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Bytes of a link's text that are read.
pub const TEXT_MAX: u64 = afs_wire::PATH_MAX as u64;
