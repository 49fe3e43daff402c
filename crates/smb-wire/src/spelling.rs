//! Spelling of a file system's names in SMB: what no client can spell is put into the private area of
//! Unicode, as clients that need such names do it on their side (Services for Macintosh; Linux's `mapposix`),
//! and bytes that are no UTF-8 as MirBSD's OPTU-16 does it. Our server shows names so, and our client sends
//! local ones so.

use std::borrow::Cow;

/// Returns a component as the file system has it; `None` for bytes that [`to_wire`] writes as the character that they
/// are.
pub fn to_stored(component: &str) -> Option<Vec<u8>> {
    let stored = |c: char| match SPELLED.iter().find(|(_, wire)| *wire == c) {
        Some((stored, _)) => *stored,
        None => match u32::from(c) {
            code @ CONTROL_FIRST..=CONTROL_LAST => {
                char::from_u32(code - PRIVATE).expect("a control character")
            }
            _ => c,
        },
    };
    to_bytes(component, stored, is_spelled)
}

/// Returns a name as clients see it: each name is seen as another one.
pub fn to_wire(stored: &[u8]) -> Cow<'_, str> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"*:<>?\\|".contains(byte);
    if stored.iter().all(is_plain) && !stored.ends_with(b" ") && !stored.ends_with(b".") {
        return String::from_utf8_lossy(stored);
    }
    let is_dots = matches!(stored, b"." | b"..");
    let mut text = to_text(stored, is_spelled).into_owned();
    // Clients cut these off an end.
    let last = match text.pop() {
        Some(' ') => Some('\u{f028}'),
        Some('.') if !is_dots => Some('\u{f029}'),
        last => last,
    };
    text.extend(last);
    let wire = |c: char| match c {
        '\u{1}'..='\u{1f}' => char::from_u32(PRIVATE + u32::from(c)).expect("in the private area"),
        _ => SPELLED[..8].iter().find(|(stored, _)| *stored == c).map_or(c, |(_, wire)| *wire),
    };
    Cow::Owned(text.chars().map(wire).collect())
}

/// Returns bytes as text of Unicode: those that are no UTF-8, or a character that stands for something else, one by one
/// by characters that stand for bytes.
pub fn to_text(bytes: &[u8], is_taken: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_byte(c) || is_taken(c);
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(is_escaped)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(2 * bytes.len());
    let escape = |bytes: &[u8], text: &mut String| {
        text.extend(
            bytes.iter().map(|byte| char::from_u32(BYTES + u32::from(*byte)).expect("in the private area")),
        );
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_escaped(c) {
                escape(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text);
            } else {
                text.push(c);
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    Cow::Owned(text)
}

/// Returns the bytes that [`to_text`] writes so, with `stored` for each other character; `None` where it would write
/// them otherwise.
pub fn to_bytes(
    text: &str,
    stored: impl Fn(char) -> char,
    is_taken: impl Fn(char) -> bool,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut run = 0;
    // Characters beside a run of bytes are whole, so that what the bytes come to depends on nothing else.
    let is_well = |bytes: &[u8], run: usize| {
        let run = &bytes[bytes.len() - run..];
        run.utf8_chunks().all(|chunk| chunk.valid().chars().all(|c| is_byte(c) || is_taken(c)))
    };
    for c in text.chars() {
        if is_byte(c) {
            bytes.push((u32::from(c) - BYTES) as u8);
            run += 1;
            continue;
        }
        if !is_well(&bytes, run) {
            return None;
        }
        run = 0;
        bytes.extend(stored(c).encode_utf8(&mut [0; 4]).as_bytes());
    }
    is_well(&bytes, run).then_some(bytes)
}

/// Returns whether a character stands for a byte.
fn is_byte(c: char) -> bool {
    (BYTES + 0x80..=BYTES + 0xff).contains(&u32::from(c))
}

/// Returns whether a character stands for one that no client can spell.
fn is_spelled(c: char) -> bool {
    (CONTROL_FIRST..=CONTROL_LAST).contains(&u32::from(c)) || SPELLED.iter().any(|(_, wire)| *wire == c)
}

/// Start of the private area's characters that no client can spell, in front of their code.
const PRIVATE: u32 = 0xf000;
const CONTROL_FIRST: u32 = PRIVATE + 1;
const CONTROL_LAST: u32 = PRIVATE + 0x1f;
/// Start of the private area's bytes from 0x80 on, in front of their value.
const BYTES: u32 = 0xef00;
/// Characters that no client's name may hold, and their substitutes; the last two only at an end.
const SPELLED: [(char, char); 10] = [
    ('"', '\u{f020}'),
    ('*', '\u{f021}'),
    (':', '\u{f022}'),
    ('<', '\u{f023}'),
    ('>', '\u{f024}'),
    ('?', '\u{f025}'),
    ('\\', '\u{f026}'),
    ('|', '\u{f027}'),
    (' ', '\u{f028}'),
    ('.', '\u{f029}'),
];
