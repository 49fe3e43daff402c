//! Requests that follow one another, as one client makes them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use lane::buffer::Buf;
use smb_client::{Channels, Error, Handle, OpenParams};
use smb_wire::body::query_info::info_type;
use smb_wire::info::file::class;

use super::options::{Load, Work};
use crate::pattern::Pattern;

/// Maker of the requests of one session that follow one another.
pub(super) struct Actor {
    channels: Channels,
    load: Rc<Load>,
    /// Number among the load's actors.
    number: u64,
    /// Open that it reads or writes; what it opens, it opens anew each time.
    open: Option<Handle>,
    offset: Cell<u64>,
    /// Bytes of its own file so far.
    stored: Cell<u64>,
    step: Cell<u64>,
    random: Cell<u64>,
    payload: RefCell<Vec<Buf>>,
}

/// Bytes that a request moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// The file's bytes were compared, and are what they should be.
    pub(super) verified: bool,
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Smb(#[from] Error),
    #[error("bytes differ from what they should be")]
    Differs,
    #[error("a request moved fewer bytes than it was for")]
    Short,
}

impl Actor {
    /// Opens the common file, or makes its own where it writes.
    pub(super) async fn new(channels: Channels, load: Rc<Load>, number: u64, of: u64) -> Result<Self, Error> {
        let mut actor = Self {
            channels,
            number,
            open: None,
            offset: Cell::new(0),
            stored: Cell::new(0),
            step: Cell::new(0),
            random: Cell::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            payload: RefCell::default(),
            load,
        };
        match actor.load.work {
            Work::Read | Work::Random => {
                actor.open =
                    Some(Handle::create(&actor.channels, &actor.load.name, &OpenParams::read()).await?);
                // They begin where the others do not.
                let pieces = actor.load.length.div_ceil(u64::from(actor.load.size)).max(1);
                actor.offset.set(pieces * number / of.max(1) % pieces * u64::from(actor.load.size));
            }
            Work::Write | Work::Mixed => {
                actor.open =
                    Some(Handle::create(&actor.channels, &actor.own_name(), &OpenParams::overwrite()).await?);
            }
            Work::OpenClose | Work::Idle => {}
        }
        Ok(actor)
    }

    /// Makes the next request, or the two of an open and its close.
    pub(super) async fn call(&self) -> Result<Moved, Failure> {
        let step = self.step.get();
        self.step.set(step + 1);
        match (self.load.work, &self.open) {
            (Work::Read, Some(open)) => self.read(open, self.next_offset(self.load.length)).await,
            (Work::Random, Some(open)) => self.read(open, self.random_offset()).await,
            (Work::Write, Some(open)) => self.write(open).await,
            (Work::Mixed, Some(open)) => match step % 10 {
                0 => self.write(open).await,
                3 | 7 => self.read_own(open).await,
                _ => {
                    open.query(info_type::FILE, class::NETWORK_OPEN, 0, 64).await?;
                    Ok(Moved::default())
                }
            },
            (Work::OpenClose, _) => {
                let open = Handle::create(&self.channels, &self.load.name, &OpenParams::read()).await?;
                open.close().await?;
                Ok(Moved::default())
            }
            _ => {
                self.channels.echo().await?;
                Ok(Moved::default())
            }
        }
    }

    /// Looks at its own file once more, and takes away what it made. Returns whether the file was compared.
    pub(super) async fn end(&self) -> Result<bool, Failure> {
        let Some(open) = &self.open else { return Ok(false) };
        let own = matches!(self.load.work, Work::Write | Work::Mixed);
        let mut verified = false;
        if own && self.load.verify {
            for offset in (0..self.stored.get()).step_by(self.load.size as usize) {
                let data = open.read(offset, self.load.size).await?;
                if data.is_empty() || !self.pattern().is(offset, &data) {
                    return Err(Failure::Differs);
                }
                verified = true;
            }
        }
        open.close().await?;
        if own {
            self.channels.remove(&self.own_name()).await?;
        }
        Ok(verified)
    }

