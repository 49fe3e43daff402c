//! Entries of a listing (MS-FSCC 2.4.8, 2.4.10, 2.4.15, 2.4.22, 2.4.23, 2.4.24, 2.4.33). The classes share their
//! beginning; what follows it differs. Those of the POSIX extensions have their own.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::chain::{Entries, EntryWriter};
use crate::fixed::{part, prefix, wire};
use crate::info::file::class;
use crate::info::posix::{self, Posix, PosixHead};
use crate::malformed::Malformed;
use crate::text::{Text, encode};

wire! {
    /// Head of an entry of all classes but names alone; FileDirectoryInformation has the name behind it.
    pub struct DirectoryHead {
        next_entry_offset: U32,
        file_index: U32,
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        end_of_file: U64,
        allocation_size: U64,
        file_attributes: U32,
        file_name_length: U32,
    }
}

/// Class of directory information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the specification's names")]
pub enum Class {
    Directory,
    FullDirectory,
    BothDirectory,
    Names,
    IdBothDirectory,
    IdFullDirectory,
    IdExtdDirectory,
    IdExtdBothDirectory,
    Posix,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Directory,
        Self::FullDirectory,
        Self::BothDirectory,
        Self::Names,
        Self::IdBothDirectory,
        Self::IdFullDirectory,
        Self::IdExtdDirectory,
        Self::IdExtdBothDirectory,
        Self::Posix,
    ];

    /// Returns the class of a wire value; `None`, and the request fails with `STATUS_INVALID_INFO_CLASS`, if it is
    /// none of listings.
    pub fn from_wire(value: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.to_wire() == value)
    }

    /// Returns the class's value on the wire.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Directory => class::DIRECTORY,
            Self::FullDirectory => class::FULL_DIRECTORY,
            Self::BothDirectory => class::BOTH_DIRECTORY,
            Self::Names => class::NAMES,
            Self::IdBothDirectory => class::ID_BOTH_DIRECTORY,
            Self::IdFullDirectory => class::ID_FULL_DIRECTORY,
            Self::IdExtdDirectory => class::ID_EXTD_DIRECTORY,
            Self::IdExtdBothDirectory => class::ID_EXTD_BOTH_DIRECTORY,
            Self::Posix => class::POSIX,
        }
    }

    /// Returns the number of bytes in front of the name; of the class of POSIX at least.
    pub fn fixed_len(self) -> usize {
        match self {
            Self::Names => 12,
            Self::Directory => 64,
            Self::FullDirectory => 68,
            Self::IdFullDirectory => 80,
            Self::BothDirectory => 94,
            Self::IdBothDirectory => 104,
            Self::IdExtdDirectory => 88,
            Self::IdExtdBothDirectory => 114,
            Self::Posix => posix::ENTRY_MIN,
        }
    }
}

/// One name and its information. Each class takes what it has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a str,
    /// The file's number.
    pub file_id: u64,
    /// 100 ns since 1601, as the three that follow.
    pub creation_time: u64,
    /// See `creation_time`.
    pub last_access_time: u64,
    /// See `creation_time`.
    pub last_write_time: u64,
    /// See `creation_time`.
    pub change_time: u64,
    /// Length, bytes.
    pub end_of_file: u64,
    /// Bytes on disk.
    pub allocation_size: u64,
    /// See [`crate::create::access::attributes`].
    pub file_attributes: u32,
    /// Size of the extended attributes; macOS finds its maximal access here.
    pub ea_size: u32,
    /// Reparse tag of a link; 0 for other files.
    pub reparse_tag: u32,
    /// 24 bytes where other servers have the short name: macOS finds Finder's information here.
    pub short_name: [u8; 24],
    /// Bytes of it that count.
    pub short_name_len: u8,
    /// 16 bits in front of the number: macOS finds the mode here.
    pub reserved2: u16,
    /// Device of the file.
    pub device: u32,
    /// Additional fields of the POSIX extensions.
    pub posix: Posix,
}

