//! Names of files as a client writes them: components between backslashes or slashes, and a stream behind a colon
//! (MS-FSCC 2.1.5, MS-SMB2 3.3.5.9).

use crate::status::Status;
use crate::text::Text;

/// Longest name, UTF-16 code units, that is looked at.
pub const NAME_MAX: usize = 32_767;

/// Longest component, UTF-16 code units (MS-FSCC 2.1.5.2).
pub const COMPONENT_MAX: usize = 255;

/// A file or stream below a share's root.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Name {
    /// Components from the root down; none is the root itself. Each is of 1 to 255 code units and is neither `.` nor
    /// `..`.
    pub path: Vec<String>,
    /// The stream, where one other than the default is named.
    pub stream: Option<String>,
    /// The default one is named, as `::$DATA`: it is of a file.
    pub is_data: bool,
    /// Set if a separator stands behind the last component: it is of a directory.
    pub is_directory: bool,
}

impl Name {
    /// Parses the name that a CREATE, a rename or a hard link gives.
    ///
    /// # Errors
    /// The status that the request fails with.
    pub fn parse(text: Text<'_>) -> Result<Self, Status> {
        if text.len() > NAME_MAX {
            return Err(Status::NAME_TOO_LONG);
        }
        let text = text.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        //= MS-SMB2 3.3.5.9
        //# A name whose first character is a path separator fails with STATUS_INVALID_PARAMETER.
        if text.starts_with('\\') {
            return Err(Status::INVALID_PARAMETER);
        }
        let (path, stream) = match text.split_once(':') {
            Some((path, stream)) => (path, Some(stream)),
            None => (&*text, None),
        };
        // One separator at the end is what clients send for a directory.
        let is_directory = path.ends_with('\\');
        let path = path.strip_suffix('\\').unwrap_or(path);
        let mut components = Vec::new();
        if !path.is_empty() {
            for (at, component) in path.split(['\\', '/']).enumerate() {
                // Several separators between two names are one, as with Samba.
                if component.is_empty() && at > 0 {
                    continue;
                }
                // Beneath the root the way up is as well the way back.
                if component == ".." && components.pop().is_some() {
                    continue;
                }
                components.push(check_component(component)?.to_owned());
            }
        }
        let named = stream.map(parse_stream).transpose()?;
        // The way up has no streams of its own.
        let last = || path.rsplit(['\\', '/']).find(|component| !component.is_empty());
        if named.is_some() && last() == Some("..") {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let is_data = matches!(named, Some(None));
        Ok(Self { path: components, stream: named.flatten(), is_data, is_directory })
    }

    /// Returns the name as a client would write it.
    pub fn to_text(&self) -> String {
        let mut text = self.path.join("\\");
        if let Some(stream) = &self.stream {
            text.push(':');
            text.push_str(stream);
        }
        text
    }
}

/// Returns a component, if the file systems that clients know allow it.
///
/// # Errors
/// `STATUS_OBJECT_PATH_SYNTAX_BAD` for `..`, which leads out of the share; `STATUS_OBJECT_NAME_INVALID`.
pub fn check_component(component: &str) -> Result<&str, Status> {
    match component {
        ".." => return Err(Status::OBJECT_PATH_SYNTAX_BAD),
        "." => return Err(Status::OBJECT_NAME_INVALID),
        _ => {}
    }
    //= MS-FSCC 2.1.5.2
    //# A component is of 1 to 255 characters, none of them reserved.
    let reserved = |c: char| c < ' ' || matches!(c, '"' | '*' | '/' | '<' | '>' | '?' | '|' | ':' | '\\');
    if component.is_empty()
        || component.contains(reserved)
        || component.encode_utf16().count() > COMPONENT_MAX
    {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    Ok(component)
}

/// Parses `name`, `name:$DATA` or `:$DATA`, which is the file itself.
fn parse_stream(text: &str) -> Result<Option<String>, Status> {
    let (name, kind) = text.split_once(':').unwrap_or((text, "$DATA"));
    if !kind.eq_ignore_ascii_case("$DATA") {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    //= MS-FSCC 2.1.5.3
    //# A stream name holds none of backslash, slash, colon and NUL.
    let reserved = |c: char| matches!(c, '\\' | '/' | ':' | '\0');
    if name.contains(reserved) || name.encode_utf16().count() > COMPONENT_MAX {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    match (name.is_empty(), text.contains(':')) {
        (true, true) => Ok(None),
        (true, false) => Err(Status::OBJECT_NAME_INVALID),
        (false, _) => Ok(Some(name.to_owned())),
    }
}

/// Parses server and share of a tree connect's path, `\\server\share`.
///
/// # Errors
/// `STATUS_INVALID_PARAMETER` where it is not of this form, `STATUS_BAD_NETWORK_NAME` where no share can have the name.
pub fn parse_share(text: Text<'_>) -> Result<(String, String), Status> {
    let text = text.decode().ok_or(Status::INVALID_PARAMETER)?;
    let rest = text.strip_prefix("\\\\").ok_or(Status::INVALID_PARAMETER)?;
    let (server, share) = rest.split_once('\\').ok_or(Status::INVALID_PARAMETER)?;
    //= MS-SMB2 2.2.9
    //# A share's name is of at most 80 characters.
    if server.is_empty() || share.is_empty() || share.contains('\\') || share.encode_utf16().count() > 80 {
        return Err(Status::BAD_NETWORK_NAME);
    }
    Ok((server.to_owned(), share.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::encoded;

    fn parse(text: &str) -> Result<Name, Status> {
        Name::parse(Text::new(&encoded(text)).unwrap())
    }

    #[test]
    fn a_name_comes_apart_into_components_and_a_stream() {
        assert_eq!(parse("").unwrap(), Name::default());
        assert_eq!(parse(r"a\b\c.txt").unwrap().path, ["a", "b", "c.txt"]);
        assert_eq!(parse(r"a\b\").unwrap().path, ["a", "b"]);
        assert!(parse(r"a\").unwrap().is_directory && !parse("a").unwrap().is_directory);
        for name in [r"a\\b", r"a\\\b\\", r"a\/b", "a//b", r"a\\c\\..\\b"] {
            assert_eq!(parse(name).unwrap().path, ["a", "b"], "{name}");
        }
        let stream = parse(r"a\f:AFP_AfpInfo:$DATA").unwrap();
        assert_eq!((stream.path.len(), stream.stream.as_deref()), (2, Some("AFP_AfpInfo")));
        assert_eq!(stream.to_text(), r"a\f:AFP_AfpInfo");
        assert_eq!(parse("f::$data").unwrap().stream, None);
        assert_eq!(parse("f:s").unwrap().stream.as_deref(), Some("s"));
    }

    #[test]
    fn names_that_no_file_can_have_fail_with_their_status() {
        assert_eq!(parse(r"\a"), Err(Status::INVALID_PARAMETER));
        for name in [r"..\b", "..", r"a\..\..\b"] {
            assert_eq!(parse(name), Err(Status::OBJECT_PATH_SYNTAX_BAD), "{name}");
        }
        for name in [
            ".",
            r"a\.",
            r"a\.\b",
            r".\a",
            "/a",
            "a*",
            "a?",
            "a\tb",
            "f:",
            "f:s:$INDEX_ALLOCATION",
            r"a\..:s",
            r"a\b\..::$DATA",
            "f:a:b:$DATA",
            "f:a\\b",
        ] {
            assert_eq!(parse(name), Err(Status::OBJECT_NAME_INVALID), "{name}");
        }
        assert_eq!(parse(&"a".repeat(256)), Err(Status::OBJECT_NAME_INVALID));
        assert!(parse(&"a".repeat(255)).is_ok());
        assert_eq!(parse(&"a\\".repeat(16_384)), Err(Status::NAME_TOO_LONG));
        let half = [0x3d, 0xd8];
        assert_eq!(Name::parse(Text::new(&half).unwrap()), Err(Status::OBJECT_NAME_INVALID));
    }

    #[test]
    fn a_share_is_found_in_its_path() {
        let share = |text: &str| parse_share(Text::new(&encoded(text)).unwrap());
        assert_eq!(share(r"\\host\files"), Ok(("host".to_owned(), "files".to_owned())));
        for path in ["", "files", r"\\host", r"\host\files"] {
            assert_eq!(share(path), Err(Status::INVALID_PARAMETER), "{path}");
        }
        for path in [r"\\host\", r"\\\files", r"\\host\files\deep"] {
            assert_eq!(share(path), Err(Status::BAD_NETWORK_NAME), "{path}");
        }
        assert_eq!(share(&format!(r"\\host\{}", "s".repeat(81))), Err(Status::BAD_NETWORK_NAME));
    }
}
