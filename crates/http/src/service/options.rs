//! OPTIONS: what may be done with a file, or with the server as a whole (RFC 9110 9.3.7).

use httptypes::StatusCode;

use super::reply::{Body, Reply};
use super::site::Site;
use crate::path;
use crate::request::Target;
use crate::response::{ALLOW_CHANGES, ALLOW_READING, Answer};

/// Returns the methods that every user may use.
pub(super) fn options(site: &Site, target: Target<'_>) -> Reply {
    let answer =
        Answer { status: StatusCode::NO_CONTENT, allow: Some(allowed(site, target)), ..Answer::default() };
    Reply::new(answer, Body::Empty)
}

/// Returns the methods that are offered where a target lies.
pub(super) fn allowed(site: &Site, target: Target<'_>) -> &'static str {
    let is_writable = match target {
        Target::Asterisk => site.is_writable(),
        Target::Path { path, .. } => path::decode(path).is_ok_and(|path| {
            site.resolve(&path.bytes).is_some_and(|(mount, below)| {
                mount.volume.is_writable() && !below.is_empty() && site.mounted_below(&path.bytes).is_empty()
            })
        }),
    };
    if is_writable { ALLOW_CHANGES } else { ALLOW_READING }
}
