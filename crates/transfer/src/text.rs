//! Foreign names as text for a terminal.

/// Returns whether a character acts on a terminal: controls, and characters that change direction or line
/// breaks (UAX 9, UAX 14).
pub fn is_deceptive(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}