    fn own_name(&self) -> String {
        let directory = &self.load.name;
        let slash = if directory.is_empty() { "" } else { "\\" };
        format!("{directory}{slash}linerate-bench-{}-{}", self.load.run, self.number)
    }

    fn pattern(&self) -> Pattern {
        Pattern { seed: self.number }
    }

    /// Returns the offset of the next piece, from the start again where less than one is left before `end`.
    fn next_offset(&self, end: u64) -> u64 {
        let offset = self.offset.get();
        let next = offset + u64::from(self.load.size);
        self.offset.set(if next < end { next } else { 0 });
        offset
    }

    /// Draws the offset of any whole piece (xorshift).
    fn random_offset(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        let size = u64::from(self.load.size);
        x % (self.load.length / size).max(1) * size
    }

    async fn read(&self, open: &Handle, offset: u64) -> Result<Moved, Failure> {
        let size = self.load.size;
        let data = open.read(offset, size).await?;
        if data.len() as u64 != u64::from(size).min(self.load.length - offset) {
            return Err(Failure::Short);
        }
        let received = data.len() as u64;
        let Some(sums) = &self.load.sums else {
            return Ok(Moved { received, ..Moved::default() });
        };
        if digest(&SHA256, &data).as_ref() != sums[(offset / u64::from(size)) as usize] {
            return Err(Failure::Differs);
        }
        Ok(Moved { received, verified: true, sent: 0 })
    }

    async fn read_own(&self, open: &Handle) -> Result<Moved, Failure> {
        let data = open.read(0, self.load.size).await?;
        if self.load.verify && !self.pattern().is(0, &data) {
            return Err(Failure::Differs);
        }
        Ok(Moved { received: data.len() as u64, verified: self.load.verify, sent: 0 })
    }

    async fn write(&self, open: &Handle) -> Result<Moved, Failure> {
        let (size, offset) = (self.load.size as usize, self.next_offset(self.load.file_size));
        let mut payload = self.payload.take();
        let is_whole = payload.iter().map(|part| part.len()).sum::<usize>() == size;
        if !is_whole {
            payload = vec![Buf::from(vec![0; size])];
        }
        if self.load.verify || !is_whole {
            self.pattern().fill(offset, &mut payload[0]);
        }
        let again = || {
            let mut bytes = vec![0; size];
            self.pattern().fill(offset, &mut bytes);
            vec![Buf::from(bytes)]
        };
        let (written, payload) = open.write(offset, payload, again).await;
        *self.payload.borrow_mut() = payload;
        if written? as usize != size {
            return Err(Failure::Short);
        }
        self.stored.set(self.stored.get().max(offset + size as u64));
        Ok(Moved { sent: size as u64, ..Moved::default() })
    }
}

/// Returns the sums of a file's pieces.
pub(super) async fn sums(channels: &Channels, name: &str, size: u32) -> Result<Vec<Vec<u8>>, Error> {
    let open = Handle::create(channels, name, &OpenParams::read()).await?;
    let mut sums = Vec::new();
    for offset in (0..open.created().end_of_file.get()).step_by(size as usize) {
        sums.push(digest(&SHA256, &open.read(offset, size).await?).as_ref().to_vec());
    }
    open.close().await?;
    Ok(sums)
}

/// Returns the length of a file, and whether it is a directory.
pub(super) async fn look(channels: &Channels, name: &str) -> Result<(u64, bool), Error> {
    let how = OpenParams { options: 0, ..OpenParams::read() };
    let open = Handle::create(channels, name, &how).await?;
    let created = open.created();
    let is_directory = created.file_attributes.get() & smb_wire::create::access::attributes::DIRECTORY != 0;
    let length = created.end_of_file.get();
    open.close().await?;
    Ok((length, is_directory))
}
