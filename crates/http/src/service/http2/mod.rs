//! HTTP/2 over the same handlers: the rules are [`crate::http2`]'s, files are read where they will be sealed.
//!
//! Nothing is read of a body before the client's windows have room for it, and nothing beyond that room.

mod body;
mod finish;
mod link;
mod outgoing;
mod progress;
mod session;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use lane::time::Elapsed;
use service::alarm::Alarm;

use self::link::Link;
use self::progress::{Progress, Verdict};
use self::session::Session;
use super::abort::Abort;
use super::dispatch::dispatch;
use super::inbox::Inbox;
use super::listener::{Entry, Service};
use super::refuse::refuse;
use super::reply::Reply;
use super::wire::Wire;
use crate::http2::frame::Reason;
use crate::http2::request::Request;
use crate::request::Fields;

/// Serves a connection on which the client chose `h2`, to its end.
pub(super) async fn serve_http2(service: &Rc<Service>, wire: Wire, inbox: Inbox, entry: Entry<'_>) {
    let cohort = entry.cohort;
    let peer = wire.peer_ip();
    let limits = service.site().limits.clone();
    let (stream, ticket, tls, account) = wire.into_parts();
    let progress = Rc::new(Progress::new(Rc::clone(&stream), Rc::clone(entry.place), limits.send_rate_min));
    let link = Link::new(stream, ticket, tls, inbox, Rc::clone(&progress), Rc::clone(&account));
    let mut session =
        Session::new(Rc::clone(service), peer, Rc::clone(&account), Rc::clone(&progress), link, &limits);
    let mut alarm = Alarm::default();
    let mut is_leaving = false;
    loop {
        let goes_on = poll_fn(|cx| match session.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => account.poll_gives_way(cx).map(|()| Err(Abort::GaveWay)),
        });
        let served = alarm.race(progress.next_look(&limits), goes_on);
        let outcome =
            if is_leaving { Some(served.await) } else { service.unless_leaving(cohort, served).await };
        match outcome {
            Some(Ok(Ok(()))) => {
                // What the client had to be told it was told.
                match session.broken() {
                    Some(Reason::EnhanceYourCalm) => service.counters.closed_http2_flood.increment(),
                    Some(_) => service.counters.closed_http2_error.increment(),
                    None if session.has_begun() => {}
                    None => service.counters.abort(&Abort::PeerClosed),
                }
                return;
            }
            Some(Ok(Err(abort))) => return service.counters.abort(&abort),
            Some(Err(Elapsed)) => match progress.verdict(&limits) {
                Verdict::GoesOn => {}
                Verdict::Idle => return service.counters.closed_idle.increment(),
                Verdict::Ends(abort) => return service.counters.abort(&abort),
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

/// Answers one request.
async fn answer(service: Rc<Service>, request: Box<Request>) -> Reply {
    let site = service.site();
    service.counters.requests_http2.increment();
    match request.head(&site.limits) {
        Ok(head) => dispatch(&service, &site, &head).await,
        Err(refusal) => {
            service.counters.request(request.method());
            let reply = refuse(&service, refusal, &Fields::default());
            service.counters.response(reply.answer.status.as_u16());
            reply
        }
    }
}
