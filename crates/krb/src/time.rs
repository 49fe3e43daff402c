//! Moments, as Kerberos writes them: a GeneralizedTime, and microseconds beside it.

use std::fmt;

/// A moment: seconds since 1970-01-01 00:00 UTC, and microseconds where a message has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the epoch of Unix; the years 0 to 9999 can be written.
    pub seconds: i64,
    /// Microseconds of the second, below 1,000,000.
    pub microseconds: u32,
}

impl Time {
    /// Returns the beginning of a second.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, microseconds: 0 }
    }

    /// Returns the same moment in intervals of 100 ns since 1601, as Windows counts (MS-DTYP 2.3.3); 0 where it is out
    /// of range.
    pub fn to_filetime(self) -> u64 {
        let seconds =
            self.seconds.checked_add(FILETIME_OF_UNIX_SECONDS).and_then(|all| u64::try_from(all).ok());
        let ticks = seconds.and_then(|all| all.checked_mul(10_000_000));
        ticks.and_then(|all| all.checked_add(u64::from(self.microseconds) * 10)).unwrap_or(0)
    }

    /// Returns the distance of two moments, whole seconds.
    pub fn distance_seconds(self, other: Self) -> u64 {
        self.seconds.abs_diff(other.seconds)
    }

    /// Reads `YYYYMMDDhhmmssZ`. `None` where it is anything else or no such day exists.
    pub(crate) fn from_generalized(text: &[u8]) -> Option<Self> {
        let digits = text.strip_suffix(b"Z").filter(|digits| digits.len() == 14)?;
        let number = |range: std::ops::Range<usize>| {
            digits[range].iter().try_fold(0i64, |all, digit| {
                digit.is_ascii_digit().then(|| all * 10 + i64::from(digit - b'0'))
            })
        };
        let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
        let (hour, minute, second) = (number(8..10)?, number(10..12)?, number(12..14)?);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + i64::from(is_leap),
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        Some(Self::from_seconds(
            days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second,
        ))
    }

    /// Writes `YYYYMMDDhhmmssZ`; years before 0 and after 9999 become the first and the last that can be written.
    pub(crate) fn to_generalized(self) -> Vec<u8> {
        let seconds = self.seconds.clamp(SECONDS_MIN, SECONDS_MAX);
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").into_bytes()
    }
}

impl fmt::Display for Time {
    /// Writes the time in the format of RFC 3339, without microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_generalized();
        let part = |range: std::ops::Range<usize>| std::str::from_utf8(&text[range]).unwrap_or("??");
        write!(f, "{}-{}-{}T", part(0..4), part(4..6), part(6..8))?;
        write!(f, "{}:{}:{}Z", part(8..10), part(10..12), part(12..14))
    }
}

/// Days since 1970-01-01 of a day in the Gregorian calendar. Years begin in March here, so that the leap day is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Computes the inverse: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year_of_era + era * 400 + year, month, day)
}

/// Seconds from 1601-01-01 to 1970-01-01.
const FILETIME_OF_UNIX_SECONDS: i64 = 11_644_473_600;
/// 0000-01-01 00:00:00.
const SECONDS_MIN: i64 = -62_167_219_200;
/// 9999-12-31 23:59:59.
const SECONDS_MAX: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds) in [
            ("19700101000000Z", 0),
            ("19691231235959Z", -1),
            ("20000229120000Z", 951_825_600),
            ("20380119031407Z", 0x7fff_ffff),
            ("00000101000000Z", SECONDS_MIN),
            ("99991231235959Z", SECONDS_MAX),
        ] {
            assert_eq!(Time::from_generalized(text.as_bytes()), Some(Time::from_seconds(seconds)));
            assert_eq!(Time::from_seconds(seconds).to_generalized(), text.as_bytes());
        }
        assert_eq!(Time::from_seconds(951_825_600).to_string(), "2000-02-29T12:00:00Z");
        assert_eq!(Time::from_seconds(i64::MAX).to_generalized(), b"99991231235959Z");
        assert_eq!(Time::from_seconds(i64::MIN).to_generalized(), b"00000101000000Z");
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for text in [
            "19000229000000Z",
            "20010431000000Z",
            "20011301000000Z",
            "20010001000000Z",
            "20010100000000Z",
            "20010101240000Z",
            "20010101006000Z",
            "20010101000061Z",
            "20010101000000",
            "2001010100000Z",
            "2001010100000xZ",
            "20010101000000.1Z",
            "",
        ] {
            assert_eq!(Time::from_generalized(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn windows_counts_from_1601() {
        assert_eq!(Time::from_seconds(0).to_filetime(), 116_444_736_000_000_000);
        assert_eq!(Time { seconds: 0, microseconds: 3 }.to_filetime(), 116_444_736_000_000_030);
        assert_eq!(Time::from_seconds(i64::MIN).to_filetime(), 0);
        assert_eq!(Time::from_seconds(i64::MAX).to_filetime(), 0);
    }
}
