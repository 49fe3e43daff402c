//! HTTP dates (RFC 9110 5.6.7): written here without allocation, read by `httpdate` in all three forms.

use std::time::{Duration, UNIX_EPOCH};

/// Length of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const LEN: usize = 29;

/// Writes seconds since 1970 as IMF-fixdate. Times outside the years 1970 to 9999 are clamped.
pub fn imf_fixdate(unix_s: i64) -> [u8; LEN] {
    let civil = Civil::from_unix(unix_s);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(&WEEKDAYS[civil.weekday as usize]);
    put_two(&mut text[5..7], civil.day);
    text[8..11].copy_from_slice(&MONTHS[civil.month as usize - 1]);
    put_two(&mut text[12..14], civil.year / 100);
    put_two(&mut text[14..16], civil.year % 100);
    put_two(&mut text[17..19], civil.hour);
    put_two(&mut text[20..22], civil.minute);
    put_two(&mut text[23..25], civil.second);
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
    /// A cache that holds the epoch.
    pub fn new() -> Self {
        Self { unix_s: 0, text: imf_fixdate(0) }
    }

    /// The date for a time since 1970.
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

/// A moment in the proleptic Gregorian calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// 1970 to 9999.
    pub year: u32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// 0 is Sunday.
    pub weekday: u32,
}

impl Civil {
    /// Splits seconds since 1970, clamped to the years 1970 to 9999.
    pub fn from_unix(unix_s: i64) -> Self {
        let unix_s = unix_s.clamp(0, UNIX_S_MAX) as u64;
        let (days, second_of_day) = (unix_s / 86_400, (unix_s % 86_400) as u32);
        // Years are counted from March, so that the leap day is the last of its year; an era is 400 years.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: (era * 400 + year_of_era + u64::from(month <= 2)) as u32,
            month: month as u32,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            weekday: ((days + 4) % 7) as u32,
        }
    }
}

fn put_two(out: &mut [u8], value: u32) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

/// 9999-12-31T23:59:59Z, the last second whose year has four digits.
const UNIX_S_MAX: i64 = 253_402_300_799;
/// Names of RFC 9110 5.6.7.
const WEEKDAYS: [[u8; 3]; 7] = [*b"Sun", *b"Mon", *b"Tue", *b"Wed", *b"Thu", *b"Fri", *b"Sat"];
/// Names of RFC 9110 5.6.7.
pub(crate) const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov",
    *b"Dec",
];

#[cfg(test)]
mod tests {
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
