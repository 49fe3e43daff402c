//! Opens: files and directories, read and written.

use std::ops::{Deref, Range};
use std::rc::Rc;

use lane::buffer::Buf;
use smb_wire::body::change_notify::ChangeNotifyRequest;
use smb_wire::body::close::{CloseRequest, CloseResponse};
use smb_wire::body::flush::FlushRequest;
use smb_wire::body::ioctl::{FLAG_IS_FSCTL, IoctlRequest, IoctlRequestFixed};
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed};
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed, info_type};
use smb_wire::body::read::ReadRequest;
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed};
use smb_wire::body::write::WriteRequestFixed;
use smb_wire::create::access::{rights, share};
use smb_wire::create::context::{ContextWriter, Contexts, tag};
use smb_wire::create::lease::Lease;
use smb_wire::create::{
    CreateRequest, CreateRequestFixed, CreateResponse, CreateResponseFixed, Disposition, oplock_level,
    options,
};
use smb_wire::fixed::Fixed;
use smb_wire::header::HEADER_LEN;
use smb_wire::info::file::{RenameFixed, class};
use smb_wire::{Command, FileId, Response, Status};
use zerocopy::{FromZeros, IntoBytes};

use crate::error::Error;
use crate::exchange::{OutgoingRequest, Pending, Reply};
use crate::tree::Tree;

/// The parameters by which a file is opened or created.
#[derive(Clone, Debug)]
pub struct OpenParams {
    /// Rights: bits of [`rights`].
    pub access: u32,
    /// Access of others meanwhile: bits of [`share`].
    pub share: u32,
    /// Treatment of an existing file.
    pub disposition: Disposition,
    /// Bits of [`options`].
    pub options: u32,
    /// Attributes of what is made.
    pub attributes: u32,
    /// The oplock that is asked for; [`oplock_level::LEASE`] with a context that says which lease.
    pub oplock: u8,
    /// Create contexts of the request, as [`ContextWriter`] makes it.
    pub contexts: Vec<u8>,
}

impl OpenParams {
    /// Asks for an existing file, to be read.
    pub fn read() -> Self {
        Self {
            access: rights::FILE_READ,
            share: share::ALL,
            disposition: Disposition::Open,
            options: options::NON_DIRECTORY_FILE,
            attributes: 0,
            oplock: oplock_level::NONE,
            contexts: Vec::new(),
        }
    }

    /// Asks for a file to be read and written: made where there is none, emptied where there is one.
    pub fn overwrite() -> Self {
        let disposition = Disposition::OverwriteIf;
        Self { access: rights::FILE_READ | rights::FILE_WRITE | rights::DELETE, disposition, ..Self::read() }
    }

    /// Asks for an existing directory, to be listed.
    pub fn list() -> Self {
        Self { options: options::DIRECTORY_FILE, ..Self::read() }
    }

    /// Asks for a new directory.
    pub fn make_directory() -> Self {
        Self { disposition: Disposition::Create, options: options::DIRECTORY_FILE, ..Self::read() }
    }

    /// Asks for an existing file or empty directory, removed when it is closed.
    pub fn delete() -> Self {
        Self {
            access: rights::DELETE | rights::READ_ATTRIBUTES,
            options: options::DELETE_ON_CLOSE,
            ..Self::read()
        }
    }

    /// Asks for a lease.
    pub fn lease(mut self, lease: &Lease<'_>) -> Self {
        let mut contexts = ContextWriter::new();
        match lease {
            Lease::V1(lease) => contexts.push_plain(tag::LEASE, *lease),
            Lease::V2(lease) => contexts.push_plain(tag::LEASE, *lease),
        }
        (self.oplock, self.contexts) = (oplock_level::LEASE, contexts.bytes().to_vec());
        self
    }

    /// Returns the CREATE request for a name, from the share's root, with backslashes.
    pub fn request<'a>(&'a self, name: &'a str) -> OutgoingRequest<'a> {
        let fixed = CreateRequestFixed {
            requested_oplock_level: self.oplock,
            impersonation_level: IMPERSONATION.into(),
            desired_access: self.access.into(),
            file_attributes: self.attributes.into(),
            share_access: self.share.into(),
            create_disposition: (self.disposition as u32).into(),
            create_options: self.options.into(),
            ..CreateRequestFixed::blank()
        };
        OutgoingRequest::new(Command::Create, move |body| {
            CreateRequest::write(body, fixed, name, &self.contexts)
        })
    }
}

