//! Errors of the client.

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection could not be made or broke.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// TLS refused.
    #[error("TLS failed: {0}")]
    Tls(#[from] tls::TlsError),
    /// The host cannot be a TLS server name.
    #[error("{0:?} cannot be a TLS server name")]
    ServerName(String),
    /// The server closed in the middle of an answer.
    #[error("the server closed the connection before the answer was whole")]
    Cut,
    /// An answer this client does not understand.
    #[error("the server's answer has {0}")]
    BadAnswer(&'static str),
    /// The body differs from the first one.
    #[error("a body differs from the one fetched first")]
    WrongBody,
}
