//! What a handler answers, before any version of HTTP has a say: the head, and where the body is.

use std::rc::Rc;

use vfs::{ChangeToken, OpenFile};

use crate::multipart::Multipart;
use crate::range::ByteRange;
use crate::response::Answer;

/// A whole response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    /// What GET gets; HEAD is sent the head alone.
    pub(super) body: Body,
}

/// Where the body's bytes are.
#[derive(Debug)]
pub(super) enum Body {
    Empty,
    Memory(Vec<u8>),
    File(Version, ByteRange),
    Multipart(Version, Box<Multipart>),
}

/// One version of a file: its bytes may be sent only while it is still this one.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) file: Rc<OpenFile>,
    pub(super) token: ChangeToken,
}

impl Reply {
    /// A body that is in memory, with its length.
    pub(super) fn memory(answer: Answer, body: Vec<u8>) -> Self {
        let answer = Answer { content_length: Some(body.len() as u64), ..answer };
        Self { answer, body: Body::Memory(body) }
    }
}
