//! The name that a file has in the tree of a server while it goes up. No other program gives names of this form, so that a server may
//! take away what was left by a client that was killed.

use crate::distinct::{distinct, distinct_text, fnv_1a};

/// Returns the name that a file has until it is whole and becomes `name`: the first bytes of `name`, a hash
/// of these and an ending.
pub fn staged_name(name: &str) -> String {
    let kept = distinct_text(name, NAME_KEPT);
    format!("{kept}.{:016x}{ENDING}", sum(kept.as_bytes()))
}

/// Returns the staged name of a name that is not text ([`staged_name`]).
pub fn staged_name_of_bytes(name: &[u8]) -> Vec<u8> {
    let kept = distinct(name, NAME_KEPT);
    [&kept, format!(".{:016x}{ENDING}", sum(&kept)).as_bytes()].concat()
}

/// Returns whether a name is a staged name: its hash must fit, so that other programs' files are not taken
/// for one.
pub fn is_staged(name: &[u8]) -> bool {
    let parts = name.strip_suffix(ENDING.as_bytes()).and_then(|name| name.split_last_chunk::<17>());
    parts.is_some_and(|(kept, given)| {
        !kept.is_empty()
            && kept.len() <= NAME_KEPT + SUM
            && *given == *format!(".{:016x}", sum(kept)).as_bytes()
    })
}

/// Returns whether `staged` is the staged name of `name`, be that a text or not.
pub fn is_staged_name_of(staged: &[u8], name: &[u8]) -> bool {
    let is_of_text = || std::str::from_utf8(name).is_ok_and(|name| staged_name(name).as_bytes() == staged);
    is_staged(staged) && (staged_name_of_bytes(name) == staged || is_of_text())
}

/// Hashes the kept part of a name behind a text of our own.
fn sum(kept: &[u8]) -> u64 {
    fnv_1a([SEED, kept])
}

const ENDING: &str = ".linerate-put";
const SEED: &[u8] = b"linerate put: a file that is not whole\0";
/// Bytes of a name that its staged name keeps, so that both, with the additions, fit into 255.
const NAME_KEPT: usize = 200;
/// Bytes that [`distinct`] adds to a long name.
const SUM: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_were_given_here_are_known_again() {
        let long = "\u{e4}".repeat(127);
        for name in ["large", "a file.txt", "x", &long, "large.linerate-put"] {
            let staged = staged_name(name);
            assert!(is_staged(staged.as_bytes()) && staged.len() <= 255, "{staged}");
            assert!(is_staged(&staged_name_of_bytes(name.as_bytes())), "{name}");
            assert!(is_staged_name_of(staged.as_bytes(), name.as_bytes()), "{name}");
            assert!(is_staged_name_of(&staged_name_of_bytes(name.as_bytes()), name.as_bytes()), "{name}");
            assert!(
                !is_staged_name_of(staged.as_bytes(), b"another")
                    && !is_staged_name_of(name.as_bytes(), b"x")
            );
            for other in [
                format!("{name}.linerate-put"),
                format!("{name}.0123456789abcdef.linerate-put"),
                format!("{staged}.bak"),
                format!("my {staged}"),
                staged.to_uppercase(),
            ] {
                assert!(!is_staged(other.as_bytes()), "{other}");
            }
        }
        assert!(is_staged(&staged_name_of_bytes(b"\xff\xfe")));
        let alike = ["a", "b"].map(|end| format!("{}{end}", "n".repeat(220)));
        let [one, other] = alike.each_ref().map(|name| staged_name(name));
        assert!(one != other && is_staged(one.as_bytes()) && one.len() <= 255, "{one}");
        let [one, other] = alike.each_ref().map(|name| staged_name_of_bytes(name.as_bytes()));
        assert!(one != other && is_staged(&other) && other.len() <= 255);
        let given_to_nothing = format!(".{:016x}{ENDING}", sum(b""));
        assert!(!is_staged(given_to_nothing.as_bytes()));
        // Known to servers of other versions: it stays.
        assert_eq!(staged_name("large"), format!("large.{:016x}.linerate-put", sum(b"large")));
    }
}
