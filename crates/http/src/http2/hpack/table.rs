//! The tables that header fields are named by (RFC 7541 2.3).

use std::collections::VecDeque;

/// The static table and behind it a connection's own, which forgets the oldest first.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct TableEntry {
    name_len: usize,
    text: Box<[u8]>,
}

impl Table {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Returns name and value at an index, counted from 1.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some(entry.text.split_at(entry.name_len))
    }

    /// Returns the index of a field that was inserted.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<usize> {
        let is_it = |entry: &TableEntry| {
            entry.name_len == name.len()
                && entry.text.len() == name.len() + value.len()
                && entry.text[name.len()..] == *value
                && entry.text[..name.len()] == *name
        };
        self.entries.iter().position(is_it).map(|at| STATIC.len() + 1 + at)
    }

    /// Adds a field. One that is larger than the whole table leaves it empty (RFC 7541 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        self.shrink(self.bytes_max.saturating_sub(bytes));
        if bytes <= self.bytes_max {
            self.entries.push_front(TableEntry { name_len: name.len(), text: [name, value].concat().into() });
            self.bytes += bytes;
        }
    }

    pub(super) fn set_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.shrink(bytes_max);
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.text.len() + ENTRY_BYTES;
        }
    }
}

/// Size of an entry beside its texts (RFC 7541 4.1), and a field in SETTINGS_MAX_HEADER_LIST_SIZE.
pub(super) const ENTRY_BYTES: usize = 32;

/// RFC 7541 appendix A.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
