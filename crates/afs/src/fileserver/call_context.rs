//! The context of a call: the volume of its FID, the host that calls, and the principal that it acts for.

use std::sync::Arc;

use afs_wire::code::{EINVAL, EROFS, VNOVNODE, VNOVOL};
use afs_wire::{Fid, VolumeSync, rxafs};
use identity::{Principal, Rights};
use rx_lane::ServerConnection;
use vfs::{Caller, Directory, Name, Number};

use super::call_failure::CallFailure;
use super::{Call, ServedCall};
use crate::attached_volumes::{AttachedVolume, VolumeType};
use crate::fid;
use crate::host::Host;
use crate::roots;

/// The volume, host and caller that one call is about.
pub(super) struct CallContext {
    pub(super) volume: AttachedVolume,
    pub(super) host: Arc<Host>,
    pub(super) caller: Caller,
}

impl ServedCall {
    /// Makes the context of a call about `fid`: its host, its caller, and the volume by the number that the client uses.
    pub(super) async fn call_context(&self, call: &Call, fid: Fid) -> Result<CallContext, CallFailure> {
        let volume = self.volume(fid.volume)?;
        let host = self.host(call).await?;
        // A break names its own number anyway.
        if let Some(shared) = volume.volume.shared().filter(|shared| shared.id().0 != fid.volume) {
            host.add_volume_alias(shared.id(), fid.volume);
        }
        let caller = Caller::new(self.principal(call.connection())).sparing(host.holder());
        Ok(CallContext { volume, host, caller })
    }

    /// Makes the context of a call that changes `fid`; EROFS for a read-only or backup volume.
    pub(super) async fn change_context(&self, call: &Call, fid: Fid) -> Result<CallContext, CallFailure> {
        let context = self.call_context(call, fid).await?;
        if context.volume.kind == VolumeType::ReadWrite { Ok(context) } else { Err(EROFS.into()) }
    }

    pub(super) async fn host(&self, call: &Call) -> Result<Arc<Host>, CallFailure> {
        Ok(self.server.inner.hosts.of(call.data()).await?)
    }

    /// Returns the principal of a connection's client. So far all are anonymous: `system:anyuser`.
    pub(super) fn principal(&self, _: &ServerConnection) -> Principal {
        self.server.inner.attached.borrow().anonymous()
    }

    /// Returns what the reply of a call says of its volume.
    pub(super) fn sync(&self, call: &Call) -> VolumeSync {
        call.data().host().map_or_else(VolumeSync::default, |host| sync(&host))
    }

    pub(super) fn volume(&self, id: u32) -> Result<AttachedVolume, CallFailure> {
        let found = self.server.inner.attached.borrow().by_id(id);
        // Reads of synthetic volumes are answered before a call comes here; all other calls would change them.
        found.ok_or(if roots::has_number(id) { EROFS } else { VNOVOL }.into())
    }
}

impl CallContext {
    /// Returns the volume's sync data ([`ServedCall::sync`]).
    pub(super) fn sync(&self) -> VolumeSync {
        sync(&self.host)
    }

    /// Returns the number of a file in the volume.
    pub(super) fn number(&self, fid: Fid) -> Result<Number, CallFailure> {
        if fid.vnode == 0 || fid.uniquifier == 0 { Err(VNOVNODE.into()) } else { Ok(fid::number(fid)) }
    }

    /// Returns the FID of a file of the volume, by the number that the client knows that by.
    pub(super) fn fid(&self, number: Number) -> Fid {
        Fid { volume: self.volume.id, ..fid::of(vfs::VolumeId(self.volume.id), number) }
    }

    /// Returns those of `rights` that count for the volume type that the client named: copies cannot be changed.
    pub(super) fn left_of(&self, rights: Rights) -> Rights {
        match self.volume.kind {
            VolumeType::ReadWrite => rights,
            VolumeType::ReadOnly | VolumeType::Backup => rights.without(Rights::CHANGES | Rights::ADMINISTER),
        }
    }

    /// Finds a directory, to change something in it.
    pub(super) async fn directory(&self, fid: Fid) -> Result<Directory, CallFailure> {
        let found = self.volume.volume.find(&self.caller, self.number(fid)?, Rights::NONE).await?;
        Ok(found.into_directory()?.0)
    }
}

/// Parses a name of a directory's entry.
pub(super) fn name<'n>(
    bytes: &'n xdr::Bytes<'_, { afs_wire::NAME_MAX as usize }>,
) -> Result<Name<'n>, CallFailure> {
    // Clients put the name of their system in its place: no client could ask for the file.
    if bytes.ends_with(b"@sys") {
        return Err(EINVAL.into());
    }
    Ok(Name::parse(bytes)?)
}

/// Returns what replies say of a volume: since when its client relies on what it knows
/// ([`Host::relies_since`]).
fn sync(host: &Host) -> VolumeSync {
    VolumeSync { created: host.relies_since(), ..VolumeSync::default() }
}

/// Looks at something that changes all the time, before its client is asked to try again.
pub(super) const ATTEMPTS_MAX: u32 = 16;

/// Reply of a procedure.
pub(super) type Reply<P> = <P as xdr::rpc::Procedure>::Reply<'static>;

const _: () = assert!(rxafs::STATINDEX == 7);
