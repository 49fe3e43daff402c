//! The one request of SMB1 that means something: a negotiation that offers SMB2 beside it (MS-SMB2 3.3.5.3).

use crate::malformed::Malformed;

/// `ProtocolId` of SMB1.
pub const PROTOCOL_ID: [u8; 4] = [0xff, b'S', b'M', b'B'];

const COMMAND_NEGOTIATE: u8 = 0x72;
const HEADER_LEN: usize = 32;
/// Most dialect strings that are looked at.
const DIALECTS_MAX: usize = 64;

/// The SMB2 dialects that an SMB1 negotiation offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offer {
    /// "SMB 2.002".
    pub smb202: bool,
    /// "SMB 2.???": 2.1 or newer, in a negotiation of its own.
    pub wildcard: bool,
}

/// Reads an SMB_COM_NEGOTIATE request (MS-CIFS 2.2.4.52.1).
///
/// # Errors
/// Anything else of SMB1 is [`Malformed::Protocol`]: the connection ends.
pub fn parse(message: &[u8]) -> Result<Offer, Malformed> {
    if !message.starts_with(&PROTOCOL_ID) || message.get(4) != Some(&COMMAND_NEGOTIATE) {
        return Err(Malformed::Protocol);
    }
    let body = message.get(HEADER_LEN..).ok_or(Malformed::Protocol)?;
    let (count, body) = body.split_first_chunk::<3>().ok_or(Malformed::Protocol)?;
    let len = usize::from(u16::from_le_bytes([count[1], count[2]]));
    if count[0] != 0 {
        return Err(Malformed::Protocol);
    }
    let mut rest = body.get(..len).ok_or(Malformed::Protocol)?;
    let mut offer = Offer::default();
    for _ in 0..DIALECTS_MAX {
        let Some((&format, after)) = rest.split_first() else { return Ok(offer) };
        let end = after.iter().position(|byte| *byte == 0).ok_or(Malformed::Protocol)?;
        if format != 2 {
            return Err(Malformed::Protocol);
        }
        offer.smb202 |= &after[..end] == b"SMB 2.002";
        offer.wildcard |= &after[..end] == b"SMB 2.???";
        rest = &after[end + 1..];
    }
    Err(Malformed::Count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dialects: &[&str]) -> Vec<u8> {
        let strings: Vec<u8> =
            dialects.iter().flat_map(|dialect| [&[2][..], dialect.as_bytes(), &[0]].concat()).collect();
        let mut message = PROTOCOL_ID.to_vec();
        message.push(COMMAND_NEGOTIATE);
        message.resize(HEADER_LEN, 0);
        message.push(0);
        message.extend((strings.len() as u16).to_le_bytes());
        message.extend(strings);
        message
    }

    #[test]
    fn an_offer_of_smb2_is_found_among_old_dialects() {
        let both = parse(&request(&["NT LM 0.12", "SMB 2.002", "SMB 2.???"]));
        assert_eq!(both, Ok(Offer { smb202: true, wildcard: true }));
        assert_eq!(parse(&request(&["NT LM 0.12"])), Ok(Offer::default()));
        assert_eq!(parse(&request(&[])), Ok(Offer::default()));
    }

    #[test]
    fn everything_else_of_smb1_is_refused() {
        let whole = request(&["SMB 2.002"]);
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), Err(Malformed::Protocol), "{end}");
        }
        let mut other = whole.clone();
        other[4] = 0x73;
        assert_eq!(parse(&other), Err(Malformed::Protocol));
        let mut words = whole;
        words[HEADER_LEN] = 1;
        assert_eq!(parse(&words), Err(Malformed::Protocol));
        assert_eq!(parse(&request(&["x"; 65])), Err(Malformed::Count));
    }
}
