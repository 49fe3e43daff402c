//! Acknowledgements of breaks (MS-SMB2 3.3.5.22): what a client keeps of an oplock or a lease, by any of its connections.

use std::sync::Arc;

use grants::{BadAcknowledgement, Caching};
use smb_wire::create::oplock_level;
use smb_wire::{Guid, Status};

use crate::break_timeouts::BrokenGrant;
use crate::breaks::{BreakTarget, GrantedCaching, caching_of, level};
use crate::create::params::lease_key;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;

impl Share {
    /// Acknowledges an oplock break: the client keeps this level. Returns the level of the response.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER` for a level that no break leaves; `STATUS_INVALID_OPLOCK_PROTOCOL` where nothing was asked back.
    pub fn oplock_break(&self, _: &RequestContext, open: &Arc<Open>, kept: u8) -> Result<u8, Status> {
        //= MS-SMB2 3.3.5.22.1
        //# A lease is not acknowledged by its open, and LEASE is no level: STATUS_INVALID_PARAMETER.
        if kept == oplock_level::LEASE || matches!(open.held, GrantedCaching::Lease { .. }) {
            return Err(Status::INVALID_PARAMETER);
        }
        //= MS-SMB2 3.3.5.22.1
        //# An open without an oplock that breaks: STATUS_INVALID_DEVICE_STATE.
        if open.held == GrantedCaching::Nothing {
            return Err(Status::INVALID_DEVICE_STATE);
        }
        let caching = match kept {
            oplock_level::NONE => Caching::NONE,
            kept => caching_of(kept).ok_or(Status::INVALID_PARAMETER)?,
        };
        let of = BrokenGrant::Oplock(open.id().volatile.get());
        let acknowledge = || open.grants().acknowledge(self.volume().cache(), caching);
        let left = self.opens().break_timeouts().acknowledged(of, acknowledge);
        left.map(level).map_err(|bad| match bad {
            BadAcknowledgement::NoHolder => Status::INVALID_DEVICE_STATE,
            BadAcknowledgement::NotAsked | BadAcknowledgement::KeepsMore => Status::INVALID_OPLOCK_PROTOCOL,
        })
    }

    /// Acknowledges a lease break: the client keeps this state. Returns the state of the response.
    ///
    /// # Errors
    /// `STATUS_OBJECT_NAME_NOT_FOUND` for a lease that is not there; `STATUS_UNSUCCESSFUL` where nothing was asked back;
    /// `STATUS_REQUEST_NOT_ACCEPTED` where more is kept than was left.
    pub fn lease_break(&self, ctx: &RequestContext, key: Guid, state: u32) -> Result<u32, Status> {
        //= MS-SMB2 3.3.5.22.2
        //# A state with other bits than read, handle and write is more than was left.
        let bits = u8::try_from(state).ok().filter(|bits| bits & !7 == 0);
        let bits = bits.ok_or(Status::REQUEST_NOT_ACCEPTED)?;
        let caching = Caching::from_bits(bits);
        // No holder is left a state without READ: one that keeps such a thing keeps more.
        if caching.bits() != bits {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        let of = BrokenGrant::from(BreakTarget::Lease { client: ctx.client, key });
        let acknowledge = || self.volume().acknowledge(&lease_key(ctx, key), caching);
        let left = self.opens().break_timeouts().acknowledged(of, acknowledge);
        left.map(|left| left.bits().into()).map_err(|bad| match bad {
            BadAcknowledgement::NoHolder => Status::OBJECT_NAME_NOT_FOUND,
            BadAcknowledgement::NotAsked => Status::UNSUCCESSFUL,
            BadAcknowledgement::KeepsMore => Status::REQUEST_NOT_ACCEPTED,
        })
    }
}
