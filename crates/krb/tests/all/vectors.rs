//! Files of `name = hexadecimal` and `name = decimal` (those that end in `.now`); values go on over lines.

use std::collections::BTreeMap;

pub(crate) fn mit(name: &str) -> Vec<u8> {
    hex(&find(include_str!("vectors/mit.txt"), name))
}

pub(crate) fn mit_seconds(name: &str) -> i64 {
    find(include_str!("vectors/mit.txt"), name).parse().unwrap()
}

pub(crate) fn samba(name: &str) -> Vec<u8> {
    hex(&find(include_str!("vectors/samba.txt"), name))
}

fn find(text: &str, name: &str) -> String {
    let mut all = BTreeMap::<String, String>::new();
    let mut last = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(" = ") {
            Some((name, value)) => {
                last = name.to_owned();
                all.insert(last.clone(), value.to_owned());
            }
            None => all.get_mut(&last).unwrap().push_str(line),
        }
    }
    all.remove(name).unwrap_or_else(|| panic!("no vector {name}"))
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|char| char.to_digit(16).map(|digit| digit as u8)).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}
