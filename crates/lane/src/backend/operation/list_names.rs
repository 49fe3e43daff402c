//! Operation that reads the names of the next part of a directory (lseek(2), one getdents64(2)).

use std::io;
use std::task::Poll;

use super::list_part::{BYTES_MOST, each_name};
use super::{Operation, Start};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::backend::{Fd, NamesPart};

/// Lists the names of `dir` from `position` on that fit a buffer of `bytes`. The position of the open
/// directory moves.
pub(crate) struct ListNames {
    pub(crate) dir: Fd,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

impl Operation for ListNames {
    const NAME: &'static str = "list names";
    type Value = NamesPart;
    type Output = io::Result<NamesPart>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let (position, bytes) = (self.position, self.bytes);
        Start::on_helper::<Self>(self.dir, move |dir| {
            let mut part = NamesPart::with_capacity(bytes.min(BYTES_MOST));
            part.next = each_name(dir, position, bytes, |name| part.push(name))?;
            Ok(part)
        })
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<NamesPart>> {
        let at = step.file()?;
        Poll::Ready(at.disk.names_part(at.inode, self.position, at.engine))
    }

    fn finish(self, result: io::Result<NamesPart>) -> io::Result<NamesPart> {
        result
    }
}
