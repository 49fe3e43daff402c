//! Names of others as text for people.

/// Returns whether a character acts on a terminal: control characters, and those that change the direction or
/// the lines of what is around them (UAX 9, UAX 14).
pub fn is_deceptive(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}
