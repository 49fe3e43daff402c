//! Durable handles that a CREATE asks for (MS-SMB2 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12), and is
//! granted.

use std::time::Duration;

use smb_wire::create::CreateRequest;
use smb_wire::create::context::{CreateContext, DurableRequestV2};
use smb_wire::{FileId, Guid, Status};

use super::open_or_create::GrantedOpen;
use crate::breaks::GrantedCaching;
use crate::disconnected::Durability;
use crate::request_context::RequestContext;

/// Request that an open outlives its session.
#[derive(Clone, Copy, Default)]
pub(crate) enum Durable<'a> {
    #[default]
    No,
    V1,
    V2(&'a DurableRequestV2),
}

/// An open is to be had again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reconnect {
    pub(super) id: FileId,
    /// Version 2 names it.
    pub(super) create_guid: Option<Guid>,
}

impl Durable<'_> {
    /// Returns the CreateGuid, if there is one.
    pub(super) fn create_guid(self) -> Guid {
        match self {
            Self::V2(asked) => asked.create_guid,
            Self::No | Self::V1 => Guid::default(),
        }
    }

    /// Returns what of it an open is granted that has `granted`, held so.
    pub(super) fn of(self, granted: &GrantedOpen, held: GrantedCaching) -> Option<Durability> {
        let timeout = match self {
            Self::No => return None,
            Self::V1 => TIMEOUT_V1,
            //= MS-SMB2 3.3.5.9.10
            //# Timeout is that of the request, 300 seconds at most; where that is zero the server's.
            Self::V2(asked) => match asked.timeout.get() {
                0 => TIMEOUT_DEFAULT,
                asked => Duration::from_millis(asked.into()).min(TIMEOUT_MAX),
            },
        };
        //= MS-SMB2 3.3.5.9.6
        //# Durable is an open of a file with a batch oplock, or with a lease that has SMB2_LEASE_HANDLE_CACHING.
        let is_kept = held.keeps_handle(granted.open.opened().caching);
        (is_kept && granted.handle.directory().is_none()).then_some(Durability { timeout })
    }
}

impl Reconnect {
    /// Returns the open that is to be had again, if that is what the request wants.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER` where it wants several of these things at once.
    pub(super) fn of(ctx: &RequestContext, request: &CreateRequest<'_>) -> Result<Option<Self>, Status> {
        let (mut reconnect, mut v1, mut v2) = (None, false, false);
        let mut reconnects = 0;
        for context in request.contexts.iter() {
            match context.map_err(|malformed| malformed.status())? {
                CreateContext::DurableRequest => v1 = true,
                CreateContext::DurableRequestV2(_) if ctx.dialect.is_smb3() => v2 = true,
                CreateContext::DurableReconnect(id) => {
                    reconnects += 1;
                    reconnect = Some(Self { id, create_guid: None });
                }
                CreateContext::DurableReconnectV2(asked) if ctx.dialect.is_smb3() => {
                    reconnects += 1;
                    reconnect = Some(Self { id: asked.file_id, create_guid: Some(asked.create_guid) });
                }
                _ => {}
            }
        }
        let is_v2 = reconnect.is_some_and(|reconnect| reconnect.create_guid.is_some());
        //= MS-SMB2 3.3.5.9.10
        //# A request of version 2 stands beside no other of durable handles, and neither does a reconnect of version 2; a reconnect of
        //# version 1 makes a request of version 1 void.
        let clash = v2 && (v1 || reconnects > 0) || is_v2 && v1 || reconnects > 1;
        if clash { Err(Status::INVALID_PARAMETER) } else { Ok(reconnect) }
    }
}

/// Timeout of durable opens of version 1, as Windows has it since version 8.
const TIMEOUT_V1: Duration = Duration::from_secs(120);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
const TIMEOUT_MAX: Duration = Duration::from_secs(300);
