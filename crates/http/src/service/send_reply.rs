//! Sends a reply as HTTP/1.1.

use std::rc::Rc;

use lane::buffer::BufClass;

use super::abort::Abort;
use super::reply::{Body, Reply, Version};
use super::shared::Service;
use super::wire::{SMALL_BODY_MAX, Wire};
use crate::listing::Rendering;
use crate::multipart::{Multipart, PART_HEAD_BYTES_MAX};
use crate::request::Method;
use crate::response::{CHUNK_END, CHUNK_HEAD_BYTES_MAX, LAST_CHUNK, Persistence};

/// Sends head and body, and says how many body bytes went out. What is short stays in the send buffer, to
/// leave with the replies to pipelined requests in one send.
pub(super) async fn send_reply(
    service: &Service,
    wire: &mut Wire,
    method: Method,
    reply: &mut Reply,
    persistence: Persistence,
) -> Result<u64, Abort> {
    let head_max = reply.answer.http1_len_max();
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
        wire.write(head_max, |out| reply.answer.put_http1(date, persistence, out));
    });
    if method == Method::Head {
        return Ok(0);
    }
    wire.begin_transfer();
    let sent = send_body(service, wire, &mut reply.body, reply.answer.chunked).await;
    wire.end_transfer();
    if sent.is_err() && small_body > 0 {
        // Nothing of this reply has left yet, and nothing shall.
        wire.rewind(mark);
    }
    sent
}

/// Sends a body that has to be read first, apart: the memory of a request whose answer is at hand is small.
async fn send_body(service: &Service, wire: &mut Wire, body: &mut Body, chunked: bool) -> Result<u64, Abort> {
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
            Box::pin(wire.send_file(version, *range)).await?;
            Ok(range.len())
        }
        Body::Multipart(version, multipart) => Box::pin(send_parts(wire, version, multipart)).await,
        Body::Listing(rendering) => Box::pin(send_listing(service, wire, rendering, chunked)).await,
    }
}

/// Writes and sends a listing piece by piece, each only when the one before is in the socket: a client that takes
/// nothing holds one piece. Says how many bytes of it went out, without what frames them.
async fn send_listing(
    service: &Service,
    wire: &mut Wire,
    rendering: &mut Rendering,
    chunked: bool,
) -> Result<u64, Abort> {
    let mut sent = 0;
    while !rendering.is_done() {
        let mut piece = String::new();
        let account = Rc::clone(wire.account());
        rendering.prepare(Some(&account)).await.map_err(Abort::Listing)?;
        let turn = service.turns.take(account.last_round()).await;
        rendering.render(PIECE_BYTES, &mut piece);
        turn.end().await;
        // With room for all of it nothing is waited for while the piece is held twice.
        let room = (piece.len() + 2 * CHUNK_HEAD_BYTES_MAX).min(ROOM_BYTES_MAX);
        wire.reserve(room, BufClass::Small).await?;
        if chunked {
            wire.write(CHUNK_HEAD_BYTES_MAX, |out| out.chunk_head(piece.len()));
        }
        wire.send_bytes(piece.as_bytes()).await?;
        if chunked {
            wire.send_bytes(CHUNK_END).await?;
        }
        sent += piece.len() as u64;
        drop(piece);
        if !rendering.is_done() {
            wire.flush(true).await?;
            wire.judge_transfer()?;
        }
    }
    if chunked {
        wire.send_bytes(LAST_CHUNK).await?;
    }
    Ok(sent)
}

async fn send_parts(wire: &mut Wire, version: &Version, multipart: &Multipart) -> Result<u64, Abort> {
    for (index, range) in multipart.ranges.iter().enumerate() {
        wire.reserve(PART_HEAD_BYTES_MAX, BufClass::Small).await?;
        wire.write(PART_HEAD_BYTES_MAX, |out| multipart.put_part_head(index, out));
        wire.send_file(version, *range).await?;
    }
    wire.reserve(PART_HEAD_BYTES_MAX, BufClass::Small).await?;
    wire.write(PART_HEAD_BYTES_MAX, |out| multipart.put_trailer(out));
    Ok(multipart.len())
}

//@ limit: turns at rendering listings
//@ section: HTTP
//@ unit: piece
//@ connection: one of {:b} at a time
//@ address: one turn in each round of the addresses that wait
//@ all: lane: one in each round of its tasks
//@ empty: it waits for its turn; others wait for one piece
//@ counter: none
//@ attack: http-stalled-listings
/// Bytes that are written of a listing at a time, about.
const PIECE_BYTES: usize = 16 * 1024;
/// Bytes that fit a small buffer however they are framed.
const ROOM_BYTES_MAX: usize = 28 * 1024;
