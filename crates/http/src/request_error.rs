//! Errors of requests: one list that gives the status, the counter's label and what to do.

use httptypes::StatusCode;

/// A reason to answer with a 4xx or 5xx. Its `Display` text is shown to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum RequestError {
    /// The request line is not `METHOD SP target SP HTTP/1.x CRLF`.
    #[error("The request line is malformed.")]
    RequestLine,
    /// A header field is malformed: bad name, space before the colon, folded line, NUL or control byte.
    #[error("A header field is malformed.")]
    HeaderField,
    /// A line ended in LF without CR (RFC 9112 2.2): two parsers may disagree where it ends.
    #[error("A line of the request head does not end in CR LF.")]
    BareLf,
    /// The request target is not a path, an absolute `http` URL or `*`.
    #[error("The request target is not a valid path or http URL.")]
    Target,
    /// Bad percent-encoding, NUL, encoded slash, or a `..` segment.
    #[error("The path holds a segment that is not allowed (such as `..`, an encoded slash or a NUL).")]
    Path,
    /// Host is missing (HTTP/1.1), repeated or malformed (RFC 9112 3.2).
    #[error("The Host field is missing, repeated or malformed.")]
    Host,
    /// Content-Length is malformed, repeated with another value, or stands beside Transfer-Encoding.
    #[error("The request body's length is ambiguous or malformed.")]
    BodyLength,
    /// A chunk size, its line end or a trailer is malformed (RFC 9112 7.1).
    #[error("The chunked request body is malformed.")]
    ChunkedBody,
    /// A field that may stand once is repeated.
    #[error("A header field that may appear once is repeated.")]
    DuplicateField,
    /// No file of that name, or one that may not be shown to exist.
    #[error("There is no file or directory of this name here.")]
    NotFound,
    /// The file exists but may not be read.
    #[error("The server may not read this file or list this directory.")]
    Forbidden,
    /// The directory has more entries than a listing may have.
    #[error("This directory has too many entries to be listed; its files can be fetched by name.")]
    ListingTooLarge,
    /// A known method that is not offered, or that changes a read-only file.
    #[error("This cannot be done here: the Allow field says what can.")]
    MethodNotAllowed,
    /// The head did not arrive in time.
    #[error("The request did not arrive in time: try again.")]
    HeaderTimeout,
    /// The condition of If-Match or If-Unmodified-Since does not hold.
    #[error("The file has changed since the version the request names.")]
    PreconditionFailed,
    /// The request body is longer than the server cares to discard.
    #[error("The request body is too large: requests for files need none.")]
    BodyTooLarge,
    /// The request target is longer than the limit.
    #[error("The request target is too long.")]
    TargetTooLong,
    /// No range of the request lies inside the file.
    #[error("The requested range lies outside the file.")]
    RangeNotSatisfiable,
    /// An expectation other than `100-continue`.
    #[error("The Expect field asks for something the server does not offer.")]
    Expectation,
    /// The head has more bytes or fields than the limit.
    #[error("The request's header fields are too large or too many.")]
    HeadTooLarge,
    /// The server cannot read its own disk, or failed in a way it did not foresee.
    #[error("The server failed to read the file: its log says why.")]
    Internal,
    /// A method the server does not know.
    #[error("The server does not know this method.")]
    MethodUnknown,
    /// A transfer coding other than `chunked`.
    #[error("The server does not know this transfer coding: use chunked or Content-Length.")]
    TransferCoding,
    /// Out of file descriptors, buffers or connection slots.
    #[error("The server is at its limit: try again in a moment.")]
    Overloaded,
    /// Plain HTTP on a TLS port.
    #[error("This port speaks HTTPS: put https:// before the address.")]
    PlainHttp,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    #[error("The server speaks HTTP/1.0 and HTTP/1.1 on this connection.")]
    Version,
    /// An upload with Content-Range (RFC 9110 14.5).
    #[error(
        "An upload is the whole file: it cannot go on where another ended (Content-Range). Send it from its start."
    )]
    ContentRange,
    /// The connection ended before the request body did.
    #[error("The request body ended before its length.")]
    BodyCut,
    /// A new name that the file system does not take.
    #[error("The file system takes no name this long.")]
    NameTooLong,
    /// The request takes a user, and none is named.
    #[error("This takes a user: send name and password.")]
    LoginNeeded,
    /// Name and password do not belong together.
    #[error("Name or password is wrong.")]
    LoginWrong,
    /// A password over plain HTTP from another machine, or a request that would take one.
    #[error("This takes a user, and passwords are taken over HTTPS alone: put https:// before the address.")]
    LoginInsecure,
    /// The user lacks a right.
    #[error("This user may not do that here: ask whoever runs this server.")]
    Denied,
    /// A name that is not served, or the server's own.
    #[error(
        "Files of this name are not served here: names that begin with a dot are not, and .linerate- is the server's own."
    )]
    NameRefused,
    /// The directory for the file does not exist.
    #[error("There is no directory to put the file into.")]
    DirectoryMissing,
    /// A directory has the name, or the name ends in a slash.
    #[error("This is a directory, or its name ends as one's: name a file.")]
    IsDirectory,
    /// A directory that holds something.
    #[error("The directory is not empty.")]
    NotEmpty,
    /// An upload beyond the limit, or what the file system takes.
    #[error("The file is larger than this server takes.")]
    UploadTooLarge,
    /// An upload with a content coding (RFC 9110 9.3.4).
    #[error("Files are kept as they are sent: send it without Content-Encoding.")]
    ContentCoding,
    /// Another client has the file locked.
    #[error("Somebody has the file locked.")]
    Locked,
    /// Too many wrong passwords from one address.
    #[error("Too many wrong passwords came from this address: wait a minute.")]
    LoginsTooMany,
    /// A request body that stands still, or is slower than the floor.
    #[error("The upload stood still or was too slow.")]
    UploadSlow,
    /// The server cannot write its own disk.
    #[error("The server failed to write the file: its log says why.")]
    WriteFailed,
    /// The server has as many uploads as it may have at once.
    #[error("As many uploads as this server takes at once are under way: try again in a moment.")]
    UploadsTooMany,
    /// The file system is full.
    #[error("The disk is full.")]
    NoSpace,
    /// A quota is used up.
    #[error("The quota is used up: remove something first.")]
    QuotaUsedUp,
}