/// Appends an entry of this class; `false`, and nothing is changed, if it does not fit.
pub fn write(list: &mut EntryWriter<'_>, class: Class, entry: &Entry<'_>) -> bool {
    list.push(|out| {
        let begin = out.len();
        let name_len = U32::new(2 * entry.name.encode_utf16().count() as u32);
        if class == Class::Names {
            out.extend([0; 8]);
            out.extend(name_len.as_bytes());
            return encode(entry.name, out);
        }
        if class == Class::Posix {
            write_posix(out, entry);
            out.extend(name_len.as_bytes());
            return encode(entry.name, out);
        }
        let head = DirectoryHead {
            next_entry_offset: U32::ZERO,
            file_index: U32::ZERO,
            creation_time: entry.creation_time.into(),
            last_access_time: entry.last_access_time.into(),
            last_write_time: entry.last_write_time.into(),
            change_time: entry.change_time.into(),
            end_of_file: entry.end_of_file.into(),
            allocation_size: entry.allocation_size.into(),
            file_attributes: entry.file_attributes.into(),
            file_name_length: name_len,
        };
        out.extend(head.as_bytes());
        write_tail(out, class, entry);
        debug_assert_eq!(out.len() - begin, class.fixed_len());
        encode(entry.name, out);
    })
}

/// Writes the part of an entry of the POSIX class in front of the name's length.
fn write_posix(out: &mut Vec<u8>, entry: &Entry<'_>) {
    let head = PosixHead {
        creation_time: entry.creation_time.into(),
        last_access_time: entry.last_access_time.into(),
        last_write_time: entry.last_write_time.into(),
        change_time: entry.change_time.into(),
        end_of_file: entry.end_of_file.into(),
        allocation_size: entry.allocation_size.into(),
        file_attributes: entry.file_attributes.into(),
        index_number: entry.file_id.into(),
        device: entry.device.into(),
        reserved: U32::ZERO,
    };
    out.extend([0; 8]);
    out.extend(head.as_bytes());
    entry.posix.write(out);
}

/// Writes the part of an entry between the head and the name.
fn write_tail(out: &mut Vec<u8>, class: Class, entry: &Entry<'_>) {
    let ea_size = if entry.reparse_tag == 0 { entry.ea_size } else { entry.reparse_tag };
    let short_name = |out: &mut Vec<u8>| {
        out.extend([entry.short_name_len, 0]);
        out.extend(entry.short_name);
    };
    match class {
        Class::Names | Class::Directory | Class::Posix => {}
        Class::FullDirectory => out.extend(ea_size.to_le_bytes()),
        Class::IdFullDirectory => {
            out.extend(ea_size.to_le_bytes());
            out.extend([0; 4]);
            out.extend(entry.file_id.to_le_bytes());
        }
        Class::BothDirectory => {
            out.extend(ea_size.to_le_bytes());
            short_name(out);
        }
        Class::IdBothDirectory => {
            out.extend(ea_size.to_le_bytes());
            short_name(out);
            out.extend(entry.reserved2.to_le_bytes());
            out.extend(entry.file_id.to_le_bytes());
        }
        Class::IdExtdDirectory | Class::IdExtdBothDirectory => {
            out.extend(entry.ea_size.to_le_bytes());
            out.extend(entry.reparse_tag.to_le_bytes());
            out.extend(entry.file_id.to_le_bytes());
            out.extend([0; 8]);
            if class == Class::IdExtdBothDirectory {
                short_name(out);
            }
        }
    }
}

/// An entry as a client reads it.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The shared beginning; none in the classes of names alone and of POSIX.
    pub head: Option<&'a DirectoryHead>,
    /// The number, in the classes that have it.
    pub file_id: Option<u64>,
    /// Fields of the POSIX class.
    pub posix: Option<(&'a PosixHead, Posix)>,
    /// The name.
    pub name: Text<'a>,
}

