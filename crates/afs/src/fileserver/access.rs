//! Access lists as AFS writes them: the numbers of positive and of negative entries, each on a line, then a line for each entry with a
//! name, a tab and rights as a decimal number.

use std::fmt::Write;

use identity::{Acl, Rights, Side, Who};

/// Returns the text of a list, without a zero at its end.
pub(super) fn text_of(acl: &Acl) -> String {
    let (given, denied) = (acl.entries(Side::Given), acl.entries(Side::Denied));
    let mut text = format!("{}\n{}\n", given.len(), denied.len());
    for entry in given.iter().chain(denied) {
        writeln!(text, "{}\t{}", entry.who, entry.rights.bits()).expect("a string takes all");
    }
    text
}

/// Returns the list that a text says; `None` if it says none that can be kept. Bytes from a zero on do not count.
pub(super) fn list_of(text: &[u8]) -> Option<Acl> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let mut lines = std::str::from_utf8(&text[..end]).ok()?.lines();
    let mut count = || lines.next()?.trim().parse::<usize>().ok().filter(|count| *count <= Acl::ENTRIES_MAX);
    let (given, denied) = (count()?, count()?);
    let mut acl = Acl::new();
    for at in 0..given + denied {
        let (name, rights) = lines.next()?.rsplit_once(['\t', ' '])?;
        let who: Who = name.trim().parse().ok()?;
        let side = if at < given { Side::Given } else { Side::Denied };
        acl.set(side, who, Rights::from_bits(rights.trim().parse().ok()?)?).ok()?;
    }
    Some(acl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_written_and_read_as_fs_has_it() {
        let text = "2\n1\nsystem:administrators\t127\nsystem:anyuser\t9\nmallory\t2\n";
        let acl = list_of(text.as_bytes()).unwrap();
        assert_eq!(acl.to_string(), "system:administrators=rlidwka system:anyuser=rl -mallory=w");
        assert_eq!(text_of(&acl), text);
        assert_eq!(list_of(format!("{text}\0junk").as_bytes()), Some(acl));
        assert_eq!(list_of(b"0\n0\n"), Some(Acl::new()));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "1\n",
            "1\n0\n",
            "1\n0\nname\n",
            "1\n0\nname\tx\n",
            "-1\n0\n",
            "21\n0\n",
            "1\n0\nname\t65536\n",
            "1\n0\n\t1\n",
        ] {
            assert_eq!(list_of(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(list_of(b"1\n0\n\xff\t1\n"), None);
    }
}
