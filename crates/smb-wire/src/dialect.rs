//! The dialects (MS-SMB2 1.7, 2.2.3).

/// A version of the protocol, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Dialect {
    /// 2.0.2
    Smb202 = 0x0202,
    /// 2.1
    Smb210 = 0x0210,
    /// 3.0
    Smb300 = 0x0300,
    /// 3.0.2
    Smb302 = 0x0302,
    /// 3.1.1
    Smb311 = 0x0311,
}

impl Dialect {
    /// Every dialect, oldest first.
    pub const ALL: [Self; 5] = [Self::Smb202, Self::Smb210, Self::Smb300, Self::Smb302, Self::Smb311];

    /// Dialect in the answer to an SMB1 negotiation that offers "SMB 2.???": negotiate again, in SMB2.
    pub const WILDCARD: u16 = 0x02ff;

    /// Returns the dialect of a wire value.
    pub fn from_wire(value: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| *dialect as u16 == value)
    }

    /// Returns whether it is of the 3.x family, which has keys of its own for each purpose.
    pub fn is_smb3(self) -> bool {
        self >= Self::Smb300
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Smb202 => "2.0.2",
            Self::Smb210 => "2.1",
            Self::Smb300 => "3.0",
            Self::Smb302 => "3.0.2",
            Self::Smb311 => "3.1.1",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_ordered_and_known_by_number() {
        assert!(Dialect::ALL.is_sorted());
        assert_eq!(Dialect::from_wire(0x0311), Some(Dialect::Smb311));
        assert_eq!(Dialect::from_wire(Dialect::WILDCARD), None);
        assert_eq!(Dialect::ALL.map(Dialect::is_smb3), [false, false, true, true, true]);
        assert_eq!(Dialect::Smb302.to_string(), "3.0.2");
    }
}
