//! Foreign names as text for a terminal.

/// Returns whether a character is to be escaped where foreign text is shown: controls, characters that change direction or line breaks
/// (UAX 9, UAX 14), and those that are not seen, by which two names look alike (Default_Ignorable_Code_Point of UAX 44, blank letters).
pub fn is_deceptive(char: char) -> bool {
    char.is_control()
        || char >= FIRST && INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&char))
}

const FIRST: char = INVISIBLE[0].0;

/// First and last of each range.
const INVISIBLE: [(char, char); 19] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    // Braille without a dot.
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_deceptive_and_letters_of_all_scripts_are_not() {
        assert!(INVISIBLE.is_sorted() && INVISIBLE.iter().all(|(first, last)| first <= last));
        for char in [
            '\0',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2064}',
            '\u{2066}',
            '\u{206a}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0061}',
            '\u{e01ef}',
        ] {
            assert!(is_deceptive(char), "{}", char.escape_unicode());
        }
        for char in "a Ö–שע한字́❤🎉\u{fffd}\u{a0}".chars() {
            assert!(!is_deceptive(char), "{}", char.escape_unicode());
        }
    }
}
