//! C's integer constant expressions, as `#if` and `#define` bodies hold them.

/// Scope of names that an expression may refer to.
pub(crate) trait Scope {
    fn value(&self, name: &str, depth: u32) -> Option<i64>;
    /// Returns whether a name is defined, for `defined(NAME)`. `None` where the operator has no meaning.
    fn defined(&self, name: &str) -> Option<bool>;
}

/// Bound of nested parentheses, unary operators and names that stand for further expressions.
const MAX_DEPTH: u32 = 100;

/// Evaluates `text`; `None` for no integer expression, an overflow or a name without a value.
pub(crate) fn evaluate(text: &str, scope: &dyn Scope, depth: u32) -> Option<i64> {
    let mut parser = Parser { rest: text.trim(), scope };
    let value = parser.binary(0, depth)?;
    parser.rest.is_empty().then_some(value)
}

/// Reads an integer literal in C's three bases; `None` when there is no digit or the value does not fit.
pub(crate) fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return i64::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

struct Parser<'t> {
    rest: &'t str,
    scope: &'t dyn Scope,
}

/// Binary operators with their precedence. Longer ones come first where one starts like another.
const OPERATORS: [(&str, u32); 18] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("<", 7),
    (">", 7),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl<'t> Parser<'t> {
    fn binary(&mut self, minimum: u32, depth: u32) -> Option<i64> {
        let mut left = self.unary(depth)?;
        loop {
            let operator = OPERATORS.iter().find(|(text, _)| self.rest.starts_with(text));
            let Some(&(text, precedence)) = operator.filter(|(_, precedence)| *precedence > minimum) else {
                return Some(left);
            };
            self.skip(text.len());
            let right = self.binary(precedence, depth + 1)?;
            left = apply(text, left, right)?;
        }
    }

    fn unary(&mut self, depth: u32) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '!' => self.operand(depth).map(|value| i64::from(value == 0)),
            '~' => self.operand(depth).map(|value| !value),
            '-' => self.operand(depth)?.checked_neg(),
            '+' => self.operand(depth),
            '(' => {
                self.skip(1);
                let value = self.binary(0, depth + 1)?;
                self.take(')')?;
                Some(value)
            }
            '0'..='9' => {
                let word = self.word();
                integer(word.trim_end_matches(['u', 'U', 'l', 'L']))
            }
            _ => self.name(depth),
        }
    }

    fn operand(&mut self, depth: u32) -> Option<i64> {
        self.skip(1);
        self.unary(depth + 1)
    }

    fn name(&mut self, depth: u32) -> Option<i64> {
        let name = self.word();
        if name != "defined" {
            return self.scope.value(name, depth + 1);
        }
        let parenthesis = self.rest.starts_with('(');
        if parenthesis {
            self.skip(1);
        }
        let defined = self.scope.defined(self.word())?;
        if parenthesis {
            self.take(')')?;
        }
        Some(i64::from(defined))
    }

    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn take(&mut self, expected: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?.trim_start();
        Some(())
    }

    fn skip(&mut self, len: usize) {
        self.rest = self.rest[len..].trim_start();
    }
}

fn apply(operator: &str, left: i64, right: i64) -> Option<i64> {
    let shift = || u32::try_from(right).ok().filter(|&bits| bits < 63);
    match operator {
        "||" => Some(i64::from(left != 0 || right != 0)),
        "&&" => Some(i64::from(left != 0 && right != 0)),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "==" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        "<" => Some(i64::from(left < right)),
        ">" => Some(i64::from(left > right)),
        "<=" => Some(i64::from(left <= right)),
        ">=" => Some(i64::from(left >= right)),
        "<<" => left.checked_mul(1 << shift()?),
        ">>" => Some(left >> shift()?),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        _ => left.checked_rem(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Scope for Names {
        fn value(&self, name: &str, depth: u32) -> Option<i64> {
            match name {
                "SEVEN" => Some(7),
                "LOOP" => evaluate("LOOP + 1", self, depth),
                _ => None,
            }
        }

        fn defined(&self, name: &str) -> Option<bool> {
            Some(name == "SEVEN")
        }
    }

    fn value(text: &str) -> Option<i64> {
        evaluate(text, &Names, 0)
    }

    #[test]
    fn operators_bind_as_in_c() {
        assert_eq!(value("1 + 2 * 3 - 4 - 5"), Some(-2));
        assert_eq!(value("(5*60)"), Some(300));
        assert_eq!(value("(1u<<31)"), Some(1 << 31));
        assert_eq!(value("1 | 6 & 3 == 3"), Some(1));
        assert_eq!(value("-~SEVEN"), Some(8));
        assert_eq!(value("0x10 + 010 + 10L"), Some(34));
    }

    #[test]
    fn defined_takes_a_name_with_or_without_parentheses() {
        assert_eq!(value("defined(SEVEN) && !defined EIGHT"), Some(1));
        assert_eq!(value("defined(SEVEN"), None);
    }

    #[test]
    fn what_is_no_integer_has_no_value() {
        for text in
            ["", "htons(7)", "\"4\"", "1 +", "9 9", "1 / 0", "EIGHT", "9223372036854775807 + 1", "1 << 80"]
        {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn endless_nesting_has_no_value() {
        assert_eq!(value("LOOP"), None);
        assert_eq!(value(&"(".repeat(100_000)), None);
        assert_eq!(value(&"-".repeat(100_000)), None);
    }
}