/// A file or directory that is open. It stays so until it is closed, or its session ends: dropping it closes nothing.
#[derive(Clone, Debug)]
pub struct Open {
    tree: Tree,
    opened: Rc<OpenInfo>,
    /// Header flags of the requests that change it: a replay's.
    flags: u32,
}

/// The server's answer to CREATE, which all channels of the session share.
#[derive(Debug)]
pub(crate) struct OpenInfo {
    file: FileId,
    created: CreateResponseFixed,
    contexts: Vec<u8>,
}

/// Bytes of a file, where they were received.
#[derive(Clone, Debug)]
pub struct Data {
    reply: Option<Reply>,
    range: Range<usize>,
}

impl Open {
    /// Opens or makes `name`: from the share's root, with backslashes; the root itself is empty.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn create(tree: &Tree, name: &str, open_params: &OpenParams) -> Result<Self, Error> {
        let reply = tree.exchange(open_params.request(name)).await?;
        Self::of(tree, &reply)
    }

    /// Returns what an answer to CREATE opened.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn of(tree: &Tree, reply: &Reply) -> Result<Self, Error> {
        let Response::Create(answer) = reply.body()? else {
            return Err(Error::Unexpected("something else than an open"));
        };
        let CreateResponse { fixed, contexts } = answer;
        let mut kept = ContextWriter::new();
        // Those that are looked at later.
        for name in
            [tag::LEASE, tag::MAXIMAL_ACCESS, tag::ON_DISK_ID, tag::DURABLE_REQUEST_V2, tag::DURABLE_REQUEST]
        {
            if let Some(data) = contexts.find(name) {
                kept.push(name, data);
            }
        }
        let contexts = if contexts.is_empty() { Vec::new() } else { kept.bytes().to_vec() };
        let opened = OpenInfo { file: fixed.file_id, created: *fixed, contexts };
        Ok(Self { tree: tree.clone(), opened: Rc::new(opened), flags: 0 })
    }

    /// Returns the same open over another channel of its session.
    pub fn over(&self, tree: &Tree) -> Self {
        Self { tree: tree.clone(), ..self.clone() }
    }

    /// Returns the open without its channel.
    pub(crate) fn into_opened(self) -> Rc<OpenInfo> {
        self.opened
    }

    /// Makes the file of an open, over this channel; `flags` go with what changes it.
    pub(crate) fn of_opened(opened: &Rc<OpenInfo>, tree: &Tree, flags: u32) -> Self {
        Self { tree: tree.clone(), opened: Rc::clone(opened), flags }
    }

    /// Returns the open's tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the open's number.
    pub fn id(&self) -> FileId {
        self.opened.file
    }

    /// Returns the server's answer to the CREATE.
    pub fn created(&self) -> &CreateResponseFixed {
        &self.opened.created
    }

    /// Returns the data of a context that was granted with it.
    pub fn context(&self, name: &[u8]) -> Option<&[u8]> {
        Contexts::parse(&self.opened.contexts).ok()?.find(name)
    }

    /// Returns the state of the lease that was granted, and how often it changed.
    pub fn lease(&self) -> Option<(u32, u16)> {
        let lease = Lease::parse(self.context(tag::LEASE)?).ok()?;
        let epoch = if let Lease::V2(lease) = lease { lease.epoch.get() } else { 0 };
        Some((lease.state(), epoch))
    }

    /// Reads up to `len` bytes, no more than the connection's `max_read`. Behind the end there are none.
    ///
    /// # Errors
    /// The request's.
    pub async fn read(&self, offset: u64, len: u32) -> Result<Data, Error> {
        let reply = self.tree.exchange(self.read_request(offset, len)).await?;
        Data::of(reply, len)
    }

    /// Returns the request of [`Open::read`].
    pub fn read_request(&self, offset: u64, len: u32) -> OutgoingRequest<'static> {
        read_of(self.opened.file, offset, len)
    }

    /// Writes the buffers' bytes, in all no more than the connection's `max_write`, and gives the buffers back. Says how
    /// many were written.
    ///
    /// # Errors
    /// The request's.
    pub async fn write(&self, offset: u64, payload: Vec<Buf>) -> (Result<u32, Error>, Vec<Buf>) {
        let len = payload.iter().map(|part| part.len()).sum::<usize>();
        let Ok(len) = u32::try_from(len) else { return (Err(Error::TooLarge), payload) };
        let fixed = WriteRequestFixed {
            data_offset: ((HEADER_LEN + size_of::<WriteRequestFixed>()) as u16).into(),
            length: len.into(),
            offset: offset.into(),
            file_id: self.opened.file,
            ..WriteRequestFixed::blank()
        };
        let request = OutgoingRequest::new(Command::Write, move |body| body.push(&fixed))
            .carrying(len, 0)
            .with(self.flags);
        let mut pending = match self.tree.start_with(request, payload).await {
            Ok(pending) => pending,
            Err(error) => return (Err(error), Vec::new()),
        };
        let answer = (&mut pending).await.and_then(|reply| match reply.body()? {
            Response::Write(answer) if answer.count.get() <= len => Ok(answer.count.get()),
            _ => Err(Error::Unexpected("more written than was sent")),
        });
        (answer, pending.take_payload())
    }

    /// Has everything written to disk.
    ///
    /// # Errors
    /// The request's.
    pub async fn flush(&self) -> Result<(), Error> {
        let request = FlushRequest { file_id: self.opened.file, ..FlushRequest::blank() };
        let reply =
            self.tree.exchange(OutgoingRequest::new(Command::Flush, move |body| body.push(&request))).await?;
        reply.body().map(|_| ())
    }

    /// Closes it; with bits of [`smb_wire::body::close`] the server tells of the file once more.
    ///
    /// # Errors
    /// The request's.
    pub async fn close(&self, flags: u16) -> Result<CloseResponse, Error> {
        let reply = self.tree.exchange(close_of(self.opened.file, flags)).await?;
        match reply.body()? {
            Response::Close(answer) => Ok(*answer),
            _ => Err(Error::Unexpected("something else than a close")),
        }
    }

    /// Queries information of this type and class (MS-FSCC 2.4, 2.5), up to `len` bytes; more of it is cut off.
    ///
    /// # Errors
    /// The request's.
    pub async fn query(&self, info_type: u8, class: u8, additional: u32, len: u32) -> Result<Data, Error> {
        let reply = self.tree.exchange(query_of(self.opened.file, info_type, class, additional, len)).await?;
        let Response::QueryInfo(output) = reply.body()? else {
            return Err(Error::Unexpected("something else than information"));
        };
        let range = reply.range_of(output.data);
        Ok(Data { reply: Some(reply), range })
    }

    /// Changes information of this type and class.
    ///
    /// # Errors
    /// The request's.
    pub async fn set(&self, info_type: u8, class: u8, additional: u32, data: &[u8]) -> Result<(), Error> {
        let fixed = SetInfoRequestFixed {
            info_type,
            file_info_class: class,
            additional_information: additional.into(),
            file_id: self.opened.file,
            ..SetInfoRequestFixed::blank()
        };
        let request = OutgoingRequest::new(Command::SetInfo, |body| SetInfoRequest::write(body, fixed, data));
        let sent = u32::try_from(data.len()).map_err(|_| Error::TooLarge)?;
        self.tree.exchange(request.carrying(sent, 0).with(self.flags)).await?.body().map(|_| ())
    }

    /// Gives the file another name: from the share's root on, over what has that where `replace` says so. The open needs
    /// [`rights::DELETE`].
    ///
    /// # Errors
    /// The request's; `STATUS_OBJECT_NAME_COLLISION`.
    pub async fn rename(&self, name: &str, replace: bool) -> Result<(), Error> {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let fixed = RenameFixed {
            flags: u32::from(replace).into(),
            file_name_length: (name.len() as u32).into(),
            ..RenameFixed::new_zeroed()
        };
        let data = [fixed.as_bytes(), &name].concat();
        self.set(info_type::FILE, class::RENAME, 0, &data).await
    }

    /// Locks or unlocks ranges: bits of [`smb_wire::body::lock::flags`]. One that is to wait is answered when it is granted.
    ///
    /// # Errors
    /// The connection's.
    pub async fn lock(&self, sequence: u32, ranges: &[LockElement]) -> Result<Pending, Error> {
        let fixed = LockRequestFixed {
            lock_sequence: sequence.into(),
            file_id: self.opened.file,
            ..LockRequestFixed::blank()
        };
        let request = OutgoingRequest::new(Command::Lock, |body| LockRequest::write(body, fixed, ranges))
            .with(self.flags);
        let [pending] = self.tree.start([request]).await?;
        Ok(pending)
    }

    /// Waits for changes in a directory: bits of [`smb_wire::body::change_notify`]. Answered when there are some.
    ///
    /// # Errors
    /// The connection's.
    pub async fn notify(&self, flags: u16, filter: u32, len: u32) -> Result<Pending, Error> {
        let request = ChangeNotifyRequest {
            flags: flags.into(),
            output_buffer_length: len.into(),
            file_id: self.opened.file,
            completion_filter: filter.into(),
            ..ChangeNotifyRequest::blank()
        };
        let request =
            OutgoingRequest::new(Command::ChangeNotify, move |body| body.push(&request)).carrying(0, len);
        let [pending] = self.tree.start([request]).await?;
        Ok(pending)
    }

    /// Sends a control code of file systems, and returns its answer.
    ///
    /// # Errors
    /// The request's.
    pub async fn control(&self, code: u32, input: &[u8], output_max: u32) -> Result<Data, Error> {
        let fixed = IoctlRequestFixed {
            ctl_code: code.into(),
            file_id: self.opened.file,
            max_output_response: output_max.into(),
            flags: FLAG_IS_FSCTL.into(),
            ..IoctlRequestFixed::blank()
        };
        let sent = u32::try_from(input.len()).map_err(|_| Error::TooLarge)?;
        let request = OutgoingRequest::new(Command::Ioctl, |body| IoctlRequest::write(body, fixed, input));
        let reply = self.tree.exchange(request.carrying(sent, output_max).with(self.flags)).await?;
        let Response::Ioctl(answer) = reply.body()? else {
            return Err(Error::Unexpected("something else than a control code's answer"));
        };
        let range = reply.range_of(answer.output);
        Ok(Data { reply: Some(reply), range })
    }
}

