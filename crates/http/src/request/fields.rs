//! The header fields that handlers look at, from whichever version of HTTP they came.

use std::borrow::Cow;

use crate::request_error::RequestError;

/// Values of the fields the file service uses, without surrounding white space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields<'b> {
    /// Value of Accept.
    pub accept: List<'b>,
    /// Value of Accept-Encoding.
    pub accept_encoding: List<'b>,
    /// Value of Authorization.
    pub authorization: Option<Credentials<'b>>,
    /// Value of Content-Encoding.
    pub content_encoding: List<'b>,
    /// Value of Content-Range.
    pub content_range: Option<&'b [u8]>,
    /// Value of If-Match.
    pub if_match: List<'b>,
    /// Value of If-Modified-Since.
    pub if_modified_since: Option<&'b [u8]>,
    /// Value of If-None-Match.
    pub if_none_match: List<'b>,
    /// Value of If-Range.
    pub if_range: Option<&'b [u8]>,
    /// Value of If-Unmodified-Since.
    pub if_unmodified_since: Option<&'b [u8]>,
    /// Value of Range.
    pub range: Option<&'b [u8]>,
    /// Value of Referer.
    pub referer: Option<&'b [u8]>,
    /// Value of User-Agent.
    pub user_agent: Option<&'b [u8]>,
}

/// Credentials that a client sends to authenticate. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'b>(pub &'b [u8]);

/// A field whose value is a list. Given in several lines it is one list, in their order (RFC 9110 5.3).
pub type List<'b> = Option<Cow<'b, [u8]>>;

impl<'b> Fields<'b> {
    /// Takes one line of the head; a name of no interest is passed over.
    ///
    /// # Errors
    /// [`RequestError::DuplicateField`] for a second line of a field that is no list and decides which bytes go out.
    #[inline]
    pub(crate) fn take(&mut self, name: &[u8], value: &'b [u8]) -> Result<(), RequestError> {
        let is = |lower: &[u8]| name.eq_ignore_ascii_case(lower);
        match name.len() {
            5 if is(b"range") => once(&mut self.range, value)?,
            6 if is(b"accept") => append(&mut self.accept, value),
            7 if is(b"referer") => first(&mut self.referer, value),
            8 if is(b"if-match") => append(&mut self.if_match, value),
            8 if is(b"if-range") => once(&mut self.if_range, value)?,
            10 if is(b"user-agent") => first(&mut self.user_agent, value),
            13 if is(b"if-none-match") => append(&mut self.if_none_match, value),
            13 if is(b"authorization") => once(&mut self.authorization, Credentials(value))?,
            13 if is(b"content-range") => first(&mut self.content_range, value),
            15 if is(b"accept-encoding") => append(&mut self.accept_encoding, value),
            16 if is(b"content-encoding") => append(&mut self.content_encoding, value),
            17 if is(b"if-modified-since") => void_if_repeated(&mut self.if_modified_since, value),
            19 if is(b"if-unmodified-since") => void_if_repeated(&mut self.if_unmodified_since, value),
            _ => {}
        }
        Ok(())
    }
}

impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

fn append<'b>(list: &mut List<'b>, line: &'b [u8]) {
    match list {
        None => *list = Some(Cow::Borrowed(line)),
        Some(lines) => {
            let lines = lines.to_mut();
            lines.extend_from_slice(b", ");
            lines.extend_from_slice(line);
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), RequestError> {
    if slot.replace(value).is_some() { Err(RequestError::DuplicateField) } else { Ok(()) }
}

fn first<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    slot.get_or_insert(value);
}

/// Voids a date with a second one beside it, which counts as no date at all (RFC 9110 13.1.3, 13.1.4).
fn void_if_repeated<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    *slot = Some(if slot.is_some() { b"" } else { value });
}