/// Reads a listing of this class.
pub fn parse<'a>(data: &'a [u8], class: Class) -> impl Iterator<Item = Result<Read<'a>, Malformed>> {
    let fixed_len = class.fixed_len();
    Entries::new(data, 4, fixed_len).map(move |entry| {
        let entry = entry?;
        if class == Class::Names {
            let len = u32::from_le_bytes(*entry[8..].first_chunk().ok_or(Malformed::Short)?);
            let name = Text::new(part(entry, fixed_len, len as usize)?)?;
            return Ok(Read { head: None, file_id: None, posix: None, name });
        }
        if class == Class::Posix {
            return parse_posix(entry);
        }
        let (head, _) = prefix::<DirectoryHead>(entry)?;
        let name = Text::new(part(entry, fixed_len, head.file_name_length.get() as usize)?)?;
        let at = match class {
            Class::IdFullDirectory | Class::IdExtdDirectory | Class::IdExtdBothDirectory => Some(72),
            Class::IdBothDirectory => Some(96),
            _ => None,
        };
        let file_id = at.map(|at| prefix::<U64>(&entry[at..]).map(|(id, _)| id.get())).transpose()?;
        Ok(Read { head: Some(head), file_id, posix: None, name })
    })
}

fn parse_posix(entry: &[u8]) -> Result<Read<'_>, Malformed> {
    let (head, rest) = prefix::<PosixHead>(entry.get(8..).ok_or(Malformed::Short)?)?;
    let (posix, rest) = Posix::parse(rest)?;
    let (len, rest) = prefix::<U32>(rest)?;
    let name = Text::new(part(rest, 0, len.get() as usize)?)?;
    Ok(Read { head: None, file_id: Some(head.index_number.get()), posix: Some((head, posix)), name })
}

/// Compares names with patterns: `*` is anything, `?` one character; `<`, `>` and `"` are the same for names before and
/// at the last dot (MS-FSA 2.1.4.4). Case is the caller's to fold. Its memory, linear in the pattern, serves one name after the
/// other.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Ends of the pattern that can be reached.
    reached: Vec<bool>,
    /// States behind the next character.
    next: Vec<bool>,
    steps: usize,
}

impl Matcher {
    /// Returns whether a name fits a pattern. It costs at most the product of their lengths, in steps of some
    /// nanoseconds.
    pub fn fits(&mut self, pattern: &[char], name: &[char]) -> bool {
        if pattern == ['*'] {
            self.steps += 1;
            return true;
        }
        let width = pattern.len() + 1;
        let dot = name.iter().rposition(|c| *c == '.');
        self.reached.clear();
        self.reached.resize(width, false);
        self.reached[0] = true;
        self.steps += width;
        close(pattern, &mut self.reached, name, 0);
        for (at, c) in name.iter().enumerate() {
            self.steps += width;
            self.next.clear();
            self.next.resize(width, false);
            let next = &mut self.next;
            let mut is_alive = false;
            for (p, _) in self.reached.iter().enumerate().filter(|(_, reached)| **reached) {
                is_alive = true;
                match pattern.get(p) {
                    Some('*') => next[p] = true,
                    // Up to the last dot, which it does not take.
                    Some('<') if dot.is_none_or(|dot| at < dot) || at > dot.unwrap_or(0) => next[p] = true,
                    Some('?') => next[p + 1] = true,
                    Some('>') if *c != '.' => next[p + 1] = true,
                    Some('"') if *c == '.' => next[p + 1] = true,
                    Some(literal) if literal == c => next[p + 1] = true,
                    _ => {}
                }
            }
            if !is_alive {
                return false;
            }
            std::mem::swap(&mut self.reached, &mut self.next);
            close(pattern, &mut self.reached, name, at + 1);
        }
        self.reached[pattern.len()]
    }

    /// Steps since this was asked last.
    pub fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }
}

/// Returns whether one name fits a pattern, as [`Matcher::fits`] has it.
pub fn fits(pattern: &[char], name: &[char]) -> bool {
    Matcher::default().fits(pattern, name)
}

