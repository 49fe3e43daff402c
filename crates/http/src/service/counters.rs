//! Counters of a lane about HTTP.

use lane::counters::Counter;

use super::abort::Abort;
use crate::request::Method;
use crate::request_error::RequestError;
use tls::{TlsError, UserSpaceReason};

lane::counter_block! {
    /// Connections, requests and refusals of one lane.
    pub struct HttpCounters {
        count accepted_plain as connections_accepted [scheme = "http"]: "HTTP connections taken.",
        count accepted_tls as connections_accepted [scheme = "https"]: "HTTP connections taken.",
        count accepted_redirect as connections_accepted [scheme = "redirect"]: "HTTP connections taken.",
        count handshakes_full as tls_handshakes [kind = "full"]: "TLS handshakes completed.",
        count handshakes_resumed as tls_handshakes [kind = "resumed"]: "TLS handshakes completed.",
        count handshakes_failed as tls_handshakes [kind = "failed"]: "TLS handshakes completed.",
        count kernel_tls: "Connections whose records the kernel seals.",
        gauge tls_kernel as tls_connections [records = "kernel"]: "Open TLS connections by who seals their records.",
        gauge tls_user as tls_connections [records = "user"]: "Open TLS connections by who seals their records.",
        count user_tls_http2 as user_tls [reason = "http2"]: "Connections whose records user space seals.",
        count user_tls_configured as user_tls [reason = "configured"]: "Connections whose records user space seals.",
        count user_tls_no_module as user_tls [reason = "no_module"]: "Connections whose records user space seals.",
        count user_tls_no_cipher as user_tls [reason = "no_cipher"]: "Connections whose records user space seals.",
        count user_tls_not_connected as user_tls [reason = "not_connected"]: "Connections whose records user space seals.",
        count user_tls_key_update as user_tls [reason = "key_update"]: "Connections whose records user space seals.",
        count user_tls_refused as user_tls [reason = "refused"]: "Connections whose records user space seals.",
        count requests_get as requests [method = "GET"]: "Requests by method.",
        count requests_head as requests [method = "HEAD"]: "Requests by method.",
        count requests_options as requests [method = "OPTIONS"]: "Requests by method.",
        count requests_put as requests [method = "PUT"]: "Requests by method.",
        count requests_delete as requests [method = "DELETE"]: "Requests by method.",
        count requests_other as requests [method = "other"]: "Requests by method.",
        count requests_http2: "Requests that came over HTTP/2.",
        count http2_streams_refused: "HTTP/2 streams reset because they broke the protocol or were one too many.",
        count responses_2xx as responses [class = "2xx"]: "Responses by status class.",
        count responses_3xx as responses [class = "3xx"]: "Responses by status class.",
        count responses_4xx as responses [class = "4xx"]: "Responses by status class.",
        count responses_5xx as responses [class = "5xx"]: "Responses by status class.",
        count uploads: "Files that came whole by upload and have their name.",
        count upload_bytes: "Bytes of uploads written to files.",
        gauge uploads_open: "Uploads under way.",
        count uploads_evicted: "Uploads ended to make room for those of addresses with fewer.",
        count logins_right as logins [outcome = "right"]: "Passwords verified.",
        count logins_wrong as logins [outcome = "wrong"]: "Passwords verified.",
        count logins_remembered as logins [outcome = "remembered"]: "Passwords verified.",
        count logins_held_back: "Times a password waited because others of its address were wrong and those had their part of the time.",
        gauge unsent_room_bytes: "Bytes that sockets may hold unsent beyond what every connection's may.",
        count unsent_room_refused: "Long bodies begun with no more than every connection's socket may hold unsent.",
        count body_bytes: "Response body bytes handed to the network.",
        count closed_idle as closed [reason = "idle"]: "Connections closed by the server.",
        count closed_drain as closed [reason = "shutdown"]: "Connections closed by the server.",
        count closed_key_update as closed [reason = "key_update"]: "Connections closed by the server.",
        count closed_key_limit as closed [reason = "key_limit"]: "Connections closed by the server.",
        count closed_requests as closed [reason = "request_limit"]: "Connections closed by the server.",
        count closed_http2_error as closed [reason = "http2_error"]: "Connections closed by the server.",
        count closed_header_timeout as closed [reason = "header_timeout"]: "Connections closed by the server.",
        count closed_http2_flood as closed [reason = "http2_flood"]: "Connections closed by the server.",
        count aborted_peer as aborted [cause = "peer"]: "Connections that ended in the middle.",
        count aborted_tls as aborted [cause = "tls"]: "Connections that ended in the middle.",
        count aborted_stalled as aborted [cause = "write_stalled"]: "Connections that ended in the middle.",
        count aborted_slow as aborted [cause = "too_slow"]: "Connections that ended in the middle.",
        count aborted_evicted as aborted [cause = "evicted"]: "Connections that ended in the middle.",
        count aborted_user_gone as aborted [cause = "user_gone"]: "Connections that ended in the middle.",
        count aborted_body as aborted [cause = "request_body"]: "Connections that ended in the middle.",
        count aborted_changed as aborted [cause = "file_changed"]: "Connections that ended in the middle.",
        count aborted_listing as aborted [cause = "listing"]: "Connections that ended in the middle.",
        count aborted_disk as aborted [cause = "disk"]: "Connections that ended in the middle.",
        count refused_request_line as refused [reason = "request_line"]: "Requests refused.",
        count refused_header_field as refused [reason = "header_field"]: "Requests refused.",
        count refused_bare_lf as refused [reason = "bare_lf"]: "Requests refused.",
        count refused_target as refused [reason = "target"]: "Requests refused.",
        count refused_path as refused [reason = "path"]: "Requests refused.",
        count refused_host as refused [reason = "host"]: "Requests refused.",
        count refused_body_length as refused [reason = "body_length"]: "Requests refused.",
        count refused_chunked_body as refused [reason = "chunked_body"]: "Requests refused.",
        count refused_duplicate_field as refused [reason = "duplicate_field"]: "Requests refused.",
        count refused_not_found as refused [reason = "not_found"]: "Requests refused.",
        count refused_forbidden as refused [reason = "forbidden"]: "Requests refused.",
        count refused_listing_too_large as refused [reason = "listing_too_large"]: "Requests refused.",
        count refused_method_not_allowed as refused [reason = "method_not_allowed"]: "Requests refused.",
        count refused_header_timeout as refused [reason = "header_timeout"]: "Requests refused.",
        count refused_precondition_failed as refused [reason = "precondition_failed"]: "Requests refused.",
        count refused_body_too_large as refused [reason = "body_too_large"]: "Requests refused.",
        count refused_target_too_long as refused [reason = "target_too_long"]: "Requests refused.",
        count refused_range as refused [reason = "range_not_satisfiable"]: "Requests refused.",
        count refused_expectation as refused [reason = "expectation"]: "Requests refused.",
        count refused_head_too_large as refused [reason = "head_too_large"]: "Requests refused.",
        count refused_internal as refused [reason = "internal"]: "Requests refused.",
        count refused_method_unknown as refused [reason = "method_unknown"]: "Requests refused.",
        count refused_transfer_coding as refused [reason = "transfer_coding"]: "Requests refused.",
        count refused_overloaded as refused [reason = "overloaded"]: "Requests refused.",
        count refused_plain_http as refused [reason = "plain_http"]: "Requests refused.",
        count refused_content_range as refused [reason = "content_range"]: "Requests refused.",
        count refused_body_cut as refused [reason = "body_cut"]: "Requests refused.",
        count refused_name_too_long as refused [reason = "name_too_long"]: "Requests refused.",
        count refused_login_needed as refused [reason = "login_needed"]: "Requests refused.",
        count refused_login_wrong as refused [reason = "login_wrong"]: "Requests refused.",
        count refused_login_insecure as refused [reason = "login_insecure"]: "Requests refused.",
        count refused_denied as refused [reason = "denied"]: "Requests refused.",
        count refused_name_refused as refused [reason = "name_refused"]: "Requests refused.",
        count refused_directory_missing as refused [reason = "directory_missing"]: "Requests refused.",
        count refused_is_directory as refused [reason = "is_directory"]: "Requests refused.",
        count refused_not_empty as refused [reason = "not_empty"]: "Requests refused.",
        count refused_upload_too_large as refused [reason = "upload_too_large"]: "Requests refused.",
        count refused_content_coding as refused [reason = "content_coding"]: "Requests refused.",
        count refused_locked as refused [reason = "locked"]: "Requests refused.",
        count refused_logins_too_many as refused [reason = "logins_too_many"]: "Requests refused.",
        count refused_upload_slow as refused [reason = "upload_slow"]: "Requests refused.",
        count refused_write_failed as refused [reason = "write_failed"]: "Requests refused.",
        count refused_uploads_too_many as refused [reason = "uploads_too_many"]: "Requests refused.",
        count refused_no_space as refused [reason = "no_space"]: "Requests refused.",
        count refused_quota_used_up as refused [reason = "quota_used_up"]: "Requests refused.",
        count refused_version as refused [reason = "version"]: "Requests refused.",
    }
}

