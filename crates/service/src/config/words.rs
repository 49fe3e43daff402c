//! What is wrong with a value, in the words of those who write configurations: text, number, list, table.

/// The message of a wrong value as users know its words. `value` is what is written there.
pub(super) fn of_users(message: &str, value: &str) -> String {
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            format!("this is {}, where {} is wanted", found_there(found, value), wanted(expected))
        }
        None => message.to_owned(),
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

fn wanted(expected: &str) -> String {
    let words = match expected {
        "u8" => "a number from 0 to 255",
        "u16" => "a number from 0 to 65535",
        "u32" => "a number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" | "f32" | "f64" => "a number",
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
                "this is a list, where a number from 0 on is wanted",
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
                "this is the number 99999999999999999999, where a number from 0 on is wanted",
            ),
            ("missing field `name`", "", "missing field `name`"),
        ] {
            assert_eq!(of_users(message, value), told);
        }
    }
}
