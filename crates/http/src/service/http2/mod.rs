//! HTTP/2 over the same handlers: the rules are [`crate::http2`]'s, files are read where they will be sealed.
//!
//! Nothing is read of a body before the client's windows have room for it, and nothing beyond that room.

mod answer;
mod body;
mod finish;
mod incoming;
mod link;
mod outgoing;
mod progress;
mod results;
mod session;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use lane::backend::SocketOption;
use lane::time::{Elapsed, now};
use service::alarm::Alarm;

pub(super) use self::incoming::Incoming;
use self::link::Http2Link;
use self::progress::{PaceVerdict, Progress};
use self::session::Http2Session;
use super::abort::Abort;
use super::receive_buffer::ReceiveBuffer;
use super::shared::{ConnectionInfo, Service};
use super::wire::Wire;
use crate::http2::frame::Reason;

/// Serves a connection on which the client chose `h2`, to its end.
pub(super) async fn serve_http2(
    service: &Rc<Service>,
    wire: Wire,
    receive_buffer: ReceiveBuffer,
    info: ConnectionInfo<'_>,
) {
    let cohort = info.cohort;
    let peer = wire.peer_ip();
    let limits = service.site().limits.clone();
    let (stream, ticket, tls, account) = wire.into_parts();
    // What waits in the kernel delays all streams, and is sent by the kernel's task that takes the client's
    // ACKs. It only tunes.
    let _ = stream.set_option(SocketOption::UnsentMax(UNSENT_MAX));
    let progress = Rc::new(Progress::new(Rc::clone(&stream), Rc::clone(info.place)));
    let link = Http2Link::new(stream, ticket, tls, receive_buffer, Rc::clone(&progress), Rc::clone(&account));
    let mut session =
        Http2Session::new(Rc::clone(service), peer, Rc::clone(&account), Rc::clone(&progress), link, &limits);
    let mut alarm = Alarm::default();
    let (mut is_leaving, mut is_late) = (false, false);
    loop {
        let cut_since = session.cut_since();
        let goes_on = poll_fn(|cx| match session.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(SessionTurn::Over)),
            Poll::Pending if session.cut_since().is_some_and(|since| cut_since != Some(since)) => {
                Poll::Ready(Ok(SessionTurn::Cut))
            }
            Poll::Pending => account.poll_evicted(cx).map(|()| Err(Abort::Evicted)),
        });
        let rest_at = cut_since.filter(|_| !is_late).map(|since| since + limits.header_timeout);
        let look_at = progress.next_look(&limits);
        let served = alarm.race(rest_at.map_or(look_at, |at| at.min(look_at)), goes_on);
        let outcome =
            if is_leaving { Some(served.await) } else { service.unless_leaving(cohort, served).await };
        match outcome {
            Some(Ok(Ok(SessionTurn::Cut))) => {}
            Some(Ok(Ok(SessionTurn::Over))) => {
                // The client has got the error of the connection.
                match session.broken() {
                    Some(_) if is_late => service.counters.closed_header_timeout.increment(),
                    Some(Reason::EnhanceYourCalm) => service.counters.closed_http2_flood.increment(),
                    Some(_) => service.counters.closed_http2_error.increment(),
                    None if session.has_begun() => {}
                    None => service.counters.abort(&Abort::PeerClosed),
                }
                return session.linger(&mut alarm).await;
            }
            Some(Ok(Err(abort))) => return service.counters.abort(&abort),
            Some(Err(Elapsed))
                if rest_at.is_some_and(|at| now() >= at) && session.cut_since() == cut_since =>
            {
                // It hears of it if it listens.
                session.give_up();
                is_late = true;
            }
            Some(Err(Elapsed)) => match progress.verdict(&limits) {
                PaceVerdict::GoesOn => {}
                PaceVerdict::Idle => return service.counters.closed_idle.increment(),
                PaceVerdict::Ends(abort) => return service.counters.abort(&abort),
            },
            None => {
                service.counters.closed_drain.increment();
                if !session.has_begun() {
                    return;
                }
                session.leave();
                is_leaving = true;
            }
        }
    }
}

/// Result of a session's turn.
enum SessionTurn {
    Over,
    /// The client has begun something whose end must come in time.
    Cut,
}

//@ limit: HTTP/2 frames that wait for a send
//@ section: HTTP
//@ unit: byte
//@ connection: 128 KiB of plaintext, and {:b} in the kernel that were never sent
//@ address: on the books of memory of replies
//@ empty: the rest waits, and what the client sends waits in its socket; others feel nothing
//@ counter: http_reply_memory_bytes
//@ attack: http-stalled-files
/// Bytes that wait in the kernel unsent: as many as one send has.
const UNSENT_MAX: u32 = 128 * 1024;
