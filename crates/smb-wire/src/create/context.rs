//! Create contexts (MS-SMB2 2.2.13.2, 2.2.14.2): what a CREATE asks for beside the open, and what it gets.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::chain::Entries;
use crate::create::lease::Lease;
use crate::fixed::{Plain, prefix, wire};
use crate::guid::{FileId, Guid};
use crate::malformed::Malformed;

/// Most contexts of one request that are taken; some twenty are defined.
pub const CONTEXTS_MAX: usize = 64;

/// Names of contexts.
pub mod tag {
    /// SMB2_CREATE_EA_BUFFER: extended attributes of a new file.
    pub const EA_BUFFER: &[u8] = b"ExtA";
    /// SMB2_CREATE_SD_BUFFER: the security descriptor of a new file.
    pub const SD_BUFFER: &[u8] = b"SecD";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST: asks for a durable open, version 1.
    pub const DURABLE_REQUEST: &[u8] = b"DHnQ";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT: reconnects a durable open, version 1.
    pub const DURABLE_RECONNECT: &[u8] = b"DHnC";
    /// SMB2_CREATE_ALLOCATION_SIZE: the number of bytes to set aside.
    pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
    /// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST: asks for the client's rights.
    pub const MAXIMAL_ACCESS: &[u8] = b"MxAc";
    /// SMB2_CREATE_TIMEWARP_TOKEN: opens the file as it was at a time.
    pub const TIMEWARP: &[u8] = b"TWrp";
    /// SMB2_CREATE_QUERY_ON_DISK_ID: asks for the file's number on disk.
    pub const ON_DISK_ID: &[u8] = b"QFid";
    /// SMB2_CREATE_REQUEST_LEASE: asks for a lease, version 1 or 2.
    pub const LEASE: &[u8] = b"RqLs";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2: asks for a durable open, version 2.
    pub const DURABLE_REQUEST_V2: &[u8] = b"DH2Q";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2: reconnects a durable open, version 2.
    pub const DURABLE_RECONNECT_V2: &[u8] = b"DH2C";
    /// SMB2_CREATE_APP_INSTANCE_ID: names the instance of the application.
    pub const APP_INSTANCE_ID: &[u8] =
        &[0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74];
    /// SMB2_CREATE_APP_INSTANCE_VERSION: the version of the application instance.
    pub const APP_INSTANCE_VERSION: &[u8] =
        &[0xb9, 0x82, 0xd0, 0xb7, 0x3b, 0x56, 0x07, 0x4f, 0xa0, 0x7b, 0x52, 0x4a, 0x81, 0x16, 0xa0, 0x10];
    /// Extensions of macOS.
    pub const AAPL: &[u8] = b"AAPL";
    /// Extensions for POSIX, as Linux's client and Samba speak them.
    pub const POSIX: &[u8] =
        &[0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];
}

