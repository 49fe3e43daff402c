//! Paths through symbolic links on volumes without objects: what an answer by such a path rests on.
//!
//! The kernel follows links there in one call, and tells of none that is switched. So a path that has links is also followed name by
//! name, with a watch of every directory that holds one and of the one that holds the far end: what is remembered by the path is
//! believed for as long as no name comes or goes in any of them. What is opened is still what the kernel finds.

use std::rc::Rc;

use lane::fs::File;

use crate::cache::{Route, Validity};
use crate::error::Error;
use crate::guarded::Steps;
use crate::name::RelPath;
use crate::volume::{OpenBy, Volume};

impl Volume {
    /// Opens what `path` leads to on a volume without objects, and says from where it was seen, before it was opened.
    pub(crate) async fn open_plain(&self, path: RelPath<'_>) -> (Result<File, Error>, Validity) {
        let follows = self.options().follow_symlinks;
        if !follows || !self.is_known_to_have_links(path) {
            let validity = self.cache().validity_above(self.root(), self.key(path)).await;
            match self.open_or_shed(path, OpenBy::RealPath).await {
                Err(Error::SymlinkRefused) if follows => {}
                opened => return (opened, validity),
            }
        }
        // Where the way cannot be followed the kernel says why, and its answer is good for the time to live.
        let validity = self.validity_through(path).await.unwrap_or_else(|_| Validity::unwatched());
        (self.open_or_shed(path, OpenBy::AnyPath).await, validity)
    }

    /// Makes the validity of looks at entries of the directory that `path` leads to.
    pub(crate) async fn validity_in(&self, path: RelPath<'_>) -> Validity {
        let validity = self.cache().validity(self.root(), self.key(path)).await;
        if validity.is_watched() || self.has_objects() || !self.options().follow_symlinks {
            return validity;
        }
        let Ok((real, way)) = self.route_to(path).await else { return validity };
        self.cache().validity(self.root(), self.key(real.as_path())).await.depending_on(&[way])
    }

    fn is_known_to_have_links(&self, path: RelPath<'_>) -> bool {
        let route = path.parent().and_then(|above| Some((above, self.cache().find_route(self.key(above))?)));
        route.is_some_and(|(above, (real, _))| real.as_path().as_bytes() != above.as_bytes())
    }

    /// Returns what an answer about `path` rests on, which leads through links, or is one.
    async fn validity_through(&self, path: RelPath<'_>) -> Result<Validity, Error> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Validity::unwatched());
        };
        let (real_above, way) = self.route_to(above).await?;
        let real = real_above.as_path().join(name)?;
        let (target, validity) = self.read_link(None, real.as_path()).await?;
        if target.is_none() {
            return Ok(Validity::of_all(&[way, validity]));
        }
        let beyond = self.real_path(None, real.as_path(), &Steps::of_lookup()).await?;
        let all: Vec<_> = std::iter::once(way).chain(beyond.rests_on).collect();
        Ok(Validity::of_all(&all))
    }

    /// Returns the real place of a directory, and what that rests on.
    async fn route_to(&self, directory: RelPath<'_>) -> Result<Route, Error> {
        let key = self.key(directory);
        if let Some(known) = self.cache().find_route(key) {
            return Ok(known);
        }
        self.counters().link_routes.increment();
        let real = self.real_path(None, directory, &Steps::of_lookup()).await?;
        let route = (Rc::new(real.path), Validity::of_all(&real.rests_on));
        self.cache().keep_route(key, route.clone());
        Ok(route)
    }
}
