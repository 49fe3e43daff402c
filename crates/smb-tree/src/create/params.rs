//! The parameters of a CREATE: its fields, checked one by one (MS-SMB2 3.3.5.9).

use std::sync::Arc;

use grants::LeaseKey;
use smb_wire::create::access::{attributes, expand_generic, rights, share};
use smb_wire::create::context::{AaplRequest, CreateContext};
use smb_wire::create::lease::Lease;
use smb_wire::create::{CreateRequest, Disposition, oplock_level, options};
use smb_wire::name::Name;
use smb_wire::{Dialect, Guid, Status};

use super::durable::Durable;
use super::lease_key_conflict::SharedLeaseKey;
use crate::app_instances::AppInstance;
use crate::names::Case;
use crate::request_context::RequestContext;
use crate::tree::guid_bytes;

/// The checked fields and create contexts of a CREATE request (MS-SMB2 2.2.13).
pub(crate) struct CreateParams<'a> {
    pub(crate) name: Name,
    /// Specific rights, and [`rights::MAXIMUM_ALLOWED`].
    pub(crate) access: u32,
    pub(crate) share_access: u32,
    pub(crate) disposition: Disposition,
    pub(crate) options: u32,
    pub(crate) attributes: u32,
    pub(crate) oplock: u8,
    pub(crate) contexts: CreateContexts<'a>,
    /// Set where another file is open by the same lease key: nothing is cached by the key then.
    pub(crate) shared_lease_key: Option<Arc<SharedLeaseKey>>,
}

/// The create contexts of a request (MS-SMB2 2.2.13.2), decoded.
#[derive(Default)]
pub(crate) struct CreateContexts<'a> {
    pub(crate) ea: Option<&'a [u8]>,
    pub(crate) security: Option<&'a [u8]>,
    pub(crate) allocation: Option<u64>,
    pub(crate) maximal_access: Option<Option<u64>>,
    pub(crate) on_disk_id: bool,
    pub(crate) lease: Option<Lease<'a>>,
    pub(crate) aapl: Option<&'a AaplRequest>,
    /// The mode of a file that is made.
    pub(crate) posix: Option<u32>,
    pub(crate) durable: Durable<'a>,
    pub(crate) app_instance: Option<AppInstance>,
}