impl RequestError {
    /// Every refusal, in the order of its number, for counters indexed by [`RequestError::index`].
    pub const ALL: [Self; 46] = [
        Self::RequestLine,
        Self::HeaderField,
        Self::BareLf,
        Self::Target,
        Self::Path,
        Self::Host,
        Self::BodyLength,
        Self::ChunkedBody,
        Self::DuplicateField,
        Self::NotFound,
        Self::Forbidden,
        Self::ListingTooLarge,
        Self::MethodNotAllowed,
        Self::HeaderTimeout,
        Self::PreconditionFailed,
        Self::BodyTooLarge,
        Self::TargetTooLong,
        Self::RangeNotSatisfiable,
        Self::Expectation,
        Self::HeadTooLarge,
        Self::Internal,
        Self::MethodUnknown,
        Self::TransferCoding,
        Self::Overloaded,
        Self::PlainHttp,
        Self::Version,
        Self::ContentRange,
        Self::BodyCut,
        Self::NameTooLong,
        Self::LoginNeeded,
        Self::LoginWrong,
        Self::LoginInsecure,
        Self::Denied,
        Self::NameRefused,
        Self::DirectoryMissing,
        Self::IsDirectory,
        Self::NotEmpty,
        Self::UploadTooLarge,
        Self::ContentCoding,
        Self::Locked,
        Self::LoginsTooMany,
        Self::UploadSlow,
        Self::WriteFailed,
        Self::UploadsTooMany,
        Self::NoSpace,
        Self::QuotaUsedUp,
    ];

