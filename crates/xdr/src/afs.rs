//! Types that every AFS interface uses without declaring them.

use core::fmt;

use crate::{Decode, Encode, Reader, Result, Sink, UNIT, Writer};

/// `afsUUID`: an RFC 9562 UUID that travels as eleven words, one for each field and for each node byte.
///
/// Kept as the sixteen bytes of its usual big-endian form. On the wire the two 16-bit fields are zero-extended and the
/// eight single bytes sign-extended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AfsUuid(pub [u8; 16]);

/// `afs_time64`: a signed count of 100 ns ticks since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time64(pub i64);

/// Writes the hyphenated form: 8-4-4-4-12 lower-case hexadecimal digits.
impl fmt::Display for AfsUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for AfsUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for AfsUuid {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        let [a, b, c, d, mid_high, mid_low, high_high, high_low, chars @ ..] = self.0;
        writer.u32(u32::from_be_bytes([a, b, c, d]))?;
        writer.value(&u16::from_be_bytes([mid_high, mid_low]))?;
        writer.value(&u16::from_be_bytes([high_high, high_low]))?;
        writer.value(&chars.map(u8::cast_signed))
    }
}

impl Decode<'_> for AfsUuid {
    const MIN_SIZE: usize = 11 * UNIT;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut uuid = [0; 16];
        uuid[..4].copy_from_slice(&reader.u32()?.to_be_bytes());
        uuid[4..6].copy_from_slice(&u16::decode(reader)?.to_be_bytes());
        uuid[6..8].copy_from_slice(&u16::decode(reader)?.to_be_bytes());
        uuid[8..].copy_from_slice(&<[u8; 8]>::decode(reader)?);
        Ok(Self(uuid))
    }
}

impl Encode for Time64 {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        self.0.encode(writer)
    }
}

impl Decode<'_> for Time64 {
    const MIN_SIZE: usize = 8;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        i64::decode(reader).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_vec;

    const UUID: AfsUuid = AfsUuid([0, 0x9d, 0x4e, 0x2c, 0xf1, 2, 0x11, 0xee, 0x98, 5, 1, 2, 3, 4, 5, 0xff]);

    #[test]
    fn uuid_takes_eleven_words() {
        let wire = to_vec(&UUID).unwrap();
        assert_eq!(wire.len(), AfsUuid::MIN_SIZE);
        assert_eq!(wire[..12], [0, 0x9d, 0x4e, 0x2c, 0, 0, 0xf1, 2, 0, 0, 0x11, 0xee]);
        assert_eq!(wire[12..16], [0xff, 0xff, 0xff, 0x98]);
        assert_eq!(Reader::new(&wire).value(), Ok(UUID));
    }

    #[test]
    fn uuid_prints_in_its_usual_form() {
        assert_eq!(UUID.to_string(), "009d4e2c-f102-11ee-9805-0102030405ff");
    }
}
