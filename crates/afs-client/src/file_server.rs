//! One file server: a method for each procedure, and patience with busy volumes.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs_wire::code::EAGAIN;
use afs_wire::{CallBacks, Capabilities, FIDS_MAX, Fid, StoreStatus, VolumeStatus, rxafs};
use rx_lane::{Call as RxCall, CallError, Connection};
use xdr::List;
use xdr::rpc::{self, Call, Failure, Received};

use crate::code::Code;
use crate::error::Error;
use crate::oob_connections::{OobOptions, OutOfBand};
use crate::status::Metadata;

/// A file server and the connections to it. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct FileServer {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    connections: Vec<Connection>,
    next: Cell<usize>,
    patience: Duration,
    /// The server knows the procedures of 32 bits alone.
    old: Cell<bool>,
    oob: OutOfBand,
}

/// Status and name of a volume, as `fs examine` shows them.
#[derive(Clone, Debug)]
pub struct VolumeFacts {
    /// Numbers, flags, sizes in KiB.
    pub status: VolumeStatus,
    /// Name of the volume.
    pub name: String,
}

impl FileServer {
    pub(crate) fn new(
        address: SocketAddr,
        connections: Vec<Connection>,
        patience: Duration,
        oob: OobOptions,
    ) -> Self {
        let (next, old, oob) = (Cell::new(0), Cell::new(false), OutOfBand::new(oob));
        let shared = Shared { address, connections, next, patience, old, oob };
        Self { shared: Rc::new(shared) }
    }

    /// Returns where it is.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Returns how many connections it has.
    pub fn connections(&self) -> usize {
        self.shared.connections.len()
    }

    /// Fetches a file's status.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Call`], [`Error::Stub`], as of every method here.
    pub async fn status(&self, fid: Fid) -> Result<Metadata, Error> {
        let reply = self.call(&rxafs::FetchStatus { fid }).await?;
        Ok(Metadata::of(&reply.get().status))
    }

    /// Fetches the status of each of these files, in their order, 50 at a time, or why it cannot be had.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn statuses(&self, fids: &[Fid]) -> Result<Vec<Result<Metadata, Code>>, Error> {
        let mut all = Vec::with_capacity(fids.len());
        for some in fids.chunks(FIDS_MAX as usize) {
            match self.call(&rxafs::InlineBulkStatus { fids: List(some.to_vec()) }).await {
                Ok(reply) => {
                    let reply = reply.get();
                    let told = reply.statuses.0.iter().map(|status| match status.error_code {
                        0 => Ok(Metadata::of(status)),
                        code => Err(Code(code.cast_signed())),
                    });
                    let missing = std::iter::repeat(Err(Code(rx::abort::PROTOCOL_ERROR)));
                    for (told, &fid) in told.chain(missing).zip(some) {
                        all.push(match told {
                            // Of many asked for at once a server waits for none that is being changed; of one it does.
                            Err(code) if code.is_busy() || code.0 == EAGAIN => self.status_alone(fid).await?,
                            told => told,
                        });
                    }
                }
                Err(Error::Refused(code)) if code.is_unknown_procedure() => {
                    for &fid in some {
                        all.push(self.status_alone(fid).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Fetches a file's status, or the code that it is refused with.
    async fn status_alone(&self, fid: Fid) -> Result<Result<Metadata, Code>, Error> {
        match self.status(fid).await {
            Ok(metadata) => Ok(Ok(metadata)),
            Err(Error::Refused(code)) => Ok(Err(code)),
            Err(error) => Err(error),
        }
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn create(&self, directory: Fid, name: &[u8], change: StoreStatus) -> Result<Fid, Error> {
        let reply = self.call(&rxafs::CreateFile { directory, name: name.into(), change }).await?;
        Ok(reply.get().fid)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn make_directory(
        &self,
        directory: Fid,
        name: &[u8],
        change: StoreStatus,
    ) -> Result<Fid, Error> {
        let reply = self.call(&rxafs::MakeDir { directory, name: name.into(), change }).await?;
        Ok(reply.get().fid)
    }

    /// Makes a symbolic link; without any right to execute in `change` and a text such as `#VOLUME.` it is a mount point.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn symlink(
        &self,
        directory: Fid,
        name: &[u8],
        target: &[u8],
        change: StoreStatus,
    ) -> Result<Fid, Error> {
        let request = rxafs::Symlink { directory, name: name.into(), target: target.into(), change };
        Ok(self.call(&request).await?.get().fid)
    }

    /// Gives a file of the same directory one more name.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn link(&self, directory: Fid, name: &[u8], existing: Fid) -> Result<(), Error> {
        self.call(&rxafs::Link { directory, name: name.into(), existing }).await.map(drop)
    }

    /// Takes a name away, of anything but a directory.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn remove(&self, directory: Fid, name: &[u8]) -> Result<(), Error> {
        self.call(&rxafs::RemoveFile { directory, name: name.into() }).await.map(drop)
    }

    /// Takes an empty directory away.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn remove_directory(&self, directory: Fid, name: &[u8]) -> Result<(), Error> {
        self.call(&rxafs::RemoveDir { directory, name: name.into() }).await.map(drop)
    }

    /// Moves a name, over what has the new one.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn rename(&self, from: Fid, old: &[u8], to: Fid, new: &[u8]) -> Result<(), Error> {
        let request = rxafs::Rename { from, old_name: old.into(), to, new_name: new.into() };
        self.call(&request).await.map(drop)
    }

    /// Changes what `change` says of a file's status.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn set_status(&self, fid: Fid, change: StoreStatus) -> Result<Metadata, Error> {
        let reply = self.call(&rxafs::StoreStatus { fid, change }).await?;
        Ok(Metadata::of(&reply.get().status))
    }

    /// Sets a directory's access list: its text, as `fs setacl` sends it.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn set_access_list(&self, directory: Fid, text: &[u8]) -> Result<(), Error> {
        let mut text = text.to_vec();
        text.push(0);
        let access_list = || text.as_slice().into();
        match self.call(&rxafs::StoreACL { fid: directory, access_list: access_list() }).await {
            Err(Error::Refused(code)) if code.is_unknown_procedure() => {}
            done => return done.map(drop),
        }
        self.call(&rxafs::OldStoreACL { fid: directory, access_list: access_list() }).await.map(drop)
    }

