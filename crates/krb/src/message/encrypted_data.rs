//! EncryptedData and EncryptionKey (RFC 4120 5.2.9).

use std::fmt;

use zeroize::Zeroizing;

use crate::crypto::{Integrity, Key, KeyRefused, etype_name};
use crate::der::{Malformed, Reader, field, integer, octets, sequence, uint};
use crate::{Etype, EtypeRefused};

/// Something encrypted, and the key that it is encrypted with by type and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptedData<'a> {
    /// The encryption type's number, which may be one that is not used.
    pub etype: i32,
    /// The key's version; not there for session keys.
    pub kvno: Option<u32>,
    /// Confounder, data and checksum.
    pub cipher: &'a [u8],
}

impl<'a> EncryptedData<'a> {
    /// Reads one that stands alone, as rxkad's tickets of version 213 do.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(Reader::new("EncryptedData", bytes))
    }

    pub(crate) fn read(data: Reader<'a>) -> Result<Self, Malformed> {
        let mut fields = data.sequence()?;
        let etype = fields.field(0)?.int32()?;
        let kvno = fields.optional(1)?.map(Reader::uint32).transpose()?;
        let cipher = fields.field(2)?.octets()?;
        Ok(Self { etype, kvno, cipher })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = vec![field(0, integer(self.etype.into()))];
        fields.extend(self.kvno.map(|kvno| field(1, uint(kvno))));
        fields.push(field(2, octets(self.cipher)));
        sequence(&fields)
    }

    /// Decrypts it with a key that must be of its type.
    pub(crate) fn decrypt(&self, key: &Key, usage: u32) -> Result<Zeroizing<Vec<u8>>, Integrity> {
        if key.etype().number() != self.etype {
            return Err(Integrity);
        }
        key.decrypt(usage, self.cipher)
    }
}

/// A key as a message brings it, which may be of a type that is not used: rxkad's local tickets have a DES key.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey {
    etype: i32,
    bytes: Zeroizing<Vec<u8>>,
}

impl SessionKey {
    /// Creates a key from its type's number and its bytes.
    pub fn new(etype: i32, bytes: &[u8]) -> Self {
        Self { etype, bytes: Zeroizing::new(bytes.to_vec()) }
    }

    /// Returns the encryption type's number.
    pub fn etype(&self) -> i32 {
        self.etype
    }

    /// Returns the key itself. SMB takes the first 16 bytes, rxkad derives its DES key from all.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the key, if its type is used.
    pub fn key(&self) -> Result<Key, KeyRefused> {
        let etype =
            Etype::from_number(self.etype).map_err(|refused: EtypeRefused| KeyRefused::Etype(refused))?;
        Ok(Key::new(etype, &self.bytes)?)
    }

    pub(crate) fn read(key: Reader<'_>) -> Result<Self, Malformed> {
        let mut fields = key.sequence()?;
        let etype = fields.field(0)?.int32()?;
        Ok(Self::new(etype, fields.field(1)?.octets()?))
    }

    pub(crate) fn write(&self) -> Zeroizing<Vec<u8>> {
        let contents = Zeroizing::new(octets(&self.bytes));
        let contents = Zeroizing::new(field(1, &contents));
        Zeroizing::new(crate::der::element(
            crate::der::SEQUENCE,
            &[&field(0, integer(self.etype.into()))[..], &contents],
        ))
    }
}

impl From<&Key> for SessionKey {
    fn from(key: &Key) -> Self {
        Self::new(key.etype().number(), key.bytes())
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({})", etype_name(self.etype))
    }
}
