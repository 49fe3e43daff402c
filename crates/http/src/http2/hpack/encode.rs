//! Fields into header blocks (RFC 7541 6): by the static table, values as they are.

use super::table::STATIC;

/// One direction's compression.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// The peer has been told that no table is used.
    has_begun: bool,
}

impl Encoder {
    /// Begins the next block.
    pub(crate) fn begin(&mut self, block: &mut Vec<u8>) {
        // A table of size 0 from the first block on: whatever size the peer allows later, none of its changes needs an
        // answer (RFC 7541 4.2).
        if !std::mem::replace(&mut self.has_begun, true) {
            block.push(0b0010_0000);
        }
    }
}

/// Appends `:status`, which comes before all fields.
pub(crate) fn status(block: &mut Vec<u8>, status: u16) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let digits = [100, 10, 1].map(|unit| b'0' + (status / unit % 10) as u8);
            literal(block, 8, &digits);
            return;
        }
    };
    block.push(0b1000_0000 | index);
}

/// Appends a field; its name may have capital letters, which are sent small (RFC 9113 8.2.1).
pub(crate) fn field(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    match index_of(name) {
        Some(index) => literal(block, index, value),
        None if name == "X-Content-Type-Options" => unindexed(block, b"x-content-type-options", value),
        None => unindexed(block, name.to_ascii_lowercase().as_bytes(), value),
    }
}

/// Appends a field with its name, not to be kept in a table.
pub(crate) fn unindexed(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    string(block, name);
    string(block, value);
}

/// A value behind a name of the static table, not to be kept in a table.
fn literal(block: &mut Vec<u8>, index: usize, value: &[u8]) {
    integer(block, 0, 4, index);
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &[u8]) {
    integer(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

/// RFC 7541 5.1, behind the bits of `first`.
fn integer(block: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return block.push(first | value as u8);
    }
    block.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 128 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// The static table's index of a name; names of a file's answer without a search.
fn index_of(name: &str) -> Option<usize> {
    match name {
        "Accept-Ranges" => Some(18),
        "Content-Length" => Some(28),
        "Content-Type" => Some(31),
        "Date" => Some(33),
        "ETag" => Some(34),
        "Last-Modified" => Some(44),
        "Server" => Some(54),
        "X-Content-Type-Options" => None,
        _ => {
            let regular = STATIC[FIRST_REGULAR - 1..].iter();
            regular
                .map(|(known, _)| known)
                .position(|known| known.eq_ignore_ascii_case(name))
                .map(|at| at + FIRST_REGULAR)
        }
    }
}

/// Index of the first field that is none of the protocol's own.
const FIRST_REGULAR: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_known_by_heart_stand_where_they_should() {
        for name in
            ["Accept-Ranges", "Content-Length", "Content-Type", "Date", "ETag", "Last-Modified", "Server"]
        {
            let index = index_of(name).unwrap();
            assert!(STATIC[index - 1].0.eq_ignore_ascii_case(name));
        }
        assert_eq!(index_of("vary"), Some(59));
        assert_eq!(index_of("Content-Security-Policy"), None);
    }
}