    /// Returns the position in [`RequestError::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the status that tells the client (RFC 9110 15).
    pub const fn status(self) -> StatusCode {
        match self {
            Self::RequestLine
            | Self::HeaderField
            | Self::BareLf
            | Self::Target
            | Self::Path
            | Self::Host
            | Self::BodyLength
            | Self::ChunkedBody
            | Self::DuplicateField
            | Self::PlainHttp
            | Self::ContentRange
            | Self::BodyCut
            | Self::NameTooLong => StatusCode::BAD_REQUEST,
            Self::Forbidden
            | Self::ListingTooLarge
            | Self::LoginInsecure
            | Self::Denied
            | Self::NameRefused => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::HeaderTimeout | Self::UploadSlow => StatusCode::REQUEST_TIMEOUT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::BodyTooLarge | Self::UploadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Internal | Self::WriteFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::MethodUnknown | Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Overloaded | Self::UploadsTooMany => StatusCode::SERVICE_UNAVAILABLE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::LoginNeeded | Self::LoginWrong => StatusCode::UNAUTHORIZED,
            Self::DirectoryMissing | Self::IsDirectory | Self::NotEmpty => StatusCode::CONFLICT,
            Self::ContentCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Locked => StatusCode::LOCKED,
            Self::LoginsTooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::NoSpace | Self::QuotaUsedUp => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    /// Returns the label of the metric that counts it, `snake_case`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestLine => "request_line",
            Self::HeaderField => "header_field",
            Self::BareLf => "bare_lf",
            Self::Target => "target",
            Self::Path => "path",
            Self::Host => "host",
            Self::BodyLength => "body_length",
            Self::ChunkedBody => "chunked_body",
            Self::DuplicateField => "duplicate_field",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::ListingTooLarge => "listing_too_large",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::HeaderTimeout => "header_timeout",
            Self::PreconditionFailed => "precondition_failed",
            Self::BodyTooLarge => "body_too_large",
            Self::TargetTooLong => "target_too_long",
            Self::RangeNotSatisfiable => "range_not_satisfiable",
            Self::Expectation => "expectation",
            Self::HeadTooLarge => "head_too_large",
            Self::Internal => "internal",
            Self::MethodUnknown => "method_unknown",
            Self::TransferCoding => "transfer_coding",
            Self::Overloaded => "overloaded",
            Self::PlainHttp => "plain_http",
            Self::Version => "version",
            Self::ContentRange => "content_range",
            Self::BodyCut => "body_cut",
            Self::NameTooLong => "name_too_long",
            Self::LoginNeeded => "login_needed",
            Self::LoginWrong => "login_wrong",
            Self::LoginInsecure => "login_insecure",
            Self::Denied => "denied",
            Self::NameRefused => "name_refused",
            Self::DirectoryMissing => "directory_missing",
            Self::IsDirectory => "is_directory",
            Self::NotEmpty => "not_empty",
            Self::UploadTooLarge => "upload_too_large",
            Self::ContentCoding => "content_coding",
            Self::Locked => "locked",
            Self::LoginsTooMany => "logins_too_many",
            Self::UploadSlow => "upload_slow",
            Self::WriteFailed => "write_failed",
            Self::UploadsTooMany => "uploads_too_many",
            Self::NoSpace => "no_space",
            Self::QuotaUsedUp => "quota_used_up",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_each_refusal_at_its_index() {
        for (position, refusal) in RequestError::ALL.into_iter().enumerate() {
            assert_eq!(refusal.index(), position, "{refusal:?}");
        }
        assert_eq!(RequestError::QuotaUsedUp.index() + 1, RequestError::ALL.len());
    }

    #[test]
    fn every_refusal_is_an_error_status_with_its_own_name() {
        let mut names: Vec<_> = RequestError::ALL.iter().map(|refusal| refusal.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RequestError::ALL.len());
        assert!(RequestError::ALL.iter().all(|refusal| refusal.status().as_u16() >= 400));
    }
}
