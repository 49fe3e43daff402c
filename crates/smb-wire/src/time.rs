//! Times of files: 100 ns since 1601 (MS-DTYP 2.3.3).

/// Seconds from 1601 to 1970.
const EPOCH_S: i64 = 11_644_473_600;
const TICKS_PER_S: i64 = 10_000_000;

/// A client's request for one time of a file (MS-FSCC 2.4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it as it is.
    Keep,
    /// This open's operations no longer move it.
    Freeze,
    /// This open's operations move it again.
    Thaw,
    /// Seconds since 1970 and nanoseconds.
    To(i64, u32),
}

impl SetTime {
    /// Returns the change that a wire value asks for; `None` for one that is no time (MS-FSA 2.1.5.15.2: less than
    /// -2).
    pub fn from_wire(value: u64) -> Option<Self> {
        match value as i64 {
            0 => Some(Self::Keep),
            -1 => Some(Self::Freeze),
            -2 => Some(Self::Thaw),
            ..-2 => None,
            _ => {
                let (seconds, nanoseconds) = to_unix(value);
                Some(Self::To(seconds, nanoseconds))
            }
        }
    }
}

/// Converts a wire value to seconds since 1970 and nanoseconds.
pub fn to_unix(value: u64) -> (i64, u32) {
    let ticks = value as i64;
    let nanoseconds = ticks.rem_euclid(TICKS_PER_S) as u32 * 100;
    (ticks.div_euclid(TICKS_PER_S) - EPOCH_S, nanoseconds)
}

/// Returns the wire value of seconds since 1970 and nanoseconds; what lies before 1601 or after 30828 is the nearest
/// that does not.
pub fn from_unix(seconds: i64, nanoseconds: u32) -> u64 {
    let ticks = seconds.saturating_add(EPOCH_S).saturating_mul(TICKS_PER_S);
    ticks.saturating_add(i64::from(nanoseconds / 100)).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_over_and_come_back() {
        assert_eq!(from_unix(0, 0), 116_444_736_000_000_000);
        for time in [(0, 0), (1, 999_999_900), (-1, 100), (1_700_000_000, 123_456_700)] {
            assert_eq!(to_unix(from_unix(time.0, time.1)), time);
        }
        assert_eq!(from_unix(i64::MIN, 0), 0);
        assert_eq!(from_unix(i64::MAX, 0), i64::MAX as u64);
    }

    #[test]
    fn zero_and_the_negative_ones_ask_for_something_else() {
        assert_eq!(SetTime::from_wire(0), Some(SetTime::Keep));
        assert_eq!(SetTime::from_wire(u64::MAX), Some(SetTime::Freeze));
        assert_eq!(SetTime::from_wire(u64::MAX - 1), Some(SetTime::Thaw));
        assert_eq!(SetTime::from_wire(from_unix(5, 0)), Some(SetTime::To(5, 0)));
        for negative in [-3i64, -1000, i64::MIN] {
            assert_eq!(SetTime::from_wire(negative as u64), None, "{negative}");
        }
    }
}
