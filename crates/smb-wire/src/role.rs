//! The two sides of a connection.

/// Which side somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers.
    Server,
    /// It asks.
    Client,
}
