//! Attributes by name (openat2(2) and fstat(2); fstatat(2) where one component is all there is).

use std::ffi::CString;
use std::io;
use std::task::Poll;

use super::{Operation, Start};
use crate::backend::sim::Step;
use crate::backend::uring::{Uring, files};
use crate::backend::{Fd, Stat};

/// Attributes of `path` beneath `dir`, not following a last symbolic link.
pub(crate) struct StatAt {
    pub(crate) dir: Fd,
    pub(crate) path: CString,
}

impl Operation for StatAt {
    const NAME: &'static str = "stat";
    type Value = Stat;
    type Output = io::Result<Stat>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let path = std::mem::take(&mut self.path);
        Start::on_helper::<Self>(self.dir, move |dir| files::stat_at(dir, &path))
    }

    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Stat>> {
        let at = step.file()?;
        Poll::Ready(at.disk.stat_at(at.inode, self.path.as_bytes(), at.engine))
    }

    fn finish(self, result: io::Result<Stat>) -> io::Result<Stat> {
        result
    }
}
