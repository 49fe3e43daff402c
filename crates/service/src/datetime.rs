//! Times as calendar dates in UTC.

use std::fmt;
use std::time::UNIX_EPOCH;

/// Time in the proleptic Gregorian calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Year, 1970 to 9999.
    pub year: u32,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute, 0 to 59.
    pub minute: u32,
    /// Second, 0 to 59.
    pub second: u32,
    /// Day of the week, 0 for Sunday.
    pub weekday: u32,
}

/// Time to the microsecond, displayed as in RFC 3339, in UTC: `1994-11-06T08:49:37.000042Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub unix_us: u64,
}

impl DateTime {
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

impl Moment {
    /// Returns the time of the current lane's clock.
    pub fn now() -> Self {
        let since_epoch = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX) }
    }

    /// Converts to date and time, with whole seconds.
    pub fn date_time(self) -> DateTime {
        DateTime::from_unix((self.unix_us / 1_000_000) as i64)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DateTime { year, month, day, hour, minute, second, .. } = self.date_time();
        let micros = self.unix_us % 1_000_000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Last second of a four-digit year, 9999-12-31T23:59:59Z, in seconds since 1970.
pub const UNIX_S_MAX: i64 = 253_402_300_799;
/// Names of weekdays as in RFC 9110 5.6.7 and asctime(3), Sunday first.
pub const WEEKDAYS: [[u8; 3]; 7] = [*b"Sun", *b"Mon", *b"Tue", *b"Wed", *b"Thu", *b"Fri", *b"Sat"];
/// Names of months as in RFC 9110 5.6.7 and asctime(3).
pub const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov",
    *b"Dec",
];
