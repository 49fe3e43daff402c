//! Messages with texts that are made in one place and logged in another. A text without its message's name is
//! a defect.

use std::fmt;

/// Logs a warning for the administrator. The text ends with the name of its message
/// (`docs/reference/messages.md`).
pub fn warn(text: &str) {
    check(text);
    tracing::warn!("{text}");
}

/// Logs an error of a volume that is not served as it should be, as [`warn`] does.
pub(crate) fn error(volume: &str, text: fmt::Arguments<'_>) {
    check(&text.to_string());
    tracing::error!(volume, "{text}");
}

/// Checks that a text ends with its message's name, by which a reader looks it up and `cargo xtask messages`
/// finds its cause.
fn check(text: &str) {
    debug_assert!(is_named(text), "no message's name is at the end of {text:?}");
}

/// Returns whether a text ends with a name in brackets, such as `[volume-moved]`.
fn is_named(text: &str) -> bool {
    let id = text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")).map(|(_, id)| id);
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    id.is_some_and(|id| id.contains('-') && id.bytes().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_named_by_a_word_in_brackets_at_its_end() {
        assert!(is_named("volume a: it is gone [volume-gone]"));
        for text in [
            "volume a: it is gone",
            "[volume-gone] volume a",
            "volume a [gone]",
            "volume a: [no name]",
            "lane [1-2]",
        ] {
            assert!(!is_named(text), "{text}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no message's name")]
    fn a_text_without_a_name_is_a_defect() {
        warn("volume a: something is the matter");
    }
}
