//! Lines of the generated pages of `docs/reference`, which end at a word.

/// Most characters of a line, unless a single word is longer.
const LINE_MAX: usize = 130;

/// Appends a text in lines. The first one begins with `first`, the others with `further`.
pub(crate) fn push_lines(page: &mut String, first: &str, further: &str, text: &str) {
    let mut length = first.chars().count();
    page.push_str(first);
    for (at, word) in text.split_whitespace().enumerate() {
        let count = word.chars().count();
        if at > 0 && length + 1 + count > LINE_MAX && !begins_a_block(word) {
            page.push('\n');
            page.push_str(further);
            length = further.chars().count();
        } else if at > 0 {
            page.push(' ');
            length += 1;
        }
        page.push_str(word);
        length += count;
    }
    page.push('\n');
}

/// Returns whether Markdown takes the word for the beginning of a list, heading, quotation or table at a line's beginning.
fn begins_a_block(word: &str) -> bool {
    ["-", "+", "*", "1.", "1)"].contains(&word) || word.starts_with(['#', '>', '|', '='])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_a_word_and_none_begins_a_block() {
        let (mut page, text) = (String::new(), format!("{} {} - end", "a".repeat(100), "b".repeat(27)));
        push_lines(&mut page, "- ", "  ", &text);
        assert_eq!(page, format!("- {} {} -\n  end\n", "a".repeat(100), "b".repeat(27)));
    }
}
