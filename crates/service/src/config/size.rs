//! Sizes with units: `"10G"`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Number of bytes, or of bytes per second: an integer, or a text of digits and one of K, M, G or T, which
/// are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let (digits, power) = match text.char_indices().last()? {
            (at, letter) if letter.is_ascii_alphabetic() => (&text[..at], 1 + "KMGT".find(letter)?),
            _ => (text, 0),
        };
        let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        number.checked_mul(1 << (10 * power)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// Deserializes a [`Size`] into a number (`deserialize_with`).
///
/// # Errors
/// What would do instead.
pub fn bytes<'de, D: Deserializer<'de>, N: TryFrom<u64>>(from: D) -> Result<N, D::Error> {
    let Size(bytes) = Size::deserialize(from)?;
    N::try_from(bytes)
        .map_err(|_| D::Error::custom(format!("{bytes} bytes are more than this machine counts")))
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or one with K, M, G or T (powers of 1024) such as \"10G\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Size, E> {
        u64::try_from(number)
            .map(Size)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Size, E> {
        Ok(Size(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
        Size::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_at_most_one_letter() {
        for (text, bytes) in [("0", 0), ("10", 10), ("1K", 1024), ("10G", 10 << 30), ("2T", 2 << 40)] {
            assert_eq!(Size::parse(text), Some(Size(bytes)), "{text}");
        }
        for text in ["", "G", "10 G", "1.5G", "-1", "+1", "10GB", "10g", "99999999999T", "1é"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }
}
