//! Values of constants and options, as the code writes them.

use std::fmt;
use std::time::Duration;

use anyhow::Context;

/// Puts values in the place of `{}`, `{NAME}` and `{NAME:b}`; `here` is the line of code that `{}` means.
pub(super) fn fill(said: &str, here: &str, text: &str) -> anyhow::Result<String> {
    let (mut filled, mut rest) = (String::new(), said);
    while let Some((before, behind)) = rest.split_once('{') {
        filled.push_str(before);
        let (within, after) = behind.split_once('}').context("a brace that is not closed")?;
        rest = after;
        let (name, is_bytes) = within.strip_suffix(":b").map_or((within, false), |name| (name, true));
        let value = match name {
            "" => declared(here).and_then(|(_, written)| evaluated(written, text)),
            name => named(name, text),
        };
        let value = value
            .with_context(|| format!("there is no value of {}", if name.is_empty() { here } else { name }))?;
        filled.push_str(&if is_bytes { value.bytes() } else { value.to_string() });
    }
    filled.push_str(rest);
    Ok(filled)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Time(Duration),
}

impl Value {
    fn bytes(self) -> String {
        let Self::Number(number) = self else { return self.to_string() };
        let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.into_iter().find(|(_, unit)| number >= *unit && number.is_multiple_of(*unit)) {
            Some((name, unit)) => format!("{} {name}", Self::Number(number / unit)),
            None => format!("{self} bytes"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time)
                if time.subsec_nanos() == 0 && time.as_secs() >= 120 && time.as_secs().is_multiple_of(60) =>
            {
                write!(f, "{} min", time.as_secs() / 60)
            }
            Self::Time(time) if time.subsec_nanos() == 0 => write!(f, "{} s", time.as_secs()),
            Self::Time(time) => write!(f, "{} ms", time.as_millis()),
            Self::Number(number) => {
                let digits = number.to_string();
                for (at, digit) in digits.chars().enumerate() {
                    let is_border = at > 0 && (digits.len() - at).is_multiple_of(3);
                    write!(f, "{}{digit}", if is_border { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// Returns the name and the value that a line declares: `const NAME: T = VALUE;` or `name: VALUE,`.
fn declared(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().strip_suffix([';', ','])?;
    let (before, after) = line.split_once(": ")?;
    let is_constant = before.split(' ').any(|word| word == "const");
    let value = if is_constant { after.split_once(" = ")?.1 } else { after };
    Some((before.rsplit(' ').next()?, value))
}

/// Returns the first value that a file has under this name.
fn named(name: &str, text: &str) -> Option<Value> {
    let of_name = text.lines().filter_map(declared).filter(|(declared, _)| *declared == name);
    of_name.filter_map(|(_, written)| evaluated(written, text)).next()
}

/// Sums, products, quotients and shifts of numbers and of constants of the file, and times of them.
fn evaluated(written: &str, text: &str) -> Option<Value> {
    let written = written.trim();
    if let Some(inner) =
        ["Some(", "Size("].iter().find_map(|wrap| written.strip_prefix(*wrap)?.strip_suffix(')'))
    {
        return evaluated(inner, text);
    }
    let time =
        written.rsplit_once("Duration::").and_then(|(_, time)| time.strip_suffix(')')?.split_once('('));
    if let Some((unit, inner)) = time {
        let Value::Number(number) = evaluated(inner, text)? else { return None };
        return match unit {
            "from_secs" => Some(Value::Time(Duration::from_secs(number))),
            "from_millis" => Some(Value::Time(Duration::from_millis(number))),
            "from_micros" => Some(Value::Time(Duration::from_micros(number))),
            _ => None,
        };
    }
    for (sign, apply) in OPERATIONS {
        if let Some((left, right)) = written.rsplit_once(sign) {
            let (Value::Number(left), Value::Number(right)) =
                (evaluated(left, text)?, evaluated(right, text)?)
            else {
                return None;
            };
            return apply(left, right).map(Value::Number);
        }
    }
    if written.starts_with(|first: char| first.is_ascii_uppercase()) {
        return named(written, text);
    }
    written.replace('_', "").parse().ok().map(Value::Number)
}

type Apply = fn(u64, u64) -> Option<u64>;

/// Operators, of which those that bind least are first.
const OPERATIONS: [(&str, Apply); 4] = [
    (" << ", |left, right| left.checked_shl(u32::try_from(right).ok()?)),
    (" + ", u64::checked_add),
    (" / ", u64::checked_div),
    (" * ", u64::checked_mul),
];

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        pub(crate) const PACKETS: usize = 32 * 1024;
        const HALF: usize = PACKETS / 2;
        const REST: Duration = Duration::from_secs(5 * 60);
        const SOON: std::time::Duration = std::time::Duration::from_millis(250);
        memory: Size(256 << 20),
        idle: Some(Duration::from_secs(60)),
        stall: Duration,
        stall: Duration::from_secs(30),
    ";

    #[test]
    fn values_are_those_of_the_code() {
        for (said, expected) in [
            ("{}", "1,048,576"),
            ("{:b} of {PACKETS}", "1 MiB of 32,768"),
            ("{HALF}, {REST}, {SOON}", "16,384, 5 min, 250 ms"),
            ("{memory:b}, {idle}, {stall}", "256 MiB, 60 s, 30 s"),
        ] {
            assert_eq!(fill(said, "const HERE: u64 = 1 << 20;", TEXT).unwrap(), expected);
        }
        assert!(fill("{NOTHING}", "", TEXT).is_err() && fill("{}", "fn here() {", TEXT).is_err());
    }
}
