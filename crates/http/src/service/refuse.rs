//! Answers that say no, and what to do.

use httptypes::StatusCode;
use vfs::NameError;

use super::reply::Reply;
use super::shared::Service;
use crate::page;
use crate::request::Fields;
use crate::request_error::RequestError;
use crate::response::{ALLOW_READING, Answer, CHALLENGE};

/// Returns the answer to a refused request: a page for browsers, a line for tools. Counts it.
pub(super) fn refuse(service: &Service, refusal: RequestError, fields: &Fields<'_>) -> Reply {
    service.counters.refuse(refusal);
    let mut body = Vec::new();
    let content_type = if page::wants_html(fields.accept.as_deref()) {
        page::html(refusal, &mut body);
        page::HTML
    } else {
        page::text(refusal, &mut body);
        page::TEXT
    };
    let answer = Answer {
        status: refusal.status(),
        content_type: Some(content_type),
        allow: (refusal == RequestError::MethodNotAllowed).then_some(ALLOW_READING),
        challenge: (refusal.status() == StatusCode::UNAUTHORIZED).then_some(CHALLENGE),
        retry_after_s: retry_after_s(refusal),
        // Errors are kept by caches too (RFC 9110 15.1), and another Accept gets another page.
        vary: Some("Accept"),
        content_security_policy: (content_type == page::HTML).then_some(page::POLICY),
        ..Answer::default()
    };
    Reply::memory(answer, body)
}

fn retry_after_s(refusal: RequestError) -> Option<u32> {
    match refusal {
        RequestError::Overloaded | RequestError::UploadsTooMany => Some(1),
        RequestError::LoginsTooMany => Some(60),
        _ => None,
    }
}

/// Returns what a change that was not made means to a client.
pub(super) fn of_change(error: vfs::Error) -> RequestError {
    use vfs::Error;
    match error {
        Error::NoSpace => RequestError::NoSpace,
        Error::Quota => RequestError::QuotaUsedUp,
        Error::FileTooLarge => RequestError::UploadTooLarge,
        Error::Unexpected | Error::Exists => RequestError::PreconditionFailed,
        Error::IsADirectory => RequestError::IsDirectory,
        // The directory went while the body came, or never was one.
        Error::NotFound | Error::Stale | Error::NotADirectory => RequestError::DirectoryMissing,
        Error::NotEmpty => RequestError::NotEmpty,
        Error::Locked => RequestError::Locked,
        Error::ReadOnly => RequestError::MethodNotAllowed,
        Error::Hidden | Error::Reserved | Error::NotServable | Error::SymlinkRefused | Error::Escapes => {
            RequestError::NameRefused
        }
        Error::NameTooLong | Error::Name(NameError::NameTooLong | NameError::PathTooLong) => {
            RequestError::NameTooLong
        }
        Error::Io(_) | Error::CrossDevice | Error::TooManyLinks | Error::IntoItself | Error::Changed => {
            RequestError::WriteFailed
        }
        other => other.into(),
    }
}

/// Conversion of a failed look-up for a client. What exists but is not served is not admitted to exist.
impl From<vfs::Error> for RequestError {
    fn from(error: vfs::Error) -> Self {
        use vfs::Error;
        match error {
            Error::AccessDenied | Error::InAnotherVolume => Self::Forbidden,
            Error::Denied(_) => Self::Denied,
            Error::Name(NameError::Nul | NameError::Dots | NameError::Slash) => Self::Path,
            Error::TooManyOpen | Error::Overloaded | Error::Busy | Error::Unsettled | Error::Closed(_) => {
                Self::Overloaded
            }
            // Refusals of changes: `of_change`.
            Error::Exists
            | Error::NotEmpty
            | Error::NoSpace
            | Error::Quota
            | Error::FileTooLarge
            | Error::TooManyLinks
            | Error::ReadOnly
            | Error::CrossDevice
            | Error::IntoItself
            | Error::Reserved
            | Error::Unexpected
            | Error::Stale
            | Error::Locked => Self::Internal,
            Error::TooLarge { .. } => Self::ListingTooLarge,
            Error::Changed | Error::Io(_) | Error::VolumeName(_) => Self::Internal,
            Error::NotFound
            | Error::Hidden
            | Error::NotADirectory
            | Error::IsADirectory
            | Error::Escapes
            | Error::SymlinkRefused
            | Error::NotServable
            | Error::NameTooLong
            | Error::Name(_) => Self::NotFound,
        }
    }
}

impl From<NameError> for RequestError {
    fn from(error: NameError) -> Self {
        vfs::Error::Name(error).into()
    }
}
