//! The two sides of a connection.

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that answers.
    Server,
    /// The side that asks.
    Client,
}
