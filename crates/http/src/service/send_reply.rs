//! Sends a reply as HTTP/1.1.

use lane::buffer::BufClass;

use super::abort::Abort;
use super::listener::Service;
use super::reply::{Body, Reply, Version};
use super::site::Site;
use super::wire::{SMALL_BODY_MAX, Wire};
use crate::multipart::{Multipart, PART_HEAD_BYTES_MAX};
use crate::request::Method;
use crate::response::Persistence;

/// Sends head and body, and says how many body bytes went out. What is short stays in the outbox, to
/// leave with the replies to pipelined requests in one send.
pub(super) async fn send_reply(
    service: &Service,
    site: &Site,
    wire: &mut Wire,
    method: Method,
    reply: &Reply,
    persistence: Persistence,
) -> Result<u64, Abort> {
    let head_max = reply.answer.http1_len_max(site.extra_lines());
    let small_body = match &reply.body {
        Body::File(_, range) | Body::Content(_, range) if range.len() <= SMALL_BODY_MAX => {
            range.len() as usize
        }
        _ => 0,
    };
    let class = match &reply.body {
        Body::File(_, range) if range.len() > SMALL_BODY_MAX && wire.is_sealed() => BufClass::Large,
        _ => BufClass::Small,
    };
    wire.reserve(head_max + small_body, class).await?;
    let mark = wire.mark();
    service.with_date(|date| {
        wire.write(head_max, |out| reply.answer.put_http1(date, site.extra_lines(), persistence, out));
    });
    if method == Method::Head {
        return Ok(0);
    }
    let sent = send_body(wire, &reply.body).await;
    if sent.is_err() && small_body > 0 {
        // Nothing of this reply has left yet, and nothing shall.
        wire.rewind(mark);
    }
    sent
}

async fn send_body(wire: &mut Wire, body: &Body) -> Result<u64, Abort> {
    match body {
        Body::Empty => Ok(0),
        Body::Memory(bytes) => {
            wire.send_bytes(bytes).await?;
            Ok(bytes.len() as u64)
        }
        Body::Content(content, range) => {
            wire.send_bytes(Body::of_content(content, range)).await?;
            Ok(range.len())
        }
        Body::File(version, range) => {
            wire.send_file(&version.file, *range, &version.token).await?;
            Ok(range.len())
        }
        Body::Multipart(version, multipart) => send_parts(wire, version, multipart).await,
    }
}

async fn send_parts(wire: &mut Wire, version: &Version, multipart: &Multipart) -> Result<u64, Abort> {
    for (index, range) in multipart.ranges.iter().enumerate() {
        wire.reserve(PART_HEAD_BYTES_MAX, BufClass::Small).await?;
        wire.write(PART_HEAD_BYTES_MAX, |out| multipart.put_part_head(index, out));
        wire.send_file(&version.file, *range, &version.token).await?;
    }
    wire.reserve(PART_HEAD_BYTES_MAX, BufClass::Small).await?;
    wire.write(PART_HEAD_BYTES_MAX, |out| multipart.put_trailer(out));
    Ok(multipart.len())
}
