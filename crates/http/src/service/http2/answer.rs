//! The answer to one request of HTTP/2.

use std::rc::Rc;

use super::incoming::Incoming;
use crate::http2::request::Request;
use crate::request::Fields;
use crate::service::client::Client;
use crate::service::dispatch::dispatch;
use crate::service::refuse::refuse;
use crate::service::reply::Reply;
use crate::service::request_body::RequestBody;
use crate::service::shared::Service;

/// Answers one request.
pub(super) async fn answer(
    service: Rc<Service>,
    request: Box<Request>,
    client: Client,
    incoming: Option<Rc<Incoming>>,
) -> Reply {
    let site = service.site();
    service.counters.requests_http2.increment();
    let mut body = incoming.map_or(RequestBody::None, RequestBody::Http2);
    match request.head(&site.limits) {
        Ok(head) => dispatch(&service, &site, &head, client, &mut body).await,
        Err(refusal) => {
            service.counters.request(request.method());
            let reply = refuse(&service, refusal, &Fields::default());
            service.counters.response(reply.answer.status.as_u16());
            reply
        }
    }
}
