//! Conversion of an interface's names to Rust's.

/// Converts to `UpperCamelCase` for a type: underscores are dropped and the letter after each raised, the
/// rest stays as in the interface. A name all in capitals becomes a capitalised word.
pub(crate) fn type_name(name: &str) -> String {
    let name: String =
        name.split('_').map(|part| if one_case(part) { title(part) } else { raise(part) }).collect();
    let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name };
    if name == "Self" { "Self_".to_owned() } else { name }
}

/// Converts to `snake_case` for a field, parameter or module.
pub(crate) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, &char) in chars.iter().enumerate() {
        let after_small = index > 0 && !chars[index - 1].is_ascii_uppercase() && chars[index - 1] != '_';
        let before_small = chars.get(index + 1).is_some_and(char::is_ascii_lowercase);
        let inside_word = index > 0 && chars[index - 1] != '_';
        if char.is_ascii_uppercase() && inside_word && (after_small || before_small) {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    keyword_free(snake.trim_end_matches('_'))
}

/// Converts to `SCREAMING_SNAKE_CASE` for a constant.
pub(crate) fn screaming(name: &str) -> String {
    if name.contains(|c: char| c.is_ascii_lowercase()) {
        snake(name).trim_start_matches("r#").to_ascii_uppercase()
    } else {
        name.to_owned()
    }
}

/// Converts to variant names: `UpperCamelCase` without the words that all of `names` start with.
pub(crate) fn variants(names: &[&str]) -> Vec<String> {
    let shared = if names.len() > 1 { shared_words(names) } else { 0 };
    names.iter().map(|name| type_name(&name[shared..])).collect()
}

/// Returns the length of the longest prefix of whole words, underscore included, that leaves every name
/// starting with a letter.
fn shared_words(names: &[&str]) -> usize {
    let first = names[0];
    let ends = first.char_indices().filter(|&(_, char)| char == '_').map(|(index, _)| index + 1);
    let fits = |end: &usize| {
        let prefix = &first[..*end];
        names.iter().all(|name| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
    };
    ends.filter(fits).max().unwrap_or(0)
}

fn one_case(part: &str) -> bool {
    part.len() > 1 && !part.contains(|c: char| c.is_ascii_lowercase())
}

fn title(part: &str) -> String {
    raise(&part.to_ascii_lowercase())
}

fn raise(part: &str) -> String {
    let mut chars = part.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Escapes Rust's keywords, and names that begin without a letter.
fn keyword_free(name: &str) -> String {
    const RAW: &str = " as async await break const continue do dyn else enum extern false final fn for gen if impl in \
                       let loop macro match mod move mut override priv pub ref return static struct trait true try \
                       type typeof unsafe unsized use virtual where while yield abstract become box ";
    if matches!(name, "self" | "super" | "crate" | "") {
        format!("{name}_")
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else if RAW.contains(&format!(" {name} ")) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_their_capitals() {
        assert_eq!(type_name("AFSFetchStatus"), "AFSFetchStatus");
        assert_eq!(type_name("ubik_debug_old"), "UbikDebugOld");
        assert_eq!(type_name("RXGK_StartParams"), "RxgkStartParams");
        assert_eq!(type_name("volintInfo"), "VolintInfo");
        assert_eq!(type_name("FOO"), "Foo");
    }

    #[test]
    fn fields_become_snake_case() {
        assert_eq!(snake("InterfaceVersion"), "interface_version");
        assert_eq!(snake("Length_hi"), "length_hi");
        assert_eq!(snake("volID"), "vol_id");
        assert_eq!(snake("Fids_Array"), "fids_array");
        assert_eq!(snake("RXAFS_"), "rxafs");
        assert_eq!(snake("int64s"), "int64s");
        assert_eq!(snake("type"), "r#type");
        assert_eq!(snake("self"), "self_");
    }

    #[test]
    fn constants_become_capitals() {
        assert_eq!(screaming("AFSNAMEMAX"), "AFSNAMEMAX");
        assert_eq!(screaming("LockRead"), "LOCK_READ");
        assert_eq!(screaming("type"), "TYPE");
    }

    #[test]
    fn variants_lose_the_words_they_share() {
        assert_eq!(variants(&["RXGK_LEVEL_CLEAR", "RXGK_LEVEL_AUTH"]), ["Clear", "Auth"]);
        assert_eq!(variants(&["VERSION_1", "VERSION_2"]), ["Version1", "Version2"]);
        assert_eq!(variants(&["ALONE_HERE"]), ["AloneHere"]);
        assert_eq!(variants(&["RED", "GREEN"]), ["Red", "Green"]);
    }
}
