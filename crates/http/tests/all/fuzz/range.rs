//! Range fields.

use bolero::check;
use http::range::{Selection, select};

#[test]
fn range_bytes() {
    check!().for_each(|input: &[u8]| {
        let size = u64::from(input.first().copied().unwrap_or_default());
        for size in [size, 0, u64::MAX] {
            check_invariants(&select(input, size, 8), size);
        }
    });
}

#[test]
fn range_fragments() {
    check!().for_each(|picks: &[u8]| {
        let field = [b"bytes=".to_vec(), crate::fuzz::from_fragments(picks, FRAGMENTS)].concat();
        for size in [0, 1, 10, u64::MAX] {
            check_invariants(&select(&field, size, 8), size);
        }
    });
}

/// Against a model that marks each byte asked for.
#[test]
fn range_selects_exactly_the_bytes_asked_for() {
    check!().with_type::<(u8, Vec<(Option<u8>, Option<u8>)>)>().for_each(|(size, specs)| {
        let specs: Vec<_> = specs.iter().copied().filter(is_valid).take(8).collect();
        let mut asked = vec![false; usize::from(*size)];
        let texts: Vec<_> = specs.iter().map(|spec| mark(*spec, &mut asked)).collect();
        match select(format!("bytes={}", texts.join(",")).as_bytes(), (*size).into(), 8) {
            Selection::Parts(parts) => {
                let mut sent = vec![false; usize::from(*size)];
                for part in parts {
                    sent[part.start as usize..part.end as usize].fill(true);
                }
                assert_eq!(sent, asked);
            }
            Selection::Unsatisfiable => assert!(!asked.contains(&true)),
            Selection::Whole => assert!(specs.is_empty() || *size == 0),
        }
    });
}

fn is_valid(spec: &(Option<u8>, Option<u8>)) -> bool {
    match spec {
        (Some(first), Some(last)) => first <= last,
        (first, last) => first.is_some() || last.is_some(),
    }
}

fn mark(spec: (Option<u8>, Option<u8>), asked: &mut [bool]) -> String {
    let size = asked.len();
    let (start, end, text) = match spec {
        (Some(first), Some(last)) => (first.into(), usize::from(last) + 1, format!("{first}-{last}")),
        (Some(first), None) => (first.into(), size, format!("{first}-")),
        (None, length) => {
            let length = length.unwrap_or_default();
            (size.saturating_sub(length.into()), size, format!("-{length}"))
        }
    };
    if start < size {
        asked[start..end.min(size)].fill(true);
    }
    text
}

fn check_invariants(selection: &Selection, size: u64) {
    let Selection::Parts(parts) = selection else { return };
    assert!(!parts.is_empty() && parts.len() <= 8);
    for (index, part) in parts.iter().enumerate() {
        assert!(part.start < part.end && part.end <= size, "{parts:?} of {size}");
        assert!(parts[..index].iter().all(|other| part.end <= other.start || other.end <= part.start));
    }
}

const FRAGMENTS: &[&[u8]] = &[
    b"0",
    b"1",
    b"5",
    b"9",
    b"-",
    b"-",
    b",",
    b" ",
    b"18446744073709551615",
    b"18446744073709551616",
    b"\t",
    b"x",
];
