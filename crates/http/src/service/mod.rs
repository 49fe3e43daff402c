//! The file service of one lane: listeners, connections, and a handler per kind of request.
//!
//! A connection is a task. It parses a head, `dispatch` asks the handler that the
//! request needs, and the handler's reply is sent; see `get_file` for how a handler reads.

mod abort;
mod authenticate;
mod change;
mod change_target;
mod client;
mod connection;
mod counters;
mod dispatch;
mod end_notice;
mod get_file;
mod http2;
mod lane_service;
mod linger;
mod list_directory;
mod listener;
mod logins;
mod options;
mod put_file;
mod random;
mod receive_buffer;
mod refuse;
mod remove;
mod reply;
mod request_body;
mod requests;
mod send_buffer;
mod send_error;
mod send_reply;
mod shared;
mod site;
mod small_files;
mod transfer;
mod unsent;
mod uploads;
mod wire;

pub use abort::Abort;
pub use counters::HttpCounters;
pub use shared::{Role, Service};
pub use site::{Mount, Site};
