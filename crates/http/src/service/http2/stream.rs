//! One HTTP/2 stream: its answer, and its body as fast as the client's windows and the lane's memory let it go.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use httptypes::{Method, Request};

use super::body::{Chunk, Finish, StreamBody};
use super::{answer, response};
use crate::service::abort::Abort;
use crate::service::listener::Service;
use crate::service::reply::Body;
use service::memory::Account;

/// Answers a request, unless the client takes it back.
pub(super) async fn serve_stream(
    service: Rc<Service>,
    account: Rc<Account>,
    request: Request<()>,
    mut respond: SendResponse<Chunk>,
    mut finish: Finish,
) {
    let head_only = request.method() == Method::HEAD;
    // On the heap, and gone before the body: a stream that waits for its windows is small.
    let mut answering = Box::pin(answer(&service, request));
    let answered = poll_fn(|cx| {
        if let Poll::Ready(answered) = answering.as_mut().poll(cx) {
            return Poll::Ready(Some(answered));
        }
        respond.poll_reset(cx).map(|_| None)
    });
    let Some((site, reply)) = answered.await else { return };
    drop(answering);
    finish.status = reply.answer.status.as_u16();
    let head = response(&service, &site, &reply);
    drop(site);
    let mut body = if head_only { StreamBody::new(Body::Empty) } else { StreamBody::new(reply.body) };
    let Ok(mut stream) = respond.send_response(head, body.is_done()) else {
        // Reset meanwhile, or the connection is gone.
        return respond.send_reset(Reason::INTERNAL_ERROR);
    };
    match send_body(&service, &mut stream, &mut body, &account, &mut finish.sent).await {
        Ok(()) | Err(End::Gone) => {}
        Err(End::Abort(abort)) => {
            service.counters.abort(&abort);
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

/// Why a body ends before its end.
enum End {
    /// The client wants no more of it, or is gone.
    Gone,
    Abort(Abort),
}

async fn send_body(
    service: &Service,
    stream: &mut SendStream<Chunk>,
    body: &mut StreamBody,
    account: &Rc<Account>,
    sent: &mut u64,
) -> Result<(), End> {
    while !body.is_done() {
        let room = room(stream, body.wanted()).await?;
        let held = unless_reset(stream, account.acquire(room)).await?;
        let turn = match body.is_rendered() {
            true => Some(unless_reset(stream, service.turns.take(account.last_round())).await?),
            false => None,
        };
        let bytes = unless_reset(stream, body.next(room)).await?.map_err(End::Abort)?;
        if let Some(turn) = turn {
            turn.end().await;
        }
        *sent += bytes.len() as u64;
        stream.send_data(Chunk::new(bytes, held), body.is_done()).map_err(|_| End::Gone)?;
    }
    Ok(())
}

/// Waits until the client's windows, of the stream and of the connection, take some of `wanted` bytes.
async fn room(stream: &mut SendStream<Chunk>, wanted: usize) -> Result<usize, End> {
    stream.reserve_capacity(wanted);
    poll_fn(|cx| {
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(End::Gone));
        }
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(End::Gone)),
            }
        }
        Poll::Ready(Ok(stream.capacity().min(wanted)))
    })
    .await
}

async fn unless_reset<F: Future>(stream: &mut SendStream<Chunk>, future: F) -> Result<F::Output, End> {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        stream.poll_reset(cx).map(|_| Err(End::Gone))
    })
    .await
}