impl<'a> CreateParams<'a> {
    /// Checks the fields of `request`; `contexts` are its create contexts.
    pub(crate) fn of(request: &CreateRequest<'a>, contexts: CreateContexts<'a>) -> Result<Self, Status> {
        let fixed = request.fixed;
        if fixed.impersonation_level.get() > IMPERSONATION_LEVEL_MAX {
            return Err(Status::BAD_IMPERSONATION_LEVEL);
        }
        let name = Name::parse(request.name)?;
        let options = checked_options(fixed.create_options.get())?;
        if fixed.file_attributes.get() & !ATTRIBUTES_KNOWN != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        //= MS-FSA 2.1.5.1
        //# A name with a backslash at its end is no file's: STATUS_OBJECT_NAME_INVALID.
        if name.is_directory && options & options::NON_DIRECTORY_FILE != 0 {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let disposition = Disposition::from_wire(fixed.create_disposition.get());
        let disposition = disposition.ok_or(Status::INVALID_PARAMETER)?;
        let is_open = matches!(disposition, Disposition::Create | Disposition::Open | Disposition::OpenIf);
        //= MS-FSA 2.1.5.1
        //# A directory is opened or made, and never put in place of what is there.
        if options & options::DIRECTORY_FILE != 0 && !is_open {
            return Err(Status::INVALID_PARAMETER);
        }
        //= MS-FSA 2.1.5.1
        //# A stream is no directory, whether there is one or not.
        if options & options::DIRECTORY_FILE != 0 && (name.stream.is_some() || name.is_data) {
            return Err(Status::NOT_A_DIRECTORY);
        }
        let share_access = fixed.share_access.get();
        //= MS-SMB2 3.3.5.9
        //# ShareAccess with other bits than read, write and delete fails with STATUS_INVALID_PARAMETER.
        if share_access & !share::ALL != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        let access = checked_access(fixed.desired_access.get())?;
        let asks_delete = access & (rights::DELETE | rights::MAXIMUM_ALLOWED) != 0;
        //= MS-FSA 2.1.5.1
        //# FILE_DELETE_ON_CLOSE without DELETE fails with STATUS_INVALID_PARAMETER.
        if options & options::DELETE_ON_CLOSE != 0 && !asks_delete {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(Self {
            name,
            access,
            share_access,
            disposition,
            options,
            attributes: fixed.file_attributes.get(),
            oplock: fixed.requested_oplock_level,
            contexts,
            shared_lease_key: None,
        })
    }

    pub(crate) fn has(&self, options: u32) -> bool {
        self.options & options != 0
    }

    /// Returns which names are found by the one that is asked for.
    pub(crate) fn case(&self) -> Case {
        if self.contexts.posix.is_some() { Case::Exact } else { Case::Any }
    }

    /// Returns whether a link is itself what is asked for, or what stops the way: such a client follows links
    /// on its own.
    pub(crate) fn minds_links(&self) -> bool {
        self.name.stream.is_none() && (self.contexts.posix.is_some() || self.has(options::OPEN_REPARSE_POINT))
    }

    /// Returns whether what is there is emptied.
    pub(crate) fn overwrites(&self) -> bool {
        matches!(self.disposition, Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteIf)
    }

    /// Returns whether what is not there is made.
    pub(crate) fn makes(&self) -> bool {
        !matches!(self.disposition, Disposition::Open | Disposition::Overwrite)
    }

    /// Returns whether what is there is opened.
    pub(crate) fn opens(&self) -> bool {
        self.disposition != Disposition::Create
    }
}

impl<'a> CreateContexts<'a> {
    pub(super) fn of(ctx: &RequestContext, request: &CreateRequest<'a>) -> Result<Self, Status> {
        let mut contexts = Self::default();
        let (mut app_instance, mut version) = (None, None);
        for context in request.contexts.iter() {
            match context.map_err(|malformed| malformed.status())? {
                CreateContext::EaBuffer(list) => contexts.ea = Some(list),
                CreateContext::SdBuffer(descriptor) => contexts.security = Some(descriptor),
                CreateContext::AllocationSize(bytes) => contexts.allocation = Some(bytes),
                CreateContext::MaximalAccess(since) => contexts.maximal_access = Some(since),
                CreateContext::OnDiskId => contexts.on_disk_id = true,
                CreateContext::Lease(lease) => contexts.lease = known(lease, ctx),
                CreateContext::Aapl(aapl) => contexts.aapl = Some(aapl),
                CreateContext::Posix(mode) if ctx.posix => contexts.posix = Some(mode),
                //= MS-SMB2 3.3.5.9.3
                //# No snapshot was taken at this time, or at any.
                CreateContext::Timewarp(_) => return Err(Status::OBJECT_NAME_NOT_FOUND),
                CreateContext::DurableRequest => contexts.durable = Durable::V1,
                CreateContext::DurableRequestV2(asked) if ctx.dialect.is_smb3() => {
                    contexts.durable = Durable::V2(asked);
                }
                CreateContext::AppInstanceId(id) if ctx.dialect.is_smb3() => app_instance = Some(id),
                //= MS-SMB2 3.3.5.9.13
                //# Versions of an instance are of dialect 3.1.1.
                CreateContext::AppInstanceVersion(high, low) if ctx.dialect >= Dialect::Smb311 => {
                    version = Some((high, low));
                }
                CreateContext::Posix(_)
                | CreateContext::DurableRequestV2(_)
                | CreateContext::DurableReconnect(_)
                | CreateContext::DurableReconnectV2(_)
                | CreateContext::AppInstanceId(_)
                | CreateContext::AppInstanceVersion(..)
                | CreateContext::Unknown(..) => {}
            }
        }
        contexts.app_instance = app_instance.map(|id| AppInstance { id, version });
        Ok(contexts)
    }

    /// Drops the lease context unless the request's oplock level is a lease's.
    pub(super) fn with_lease_of(self, oplock: u8) -> Self {
        //= MS-SMB2 3.3.5.9.8
        //# A lease is looked at where RequestedOplockLevel is SMB2_OPLOCK_LEVEL_LEASE.
        Self { lease: self.lease.filter(|_| oplock == oplock_level::LEASE), ..self }
    }
}

/// Returns the lease, if what was negotiated knows it.
fn known<'a>(lease: Lease<'a>, ctx: &RequestContext) -> Option<Lease<'a>> {
    let since = match lease {
        Lease::V1(_) => Dialect::Smb210,
        Lease::V2(_) => Dialect::Smb300,
    };
    (ctx.dialect >= since).then_some(lease)
}

