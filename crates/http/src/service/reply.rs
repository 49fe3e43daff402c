//! What a handler answers, before any version of HTTP has a say: the head, and where the body is.

use std::rc::Rc;

use vfs::{ChangeToken, OpenFile};

use crate::listing::Rendering;
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
    /// Bytes of a small file's content.
    Content(Rc<[u8]>, ByteRange),
    File(Version, ByteRange),
    Multipart(Version, Box<Multipart>),
    /// Made as the client takes it: its length is not known before its end.
    Listing(Box<Rendering>),
}

/// One version of a file: its bytes may be sent only while it is still this one.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// The content, when it is small and was at hand.
    pub(super) content: Option<Rc<[u8]>>,
    pub(super) file: Rc<OpenFile>,
    pub(super) token: ChangeToken,
}

impl Version {
    /// The body that is these bytes of the file.
    pub(super) fn part(self, range: ByteRange) -> Body {
        match self.content {
            Some(content) => Body::Content(content, range),
            None => Body::File(self, range),
        }
    }
}

impl Body {
    /// Whether its length shows only at its end.
    pub(super) fn is_streamed(&self) -> bool {
        matches!(self, Self::Listing(_))
    }

    /// Bytes that a [`Body::Content`] stands for.
    pub(super) fn of_content<'c>(content: &'c [u8], range: &ByteRange) -> &'c [u8] {
        &content[range.start as usize..range.end as usize]
    }
}

impl Reply {
    /// A body that is in memory, with its length.
    pub(super) fn memory(answer: Answer, body: Vec<u8>) -> Self {
        let answer = Answer { content_length: Some(body.len() as u64), ..answer };
        Self { answer, body: Body::Memory(body) }
    }
}