    /// Returns what the server says of a volume.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn volume(&self, volume: u32) -> Result<VolumeFacts, Error> {
        let reply = self.call(&rxafs::GetVolumeStatus { volume }).await?;
        let reply = reply.get();
        let name = reply.name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(VolumeFacts { status: reply.status, name: String::from_utf8_lossy(name).into_owned() })
    }

    /// Returns what it can: words of bits.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        Ok(self.call(&rxafs::GetCapabilities {}).await?.get().capabilities)
    }

    /// Gives up the callbacks of these files.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn give_up(&self, fids: Vec<Fid>) -> Result<(), Error> {
        self.call(&rxafs::GiveUpCallBacks { fids: List(fids), call_backs: CallBacks::default() })
            .await
            .map(drop)
    }

    /// Gives up all callbacks of this server, as a client does that goes.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn give_up_all(&self) -> Result<(), Error> {
        self.call(&rxafs::GiveUpAllCallBacks {}).await.map(drop)
    }

    /// Makes a plain call, again while the volume is busy.
    async fn call<P: Call>(&self, request: &P) -> Result<Received<P>, Error> {
        self.patiently(async || {
            let mut call = self.open(self.turn()).await?;
            rpc::call(&mut call, request).await.map_err(|failure| self.failed(call, failure))
        })
        .await
    }

    /// Does `work` again while it is refused for a reason that waiting may end.
    pub(crate) async fn patiently<T>(
        &self,
        mut work: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = lane::time::now() + self.shared.patience;
        let mut wait = WAIT_MIN;
        loop {
            match work().await {
                Err(Error::Refused(code)) if code.is_busy() && lane::time::now() + wait <= deadline => {
                    lane::time::sleep(wait).await;
                    wait = (wait * 2).min(WAIT_MAX);
                }
                done => return done,
            }
        }
    }

    /// Opens a call on one of the connections.
    pub(crate) async fn open(&self, connection: usize) -> Result<RxCall, Error> {
        let connections = &self.shared.connections;
        let call = connections[connection % connections.len()].call().await;
        call.map_err(|error| Error::of_call(self.address(), error.into()))
    }

    /// Returns the connection whose turn it is.
    pub(crate) fn turn(&self) -> usize {
        let turn = self.shared.next.get();
        self.shared.next.set(turn.wrapping_add(1));
        turn
    }

    /// Ends a call that a stub gave up, and says why.
    pub(crate) fn failed(&self, call: RxCall, failure: Failure<CallError>) -> Error {
        if let Some(code) = failure.abort_code() {
            call.abort(code);
        }
        Error::of_call(self.address(), failure)
    }

    /// Returns what is known of its out-of-band TCP.
    pub(crate) fn oob(&self) -> &OutOfBand {
        &self.shared.oob
    }

    /// Returns whether it knows the procedures of 32 bits alone.
    pub(crate) fn is_old(&self) -> bool {
        self.shared.old.get()
    }

    /// Notes that the server does not know the procedures of 64 bits.
    pub(crate) fn note_old(&self) {
        self.shared.old.set(true);
    }
}

const WAIT_MIN: Duration = Duration::from_millis(200);
//@ limit: tries of a call that finds its volume busy
//@ section: Clients of AFS
//@ unit: try
//@ all: process: for 30 s (`--patience`), {} apart at last
//@ empty: refused with the server's code
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
const WAIT_MAX: Duration = Duration::from_secs(5);
