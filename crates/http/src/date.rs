//! HTTP dates (RFC 9110 5.6.7): written here without allocation, read by `httpdate` in all three forms.

use std::time::{Duration, UNIX_EPOCH};

use service::datetime::{DateTime, MONTHS, WEEKDAYS};

/// Length of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const LEN: usize = 29;

/// Writes seconds since 1970 as IMF-fixdate. Times outside the years 1970 to 9999 are clamped.
pub fn imf_fixdate(unix_s: i64) -> [u8; LEN] {
    let date_time = DateTime::from_unix(unix_s);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(&WEEKDAYS[date_time.weekday as usize]);
    put_two(&mut text[5..7], date_time.day);
    text[8..11].copy_from_slice(&MONTHS[date_time.month as usize - 1]);
    put_two(&mut text[12..14], date_time.year / 100);
    put_two(&mut text[14..16], date_time.year % 100);
    put_two(&mut text[17..19], date_time.hour);
    put_two(&mut text[20..22], date_time.minute);
    put_two(&mut text[23..25], date_time.second);
    text
}

/// Reads a date in any of the three forms; `None` when malformed.
pub fn parse(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?;
    let since_epoch = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_epoch.as_secs()).ok()
}

/// The current date as text, made once a second. One per lane.
#[derive(Clone, Debug)]
pub struct DateCache {
    unix_s: i64,
    text: [u8; LEN],
}

impl DateCache {
    /// Creates a cache that holds the epoch.
    pub fn new() -> Self {
        Self { unix_s: 0, text: imf_fixdate(0) }
    }

    /// Returns the date for a time since 1970.
    pub fn at(&mut self, since_epoch: Duration) -> &[u8; LEN] {
        let unix_s = since_epoch.as_secs() as i64;
        if unix_s != self.unix_s {
            *self = Self { unix_s, text: imf_fixdate(unix_s) };
        }
        &self.text
    }
}

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

fn put_two(out: &mut [u8], value: u32) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

#[cfg(test)]
mod tests {
    use service::datetime::UNIX_S_MAX;

    use super::*;

    #[test]
    fn dates_equal_those_of_an_independent_writer() {
        // A stride coprime to the day, month and leap cycles visits every kind of day until 9999.
        for unix_s in (0..UNIX_S_MAX).step_by(86_399 * 37 + 11) {
            let oracle = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s as u64));
            assert_eq!(imf_fixdate(unix_s), oracle.as_bytes(), "{unix_s}");
        }
    }

    #[test]
    fn times_outside_four_digit_years_are_clamped() {
        assert_eq!(&imf_fixdate(-5), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&imf_fixdate(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn all_three_forms_are_read() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"yesterday"), None);
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn cache_changes_with_the_second() {
        let mut cache = DateCache::new();
        assert_eq!(cache.at(Duration::from_millis(784_111_777_900)), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.at(Duration::from_secs(784_111_778)), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