impl OpenInfo {
    pub(crate) fn created(&self) -> &CreateResponseFixed {
        &self.created
    }

    pub(crate) fn file(&self) -> FileId {
        self.file
    }
}

impl Data {
    /// Takes the bytes of an answer to READ of up to `len`.
    ///
    /// # Errors
    /// The request's, but for the end of the file, which is no bytes.
    pub fn of(reply: Reply, len: u32) -> Result<Self, Error> {
        if reply.status() == Status::END_OF_FILE {
            return Ok(Self { reply: None, range: 0..0 });
        }
        let range = match reply.body()? {
            Response::Read(answer) if answer.data.len() <= len as usize => reply.range_of(answer.data),
            _ => return Err(Error::Unexpected("more bytes than were asked for")),
        };
        Ok(Self { reply: Some(reply), range })
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.reply.as_ref().map_or(&[], |reply| &reply.bytes()[self.range.clone()])
    }
}

/// Creates a READ, in a compound of [`FileId::RELATED`].
pub(crate) fn read_of(file: FileId, offset: u64, len: u32) -> OutgoingRequest<'static> {
    let request = ReadRequest {
        padding: PADDING,
        length: len.into(),
        offset: offset.into(),
        file_id: file,
        ..ReadRequest::blank()
    };
    let write = move |body: &mut smb_wire::message::Body<'_>| {
        body.push(&request);
        // The structure's size counts one byte of a buffer that there is not.
        body.bytes(&[0]);
    };
    OutgoingRequest::new(Command::Read, write).carrying(0, len)
}

pub(crate) fn close_of(file: FileId, flags: u16) -> OutgoingRequest<'static> {
    let request = CloseRequest { flags: flags.into(), file_id: file, ..CloseRequest::blank() };
    OutgoingRequest::new(Command::Close, move |body| body.push(&request))
}

pub(crate) fn query_of(
    file: FileId,
    info_type: u8,
    class: u8,
    additional: u32,
    len: u32,
) -> OutgoingRequest<'static> {
    let fixed = QueryInfoRequestFixed {
        info_type,
        file_info_class: class,
        output_buffer_length: len.into(),
        additional_information: additional.into(),
        file_id: file,
        ..QueryInfoRequestFixed::blank()
    };
    OutgoingRequest::new(Command::QueryInfo, move |body| QueryInfoRequest::write(body, fixed, &[]))
        .carrying(0, len)
}

/// Offset at which the data of an answer is wanted: behind the header of its structure.
const PADDING: u8 = smb_wire::body::read::DATA_OFFSET;
/// `ImpersonationLevel` (MS-SMB2 2.2.13).
const IMPERSONATION: u32 = 2;
