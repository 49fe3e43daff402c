//! One call after the other, as one client makes them.

use std::cell::Cell;
use std::rc::Rc;

use afs_client::fetch::{self, Plan};
use afs_client::store::{self, Piece};
use afs_client::{Error, FileServer, of_new};
use afs_wire::{Fid, StoreStatus};

use super::options::{Load, Work};
use super::pattern::{Against, Check, Stored};
use crate::pattern::Pattern;

/// Maker of the calls of one client that follow one another.
pub(super) struct Actor {
    server: FileServer,
    load: Rc<Load>,
    /// Number among the load's actors, by which it chooses its client's connection.
    number: u64,
    connection: usize,
    /// The client's own file, where it stores.
    own: Option<Fid>,
    offset: Cell<u64>,
    /// Bytes of its own file so far.
    stored: Cell<u64>,
    step: Cell<u64>,
    /// Bytes received, those of calls that were cut off among them.
    pub(super) received: Cell<u64>,
}

/// Bytes that a call moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// The file's bytes were compared, and are what they should be.
    pub(super) verified: bool,
}

impl Actor {
    /// Makes its own file where it needs one.
    pub(super) async fn new(
        server: FileServer,
        load: Rc<Load>,
        number: u64,
        connection: usize,
    ) -> Result<Self, Error> {
        let cells = || Cell::new(0);
        let mut actor = Self {
            server,
            load,
            number,
            connection,
            own: None,
            offset: cells(),
            stored: cells(),
            step: cells(),
            received: cells(),
        };
        if matches!(actor.load.work, Work::Store | Work::Mixed) {
            let own = actor.server.create(actor.load.fid, &actor.name(), of_new(0o644, None)).await?;
            actor.own = Some(own);
            actor.store(own).await?;
            // All of it where it goes over TCP: what is measured is not how fast the machine finds memory for new files.
            while actor.load.file.is_some() && actor.offset.get() > 0 {
                actor.store(own).await?;
            }
        } else {
            // The server knows the client then.
            actor.server.status(actor.load.fid).await?;
        }
        Ok(actor)
    }

    /// Makes the next call; `names` makes its two in turn.
    pub(super) async fn call(&self) -> Result<Moved, Error> {
        let step = self.step.get();
        self.step.set(step + 1);
        let own = self.own.unwrap_or(self.load.fid);
        match self.load.work {
            Work::Fetch => self.fetch().await,
            Work::Stat => self.status(own).await,
            Work::Store => self.store(own).await,
            Work::Mixed => match step % 10 {
                0 => self.store(own).await,
                3 | 7 => self.fetch_own(own).await,
                _ => self.status(own).await,
            },
            Work::Names if step.is_multiple_of(2) => {
                self.server.create(self.load.fid, &self.name(), of_new(0o644, None)).await?;
                Ok(Moved::default())
            }
            Work::Names => {
                self.server.remove(self.load.fid, &self.name()).await?;
                Ok(Moved::default())
            }
        }
    }

    /// Looks at its own file once more, and takes away what it made. Returns whether the file was compared.
    pub(super) async fn end(&self) -> Result<bool, Error> {
        let mut verified = false;
        if let Some(own) = self.own {
            if self.load.verify {
                verified = self.own_is_right(own).await?;
            }
            self.server.remove(self.load.fid, &self.name()).await?;
        } else if self.load.work == Work::Names {
            match self.server.remove(self.load.fid, &self.name()).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(verified)
    }

    fn name(&self) -> Vec<u8> {
        format!("linerate-bench-{}-{}", self.load.run, self.number).into_bytes()
    }

    fn pattern(&self) -> Pattern {
        // The one file that goes over TCP is shared by all clients.
        Pattern { seed: if self.load.file.is_some() { 0 } else { self.number } }
    }

    async fn status(&self, fid: Fid) -> Result<Moved, Error> {
        self.server.status(fid).await.map(|_| Moved::default())
    }

    /// Fetches the next piece of the common file; from its start again at its end.
    async fn fetch(&self) -> Result<Moved, Error> {
        let (offset, chunk) = (self.offset.get(), self.load.chunk);
        let sums = self.load.sums.as_ref();
        let against = if sums.is_some() { Against::sum() } else { Against::Nothing };
        let check = Check { came: &self.received, against };
        let range =
            fetch::range(&self.server, self.connection, self.load.fid, (offset, chunk), &check).await?;
        let next = offset + chunk;
        self.offset.set(if next < self.load.length { next } else { 0 });
        let mut verified = false;
        if let (Some(sums), Against::Sum(context)) = (sums, check.against) {
            let sum = context.take().map(|context| context.finish().as_ref().to_vec());
            if sum.as_ref() != sums.get((offset / chunk) as usize) {
                return Err(Error::Differs);
            }
            verified = true;
        }
        Ok(Moved { sent: 0, received: range.length, verified })
    }

    async fn fetch_own(&self, own: Fid) -> Result<Moved, Error> {
        let count = self.load.chunk.min(self.stored.get());
        let against = Against::Pattern(self.pattern(), Cell::new(false));
        let against = if self.load.verify { against } else { Against::Nothing };
        let check = Check { came: &self.received, against };
        let range = fetch::range(&self.server, self.connection, own, (0, count), &check).await?;
        Ok(Moved { sent: 0, received: range.length, verified: self.compared(&check)? })
    }

    async fn store(&self, own: Fid) -> Result<Moved, Error> {
        let (offset, length) = (self.offset.get(), self.load.chunk);
        let file_length = self.stored.get().max(offset + length);
        let piece = Piece { fid: own, change: StoreStatus::default(), offset, length, file_length };
        let source = Stored { pattern: self.pattern(), file: self.load.file.as_ref() };
        store::range(&self.server, self.connection, piece, &source).await?;
        self.stored.set(file_length);
        let next = offset + length;
        self.offset.set(if next < self.load.file_size { next } else { 0 });
        Ok(Moved { sent: length, received: 0, verified: false })
    }

    async fn own_is_right(&self, own: Fid) -> Result<bool, Error> {
        let metadata = self.server.status(own).await?;
        let ignored = Cell::new(0);
        let check = Check { came: &ignored, against: Against::Pattern(self.pattern(), Cell::new(false)) };
        let plan = Plan::of(own, &metadata);
        fetch::in_order(&self.server, plan, |offset, bytes| check.check(offset, [bytes].into_iter())).await?;
        self.compared(&check)
    }

    fn compared(&self, check: &Check<'_>) -> Result<bool, Error> {
        match &check.against {
            Against::Pattern(_, differ) if differ.get() => Err(Error::Differs),
            Against::Pattern(..) => Ok(true),
            _ => Ok(false),
        }
    }
}
