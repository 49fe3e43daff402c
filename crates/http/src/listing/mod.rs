//! Directory listings: what is shown, in which order, as HTML ([`html`]) or JSON ([`json`]).

mod html;
mod json;

pub use html::{html, policy};
pub use json::json;
pub(crate) use json::put_string as put_json_string;

/// Media type of [`json`] bodies.
pub const JSON: &str = "application/json";

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name as the file system has it; any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// File or directory. Nothing else is ever listed.
    pub directory: bool,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// Last change, seconds since 1970.
    pub modified_s: i64,
}

/// A directory to be shown.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    /// Path below the root, decoded, without slashes at its ends; empty for the root.
    pub path: &'a [u8],
    /// The entries, in the order to show them.
    pub entries: &'a [Entry],
    /// The order they are in.
    pub order: Order,
}

/// Order of a listing. Directories always come before files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// What is compared.
    pub key: Key,
    /// Largest, newest or last name first.
    pub descending: bool,
}

/// What a listing is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// By name, numbers in it by value: `a2` before `a10`.
    #[default]
    Name,
    /// By size.
    Size,
    /// By time of last change.
    Modified,
}

impl Order {
    /// Reads `sort=name|size|modified` and `order=asc|desc` from a query; anything else is ignored.
    pub fn from_query(query: Option<&[u8]>) -> Self {
        let mut order = Self::default();
        for pair in query.unwrap_or_default().split(|byte| *byte == b'&') {
            match pair {
                b"sort=name" => order.key = Key::Name,
                b"sort=size" => order.key = Key::Size,
                b"sort=modified" => order.key = Key::Modified,
                b"order=desc" => order.descending = true,
                _ => {}
            }
        }
        order
    }

    /// Puts entries in this order; equals by name.
    pub fn sort(self, entries: &mut [Entry]) {
        entries.sort_by(|a, b| {
            let by_key = match self.key {
                Key::Name => natural(&a.name, &b.name),
                Key::Size => a.size.cmp(&b.size),
                Key::Modified => a.modified_s.cmp(&b.modified_s),
            };
            let by_key = if self.descending { by_key.reverse() } else { by_key };
            b.directory.cmp(&a.directory).then(by_key).then_with(|| natural(&a.name, &b.name))
        });
    }
}

impl Key {
    const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size",
            Self::Modified => "modified",
        }
    }
}

/// Compares names without regard to ASCII case and with runs of digits by value, then by bytes.
fn natural(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let (mut left, mut right) = (a, b);
    while let ([x, ..], [y, ..]) = (left, right) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (x_number, x_rest) = take_number(left);
            let (y_number, y_rest) = take_number(right);
            let order = x_number.len().cmp(&y_number.len()).then_with(|| x_number.cmp(y_number));
            if order.is_ne() {
                return order;
            }
            (left, right) = (x_rest, y_rest);
        } else {
            let order = x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase());
            if order.is_ne() {
                return order;
            }
            (left, right) = (&left[1..], &right[1..]);
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The run of digits at the start, without leading zeros, and what follows it.
fn take_number(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    let zeros = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    (&digits[zeros..], rest)
}

#[cfg(test)]
mod tests;