wire! {
    /// Head of each context, MS-SMB2 2.2.13.2.
    pub struct ContextHead {
        next: U32,
        name_offset: U16,
        name_length: U16,
        reserved: U16,
        data_offset: U16,
        data_length: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.13.2.11
    pub struct DurableRequestV2 {
        /// Milliseconds; 0 leaves it to the server.
        timeout: U32,
        /// 2: persistent.
        flags: U32,
        reserved: U64,
        create_guid: Guid,
    }
}

wire! {
    /// MS-SMB2 2.2.13.2.12
    pub struct DurableReconnectV2 {
        file_id: FileId,
        create_guid: Guid,
        flags: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.14.2.12
    pub struct DurableResponseV2 {
        timeout: U32,
        flags: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.13.2.13
    pub struct AppInstanceId {
        structure_size: U16,
        reserved: U16,
        app_instance_id: Guid,
    }
}

wire! {
    /// MS-SMB2 2.2.13.2.15
    pub struct AppInstanceVersion {
        structure_size: U16,
        reserved: U16,
        padding: U32,
        high: U64,
        low: U64,
    }
}

wire! {
    /// MS-SMB2 2.2.14.2.5
    pub struct MaximalAccessResponse {
        query_status: U32,
        maximal_access: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.14.2.9
    pub struct OnDiskIdResponse {
        disk_file_id: U64,
        volume_id: U64,
        reserved: [u8; 16],
    }
}

wire! {
    /// Request of macOS in its create context: `command` 1 is the server's abilities, of which `bitmap` says
    /// which (server 1, volume 2, model 4).
    pub struct AaplRequest {
        command: U32,
        reserved: U32,
        bitmap: U64,
        client_capabilities: U64,
    }
}

/// One context of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateContext<'a> {
    /// A list of [`crate::info::ea`].
    EaBuffer(&'a [u8]),
    /// A [`crate::info::security`] descriptor.
    SdBuffer(&'a [u8]),
    /// A durable handle is asked for.
    DurableRequest,
    /// A durable handle is claimed again.
    DurableReconnect(FileId),
    /// Bytes to set aside.
    AllocationSize(u64),
    /// The asker's rights are asked for: if the file changed after this time, where one is given.
    MaximalAccess(Option<u64>),
    /// The file as it was at this time.
    Timewarp(u64),
    /// The file's number on disk is asked for.
    OnDiskId,
    /// A lease is asked for.
    Lease(Lease<'a>),
    /// A durable or persistent handle is asked for.
    DurableRequestV2(&'a DurableRequestV2),
    /// Reconnects a durable open, version 2.
    DurableReconnectV2(&'a DurableReconnectV2),
    /// Names the instance of the application.
    AppInstanceId(Guid),
    /// Version of the application instance, high and low.
    AppInstanceVersion(u64, u64),
    /// macOS asks what the server can.
    Aapl(&'a AaplRequest),
    /// POSIX semantics are asked for; the mode of a file that is made.
    Posix(u32),
    /// Context of an unknown name, which is passed over.
    Unknown(&'a [u8], &'a [u8]),
}

impl<'a> CreateContext<'a> {
    /// Parses the context of this name with this data.
    pub fn parse(name: &'a [u8], data: &'a [u8]) -> Result<Self, Malformed> {
        Ok(match name {
            tag::EA_BUFFER => Self::EaBuffer(data),
            tag::SD_BUFFER => Self::SdBuffer(data),
            tag::DURABLE_REQUEST => {
                exact::<[u8; 16]>(data)?;
                Self::DurableRequest
            }
            tag::DURABLE_RECONNECT => Self::DurableReconnect(*exact(data)?),
            tag::ALLOCATION_SIZE => Self::AllocationSize(exact::<U64>(data)?.get()),
            tag::MAXIMAL_ACCESS if data.is_empty() => Self::MaximalAccess(None),
            tag::MAXIMAL_ACCESS => Self::MaximalAccess(Some(exact::<U64>(data)?.get())),
            tag::TIMEWARP => Self::Timewarp(exact::<U64>(data)?.get()),
            tag::ON_DISK_ID if data.is_empty() => Self::OnDiskId,
            tag::ON_DISK_ID => return Err(Malformed::Value),
            tag::LEASE => Self::Lease(Lease::parse(data)?),
            tag::DURABLE_REQUEST_V2 => Self::DurableRequestV2(exact(data)?),
            tag::DURABLE_RECONNECT_V2 => Self::DurableReconnectV2(exact(data)?),
            tag::APP_INSTANCE_ID => {
                let id = exact::<AppInstanceId>(data)?;
                sized(id.structure_size, id)?;
                Self::AppInstanceId(id.app_instance_id)
            }
            tag::APP_INSTANCE_VERSION => {
                let version = exact::<AppInstanceVersion>(data)?;
                sized(version.structure_size, version)?;
                Self::AppInstanceVersion(version.high.get(), version.low.get())
            }
            tag::AAPL => Self::Aapl(exact(data)?),
            tag::POSIX => Self::Posix(exact::<U32>(data)?.get()),
            unknown => Self::Unknown(unknown, data),
        })
    }
}

/// Parses data that is just this structure. A context of another length was made for something else.
fn exact<T: Plain>(data: &[u8]) -> Result<&T, Malformed> {
    T::ref_from_bytes(data).map_err(|_| Malformed::Value)
}

fn sized<T>(said: U16, structure: &T) -> Result<(), Malformed> {
    if usize::from(said.get()) == size_of_val(structure) { Ok(()) } else { Err(Malformed::StructureSize) }
}

/// The contexts of a request or a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contexts<'a>(&'a [u8]);

impl<'a> Contexts<'a> {
    /// Parses the list `bytes`, all of which is walked once: names and data lie where they must, and there are not too
    /// many.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let contexts = Self(bytes);
        for (count, context) in contexts.raw().enumerate() {
            context?;
            if count >= CONTEXTS_MAX {
                return Err(Malformed::Count);
            }
        }
        Ok(contexts)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns name and data of each context.
    fn raw(&self) -> impl Iterator<Item = Result<(&'a [u8], &'a [u8]), Malformed>> + use<'a> {
        Entries::new(self.0, 8, size_of::<ContextHead>() + 4).map(|entry| entry.and_then(take))
    }

    /// Returns a request's contexts, in order.
    ///
    /// One that is not whole fails the request (MS-SMB2 3.3.5.9), whether or not its kind is granted here.
    pub fn iter(&self) -> impl Iterator<Item = Result<CreateContext<'a>, Malformed>> + use<'a> {
        self.raw().map(|context| context.and_then(|(name, data)| CreateContext::parse(name, data)))
    }

    /// Returns the data of the context of this name: how a client finds what it was granted.
    pub fn find(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut found = self.raw().filter_map(Result::ok).filter(|(tag, _)| *tag == name);
        found.next().map(|(_, data)| data)
    }
}

fn take(entry: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (head, _) = prefix::<ContextHead>(entry)?;
    let name = (usize::from(head.name_offset.get()), usize::from(head.name_length.get()));
    let data = (usize::from(head.data_offset.get()), head.data_length.get() as usize);
    //= MS-SMB2 3.3.5.9
    //# A context whose name is shorter than four bytes fails the request.
    if name.0 < size_of::<ContextHead>() || name.1 < 4 {
        return Err(Malformed::Offset);
    }
    //= MS-SMB2 2.2.13.2
    //# The name is aligned to 8 bytes.
    if !name.0.is_multiple_of(8) {
        return Err(Malformed::Alignment);
    }
    let name_end = name.0 + name.1;
    let tag = entry.get(name.0..name_end).ok_or(Malformed::Offset)?;
    //= MS-SMB2 2.2.13.2
    //# Where DataLength is zero DataOffset is ignored.
    if data.1 == 0 {
        return Ok((tag, &[]));
    }
    if data.0 < name_end {
        return Err(Malformed::Offset);
    }
    if !data.0.is_multiple_of(8) {
        return Err(Malformed::Alignment);
    }
    let end = data.0.checked_add(data.1).ok_or(Malformed::Offset)?;
    Ok((tag, entry.get(data.0..end).ok_or(Malformed::Offset)?))
}

/// Puts contexts together.
#[derive(Debug, Default)]
pub struct ContextWriter(Vec<u8>, Option<usize>);

impl ContextWriter {
    /// Creates a writer that has no context yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one.
    pub fn push(&mut self, name: &[u8], data: &[u8]) {
        let at = self.0.len().next_multiple_of(8);
        let base = self.1.unwrap_or(0);
        let mut out = std::mem::take(&mut self.0);
        let data_offset = (size_of::<ContextHead>() + name.len()).next_multiple_of(8);
        let head = ContextHead {
            next: U32::ZERO,
            name_offset: U16::new(size_of::<ContextHead>() as u16),
            name_length: U16::new(u16::try_from(name.len()).expect("a short name")),
            reserved: U16::ZERO,
            data_offset: U16::new(if data.is_empty() { 0 } else { data_offset as u16 }),
            data_length: U32::new(u32::try_from(data.len()).expect("short data")),
        };
        out.resize(at, 0);
        out.extend(head.as_bytes());
        out.extend(name);
        out.resize(at + data_offset, 0);
        out.extend(data);
        if self.1.is_some() {
            out[base..base + 4].copy_from_slice(&((at - base) as u32).to_le_bytes());
        }
        (self.0, self.1) = (out, Some(at));
    }

    /// Appends one that is a structure.
    pub fn push_plain(&mut self, name: &[u8], data: &impl Plain) {
        self.push(name, data.as_bytes());
    }

    /// Appends those of another list, but for what is no context.
    pub fn push_all(&mut self, contexts: &Contexts<'_>) {
        contexts.raw().flatten().for_each(|(name, data)| self.push(name, data));
    }

    /// Returns the bytes of all contexts.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the answer to macOS about a server: bits of abilities, bits of the volume's, and a model that picks the
/// icon.
pub fn aapl_response(server: Option<u64>, volume: Option<u64>, model: Option<&str>) -> Vec<u8> {
    let bits =
        u64::from(server.is_some()) | u64::from(volume.is_some()) << 1 | u64::from(model.is_some()) << 2;
    let mut out = 1u32.to_le_bytes().to_vec();
    out.extend([0; 4]);
    out.extend(bits.to_le_bytes());
    for word in [server, volume].into_iter().flatten() {
        out.extend(word.to_le_bytes());
    }
    if let Some(model) = model {
        let model = crate::text::encoded(model);
        out.extend([0; 4]);
        out.extend((model.len() as u32).to_le_bytes());
        out.extend(model);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::lease::LeaseV2;
    use zerocopy::FromZeros;

    #[test]
    fn every_context_comes_back_as_what_it_is() {
        let mut writer = ContextWriter::new();
        let lease = LeaseV2 { lease_state: 7.into(), ..LeaseV2::new_zeroed() };
        let durable = DurableRequestV2 { timeout: 5.into(), ..DurableRequestV2::new_zeroed() };
        let instance = AppInstanceId { structure_size: 20.into(), ..AppInstanceId::new_zeroed() };
        let version = AppInstanceVersion {
            structure_size: 24.into(),
            high: 1.into(),
            ..AppInstanceVersion::new_zeroed()
        };
        let aapl = AaplRequest { command: 1.into(), ..AaplRequest::new_zeroed() };
        writer.push(tag::EA_BUFFER, b"attributes");
        writer.push(tag::SD_BUFFER, b"descriptor");
        writer.push(tag::DURABLE_REQUEST, &[0; 16]);
        writer.push_plain(tag::DURABLE_RECONNECT, &FileId::new(1, 2));
        writer.push(tag::ALLOCATION_SIZE, &7u64.to_le_bytes());
        writer.push(tag::MAXIMAL_ACCESS, &[]);
        writer.push(tag::MAXIMAL_ACCESS, &9u64.to_le_bytes());
        writer.push(tag::TIMEWARP, &8u64.to_le_bytes());
        writer.push(tag::ON_DISK_ID, &[]);
        writer.push_plain(tag::LEASE, &lease);
        writer.push_plain(tag::DURABLE_REQUEST_V2, &durable);
        writer.push_plain(tag::APP_INSTANCE_ID, &instance);
        writer.push_plain(tag::APP_INSTANCE_VERSION, &version);
        writer.push_plain(tag::AAPL, &aapl);
        writer.push(tag::POSIX, &0o644u32.to_le_bytes());
        writer.push(b"None", b"x");
        let contexts = Contexts::parse(writer.bytes()).unwrap();
        let read: Vec<_> = contexts.iter().map(Result::unwrap).collect();
        assert_eq!(
            read,
            [
                CreateContext::EaBuffer(b"attributes"),
                CreateContext::SdBuffer(b"descriptor"),
                CreateContext::DurableRequest,
                CreateContext::DurableReconnect(FileId::new(1, 2)),
                CreateContext::AllocationSize(7),
                CreateContext::MaximalAccess(None),
                CreateContext::MaximalAccess(Some(9)),
                CreateContext::Timewarp(8),
                CreateContext::OnDiskId,
                CreateContext::Lease(Lease::V2(&lease)),
                CreateContext::DurableRequestV2(&durable),
                CreateContext::AppInstanceId(Guid::default()),
                CreateContext::AppInstanceVersion(1, 0),
                CreateContext::Aapl(&aapl),
                CreateContext::Posix(0o644),
                CreateContext::Unknown(b"None", b"x"),
            ]
        );
        assert_eq!(contexts.find(b"None"), Some(&b"x"[..]));
        assert_eq!(contexts.find(b"Nine"), None);
    }

    #[test]
    fn a_context_of_another_length_is_refused() {
        for (name, len) in [
            (tag::DURABLE_REQUEST, 15),
            (tag::DURABLE_RECONNECT, 17),
            (tag::ALLOCATION_SIZE, 4),
            (tag::MAXIMAL_ACCESS, 7),
            (tag::TIMEWARP, 9),
            (tag::ON_DISK_ID, 1),
            (tag::LEASE, 33),
            (tag::DURABLE_REQUEST_V2, 31),
            (tag::DURABLE_RECONNECT_V2, 32),
            (tag::APP_INSTANCE_ID, 16),
            (tag::AAPL, 8),
            (tag::POSIX, 0),
        ] {
            let mut writer = ContextWriter::new();
            writer.push(name, &vec![0; len]);
            let contexts = Contexts::parse(writer.bytes()).unwrap();
            assert_eq!(contexts.iter().next(), Some(Err(Malformed::Value)), "{}", name.escape_ascii());
        }
        let unsized_id = CreateContext::parse(tag::APP_INSTANCE_ID, &[0; 20]);
        assert_eq!(unsized_id, Err(Malformed::StructureSize));
    }

    #[test]
    fn names_and_data_that_lie_outside_are_refused() {
        let mut writer = ContextWriter::new();
        writer.push(tag::TIMEWARP, &[0; 8]);
        let whole = writer.bytes().to_vec();
        let with = |at: usize, value: u16| {
            let mut bytes = whole.clone();
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
            Contexts::parse(&bytes).map(|_| ())
        };
        assert_eq!(with(4, 15), Err(Malformed::Offset), "the name lies in the head");
        assert_eq!(with(4, 17), Err(Malformed::Alignment));
        assert_eq!(with(4, 0xfff0), Err(Malformed::Offset));
        assert_eq!(with(6, 3), Err(Malformed::Offset));
        assert_eq!(with(10, 16), Err(Malformed::Offset), "the data lies in the name");
        assert_eq!(with(10, 28), Err(Malformed::Alignment));
        assert_eq!(with(12, 9), Err(Malformed::Offset));
        assert_eq!(with(14, 0xffff), Err(Malformed::Offset));
        let mut many = ContextWriter::new();
        (0..=CONTEXTS_MAX).for_each(|_| many.push(tag::ON_DISK_ID, &[]));
        assert_eq!(Contexts::parse(many.bytes()).map(|_| ()), Err(Malformed::Count));
    }

    #[test]
    fn macos_is_told_what_it_asked_for() {
        let answer = aapl_response(Some(5), None, Some("Mac"));
        assert_eq!(answer.len(), 4 + 4 + 8 + 8 + 8 + 6);
        assert_eq!(answer[8], 0b101);
        assert_eq!(answer[28..32], [6, 0, 0, 0]);
    }
}
