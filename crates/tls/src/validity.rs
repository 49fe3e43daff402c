//! Validity of a certificate, the one field that neither rustls nor webpki gives.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION_TAG: u8 = 0xa0;

/// Period in which a certificate is valid, in seconds since 1970, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
}

/// Relation of a time to a certificate's validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The validity begins later.
    NotYet,
    /// The certificate is valid for this time yet.
    Valid(Duration),
    /// The validity has ended.
    Over,
}

impl Validity {
    pub(crate) fn at(self, now: SystemTime) -> Standing {
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        match time(self.not_after).duration_since(now) {
            _ if now < time(self.not_before) => Standing::NotYet,
            Ok(left) => Standing::Valid(left),
            Err(_) => Standing::Over,
        }
    }
}

/// Reads the validity of a certificate (RFC 5280 section 4.1.2.5).
///
/// `None` when the certificate does not have the shape that RFC 5280 gives it.
pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let mut outer = Der(certificate.as_ref());
    let mut certificate = Der(outer.expect(SEQUENCE)?);
    let mut tbs = Der(certificate.expect(SEQUENCE)?);
    if tbs.0.first() == Some(&VERSION_TAG) {
        tbs.next()?;
    }
    for _serial_signature_issuer in 0..3 {
        tbs.next()?;
    }
    let mut validity = Der(tbs.expect(SEQUENCE)?);
    let mut bound = || validity.next().and_then(|(tag, time)| parse_time(tag, time));
    Some(Validity { not_before: bound()?, not_after: bound()? })
}

/// Formats the day of a time, as `2026-11-21`, or the seconds since 1970 where no date can be named.
pub(crate) fn day(seconds: u64) -> String {
    let time =
        i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.date().to_string())
}

/// Reader of DER elements (X.690 section 8.1).
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Reads the next element's tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first_len], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match first_len {
            0..=0x7f => (usize::from(first_len), rest),
            // 0x80, the indefinite length, is no DER.
            0x81..=0x83 => {
                let (len_bytes, rest) = rest.split_at_checked(usize::from(first_len & 0x7f))?;
                (len_bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }
}

/// Parses a time of `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` to seconds since 1970.
fn parse_time(tag: u8, time: &[u8]) -> Option<u64> {
    let digits = time.strip_suffix(b"Z")?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let fields: &[u8; 10] = rest.try_into().ok()?;
    let mut fields = fields.chunks_exact(2).map(number);
    let mut next = || fields.next().flatten();
    let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_since_1970(year, month, day)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

/// Returns the days since 1970 in the proleptic Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month_from_march) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month_from_march + 2) / 5;
    const DAYS_TO_1970: u64 = 719_468;
    (365 * year + leap_days + days_before_month + day - 1).checked_sub(DAYS_TO_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for days in (0..2_932_896).step_by(13) {
            let day = day(days * 86_400 + 86_399);
            let digits: String = day.chars().filter(char::is_ascii_digit).collect();
            let time = format!("{digits}235959Z");
            assert_eq!(parse_time(GENERALIZED_TIME, time.as_bytes()), Some(days * 86_400 + 86_399), "{day}");
        }
        assert_eq!((day(0).as_str(), day(1_709_164_800).as_str()), ("1970-01-01", "2024-02-29"));
    }

    #[test]
    fn a_time_lies_before_within_or_behind() {
        let at = |seconds| {
            Validity { not_before: 10, not_after: 20 }.at(UNIX_EPOCH + Duration::from_secs(seconds))
        };
        assert_eq!([9, 21].map(at), [Standing::NotYet, Standing::Over]);
        assert_eq!([10, 20].map(at), [10, 0].map(|left| Standing::Valid(Duration::from_secs(left))));
    }

    #[test]
    fn times_of_both_forms_are_read() {
        // `date -u -d '2026-11-21 09:30:01' +%s` and friends.
        assert_eq!(parse_time(UTC_TIME, b"261121093001Z"), Some(1_795_253_401));
        assert_eq!(parse_time(GENERALIZED_TIME, b"20261121093001Z"), Some(1_795_253_401));
        assert_eq!(parse_time(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(parse_time(GENERALIZED_TIME, b"20240229000000Z"), Some(1_709_164_800));
        assert_eq!(parse_time(GENERALIZED_TIME, b"99991231235959Z"), Some(253_402_300_799));
    }

    #[test]
    fn malformed_times_are_refused() {
        for time in [&b""[..], b"Z", b"261321093001Z", b"2611210930Z", b"26112109300aZ", b"261121093001"] {
            assert_eq!(parse_time(UTC_TIME, time), None, "{time:?}");
        }
    }

    #[test]
    fn validity_of_a_generated_certificate_is_found() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2025, 1, 2), rcgen::date_time_ymd(2031, 7, 9));
        let certificate = params.self_signed(&key).unwrap();
        let validity = of(certificate.der()).unwrap();
        assert_eq!(Some(validity.not_after), parse_time(UTC_TIME, b"310709000000Z"));
        assert_eq!(Some(validity.not_before), parse_time(UTC_TIME, b"250102000000Z"));
    }

    #[test]
    fn any_prefix_of_a_certificate_is_refused() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        for len in 0..certificate.der().len() {
            assert_eq!(of(&certificate.der()[..len].into()), None, "length {len}");
        }
    }
}
