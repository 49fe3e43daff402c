//! Content codings (RFC 9110 12.5.3): which precompressed sibling of a file a client takes.

/// A coding that a sibling file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Brotli (RFC 7932), `.br`
    Brotli,
    /// Zstandard (RFC 8878), `.zst`
    Zstd,
    /// gzip (RFC 1952), `.gz`
    Gzip,
}

impl Coding {
    /// All codings, the usually smallest first: the order of choice among equals.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Returns what the sibling's name adds to the file's.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// Returns the value of Content-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }
}

/// Codings that a client takes, each weight in thousandths (RFC 9110 12.4.2), 0 meaning not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    weights: [u16; 3],
    identity: u16,
}

impl Accepted {
    /// Reads Accept-Encoding. Without the field, or with a malformed one, only the plain file is sent.
    pub fn parse(field: Option<&[u8]>) -> Self {
        let mut listed = [None; 3];
        let (mut identity, mut star) = (None, None);
        for element in field.unwrap_or_default().split(|byte| *byte == b',') {
            let mut parameters = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parameters.next().unwrap_or_default();
            let Some(weight) = weight(parameters) else { continue };
            let slot = match () {
                () if name.eq_ignore_ascii_case(b"br") => &mut listed[0],
                () if name.eq_ignore_ascii_case(b"zstd") => &mut listed[1],
                () if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => {
                    &mut listed[2]
                }
                () if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                () if name == b"*" => &mut star,
                () => continue,
            };
            slot.get_or_insert(weight);
        }
        Self {
            weights: listed.map(|weight| weight.or(star).unwrap_or(0)),
            // Identity is always acceptable unless refused by name or by `*;q=0`; not listed, it
            // yields to anything the client did list.
            identity: identity.or(star.filter(|weight| *weight == 0)).unwrap_or(1),
        }
    }

    /// Codings worth looking for, best first. A coding weighed below the plain file is left out.
    pub fn preference(self) -> impl Iterator<Item = Coding> {
        let mut order = [0, 1, 2];
        // Stable, so that the server's own order decides among equals.
        order.sort_by_key(|index| std::cmp::Reverse(self.weights[*index]));
        order
            .into_iter()
            .filter(move |index| self.weights[*index] > 0 && self.weights[*index] >= self.identity)
            .map(|index| Coding::ALL[index])
    }
}

/// Returns the `q` among the parameters, 1000 without one, `None` when malformed.
fn weight<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let mut weight = 1000;
    for parameter in parameters {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            weight = thousandths(value)?;
        }
    }
    Some(weight)
}

fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut sum = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, scale) in fraction.iter().zip([100, 10, 1]) {
        sum += digit.is_ascii_digit().then(|| u16::from(digit - b'0') * scale)?;
    }
    (sum <= 1000).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::Coding::*;
    use super::*;

    fn preference(field: &str) -> Vec<Coding> {
        Accepted::parse(Some(field.as_bytes())).preference().collect()
    }

    #[test]
    fn nothing_is_encoded_unless_asked() {
        assert_eq!(Accepted::parse(None).preference().count(), 0);
        assert!(preference("").is_empty());
        assert!(preference("identity").is_empty());
        assert!(preference("deflate, compress").is_empty());
    }

    #[test]
    fn equals_are_tried_smallest_first() {
        assert_eq!(preference("gzip, deflate, br, zstd"), [Brotli, Zstd, Gzip]);
        assert_eq!(preference("gzip"), [Gzip]);
        assert_eq!(preference("X-GZIP"), [Gzip]);
    }

    #[test]
    fn weights_order_and_zero_refuses() {
        assert_eq!(preference("br;q=0.5, gzip;q=0.8"), [Gzip, Brotli]);
        assert_eq!(preference("br; q=0, gzip;Q=1.000"), [Gzip]);
        assert_eq!(preference("gzip;q=0.5, identity;q=0.9"), []);
        assert_eq!(preference("gzip;q=0.001"), [Gzip]);
    }

    #[test]
    fn star_stands_for_what_is_not_listed() {
        assert_eq!(preference("*"), [Brotli, Zstd, Gzip]);
        assert_eq!(preference("br;q=0, *"), [Zstd, Gzip]);
        assert_eq!(preference("gzip, *;q=0"), [Gzip]);
    }

    #[test]
    fn malformed_weights_drop_their_element() {
        for weight in ["2", "1.001", "0.1234", "-1", ".5", "", "0,5x", "0.x"] {
            assert!(preference(&format!("gzip;q={weight}")).is_empty(), "{weight}");
        }
    }
}
