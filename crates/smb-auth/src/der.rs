//! As much of DER (X.690) as SPNEGO takes.

use crate::Refused;

/// Reads elements one after the other. Lengths are checked against what is there.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next element's tag and content.
    pub(crate) fn next(&mut self) -> Result<(u8, &'a [u8]), Refused> {
        let (tag, content, rest) = split(self.0).ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok((tag, content))
    }

    /// Reads the content of the next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Refused> {
        match self.next()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(Refused::Malformed),
        }
    }

    /// Reads the one element that there is, which has this tag.
    pub(crate) fn only(mut self, tag: u8) -> Result<&'a [u8], Refused> {
        let content = self.expect(tag)?;
        if self.is_empty() { Ok(content) } else { Err(Refused::Malformed) }
    }
}

fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // More than four bytes of length is more than any token; an indefinite length is not DER.
        0x81..=0x84 => {
            let (len, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (len.iter().fold(0usize, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Encodes an element of this tag with these contents, one after the other.
pub(crate) fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let len: usize = contents.iter().map(|content| content.len()).sum();
    let mut out = vec![tag];
    match len {
        0..=0x7f => out.push(len as u8),
        _ => {
            let bytes = (len as u32).to_be_bytes();
            let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
            out.push(0x80 | (4 - skipped) as u8);
            out.extend(&bytes[skipped..]);
        }
    }
    contents.iter().for_each(|content| out.extend(*content));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_whatever_their_length() {
        for len in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; len];
            let bytes = element(4, &[&content[..len / 2], &content[len / 2..]]);
            assert_eq!(Reader::new(&bytes).only(4).unwrap(), content);
            assert!(Reader::new(&bytes).only(5).is_err());
            assert!(Reader::new(&bytes[..bytes.len() - 1]).only(4).is_err());
            assert!(Reader::new(&[&bytes[..], &[0]].concat()).only(4).is_err());
        }
        for bad in
            [&[4][..], &[4, 0x80, 0, 0], &[4, 0x85, 0, 0, 0, 0, 0], &[4, 0x84, 0xff, 0xff, 0xff, 0xff], &[]]
        {
            assert!(Reader::new(bad).next().is_err());
        }
    }
}
