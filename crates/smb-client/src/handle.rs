//! Handle of a file for an application: an open that is used over whichever channel of its session is there.

use std::cell::RefCell;
use std::rc::Rc;

use lane::buffer::Buf;
use smb_wire::body::lock::{LockElement, flags};
use smb_wire::create::CreateResponseFixed;
use smb_wire::create::context::{ContextWriter, Contexts, DurableRequestV2, tag};
use smb_wire::{FileId, Status};
use zerocopy::FromZeros;

use crate::channels::Channels;
use crate::error::Error;
use crate::file::{Data, Open, OpenInfo, OpenParams};
use crate::lock_sequences::LockSequences;

/// A file or directory that is open, over all [`Channels`] of a lane. Each request is done once, whatever becomes of channels:
/// what changes something goes again as a replay (MS-SMB2 3.2.7.1), under a sequence by which the server tells it from what
/// comes late. Dropping it closes nothing.
#[derive(Clone, Debug)]
pub struct Handle {
    channels: Channels,
    opened: Rc<OpenInfo>,
    sequences: Rc<LockSequences>,
}

impl Channels {
    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        Handle::create(self, name, &OpenParams::delete()).await?.close().await
    }
}

impl Handle {
    /// Creates or opens a file ([`Open::create`]). Where there are several channels the request has a number,
    /// by which the server finds what it has opened when the answer was lost.
    ///
    /// # Errors
    /// The server's refusal; that of the last channel.
    pub async fn create(channels: &Channels, name: &str, open_params: &OpenParams) -> Result<Self, Error> {
        let open_params = match channels.create_guid() {
            None => open_params.clone(),
            Some(create_guid) => {
                let mut contexts = ContextWriter::new();
                contexts.push_all(&Contexts::parse(&open_params.contexts)?);
                let durable = DurableRequestV2 { create_guid, ..DurableRequestV2::new_zeroed() };
                contexts.push_plain(tag::DURABLE_REQUEST_V2, &durable);
                OpenParams { contexts: contexts.bytes().to_vec(), ..open_params.clone() }
            }
        };
        let open = channels.exchange(async |tree, flags| {
            let reply = tree.exchange(open_params.request(name).with(flags)).await?;
            Open::of(tree, &reply)
        });
        let opened = open.await?.into_opened();
        Ok(Self { channels: channels.clone(), opened, sequences: Rc::default() })
    }

    /// Returns the open's number.
    pub fn id(&self) -> FileId {
        self.opened.file()
    }

    /// Returns the server's answer to the CREATE.
    pub fn created(&self) -> &CreateResponseFixed {
        self.opened.created()
    }

    /// Reads ([`Open::read`]).
    ///
    /// # Errors
    /// As there.
    pub async fn read(&self, offset: u64, len: u32) -> Result<Data, Error> {
        self.exchange(async |open| open.read(offset, len).await).await
    }

    /// Writes ([`Open::write`]). A channel that is lost takes the buffers along: `again` makes them once
    /// more.
    ///
    /// # Errors
    /// As there.
    pub async fn write(
        &self,
        offset: u64,
        payload: Vec<Buf>,
        again: impl Fn() -> Vec<Buf>,
    ) -> (Result<u32, Error>, Vec<Buf>) {
        let lent = RefCell::new(payload);
        let written = self.exchange(async |open| {
            let payload = lent.take();
            let payload = if payload.is_empty() { again() } else { payload };
            let (written, payload) = open.write(offset, payload).await;
            lent.replace(payload);
            written
        });
        (written.await, lent.take())
    }

    /// Flushes ([`Open::flush`]).
    ///
    /// # Errors
    /// As there.
    pub async fn flush(&self) -> Result<(), Error> {
        self.exchange(async |open| open.flush().await).await
    }

    /// Queries information ([`Open::query`]).
    ///
    /// # Errors
    /// As there.
    pub async fn query(&self, info_type: u8, class: u8, additional: u32, len: u32) -> Result<Data, Error> {
        self.exchange(async |open| open.query(info_type, class, additional, len).await).await
    }

    /// Sets information ([`Open::set`]).
    ///
    /// # Errors
    /// As there.
    pub async fn set(&self, info_type: u8, class: u8, additional: u32, data: &[u8]) -> Result<(), Error> {
        self.exchange(async |open| open.set(info_type, class, additional, data).await).await
    }

    /// Sends a control code ([`Open::control`]).
    ///
    /// # Errors
    /// As there.
    pub async fn control(&self, code: u32, input: &[u8], output_max: u32) -> Result<Data, Error> {
        self.exchange(async |open| open.control(code, input, output_max).await).await
    }

    /// Locks or unlocks ranges ([`Open::lock`]), and waits until that is done. Dropped while it waits, it is
    /// given up by the server too; whether that came in time is not reported.
    ///
    /// # Errors
    /// The server's refusal; that of the last channel.
    pub async fn lock(&self, ranges: &[LockElement]) -> Result<(), Error> {
        let may_wait =
            |range: &LockElement| range.flags.get() & (flags::FAIL_IMMEDIATELY | flags::UNLOCK) == 0;
        // The same number by whichever channel it is asked: it is done once.
        let sequence = self.sequences.take(ranges.iter().any(may_wait)).await;
        let asking = self.channels.exchange_waiting(async |tree, flags| {
            let open = Open::of_opened(&self.opened, tree, flags);
            // Before 3.0 there is none.
            let has_channels = tree.channel().connection().negotiated().dialect.is_smb3();
            let number = if has_channels { sequence.word() } else { 0 };
            let pending = open.lock(number, ranges).await?;
            pending.or_cancel().await?.body().map(|_| ())
        });
        asking.await
    }

    /// Closes it.
    ///
    /// # Errors
    /// As [`Open::close`].
    pub async fn close(&self) -> Result<(), Error> {
        let mut is_first = true;
        self.exchange(async |open| {
            let was_first = std::mem::replace(&mut is_first, false);
            match open.close(0).await {
                // The answer to the one before was lost.
                Err(error) if !was_first && error.status() == Some(Status::FILE_CLOSED) => Ok(()),
                closed => closed.map(drop),
            }
        })
        .await
    }

    async fn exchange<T>(&self, mut asked: impl AsyncFnMut(Open) -> Result<T, Error>) -> Result<T, Error> {
        self.channels
            .exchange(async |tree, flags| asked(Open::of_opened(&self.opened, tree, flags)).await)
            .await
    }
}
