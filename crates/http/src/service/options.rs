//! OPTIONS: what may be done with a file, or with the server as a whole (RFC 9110 9.3.7).

use httptypes::StatusCode;

use super::reply::{Body, Reply};
use crate::response::Answer;

/// The same everywhere: files can be read.
pub(super) fn options() -> Reply {
    let answer = Answer { status: StatusCode::NO_CONTENT, allow: true, ..Answer::default() };
    Reply { answer, body: Body::Empty }
}
