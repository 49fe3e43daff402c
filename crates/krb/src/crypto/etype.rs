//! Encryption types by number: four that are used, others by name, with what to do about them.

use std::fmt;

/// An encryption type that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Etype {
    /// aes128-cts-hmac-sha1-96, number 17 (RFC 3962).
    Aes128Sha1,
    /// aes256-cts-hmac-sha1-96, number 18 (RFC 3962).
    Aes256Sha1,
    /// aes128-cts-hmac-sha256-128, number 19 (RFC 8009).
    Aes128Sha256,
    /// aes256-cts-hmac-sha384-192, number 20 (RFC 8009).
    Aes256Sha384,
}

impl Etype {
    /// All, weakest first.
    pub const ALL: [Self; 4] = [Self::Aes128Sha1, Self::Aes256Sha1, Self::Aes128Sha256, Self::Aes256Sha384];

    /// Returns the type of this number; the error of a refused one says what to do.
    pub fn from_number(number: i32) -> Result<Self, EtypeRefused> {
        Self::ALL.into_iter().find(|etype| etype.number() == number).ok_or(EtypeRefused { number })
    }

    /// Returns the number (IANA, "Kerberos Encryption Type Numbers").
    pub const fn number(self) -> i32 {
        match self {
            Self::Aes128Sha1 => 17,
            Self::Aes256Sha1 => 18,
            Self::Aes128Sha256 => 19,
            Self::Aes256Sha384 => 20,
        }
    }

    /// Returns the name, as `klist -e` of MIT and the RFCs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Sha1 => "aes128-cts-hmac-sha1-96",
            Self::Aes256Sha1 => "aes256-cts-hmac-sha1-96",
            Self::Aes128Sha256 => "aes128-cts-hmac-sha256-128",
            Self::Aes256Sha384 => "aes256-cts-hmac-sha384-192",
        }
    }

    /// Returns the length of its keys, bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes128Sha256 => 16,
            Self::Aes256Sha1 | Self::Aes256Sha384 => 32,
        }
    }

    /// Returns the length of its checksums, bytes.
    pub const fn checksum_len(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes256Sha1 => 12,
            Self::Aes128Sha256 => 16,
            Self::Aes256Sha384 => 24,
        }
    }

    /// Returns the number of its keyed checksum (IANA, "Kerberos Checksum Type Numbers").
    pub const fn checksum_type(self) -> i32 {
        match self {
            Self::Aes128Sha1 => 15,
            Self::Aes256Sha1 => 16,
            Self::Aes128Sha256 => 19,
            Self::Aes256Sha384 => 20,
        }
    }
}

impl fmt::Display for Etype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An encryption type that is not used. Its text says what an administrator does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtypeRefused {
    /// The number.
    pub number: i32,
}

impl EtypeRefused {
    /// Returns true for DES, triple DES and RC4: known, and too weak.
    pub fn is_weak(self) -> bool {
        matches!(self.number, 1..=16 | 23..=24)
    }
}

impl fmt::Display for EtypeRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not used", etype_name(self.number))?;
        match self.number {
            23 | 24 => f.write_str(
                "; Active Directory: set msDS-SupportedEncryptionTypes of the service's account to 24, set its \
                 password again, and export the key table anew; MIT: make the keys anew (ktadd) with AES types",
            ),
            _ if self.is_weak() => f.write_str("; make the service's keys anew with AES types (MIT: ktadd)"),
            _ => f.write_str("; allow aes256-cts-hmac-sha1-96 or another type of 17 to 20"),
        }
    }
}

impl std::error::Error for EtypeRefused {}

/// Returns the name and number of an encryption type, also of one that is not used.
pub fn etype_name(number: i32) -> String {
    let name = match number {
        1 => "des-cbc-crc",
        2 => "des-cbc-md4",
        3 => "des-cbc-md5",
        5 | 7 | 16 => "triple DES",
        23 => "arcfour-hmac",
        24 => "arcfour-hmac-exp",
        25 => "camellia128-cts-cmac",
        26 => "camellia256-cts-cmac",
        _ => match Etype::from_number(number) {
            Ok(etype) => etype.name(),
            Err(_) => return format!("encryption type {number}"),
        },
    };
    format!("{name} ({number})")
}