/// Marks what is reached without another character.
fn close(pattern: &[char], reached: &mut [bool], name: &[char], at: usize) {
    for p in 0..pattern.len() {
        let passes = match pattern[p] {
            '*' | '<' => true,
            '>' => name.get(at).is_none_or(|c| *c == '.'),
            '"' => at == name.len(),
            _ => false,
        };
        reached[p + 1] |= reached[p] && passes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::security::Sid;

    fn entry(name: &str) -> Entry<'_> {
        Entry {
            name,
            file_id: 0x77,
            creation_time: 1,
            last_access_time: 2,
            last_write_time: 3,
            change_time: 4,
            end_of_file: 5,
            allocation_size: 6,
            file_attributes: 0x10,
            ea_size: 8,
            reparse_tag: 0,
            short_name: [0; 24],
            short_name_len: 0,
            reserved2: 0,
            device: 9,
            posix: Posix {
                links: 1,
                reparse_tag: 0,
                mode: 0o600,
                owner: Sid::EVERYONE,
                group: Sid::LOCAL_SYSTEM,
            },
        }
    }

    #[test]
    fn a_listing_comes_back_in_every_class() {
        for class in Class::ALL {
            let mut out = Vec::new();
            let mut list = EntryWriter::new(&mut out, 8, 4096);
            for name in [".", "ä", "long name"] {
                assert!(write(&mut list, class, &entry(name)));
            }
            let read: Vec<_> = parse(&out, class).map(Result::unwrap).collect();
            let names: Vec<_> = read.iter().map(|read| read.name.lossy()).collect();
            assert_eq!(names, [".", "ä", "long name"], "{class:?}");
            assert!(read.iter().all(|read| read.head.is_none_or(|head| head.end_of_file.get() == 5)));
            let posix = read.iter().filter_map(|read| read.posix);
            assert!(posix.clone().all(|(head, posix)| head.end_of_file.get() == 5 && posix.mode == 0o600));
            assert_eq!(posix.count(), if class == Class::Posix { 3 } else { 0 });
            let with_number = class.fixed_len() >= 80 && class != Class::BothDirectory;
            assert_eq!(read[1].file_id, with_number.then_some(0x77), "{class:?}");
            assert_eq!(Class::from_wire(class.to_wire()), Some(class));
            assert!(parse(&out[..out.len() - 1], class).any(|read| read.is_err()), "{class:?}");
        }
        assert_eq!(Class::from_wire(class::BASIC), None);
    }

    #[test]
    fn a_listing_ends_where_the_buffer_does() {
        let mut out = Vec::new();
        let len = Class::Directory.fixed_len() + 2;
        let mut list = EntryWriter::new(&mut out, 8, len);
        assert!(write(&mut list, Class::Directory, &entry("a")));
        assert!(!write(&mut list, Class::Directory, &entry("b")));
        assert_eq!(out.len(), len);
    }

    #[test]
    fn patterns_fit_as_windows_fits_them() {
        let fits = |pattern: &str, name: &str| {
            fits(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        for (pattern, name) in
            [("*", ""), ("*", "a.b"), ("*.txt", "a.txt"), ("a?c", "abc"), ("a*b*c", "aXXbYYc"), ("", "")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.txt", "a.txt2"), ("a?c", "ac"), ("a", "b"), ("?", ""), ("a*b", "ba")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        // What clients make of `*.`, `a?` and `a.*`.
        assert!(fits("<", "name") && fits("<.txt", "a.b.txt") && !fits("<.txt", "a.txt.b"));
        assert!(fits("a>>", "a") && fits("a>>", "abc") && !fits("a>>", "abcd") && fits("a>.b", "a.b"));
        assert!(fits("a\"*", "a.b") && fits("a\"*", "a") && !fits("a\"*", "ab"));
        // A pattern of nothing but stars costs its product, not its powers.
        assert!(!fits(&format!("{}b", "*".repeat(200)), &"a".repeat(200)));
    }

    #[test]
    fn a_matcher_says_the_same_of_each_name_and_counts_no_more_than_the_product() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let mut matcher = Matcher::default();
        for pattern in ["*", "?*?*z", "", "literal", "<.txt", "a>>", "*a*a*a*b"] {
            for name in ["", "z", "aaaaaaaaaa", "literal", "a.b.txt", "abc"] {
                let (pattern, name) = (chars(pattern), chars(name));
                assert_eq!(matcher.fits(&pattern, &name), fits(&pattern, &name), "{pattern:?} {name:?}");
                let steps = matcher.take_steps();
                assert!((1..=(pattern.len() + 1) * (name.len() + 1)).contains(&steps), "{steps}");
            }
        }
        assert!(!matcher.fits(&chars("literal"), &chars(&"x".repeat(255))));
        assert_eq!(matcher.take_steps(), 24, "no end of the pattern can be reached any more");
    }
}
