//! Fields into header blocks (RFC 7541 6): by the static table, by a small one of the connection's own for fields that
//! come with every answer, and values as they are.

use super::table::Table;

/// One direction's compression; its blocks must be sent in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: Table,
    bytes_max: usize,
    /// Size of the table that must be sent: the smallest that it had since that was last done. Its size of now follows.
    resized: Option<usize>,
}

impl Encoder {
    /// Creates an encoder for a peer that has not said how large a table it keeps.
    pub(crate) fn new() -> Self {
        // The peer takes a larger one for granted (RFC 9113 6.5.2), so the size must be sent.
        Self { table: Table::new(TABLE_BYTES), bytes_max: TABLE_BYTES, resized: Some(TABLE_BYTES) }
    }

    /// Sets the size of the table that the peer keeps, bytes (SETTINGS_HEADER_TABLE_SIZE).
    pub(crate) fn set_table_max(&mut self, bytes: usize) {
        let bytes_max = bytes.min(TABLE_BYTES);
        if bytes_max == self.bytes_max {
            return;
        }
        self.bytes_max = bytes_max;
        self.table.set_max(bytes_max);
        self.resized = Some(self.resized.map_or(bytes_max, |smallest| smallest.min(bytes_max)));
    }

    /// Begins the next block, behind what `out` has, with its `:status`.
    pub(crate) fn begin<'e>(&'e mut self, status: u16, out: &'e mut Vec<u8>) -> BlockWriter<'e> {
        if let Some(smallest) = self.resized.take() {
            // RFC 7541 4.2.
            if smallest < self.bytes_max {
                integer(out, 0b0010_0000, 5, smallest);
            }
            integer(out, 0b0010_0000, 5, self.bytes_max);
        }
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
                integer(out, 0, 4, 8);
                string(out, &digits);
                return BlockWriter { table: &mut self.table, out };
            }
        };
        out.push(0b1000_0000 | index);
        BlockWriter { table: &mut self.table, out }
    }
}

/// A block that is being made.
#[derive(Debug)]
pub(crate) struct BlockWriter<'e> {
    table: &'e mut Table,
    out: &'e mut Vec<u8>,
}

impl BlockWriter<'_> {
    /// Appends a field; its name may have capital letters, which are sent small (RFC 9113 8.2.1).
    #[inline]
    pub(crate) fn field(&mut self, name: &'static str, value: &[u8]) {
        let (index, again) = known(name);
        let Some(lower) = again.filter(|_| value.len() <= KEPT_MAX) else {
            integer(self.out, 0, 4, index);
            if index == 0 {
                string(self.out, name.to_ascii_lowercase().as_bytes());
            }
            return string(self.out, value);
        };
        if let Some(at) = self.table.find(lower, value) {
            return integer(self.out, 0b1000_0000, 7, at);
        }
        integer(self.out, 0b0100_0000, 6, index);
        if index == 0 {
            string(self.out, lower);
        }
        string(self.out, value);
        self.table.insert(lower, value);
    }
}

/// Appends a field with its name, not to be kept in a table.
#[cfg(test)]
pub(crate) fn unindexed(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    string(block, name);
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &[u8]) {
    integer(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

/// Appends an integer (RFC 7541 5.1), behind the bits of `first`.
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

/// Returns the static table's index of a name, 0 if it has none. The name in small letters is with it if it comes with
/// the same value again, so that it is worth a place in the table.
fn known(name: &str) -> (usize, Option<&'static [u8]>) {
    match name {
        "Server" => (54, Some(b"server")),
        "Date" => (33, Some(b"date")),
        "Content-Type" => (31, Some(b"content-type")),
        "Content-Length" => (28, None),
        "Last-Modified" => (44, None),
        "ETag" => (34, None),
        "Accept-Ranges" => (18, Some(b"accept-ranges")),
        "X-Content-Type-Options" => (0, Some(b"x-content-type-options")),
        "Vary" => (59, Some(b"vary")),
        "Cache-Control" => (24, Some(b"cache-control")),
        "Content-Encoding" => (26, Some(b"content-encoding")),
        "Content-Security-Policy" => (0, Some(b"content-security-policy")),
        "Content-Range" => (30, None),
        "Location" => (46, None),
        "Allow" => (22, Some(b"allow")),
        "Retry-After" => (53, None),
        "WWW-Authenticate" => (61, Some(b"www-authenticate")),
        _ => (0, None),
    }
}

/// Size of a connection's table, as RFC 7541 4.1 counts: what every answer has, and a dozen dates. A look
/// through it costs less than the bytes that it saves.
const TABLE_BYTES: usize = 1024;
/// A longer value would push out most of what comes again.
const KEPT_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::super::table::STATIC;
    use super::*;

    #[test]
    fn names_that_are_known_by_heart_stand_where_they_should() {
        for name in [
            "Server",
            "Date",
            "Content-Type",
            "Content-Length",
            "Last-Modified",
            "ETag",
            "Accept-Ranges",
            "X-Content-Type-Options",
            "Vary",
            "Cache-Control",
            "Content-Encoding",
            "Content-Security-Policy",
            "Content-Range",
            "Location",
            "Allow",
            "Retry-After",
            "WWW-Authenticate",
        ] {
            let (index, lower) = known(name);
            let position = STATIC.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
            assert_eq!(index, position.map_or(0, |at| at + 1), "{name}");
            assert!(lower.is_none_or(|lower| lower == name.to_ascii_lowercase().as_bytes()), "{name}");
        }
    }
}
