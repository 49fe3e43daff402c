//! Text on the wire is UTF-16LE without an end mark.

use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use crate::malformed::Malformed;

/// Text as it lies in a message: whole code units, any of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<'a>(&'a [U16]);

impl<'a> Text<'a> {
    /// Creates the text that `bytes` are.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        <[U16]>::ref_from_bytes(bytes).map(Self).map_err(|_| Malformed::OddText)
    }

    /// Returns how many code units it has.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns whether it has none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text's code units.
    pub fn units(self) -> impl DoubleEndedIterator<Item = u16> + Clone + 'a {
        self.0.iter().map(|unit| unit.get())
    }

    /// Decodes the text to UTF-8; `None` where a surrogate has no partner, which no name of ours can hold.
    pub fn decode(self) -> Option<String> {
        char::decode_utf16(self.units()).collect::<Result<_, _>>().ok()
    }

    /// Decodes the text, with what cannot be decoded replaced: for logs.
    pub fn lossy(self) -> String {
        char::decode_utf16(self.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.lossy(), f)
    }
}

/// Appends `text` as it travels.
pub fn encode(text: &str, out: &mut Vec<u8>) {
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

/// Returns `text` as it travels.
pub fn encoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len());
    encode(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_and_halves_of_pairs_do_not() {
        let bytes = encoded("päß🔑");
        assert_eq!(bytes.len(), 10);
        let text = Text::new(&bytes).unwrap();
        assert_eq!(text.decode().unwrap(), "päß🔑");
        assert_eq!(Text::new(&bytes[..9]), Err(Malformed::OddText));
        let half = Text::new(&bytes[..8]).unwrap();
        assert_eq!((half.decode(), half.lossy()), (None, "päß\u{fffd}".to_owned()));
        assert!(Text::new(&[]).unwrap().is_empty());
    }
}