/// Returns the key of a lease of this client.
pub(crate) fn lease_key(ctx: &RequestContext, key: Guid) -> LeaseKey {
    LeaseKey { client: guid_bytes(ctx.client), key: guid_bytes(key) }
}

fn checked_options(bits: u32) -> Result<u32, Status> {
    if bits & OPTIONS_UNKNOWN != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    if bits & OPTIONS_UNSUPPORTED != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    if bits & options::DIRECTORY_FILE != 0 && bits & options::NON_DIRECTORY_FILE != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(bits)
}

fn checked_access(mask: u32) -> Result<u32, Status> {
    //= MS-SMB2 3.3.5.9
    //# A mask with reserved bits fails with STATUS_ACCESS_DENIED.
    if mask & rights::RESERVED != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let access = expand_generic(mask);
    //= MS-SMB2 3.3.5.9
    //# No user may read or write the audit list here.
    if access & rights::ACCESS_SYSTEM_SECURITY != 0 {
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    //= MS-FSA 2.1.5.1
    //# A mask without any right fails with STATUS_ACCESS_DENIED.
    if access == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    Ok(access)
}

/// SECURITY_DELEGATION.
const IMPERSONATION_LEVEL_MAX: u32 = 3;
/// Attributes of MS-FSCC 2.6, but for those of devices and volumes.
const ATTRIBUTES_KNOWN: u32 = 0x7fb7;
/// Bits of no option.
const OPTIONS_UNKNOWN: u32 = 0xff00_0000;
/// FILE_OPEN_BY_FILE_ID, FILE_CREATE_TREE_CONNECTION, FILE_RESERVE_OPFILTER.
const OPTIONS_UNSUPPORTED: u32 = 0x0010_2080;

/// Attributes that a client gives a file it makes.
pub(crate) const GIVEN: u32 = attributes::READONLY
    | attributes::HIDDEN
    | attributes::SYSTEM
    | attributes::ARCHIVE
    | attributes::TEMPORARY
    | attributes::OFFLINE
    | attributes::NOT_CONTENT_INDEXED;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_masks_are_refused_bit_by_bit_as_windows_does() {
        let (mut ok, mut invalid, mut unsupported) = (0, 0, 0);
        for bit in (0..32).map(|bit| 1 << bit) {
            match checked_options(bit) {
                Ok(_) => ok |= bit,
                Err(Status::INVALID_PARAMETER) => invalid |= bit,
                Err(status) => {
                    assert_eq!(status, Status::NOT_SUPPORTED);
                    unsupported |= bit;
                }
            }
        }
        assert_eq!((ok, unsupported, invalid), (0x00ef_df7f, 0x0010_2080, 0xff00_0000));
        let refused = (0..32).map(|bit| 1 << bit).filter(|bit| checked_access(*bit).is_err());
        assert_eq!(refused.fold(0, |mask, bit| mask | bit), 0x0de0_fe00);
        assert_eq!(checked_access(rights::ACCESS_SYSTEM_SECURITY), Err(Status::PRIVILEGE_NOT_HELD));
        assert_eq!(checked_access(rights::GENERIC_READ), Ok(rights::FILE_READ));
        assert_eq!(
            checked_options(options::DIRECTORY_FILE | options::NON_DIRECTORY_FILE),
            Err(Status::INVALID_PARAMETER)
        );
    }
}
