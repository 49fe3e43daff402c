//! Reply of a handler, before any version of HTTP has a say: the head, and where the body is.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use identity::Principal;
use lane::budget::Share;
use lane::time::now;
use vfs::{ChangeToken, OpenFile};

use super::abort::Abort;
use super::requests::UserRequest;
use crate::listing::Rendering;
use crate::multipart::Multipart;
use crate::range::ByteRange;
use crate::response::Answer;

/// A whole response.
#[derive(Debug)]
pub(super) struct Reply {
    /// Apart, as a reply changes hands from the handler to the sender.
    pub(super) answer: Box<Answer>,
    /// Body for GET; HEAD is sent the head alone.
    pub(super) body: Body,
    /// The user that asked, if authenticated.
    pub(super) principal: Option<Principal>,
    /// The user's request, where its body must not be sent to a user that is gone by then.
    pub(super) running: Option<UserRequest>,
}

/// Source of the body's bytes.
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
    /// The client's share of the process's descriptors, while it is large.
    pub(super) descriptor: Option<Rc<Share>>,
    token: ChangeToken,
    is_grown: Cell<bool>,
    checked_at: Cell<Instant>,
}

impl Version {
    /// Creates the version that `token` names; `content` is all of it, if it is small and at hand.
    pub(super) fn new(file: Rc<OpenFile>, token: ChangeToken, content: Option<Rc<[u8]>>) -> Self {
        let (is_grown, checked_at) = (Cell::new(false), Cell::new(now()));
        Self { content, file, descriptor: None, token, is_grown, checked_at }
    }

    /// Checks whether the announced bytes are still those of the file, which may have grown meanwhile. To be called
    /// before the last of them leave, so that a client never has the announced length of mixed content.
    pub(super) fn check(&self) -> Result<(), Abort> {
        self.checked_at.set(now());
        self.file.check_same_version(&self.token, &self.is_grown).map_err(|_| Abort::FileChanged)
    }

    /// Checks the version ([`Version::check`]) if the last look is some time ago: a file that is written anew
    /// in place is shorter for a moment, and a connection that is to be cut need not wait for the end.
    pub(super) fn check_now_and_then(&self) -> Result<(), Abort> {
        if now() < self.checked_at.get() + CHECK_PERIOD { Ok(()) } else { self.check() }
    }

    /// Returns the body that is these bytes of the file.
    pub(super) fn part(self, range: ByteRange) -> Body {
        match self.content {
            Some(content) => Body::Content(content, range),
            None => Body::File(self, range),
        }
    }
}

impl Body {
    /// Returns whether its length shows only at its end.
    pub(super) fn is_streamed(&self) -> bool {
        matches!(self, Self::Listing(_))
    }

    /// Returns the bytes that a [`Body::Content`] stands for.
    pub(super) fn of_content<'c>(content: &'c [u8], range: &ByteRange) -> &'c [u8] {
        &content[range.start as usize..range.end as usize]
    }
}

impl Reply {
    pub(super) fn new(answer: impl Into<Box<Answer>>, body: Body) -> Self {
        Self { answer: answer.into(), body, principal: None, running: None }
    }

    /// Returns the user's name, for the log.
    pub(super) fn user(&self) -> &[u8] {
        self.principal.as_ref().map_or(b"", |principal| principal.name().as_bytes())
    }

    /// Creates a body that is in memory, with its length.
    pub(super) fn memory(answer: Answer, body: Vec<u8>) -> Self {
        let answer = Answer { content_length: Some(body.len() as u64), ..answer };
        Self::new(answer, Body::Memory(body))
    }
}

/// Time between two checks of a file that is being sent.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
