//! Code points (DSCP), which ask the network for a treatment of a connection's packets.

/// Code point of differentiated services (RFC 2474): 46 is expedited forwarding, 1 lower effort (RFC 8622).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// Code point that every connection begins with.
    pub const DEFAULT: Self = Self(0);

    /// Makes a code point; `None` for more than six bits.
    pub const fn new(code_point: u8) -> Option<Self> {
        if code_point < 64 { Some(Self(code_point)) } else { None }
    }

    /// Returns the six bits of the code point.
    pub const fn code_point(self) -> u8 {
        self.0
    }

    /// Returns the octet of an IP header with this code point (IPv4: TOS), without ECN.
    pub const fn traffic_class(self) -> u8 {
        self.0 << 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_point_is_six_bits_above_those_of_ecn() {
        assert_eq!(Dscp::new(46).map(Dscp::traffic_class), Some(0xb8));
        assert_eq!(Dscp::new(63).map(Dscp::code_point), Some(63));
        assert_eq!(Dscp::new(64), None);
        assert_eq!(Dscp::default(), Dscp::DEFAULT);
    }
}
