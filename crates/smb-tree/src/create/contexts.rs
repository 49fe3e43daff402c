//! Create contexts of a response (MS-SMB2 2.2.14.2).

use grants::{Kind, Opened};
use smb_wire::create::context::{
    ContextWriter, DurableResponseV2, MaximalAccessResponse, OnDiskIdResponse, tag,
};
use smb_wire::create::lease::{Lease, LeaseV1, LeaseV2, flags};
use zerocopy::FromZeros;

use super::CreateAnswer;
use super::durable::Durable;
use crate::attributes::Info;
use crate::breaks::GrantedCaching;
use crate::disconnected::Durability;
use crate::open::Open;
use crate::request_context::RequestContext;

/// Writes the contexts of a response.
pub(super) fn write(ctx: &RequestContext, create_answer: &CreateAnswer<'_>, info: &Info) -> Vec<u8> {
    let &CreateAnswer { contexts, open, .. } = create_answer;
    let mut out = ContextWriter::new();
    if let Some(since) = contexts.maximal_access {
        out.push_plain(tag::MAXIMAL_ACCESS, &maximal_access(since, open, info));
    }
    if contexts.on_disk_id {
        let response = OnDiskIdResponse {
            disk_file_id: info.index.into(),
            volume_id: info.device.into(),
            reserved: [0; 16],
        };
        out.push_plain(tag::ON_DISK_ID, &response);
    }
    if let (Some(lease), GrantedCaching::Lease { .. }) = (&contexts.lease, open.held) {
        push_lease(&mut out, lease, &create_answer.standing);
    }
    if let Some(durability) = open.durability.filter(|_| create_answer.tells_durable) {
        push_durable(&mut out, contexts.durable, durability);
    }
    if let Some(told) = contexts.aapl.and_then(|asked| ctx.apple.answer(asked)) {
        out.push(tag::AAPL, &told);
    }
    if contexts.posix.is_some() && ctx.posix {
        let mut told = Vec::new();
        info.posix().write(&mut told);
        out.push(tag::POSIX, &told);
    }
    out.bytes().to_vec()
}

fn maximal_access(since: Option<u64>, open: &Open, info: &Info) -> MaximalAccessResponse {
    //= MS-SMB2 3.3.5.9.5
    //# A client that knows the file as it was last written is told STATUS_NONE_MAPPED, and no mask.
    let is_known = since.is_some_and(|since| since != 0 && since == info.written);
    let (query_status, mask) = if is_known { (NONE_MAPPED, 0) } else { (0, open.maximal_access) };
    MaximalAccessResponse { query_status: query_status.into(), maximal_access: mask.into() }
}

fn push_durable(out: &mut ContextWriter, asked: Durable<'_>, durability: Durability) {
    match asked {
        Durable::No => {}
        Durable::V1 => out.push(tag::DURABLE_REQUEST, &[0; 8]),
        Durable::V2(_) => {
            let timeout = u32::try_from(durability.timeout.as_millis()).unwrap_or(u32::MAX);
            let response = DurableResponseV2 { timeout: timeout.into(), flags: 0.into() };
            out.push_plain(tag::DURABLE_REQUEST_V2, &response);
        }
    }
}

fn push_lease(out: &mut ContextWriter, lease: &Lease<'_>, opened: &Opened) {
    let breaking = if opened.is_breaking { flags::BREAK_IN_PROGRESS } else { 0 };
    let state = u32::from(opened.caching.bits());
    let parent = lease.parent();
    if version(lease, opened) == 1 {
        let granted = LeaseV1 {
            lease_key: lease.key(),
            lease_state: state.into(),
            lease_flags: breaking.into(),
            ..LeaseV1::new_zeroed()
        };
        return out.push_plain(tag::LEASE, &granted);
    }
    let asked = match lease {
        Lease::V1(_) => 0,
        Lease::V2(lease) => lease.epoch.get(),
    };
    let has_parent = if parent.is_some() { flags::PARENT_LEASE_KEY_SET } else { 0 };
    let granted = LeaseV2 {
        lease_key: lease.key(),
        lease_state: state.into(),
        lease_flags: (breaking | has_parent).into(),
        parent_lease_key: parent.unwrap_or_default(),
        // A client that is granted nothing gets its own back.
        epoch: opened.kind.map_or(asked, |_| opened.epoch).into(),
        ..LeaseV2::new_zeroed()
    };
    out.push_plain(tag::LEASE, &granted);
}

/// Returns the version of the lease: that of the request that was granted it first.
pub(super) fn version(asked: &Lease<'_>, opened: &Opened) -> u8 {
    match (opened.kind, asked) {
        (Some(Kind::Lease { epoch: None }), _) | (None, Lease::V1(_)) => 1,
        (Some(Kind::Lease { epoch: Some(_) }), _) | (None, Lease::V2(_)) => 2,
        (Some(Kind::Oplock), _) => unreachable!("a lease's number is no open's"),
    }
}

const NONE_MAPPED: u32 = 0xc000_0073;
