//! The way of every change.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lane::Task;

use super::Caller;
use super::find::Found;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::{Object, Permits};
use crate::promise::{Broken, What};
use crate::volume::Volume;

/// The right to make one change, and all that it concerns.
pub(super) struct Way {
    permits: Permits,
    broken: Vec<Broken>,
}

impl Volume {
    /// Waits for the permits of `first`, then has `names` look what else is concerned, whose permits it adds: without waiting
    /// where they are free, else by giving all back and beginning again with all of them in order.
    ///
    /// # Errors
    /// Those of `names`; [`Error::Busy`] after eight attempts, or behind too many others.
    pub(super) async fn permits<T>(
        &self,
        first: &[&Arc<Object>],
        names: impl AsyncFn() -> Result<(T, Vec<Arc<Object>>), Error>,
    ) -> Result<(Permits, T), Error> {
        let waiting_max = self.objects().ok_or(Error::ReadOnly)?.options().waiting_max;
        let first = || first.iter().map(|&object| Arc::clone(object));
        let mut wanted: Vec<_> = first().collect();
        for _ in 0..ATTEMPTS_MAX {
            let mut permits = Permits::take(wanted, waiting_max).await?;
            let (found, concerned) = names().await?;
            if permits.try_add(&concerned) {
                return Ok((permits, found));
            }
            self.counters().changes_anew.increment();
            drop(permits);
            wanted = first().chain(concerned).collect();
        }
        Err(Error::Busy)
    }

    /// Tells everybody what is about to change, and waits until they have forgotten it.
    pub(super) async fn tell(
        &self,
        caller: &Caller,
        permits: Permits,
        what: Vec<(&Arc<Object>, What)>,
    ) -> Way {
        let spared = caller.holder;
        let broken = what.into_iter().map(|(object, what)| {
            debug_assert!(permits.has(object), "what changes is under a permit");
            Broken { object: Arc::clone(object), what, spared }
        });
        let broken: Vec<_> = broken.collect();
        self.cache().break_everywhere(&broken).await;
        Way { permits, broken }
    }
}

impl Way {
    /// Objects whose content or names change get their next version.
    pub(super) fn rise(&self) {
        for broken in &self.broken {
            if !matches!(broken.what, What::Place) {
                broken.object.rise();
            }
        }
    }

    /// The change is made: the permits go to who waits next. What the caller keeps in this very step is kept under them,
    /// as the next change has to ask this lane first.
    pub(super) fn end(self, volume: &Volume) {
        volume.counters().changes.increment();
        drop(self.permits);
    }
}

impl Directory {
    /// The object whose permit a change of this directory's names needs.
    pub(super) fn changed(&self) -> Result<&Arc<Object>, Error> {
        self.object().ok_or(Error::ReadOnly)
    }

    /// Its object, if `name` is one that clients may change. From here on this lane relies on the directory, so that it may
    /// keep what it makes there.
    pub(super) async fn settle(&self, name: Name<'_>) -> Result<&Arc<Object>, Error> {
        if name.is_reserved() {
            return Err(Error::Reserved);
        }
        let (volume, object) = (self.volume(), self.changed()?);
        volume.cache().vantage(volume.root(), volume.key(self.path())).await;
        Ok(object)
    }

    /// As [`Volume::permits`], of this directory and of what `name` in it leads to.
    pub(super) async fn permits_of(&self, name: Name<'_>) -> Result<(Permits, Option<Found>), Error> {
        let names = async || {
            let found = self.find(name).await?;
            let concerned = found.iter().map(|found| Arc::clone(&found.object)).collect();
            Ok((found, concerned))
        };
        self.volume().permits(&[self.changed()?], names).await
    }
}

/// Runs `work` to its end on this lane, also when what this returns is dropped before: it owns permits, and the kernel may
/// be at work under them.
pub(super) fn to_the_end<T: 'static>(work: impl Future<Output = T> + 'static) -> ToTheEnd<T> {
    ToTheEnd { task: Some(lane::spawn(work)) }
}

/// Waits for work that goes on without it.
pub(super) struct ToTheEnd<T> {
    task: Option<Task<T>>,
}

impl<T> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let task = self.task.as_mut().expect("it lives as long as this");
        Pin::new(task).poll(cx)
    }
}

impl<T> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

const ATTEMPTS_MAX: u32 = 8;
