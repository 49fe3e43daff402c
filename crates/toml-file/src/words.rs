//! Wording of errors in values: text, number, list, table.

/// Words the message about `value` in users' terms; `known` are the [words](words_of) that may stand there. A secret is
/// not shown, only its kind.
pub(super) fn of_users(message: &str, value: &str, known: Option<&str>, is_secret: bool) -> String {
    if is_no_word(message) {
        let wanted = known.map_or_else(|| "a word".to_owned(), one_of);
        return format!("this is {}, where {wanted} is wanted", hidden(written_there(value), is_secret));
    }
    if let Some((word, known)) = unknown(message, "unknown variant `") {
        let found = if value.starts_with('{') { "a table".to_owned() } else { format!("the text {word:?}") };
        return format!("this is {}, where {} is wanted", hidden(found, is_secret), one_of(known));
    }
    if let Some((key, known)) = unknown(message, "unknown field `") {
        return format!("unknown key `{key}`: the keys here are {known}");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing here");
    }
    if message == "duplicate key" {
        return "this key is given twice in one table, or the table twice: leave one of them".to_owned();
    }
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let found = hidden(found_there(found, value), is_secret);
            format!("this is {found}, where {} is wanted", wanted(expected))
        }
        None => message.to_owned(),
    }
}

/// Returns whether a message says that something else stands where a word is wanted, without the words that
/// may stand there.
pub(super) fn is_no_word(message: &str) -> bool {
    message == "wanted string or table" || message.starts_with("wanted exactly 1 element")
}

/// Returns whether something else stands where a table is wanted.
pub(super) fn is_no_table(message: &str) -> bool {
    message.contains(", expected struct ")
}

/// Returns whether it is a list that stands where something else is wanted.
pub(super) fn is_list_found(message: &str) -> bool {
    message.starts_with("invalid type: sequence")
}

/// Returns the words that may stand where another does, as the message that refuses that one has them.
pub(super) fn words_of(message: &str) -> Option<&str> {
    unknown(message, "unknown variant `").map(|(_, known)| known)
}

/// Returns the unknown word of a message, and the known ones.
fn unknown<'m>(message: &'m str, prefix: &str) -> Option<(&'m str, &'m str)> {
    let (found, known) = message.strip_prefix(prefix)?.rsplit_once("`, expected ")?;
    Some((found, known.strip_prefix("one of ").unwrap_or(known)))
}

fn one_of(known: &str) -> String {
    let words = known.replace('`', "\"");
    if words.contains(", ") || words.contains(" or ") { format!("one of the words {words}") } else { words }
}

/// Describes a value by its notation.
fn written_there(value: &str) -> String {
    let is_number =
        |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || "+-".contains(first));
    match value.chars().next() {
        Some('{') => "a table".to_owned(),
        Some('[') => "a list".to_owned(),
        Some('"' | '\'') => format!("the text {value}"),
        _ if value.parse::<toml::value::Datetime>().is_ok() => "a date or time".to_owned(),
        _ if is_number(value) => format!("the number {value}"),
        _ => value.to_owned(),
    }
}

fn found_there(found: &str, value: &str) -> String {
    let found = found.strip_suffix(" as i128").or_else(|| found.strip_suffix(" as u128")).unwrap_or(found);
    let quoted = |kind: &str| found.strip_prefix(kind).map(|rest| rest.trim().trim_matches('`'));
    match () {
        // The reader of TOML hands dates over as tables.
        () if found == "map" && value.starts_with(|first: char| first.is_ascii_digit()) => {
            "a date or time".to_owned()
        }
        () if found == "map" => "a table".to_owned(),
        () if found == "sequence" => "a list".to_owned(),
        () => match (quoted("integer "), quoted("floating point "), quoted("boolean "), quoted("string ")) {
            (Some(number), ..) | (_, Some(number), ..) => format!("the number {number}"),
            (_, _, Some(truth), _) => truth.to_owned(),
            (.., Some(text)) => format!("the text {text}"),
            _ => found.to_owned(),
        },
    }
}

