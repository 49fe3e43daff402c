//! Listings, and requests that open for one purpose alone.

use smb_wire::body::query_directory::{QueryDirectoryRequest, QueryDirectoryRequestFixed, flags};
use smb_wire::fixed::Fixed;
use smb_wire::info::directory::{Class, parse};
use smb_wire::{Command, FileId, Response, Status};

use crate::error::Error;
use crate::exchange::OutgoingRequest;
use crate::file::{Data, Open, OpenParams, close_of, query_of, read_of};
use crate::tree::Tree;

/// An entry of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The name; what is no UTF-16 of it is replaced.
    pub name: String,
    /// Length, bytes.
    pub length: u64,
    /// Bits of [`smb_wire::create::access::attributes`].
    pub attributes: u32,
    /// Time of the last write: 100 ns since 1601.
    pub written: u64,
    /// The file's number.
    pub file_id: u64,
}

impl Open {
    /// Lists the names of a directory that fit a pattern, `.` and `..` among them.
    ///
    /// # Errors
    /// The request's.
    pub async fn list(&self, pattern: &str) -> Result<Vec<ListEntry>, Error> {
        let mut listed = Vec::new();
        let len = self.tree().channel().connection().negotiated().max_transact.min(LISTING_BYTES);
        let mut restart = flags::RESTART_SCANS;
        loop {
            let reply = self.tree().exchange(listing_of(self.id(), restart, pattern, len)).await?;
            restart = 0;
            // No name at all is an error of its own at the first request.
            if matches!(reply.status(), Status::NO_MORE_FILES | Status::NO_SUCH_FILE) {
                return Ok(listed);
            }
            let Response::QueryDirectory(output) = reply.body()? else {
                return Err(Error::Unexpected("something else than a listing"));
            };
            let before = listed.len();
            for entry in parse(output.data, CLASS) {
                let entry = entry?;
                let head = entry.head.ok_or(Error::Unexpected("names alone"))?;
                listed.push(ListEntry {
                    name: entry.name.lossy(),
                    length: head.end_of_file.get(),
                    attributes: head.file_attributes.get(),
                    written: head.last_write_time.get(),
                    file_id: entry.file_id.unwrap_or(0),
                });
            }
            if listed.len() == before {
                return Err(Error::Unexpected("a listing without names or end"));
            }
        }
    }
}

impl Tree {
    /// Lists all names of a directory, but for its own and that of the one above.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn names(&self, name: &str) -> Result<Vec<ListEntry>, Error> {
        let open = Open::create(self, name, &OpenParams::list()).await?;
        let listed = open.list("*").await;
        let closed = open.close(0).await;
        let mut listed = listed?;
        closed?;
        listed.retain(|listed| listed.name != "." && listed.name != "..");
        Ok(listed)
    }

    /// Queries information of a name in one frame: opened, asked for and closed (MS-SMB2 3.2.4.1.4).
    ///
    /// # Errors
    /// The first refusal of the three.
    pub async fn query(&self, name: &str, info_type: u8, class: u8, len: u32) -> Result<Vec<u8>, Error> {
        let open_params = OpenParams { options: 0, ..OpenParams::read() };
        let requests = [
            open_params.request(name),
            query_of(FileId::RELATED, info_type, class, 0, len).related(),
            close_of(FileId::RELATED, 0).related(),
        ];
        let [create, query, close] = self.start(requests).await?;
        create.await?.body()?;
        let query = query.await?;
        close.await?.body()?;
        match query.body()? {
            Response::QueryInfo(output) => Ok(output.data.to_vec()),
            _ => Err(Error::Unexpected("something else than information")),
        }
    }

    /// Reads the beginning of a file in one frame: opened, read and closed.
    ///
    /// # Errors
    /// The first refusal of the three.
    pub async fn read(&self, name: &str, len: u32) -> Result<Data, Error> {
        let open_params = OpenParams::read();
        let requests = [
            open_params.request(name),
            read_of(FileId::RELATED, 0, len).related(),
            close_of(FileId::RELATED, 0).related(),
        ];
        let [create, read, close] = self.start(requests).await?;
        create.await?.body()?;
        let data = Data::of(read.await?, len);
        close.await?.body()?;
        data
    }

    /// Removes a name in one frame: opened for it, and closed.
    ///
    /// # Errors
    /// The first refusal of the two.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let open_params = OpenParams { options: OpenParams::delete().options, ..OpenParams::delete() };
        let [create, close] =
            self.start([open_params.request(name), close_of(FileId::RELATED, 0).related()]).await?;
        create.await?.body()?;
        close.await?.body().map(|_| ())
    }
}

fn listing_of(file: FileId, flags: u8, pattern: &str, len: u32) -> OutgoingRequest<'_> {
    let fixed = QueryDirectoryRequestFixed {
        file_information_class: CLASS.to_wire(),
        flags,
        file_id: file,
        output_buffer_length: len.into(),
        ..QueryDirectoryRequestFixed::blank()
    };
    let write =
        move |body: &mut smb_wire::message::Body<'_>| QueryDirectoryRequest::write(body, fixed, pattern);
    OutgoingRequest::new(Command::QueryDirectory, write).carrying(0, len)
}

/// Long names with their numbers, which every server has.
const CLASS: Class = Class::IdBothDirectory;
/// Most bytes of one answer.
const LISTING_BYTES: u32 = 256 << 10;
