//! One request as the log sees it, and its packed form inside a batch.

use std::net::IpAddr;

use service::log::packed::{cut, put_address, take, take_address};

use crate::request::Method;

/// One served request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The client.
    pub peer: IpAddr,
    /// Time when the response was done, microseconds since 1970.
    pub unix_us: u64,
    /// Time from the end of the request head to the end of the response, microseconds.
    pub duration_us: u32,
    /// Status sent.
    pub status: u16,
    /// Body bytes sent.
    pub body_bytes: u64,
    /// Method.
    pub method: Method,
    /// Name of the method, where it is [`Method::Other`]; empty for a request that could not be parsed.
    pub method_name: &'a [u8],
    /// Protocol of the connection.
    pub protocol: Protocol,
    /// The request came over TLS.
    pub tls: bool,
    /// The user, empty for an unauthenticated client.
    pub user: &'a [u8],
    /// Request target as sent; for a request that could not be parsed, its first bytes.
    pub target: &'a [u8],
    /// Host, empty without one.
    pub host: &'a [u8],
    /// Referer, empty without one.
    pub referer: &'a [u8],
    /// User-Agent, empty without one.
    pub user_agent: &'a [u8],
}

/// Protocol as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl Protocol {
    /// Returns the name on the request line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

impl<'a> Record<'a> {
    /// Returns the method as the log shows it; `-` where there is none.
    pub(super) fn method_text(&self) -> &[u8] {
        match self.method {
            Method::Other if !self.method_name.is_empty() => self.method_name,
            known => known.name().as_bytes(),
        }
    }

    /// Longest target the log shows.
    pub const TARGET_MAX: usize = 2048;
    /// Longest user's name, Host, Referer or User-Agent the log shows.
    pub const FIELD_MAX: usize = 512;
    /// Bytes of the longest packed record.
    pub(super) const PACKED_MAX: usize = FIXED_LEN + TARGET_MAX + 4 * FIELD_MAX + METHOD_MAX;

    /// Appends the record to a batch. Texts longer than the log shows are cut.
    pub(super) fn pack(&self, batch: &mut Vec<u8>) {
        let texts = [
            cut(self.user, FIELD_MAX),
            cut(self.target, TARGET_MAX),
            cut(self.host, FIELD_MAX),
            cut(self.referer, FIELD_MAX),
            cut(self.user_agent, FIELD_MAX),
            if self.method == Method::Other { cut(self.method_name, METHOD_MAX) } else { b"" },
        ];
        put_address(self.peer, batch);
        batch.extend_from_slice(&self.unix_us.to_le_bytes());
        batch.extend_from_slice(&self.body_bytes.to_le_bytes());
        batch.extend_from_slice(&self.duration_us.to_le_bytes());
        batch.extend_from_slice(&self.status.to_le_bytes());
        batch.extend_from_slice(&[self.method as u8, self.protocol as u8, u8::from(self.tls)]);
        for text in texts {
            batch.extend_from_slice(&(text.len() as u16).to_le_bytes());
        }
        for text in texts {
            batch.extend_from_slice(text);
        }
    }

    /// Takes one record off the front of a batch; `None` at its end.
    pub fn unpack(batch: &mut &'a [u8]) -> Option<Self> {
        let peer = take_address(batch)?;
        let unix_us = u64::from_le_bytes(take(batch)?);
        let body_bytes = u64::from_le_bytes(take(batch)?);
        let duration_us = u32::from_le_bytes(take(batch)?);
        let status = u16::from_le_bytes(take(batch)?);
        let [method, protocol, tls] = take(batch)?;
        let mut lengths = [0usize; 6];
        for length in &mut lengths {
            *length = u16::from_le_bytes(take(batch)?).into();
        }
        let mut texts = [&[][..]; 6];
        for (text, length) in texts.iter_mut().zip(lengths) {
            (*text, *batch) = batch.split_at_checked(length)?;
        }
        let [user, target, host, referer, user_agent, method_name] = texts;
        Some(Self {
            peer,
            unix_us,
            duration_us,
            status,
            body_bytes,
            method: METHODS.into_iter().find(|known| *known as u8 == method)?,
            method_name,
            protocol: PROTOCOLS.into_iter().find(|known| *known as u8 == protocol)?,
            tls: tls != 0,
            user,
            target,
            host,
            referer,
            user_agent,
        })
    }
}

const METHODS: [Method; 6] =
    [Method::Get, Method::Head, Method::Options, Method::Put, Method::Delete, Method::Other];
const PROTOCOLS: [Protocol; 3] = [Protocol::Http10, Protocol::Http11, Protocol::Http2];
/// Address, time, length, duration, status, three small enums, six text lengths.
const FIXED_LEN: usize = 16 + 8 + 8 + 4 + 2 + 3 + 12;
/// Longest method that the log shows: longer than any that is registered.
const METHOD_MAX: usize = 32;
const TARGET_MAX: usize = Record::TARGET_MAX;
const FIELD_MAX: usize = Record::FIELD_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_records_come_back_in_order() {
        let first = Record {
            peer: "192.0.2.1".parse().unwrap(),
            unix_us: 1,
            duration_us: 2,
            status: 206,
            body_bytes: u64::MAX,
            method: Method::Head,
            method_name: b"",
            protocol: Protocol::Http2,
            tls: true,
            user: b"alice",
            target: b"/a?b",
            host: b"h",
            referer: b"",
            user_agent: b"\xff\0",
        };
        let (method, method_name) = (Method::Other, &b"PROPFIND"[..]);
        let second =
            Record { peer: "2001:db8::1".parse().unwrap(), target: b"", method, method_name, ..first };
        let mut batch = Vec::new();
        first.pack(&mut batch);
        second.pack(&mut batch);
        let mut rest = &batch[..];
        assert_eq!(Record::unpack(&mut rest), Some(first));
        assert_eq!(Record::unpack(&mut rest), Some(second));
        assert_eq!(Record::unpack(&mut rest), None);
    }

    #[test]
    fn no_record_is_longer_than_its_bound() {
        let long = vec![b'x'; 100_000];
        let record = Record {
            peer: "::1".parse().unwrap(),
            unix_us: 0,
            duration_us: 0,
            status: 200,
            body_bytes: 0,
            method: Method::Other,
            method_name: &long,
            protocol: Protocol::Http11,
            tls: false,
            user: &long,
            target: &long,
            host: &long,
            referer: &long,
            user_agent: &long,
        };
        let mut batch = Vec::new();
        record.pack(&mut batch);
        assert_eq!(batch.len(), Record::PACKED_MAX);
    }
}
