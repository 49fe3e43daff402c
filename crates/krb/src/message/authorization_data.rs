//! AuthorizationData (RFC 4120 5.2.6): typed pieces, which may be wrapped as "ignore if you do not know it".

use crate::der::{Malformed, Reader, field, integer, octets, sequence};

pub mod ad_type {
    //! Types of authorization data.

    /// AD-IF-RELEVANT: a list whose elements may be ignored.
    pub const IF_RELEVANT: i32 = 1;
    /// AD-WIN2K-PAC: the privilege attribute certificate (MS-PAC 2.2).
    pub const WIN2K_PAC: i32 = 128;
    /// KERB_AP_OPTIONS (MS-KILE 2.2.10), four bytes, little-endian.
    pub const AP_OPTIONS: i32 = 143;
}

/// One piece of authorization data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Type of the data.
    pub ad_type: i32,
    /// Set if a service that does not know the type must refuse.
    pub is_critical: bool,
    /// The data.
    pub data: &'a [u8],
}

/// All pieces of a ticket or an authenticator, also those within AD-IF-RELEVANT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationData<'a> {
    elements: Vec<Element<'a>>,
}

impl<'a> AuthorizationData<'a> {
    /// Reads them; at most [`ELEMENTS_MAX`] elements, lists in lists up to four deep.
    pub(crate) fn read(data: Reader<'a>) -> Result<Self, Malformed> {
        let mut all = Self::default();
        all.add(data, true, DEPTH_MAX)?;
        Ok(all)
    }

    fn add(&mut self, data: Reader<'a>, is_critical: bool, depth: usize) -> Result<(), Malformed> {
        let mut list = data.sequence()?;
        while !list.is_empty() {
            let mut fields = list.expect(crate::der::SEQUENCE)?;
            let ad_type = fields.field(0)?.int32()?;
            let data = fields.field(1)?.octets()?;
            if ad_type == ad_type::IF_RELEVANT {
                let depth = depth.checked_sub(1).ok_or(list.malformed())?;
                self.add(Reader::new("AD-IF-RELEVANT", data), false, depth)?;
            } else if self.elements.len() == ELEMENTS_MAX {
                return Err(list.malformed());
            } else {
                self.elements.push(Element { ad_type, is_critical, data });
            }
        }
        Ok(())
    }

    /// Returns all elements but the lists themselves.
    pub fn elements(&self) -> &[Element<'a>] {
        &self.elements
    }

    /// Returns the data of the first element of a type.
    pub fn find(&self, ad_type: i32) -> Option<&'a [u8]> {
        self.elements.iter().find(|element| element.ad_type == ad_type).map(|element| element.data)
    }

    /// Writes them: what is not critical stands in an AD-IF-RELEVANT of its own.
    pub fn encode(&self) -> Vec<u8> {
        let one = |ad_type: i32, data: &[u8]| {
            sequence(&[field(0, integer(ad_type.into())), field(1, octets(data))])
        };
        let written = self.elements.iter().map(|element| {
            let inner = one(element.ad_type, element.data);
            if element.is_critical { inner } else { one(ad_type::IF_RELEVANT, &sequence(&[inner])) }
        });
        sequence(&written.collect::<Vec<_>>())
    }
}

impl<'a> FromIterator<Element<'a>> for AuthorizationData<'a> {
    fn from_iter<I: IntoIterator<Item = Element<'a>>>(elements: I) -> Self {
        Self { elements: elements.into_iter().collect() }
    }
}

/// Most elements of a list, with those of the lists within.
const ELEMENTS_MAX: usize = 64;
/// Most levels of lists within lists.
const DEPTH_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<AuthorizationData<'_>, Malformed> {
        AuthorizationData::read(Reader::new("test", bytes))
    }

    #[test]
    fn elements_in_lists_are_found_and_not_critical() {
        let data: AuthorizationData<'_> = [
            Element { ad_type: 128, is_critical: false, data: b"pac" },
            Element { ad_type: 77, is_critical: true, data: b"x" },
        ]
        .into_iter()
        .collect();
        let bytes = data.encode();
        assert_eq!(read(&bytes), Ok(data.clone()));
        assert_eq!(data.find(128), Some(&b"pac"[..]));
        assert_eq!(data.find(1), None);
    }

    #[test]
    fn lists_are_neither_long_nor_deep() {
        let element = |ad_type, data: &[u8]| {
            sequence(&[sequence(&[field(0, integer(ad_type)), field(1, octets(data))])])
        };
        let mut nested = element(128, b"");
        for _ in 0..DEPTH_MAX {
            nested = element(1, &nested);
        }
        assert_eq!(read(&nested).unwrap().elements().len(), 1);
        assert!(read(&element(1, &nested)).is_err());
        let many = |count| {
            let one = Element { ad_type: 5, is_critical: true, data: b"" };
            std::iter::repeat_n(one, count).collect::<AuthorizationData<'_>>().encode()
        };
        assert!(read(&many(ELEMENTS_MAX)).is_ok());
        assert!(read(&many(ELEMENTS_MAX + 1)).is_err());
    }
}
