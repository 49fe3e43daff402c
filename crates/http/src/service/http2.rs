//! HTTP/2.
use super::listener::Service;
use super::wire::{Inbox, Wire};
pub(super) async fn serve_http2(_service: &Service, _wire: Wire, _inbox: Inbox) {}