impl HttpCounters {
    /// Counts a request by its method.
    pub(super) fn request(&self, method: Method) {
        match method {
            Method::Get => &self.requests_get,
            Method::Head => &self.requests_head,
            Method::Options => &self.requests_options,
            Method::Put => &self.requests_put,
            Method::Delete => &self.requests_delete,
            Method::Other => &self.requests_other,
        }
        .increment();
    }

    /// Counts a response by its status class.
    pub(super) fn response(&self, status: u16) {
        match status {
            ..300 => &self.responses_2xx,
            300..400 => &self.responses_3xx,
            400..500 => &self.responses_4xx,
            _ => &self.responses_5xx,
        }
        .increment();
    }

    /// Counts an established TLS connection by what seals its records: the kernel, or user space for this
    /// reason. It counts as open as long as the answer lives.
    pub(super) fn tls_established(&self, in_user_space: Option<UserSpaceReason>) -> OpenCount<'_> {
        match in_user_space {
            None => &self.kernel_tls,
            Some(UserSpaceReason::Http2) => &self.user_tls_http2,
            Some(UserSpaceReason::Configured) => &self.user_tls_configured,
            Some(UserSpaceReason::NoModule) => &self.user_tls_no_module,
            Some(UserSpaceReason::NoCipher) => &self.user_tls_no_cipher,
            Some(UserSpaceReason::NotConnected) => &self.user_tls_not_connected,
            Some(UserSpaceReason::KeyUpdate) => &self.user_tls_key_update,
            Some(UserSpaceReason::Refused) => &self.user_tls_refused,
        }
        .increment();
        let level = if in_user_space.is_none() { &self.tls_kernel } else { &self.tls_user };
        level.add(1);
        OpenCount(level)
    }

    /// Counts the end of a connection in the middle of something.
    pub(super) fn abort(&self, abort: &Abort) {
        match abort {
            Abort::Io(_) | Abort::PeerClosed => &self.aborted_peer,
            Abort::Tls(TlsError::KernelRekey) => &self.closed_key_update,
            Abort::Tls(_) => &self.aborted_tls,
            Abort::WriteStalled => &self.aborted_stalled,
            Abort::TooSlow => &self.aborted_slow,
            Abort::Evicted => &self.aborted_evicted,
            Abort::UserGone => &self.aborted_user_gone,
            Abort::RequestBody => &self.aborted_body,
            Abort::FileChanged => &self.aborted_changed,
            Abort::Listing(_) => &self.aborted_listing,
            Abort::Disk(_) => &self.aborted_disk,
        }
        .increment();
    }

    /// Counts a refusal under its reason.
    pub(super) fn refuse(&self, refusal: RequestError) {
        self.of_refusal(refusal).increment();
    }

    fn of_refusal(&self, refusal: RequestError) -> &Counter {
        match refusal {
            RequestError::RequestLine => &self.refused_request_line,
            RequestError::HeaderField => &self.refused_header_field,
            RequestError::BareLf => &self.refused_bare_lf,
            RequestError::Target => &self.refused_target,
            RequestError::Path => &self.refused_path,
            RequestError::Host => &self.refused_host,
            RequestError::BodyLength => &self.refused_body_length,
            RequestError::ChunkedBody => &self.refused_chunked_body,
            RequestError::DuplicateField => &self.refused_duplicate_field,
            RequestError::NotFound => &self.refused_not_found,
            RequestError::Forbidden => &self.refused_forbidden,
            RequestError::ListingTooLarge => &self.refused_listing_too_large,
            RequestError::MethodNotAllowed => &self.refused_method_not_allowed,
            RequestError::HeaderTimeout => &self.refused_header_timeout,
            RequestError::PreconditionFailed => &self.refused_precondition_failed,
            RequestError::BodyTooLarge => &self.refused_body_too_large,
            RequestError::TargetTooLong => &self.refused_target_too_long,
            RequestError::RangeNotSatisfiable => &self.refused_range,
            RequestError::Expectation => &self.refused_expectation,
            RequestError::HeadTooLarge => &self.refused_head_too_large,
            RequestError::Internal => &self.refused_internal,
            RequestError::MethodUnknown => &self.refused_method_unknown,
            RequestError::TransferCoding => &self.refused_transfer_coding,
            RequestError::Overloaded => &self.refused_overloaded,
            RequestError::PlainHttp => &self.refused_plain_http,
            RequestError::Version => &self.refused_version,
            RequestError::ContentRange => &self.refused_content_range,
            RequestError::BodyCut => &self.refused_body_cut,
            RequestError::NameTooLong => &self.refused_name_too_long,
            RequestError::LoginNeeded => &self.refused_login_needed,
            RequestError::LoginWrong => &self.refused_login_wrong,
            RequestError::LoginInsecure => &self.refused_login_insecure,
            RequestError::Denied => &self.refused_denied,
            RequestError::NameRefused => &self.refused_name_refused,
            RequestError::DirectoryMissing => &self.refused_directory_missing,
            RequestError::IsDirectory => &self.refused_is_directory,
            RequestError::NotEmpty => &self.refused_not_empty,
            RequestError::UploadTooLarge => &self.refused_upload_too_large,
            RequestError::ContentCoding => &self.refused_content_coding,
            RequestError::Locked => &self.refused_locked,
            RequestError::LoginsTooMany => &self.refused_logins_too_many,
            RequestError::UploadSlow => &self.refused_upload_slow,
            RequestError::WriteFailed => &self.refused_write_failed,
            RequestError::UploadsTooMany => &self.refused_uploads_too_many,
            RequestError::NoSpace => &self.refused_no_space,
            RequestError::QuotaUsedUp => &self.refused_quota_used_up,
        }
    }
}

/// Something open: it counts until it is dropped.
#[must_use = "it counts as open only as long as this lives"]
#[derive(Debug)]
pub(super) struct OpenCount<'a>(&'a Counter);

impl Drop for OpenCount<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

#[cfg(test)]
mod tests {
    use lane::counters::CounterBlock;

    use super::*;

    #[test]
    fn every_refusal_is_counted_under_its_own_name() {
        for refusal in RequestError::ALL {
            let counters = HttpCounters::default();
            counters.refuse(refusal);
            let mut counted = Vec::new();
            counters.visit(&mut |reading| {
                if reading.name == "refused" && reading.value == 1 {
                    counted.push(reading.label);
                }
            });
            assert_eq!(counted, [Some(("reason", refusal.name()))]);
        }
    }
}
