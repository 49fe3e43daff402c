//! Directory listings: what is shown ([`Listing`]), in which order ([`Order`]), as HTML or JSON.
//!
//! A listing is rendered piece by piece as the client takes it ([`Rendering`]): it holds the directory's shared
//! entries, a shared order of them, and a place in it, never a whole page.
//!
//! A directory with more entries than are sorted ([`Streamed`]) is read while the client takes it.

mod contents;
mod html;
mod json;
mod order;
mod rendering;
mod row;
mod streamed;

pub use contents::{Listing, MountEntry};
pub use html::policy;
pub(crate) use order::Orders;
pub use order::{Key, Order};
pub use rendering::{Format, Rendering};
pub use row::Row;
pub use streamed::Streamed;

/// Media type of [`Format::Json`].
pub const JSON: &str = "application/json";

#[cfg(test)]
mod tests;
