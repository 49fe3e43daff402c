//! Order of a command line: options may stand before the name of the command that takes them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// Puts options that stand before the name of a command behind it, where those below `program` have them:
/// `acl --accounts FILE set DIR` is `acl set --accounts FILE DIR`. All else stays in its place, to be refused there.
pub fn with_options_behind(program: &Command, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line = line.into_iter();
    let mut out: Vec<OsString> = line.next().into_iter().collect();
    let (mut command, mut moved) = (program, Vec::new());
    while command.has_subcommands() {
        let Some(word) = line.next() else { break };
        if let Some(below) = command.find_subcommand(&word) {
            command = below;
            out.push(word);
            continue;
        }
        let takes_next = takes_next(command, &word);
        let is_known = takes_next.is_some();
        if is_known {
            moved.push(word)
        } else {
            out.push(word)
        }
        match takes_next {
            Some(true) => moved.extend(line.next()),
            Some(false) => {}
            None => break,
        }
    }
    out.extend(moved);
    out.extend(line);
    out
}

/// Returns whether the next word is the value of this one, an option of commands below; `None` if it is no such option, or a value to
/// some of them alone.
fn takes_next(command: &Command, word: &OsStr) -> Option<bool> {
    let text = word.to_string_lossy();
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_it = |arg: &Arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name));
        return Some(value.is_none() && takes_value(command, &is_it)?);
    }
    let shorts = text.strip_prefix('-').filter(|shorts| !shorts.is_empty())?;
    for (at, short) in shorts.char_indices() {
        let is_it = |arg: &Arg| arg.get_short() == Some(short);
        if takes_value(command, &is_it)? {
            return Some(word.as_bytes().len() == 1 + at + short.len_utf8());
        }
    }
    Some(false)
}

/// Returns whether the option takes a value in all commands below that have it; `None` if they differ, or none has it.
fn takes_value(command: &Command, is_it: &dyn Fn(&Arg) -> bool) -> Option<bool> {
    let mut found = Vec::new();
    let mut to_see: Vec<&Command> = command.get_subcommands().collect();
    while let Some(below) = to_see.pop() {
        to_see.extend(below.get_subcommands());
        let takes = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
        found.extend(below.get_arguments().find(|arg| is_it(arg)).map(takes));
    }
    let first = *found.first()?;
    found.iter().all(|takes| *takes == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn program() -> Command {
        let value =
            |name: &'static str| Arg::new(name).long(name).short(name.chars().next()).action(ArgAction::Set);
        let flag = |name: &'static str| {
            Arg::new(name).long(name).short(name.chars().next()).action(ArgAction::SetTrue)
        };
        let set = Command::new("set").args([value("file"), flag("json"), Arg::new("dir")]);
        let get = Command::new("get").args([value("file"), flag("recursive")]);
        let other = Command::new("other").args([flag("file"), value("port")]);
        Command::new("p").subcommand(Command::new("acl").subcommand(set).subcommand(get)).subcommand(other)
    }

    #[test]
    fn options_before_a_command_go_behind_it_with_their_values() {
        for (line, ordered) in [
            ("p acl --file f set dir --json", "p acl set --file f dir --json"),
            ("p acl --file=f set dir", "p acl set --file=f dir"),
            ("p acl -f f set", "p acl set -f f"),
            ("p acl -ff set", "p acl set -ff"),
            ("p acl -jr set", "p acl set -jr"),
            ("p acl -jf f set", "p acl set -jf f"),
            ("p --json acl --file set set", "p acl set --json --file set"),
            ("p --port 1 other", "p other --port 1"),
            // No command has it, those that have it differ, or it is the program's own.
            ("p acl --nothing set", "p acl --nothing set"),
            ("p --file acl set", "p --file acl set"),
            ("p acl --help set", "p acl --help set"),
            ("p acl -- set", "p acl -- set"),
            ("p acl - set", "p acl - set"),
            ("p acl nothing --file f", "p acl nothing --file f"),
            ("p acl --file", "p acl --file"),
            ("p", "p"),
            ("", ""),
        ] {
            let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
            assert_eq!(with_options_behind(&program(), words(line)), words(ordered), "{line}");
        }
    }
}