/// Returns what is there, or only its kind.
fn hidden(found: String, is_secret: bool) -> String {
    let kinds = [("the text ", "a text"), ("the number ", "a number")];
    let kind = kinds.into_iter().find(|(beginning, _)| is_secret && found.starts_with(beginning));
    kind.map_or(found, |(_, kind)| kind.to_owned())
}

fn wanted(expected: &str) -> String {
    let words = match expected {
        "u8" => "a number from 0 to 255",
        "u16" => "a number from 0 to 65535",
        "u32" => "a number from 0 to 4294967295",
        // TOML knows no greater ones.
        "u64" | "u128" | "usize" => "a number from 0 to 9223372036854775807",
        "i32" => "a number from -2147483648 to 2147483647",
        "i8" | "i16" | "i64" | "i128" | "isize" | "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "path string" | "string" | "a character" => "a text",
        "a map" | "map" | "table" => "a table",
        "a sequence" | "sequence" => "a list",
        "string or table" | "string only" | "variant identifier" => "a word",
        other if other.starts_with("struct ") => "a table",
        other if other.starts_with("enum ") => "a word",
        other => other,
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_the_readers_own_is_left() {
        for (message, value, told) in [
            (
                "invalid type: map, expected u8",
                "1979-05-27",
                "this is a date or time, where a number from 0 to 255 is wanted",
            ),
            (
                "invalid type: map, expected u16",
                "{ a = 1 }",
                "this is a table, where a number from 0 to 65535 is wanted",
            ),
            (
                "invalid type: sequence, expected usize",
                "[1]",
                "this is a list, where a number from 0 to 9223372036854775807 is wanted",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "-1",
                "this is the number -1, where a number from 0 to 4294967295 is wanted",
            ),
            (
                "invalid type: string \"a, expected b\", expected a boolean",
                "\"a, expected b\"",
                "this is the text \"a, expected b\", where true or false is wanted",
            ),
            (
                "invalid type: boolean `true`, expected a string",
                "true",
                "this is true, where a text is wanted",
            ),
            (
                "invalid type: floating point `1.5`, expected a sequence",
                "1.5",
                "this is the number 1.5, where a list is wanted",
            ),
            (
                "invalid type: integer `3`, expected struct HttpSection",
                "3",
                "this is the number 3, where a table is wanted",
            ),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u64",
                "99999999999999999999",
                "this is the number 99999999999999999999, where a number from 0 to 9223372036854775807 is wanted",
            ),
            ("missing field `name`", "", "the key `name` is missing here"),
            (
                "unknown field `a`, expected one of `b`, `c`",
                "a",
                "unknown key `a`: the keys here are `b`, `c`",
            ),
            ("unknown field `a`, expected `b`", "a", "unknown key `a`: the keys here are `b`"),
            (
                "duplicate key",
                "a",
                "this key is given twice in one table, or the table twice: leave one of them",
            ),
            (
                "unknown variant `a`, expected b`, expected one of `off`, `on`",
                "'a`, expected b'",
                "this is the text \"a`, expected b\", where one of the words \"off\", \"on\" is wanted",
            ),
            (
                "unknown variant `a`, expected `off` or `on`",
                "{ a = 1 }",
                "this is a table, where one of the words \"off\" or \"on\" is wanted",
            ),
        ] {
            assert_eq!(of_users(message, value, None, false), told);
        }
    }

    #[test]
    fn what_stands_in_place_of_a_word_is_told_with_the_words_that_may() {
        let message = "wanted string or table";
        for (value, told) in [
            ("1", "the number 1"),
            ("-1.5", "the number -1.5"),
            ("false", "false"),
            ("[1]", "a list"),
            ("{ }", "a table"),
            ("1979-05-27", "a date or time"),
            ("inf", "inf"),
        ] {
            assert_eq!(
                of_users(message, value, Some("`off`, `on`, `both`"), false),
                format!("this is {told}, where one of the words \"off\", \"on\", \"both\" is wanted")
            );
            assert_eq!(
                of_users(message, value, None, false),
                format!("this is {told}, where a word is wanted")
            );
        }
    }
}
