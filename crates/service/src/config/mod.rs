//! Configuration as services read it: the text of `linerate.toml`, of which each service reads its own
//! tables.
//!
//! A table has one owner, which refuses what is wrong in it; one is shared, `[[volume]]`, whose keys have one
//! owner each. Keys without an owner are refused by [`Document::refuse_unknown`].

mod listen;
mod renamed;
mod said;
mod size;
mod unknown;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use self::listen::{address, addresses, is_narrowed_to_ipv4, parse_listen};
pub use self::renamed::{RENAMED, Renamed};
pub use self::size::{Size, bytes};

/// Tables and keys of one owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// Names of whole tables, such as `http`.
    pub tables: &'static [&'static str],
    /// Names of keys of every `[[volume]]`.
    pub volume: &'static [&'static str],
}

/// Reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is not TOML, has an unknown key or a value of the wrong kind. The text shows the line.
    #[error("in {}: {told}", path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Place and reason of the error.
        told: String,
    },
    /// The configuration contradicts itself or the machine.
    #[error("{key}: {problem}{place}")]
    Invalid {
        /// Key of the value, dotted.
        key: String,
        /// Description of the problem and of its remedy.
        problem: String,
        /// File and line in brackets after a space; empty without a file, or before they are
        /// [known](Document::placed).
        place: String,
    },
}

impl ConfigError {
    /// Makes the error of a key whose value is not allowed.
    pub fn invalid(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { key: key.into(), problem: problem.into(), place: String::new() }
    }
}

/// Text of a configuration, or a directory that is served without one.
#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    text: String,
    /// Directory of the only volume, where the command line names it.
    directory: Option<PathBuf>,
}

impl Document {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// [`ConfigError::Read`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let problem = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = String::from_utf8(std::fs::read(path).map_err(problem)?)
            .map_err(|error| not_utf8(path, error.as_bytes(), error.utf8_error().valid_up_to()))?;
        // What is kept of it, as in the index, is read from anywhere.
        let path = std::path::absolute(path).map_err(problem)?;
        Ok(Self { path, text, directory: None })
    }

    /// Makes a document of a text as if it had been read from `path`.
    pub fn of_text(path: &Path, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into(), directory: None }
    }

    /// Makes the document that serves one directory with defaults.
    pub fn for_directory(path: &Path) -> Self {
        Self { path: PathBuf::new(), text: String::new(), directory: Some(path.to_owned()) }
    }

    /// Returns the directory of [`Document::for_directory`].
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Returns the file that the document was read from.
    pub fn file(&self) -> Option<&Path> {
        self.directory.is_none().then_some(&*self.path)
    }

    /// Deserializes the document into a struct of the tables it names, and ignores the others. A struct with
    /// `deny_unknown_fields` for a table refuses unknown keys in it.
    ///
    /// # Errors
    /// [`ConfigError::Parse`], with line and column.
    pub fn tables<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml_file::read_tables(&self.text).map_err(|refusal| self.refused(refusal))
    }

    /// Deserializes the caller's keys of every `[[volume]]`, in order.
    ///
    /// # Errors
    /// As [`Document::tables`].
    pub fn volumes<T: DeserializeOwned>(&self) -> Result<Vec<T>, ConfigError> {
        #[derive(Deserialize)]
        struct Volumes<T> {
            #[serde(default = "Vec::new")]
            volume: Vec<T>,
        }
        if self.directory.is_some() {
            let one: T = toml_file::read("").map_err(|refusal| self.refused(refusal))?;
            return Ok(vec![one]);
        }
        Ok(self.tables::<Volumes<T>>()?.volume)
    }

    /// Refuses [renamed](RENAMED) keys, and those that are unknown to all `owners`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with the new name; [`ConfigError::Parse`] with line and column, and what there is instead.
    pub fn refuse_unknown(&self, owners: &[Keys]) -> Result<(), ConfigError> {
        renamed::refuse(&self.text)?;
        unknown::refuse(&self.text, owners)
            .map_err(|source| self.refused(toml_file::refused(&self.text, &source)))
    }

    /// Returns every key with its value as TOML, dotted. Tables of a list are distinguished by their `name`s, else by
    /// their places: `volume[pub].path`.
    pub fn said(&self) -> BTreeMap<String, String> {
        self.text.parse().map(|table| said::flatten(&table)).unwrap_or_default()
    }

    /// Returns this text with the value that `of` has for a key of [`said`](Self::said), or without the key
    /// where `of` lacks it. `None` for a key in a table of a list, such as a volume, that one of the two does
    /// not have.
    pub fn with(&self, key: &str, of: &Self) -> Option<Self> {
        let mut table = self.text.parse().ok()?;
        said::take(&mut table, key, &of.text.parse().ok()?)?;
        Some(Self { text: toml::to_string(&table).ok()?, ..self.clone() })
    }

    /// Returns the error with the file and the line of its key.
    pub fn placed(&self, error: ConfigError) -> ConfigError {
        match error {
            ConfigError::Invalid { key, problem, place } if place.is_empty() && self.directory.is_none() => {
                let file = self.path.display();
                let place = match toml_file::line_of(&self.text, &key) {
                    Some(line) => format!(" ({file}, line {line})"),
                    None => format!(" ({file})"),
                };
                ConfigError::Invalid { key, problem, place }
            }
            other => other,
        }
    }

    /// Resolves a path of the document: a relative one is based on the document's directory.
    pub fn resolve(&self, path: &mut PathBuf) {
        if let Some(base) = self.path.parent() {
            *path = base.join(&*path);
        }
    }

    fn refused(&self, refusal: toml_file::Refusal) -> ConfigError {
        ConfigError::Parse { path: self.path.clone(), told: refusal.shown }
    }
}

fn not_utf8(path: &Path, text: &[u8], at: usize) -> ConfigError {
    let before = &text[..at];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let byte = text.get(at).copied().unwrap_or_default();
    let told = format!(
        "line {line}: the byte 0x{byte:02x} is not UTF-8, which TOML is written in; a path with such bytes cannot be named here: rename \
         it, or give a symlink to it"
    );
    ConfigError::Parse { path: path.to_owned(), told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_in_place_of_a_table_is_refused_with_its_line() {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Inner {
            _a: u8,
            _names: Vec<String>,
        }
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Outer {
            #[serde(rename = "names")]
            _names: Vec<String>,
            #[serde(rename = "inner")]
            _inner: Inner,
            #[serde(rename = "several")]
            _several: Vec<Inner>,
        }
        #[derive(Debug, Deserialize)]
        struct Tables {
            #[serde(rename = "outer", default)]
            _outer: Outer,
        }
        let read = |text: &str| {
            Document::of_text(Path::new("/x"), text).tables::<Tables>().map_err(|error| error.to_string())
        };
        for good in [
            "[outer]\nnames = []\nseveral = [{ a = 1 }, {}]\n",
            "[outer]\nnames = ['[', ']']\n[[outer.several]]\n",
        ] {
            read(good).unwrap();
        }
        for (wrong, line, key) in [
            ("outer = []", 1, "outer"),
            ("# a\nouter = [[], [1]]", 2, "outer"),
            ("[outer]\nnames = ['a']\ninner = [1, ['b']]", 3, "outer.inner"),
            ("outer = { inner = ['x'] }", 1, "outer.inner"),
            ("[outer]\nseveral = [{ a = 1 },\n [2]]", 3, "outer.several[]"),
        ] {
            let told = read(wrong).unwrap_err();
            assert_eq!(
                told,
                format!("in /x: line {line}: {key}: this is a list, where a table is wanted"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_utf8_is_refused_with_the_line_of_its_first_such_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("linerate.toml");
        std::fs::write(&path, b"[[volume]]\nname = 'a'\npath = 'b\xe4'\n").unwrap();
        let told = Document::read(&path).unwrap_err().to_string();
        assert!(told.contains(": line 3: the byte 0xe4 is not UTF-8"), "{told}");
    }

    #[test]
    fn paths_are_absolute_wherever_the_file_was_named_from() {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), "");
        let resolved = |document: &Document, path: &str| {
            let mut path = PathBuf::from(path);
            document.resolve(&mut path);
            path
        };
        assert_eq!(resolved(&document, "tree"), Path::new("/etc/tree"));
        // As `-c Cargo.toml` names it: there is one where tests run.
        let here = Document::read(Path::new("Cargo.toml")).unwrap();
        assert_eq!(resolved(&here, "tree"), std::env::current_dir().unwrap().join("tree"));
        assert!(here.file().unwrap().is_absolute());
    }

    #[test]
    fn a_value_that_is_refused_is_told_with_file_and_line() {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), "[limits]\nranges = 0\n");
        let told = |key: &str| document.placed(ConfigError::invalid(key, "no")).to_string();
        assert_eq!(told("limits.ranges"), "limits.ranges: no (/etc/linerate.toml, line 2)");
        assert_eq!(told("http.listen"), "http.listen: no (/etc/linerate.toml)");
        assert_eq!(
            document
                .placed(document.placed(ConfigError::invalid("a", "no")))
                .to_string()
                .matches('(')
                .count(),
            1
        );
        let by_flags = Document::for_directory(Path::new("/srv"));
        assert_eq!(by_flags.placed(ConfigError::invalid("a", "no")).to_string(), "a: no");
        #[derive(Debug, Deserialize)]
        struct Tables {
            #[serde(rename = "limits")]
            _limits: BTreeMap<String, String>,
        }
        let told = document.tables::<Tables>().unwrap_err().to_string();
        assert!(told.starts_with("in /etc/linerate.toml: TOML parse error at line 2, "), "{told}");
        assert!(told.contains("limits.ranges: this is the number 0, where a text is wanted"), "{told}");
    }

    #[test]
    fn what_is_no_word_or_no_key_is_told_with_those_that_may_be_and_the_line() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Word {
            Off,
            On,
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Section {
            #[serde(rename = "word")]
            _word: Word,
            #[serde(rename = "name")]
            _name: String,
        }
        #[derive(Debug, Deserialize)]
        struct Tables {
            #[serde(rename = "web")]
            _web: Vec<Section>,
        }
        for (wrong, words) in [
            ("word = 1", "this is the number 1, where one of the words \"off\" or \"on\" is wanted"),
            ("word = false", "this is false, where one of the words \"off\" or \"on\" is wanted"),
            ("word = ['on']", "this is a list, where one of the words \"off\" or \"on\" is wanted"),
            ("word = {}", "this is a table, where one of the words \"off\" or \"on\" is wanted"),
            ("word = 'of'", "this is the text \"of\", where one of the words \"off\" or \"on\" is wanted"),
            ("wrod = 'on'", "unknown key `wrod`: the keys here are `word` or `name`"),
            ("name = 'b'", "this key is given twice in one table"),
            ("# missing field", "the key `word` is missing here"),
        ] {
            let text = format!("# duplicate key\n[[web]]\nname = 'a'\n{wrong}\n");
            let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
            let told = document.tables::<Tables>().unwrap_err().to_string();
            assert!(told.starts_with("in /etc/linerate.toml: TOML parse error at line "), "{told}");
            assert!(told.contains(words), "{wrong}: {told}");
            let reader = ["wanted string", "unknown field", "unknown variant", "expected"];
            assert!(!reader.iter().any(|words| told.contains(words)), "{told}");
        }
    }

    #[test]
    fn what_is_said_is_found_by_dotted_keys() {
        let text = "[http]\nlisten = ['a', 'b']\n[server]\negress_marks = { eth0 = 1 }\n[[volume]]\nname = 'pub'\npath = 'x'\n\
                    [[https.certificate]]\ncert = 'c'\n";
        let said: Vec<_> = Document::of_text(Path::new("/x"), text).said().into_iter().collect();
        let said: Vec<_> = said.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            said,
            [
                ("http.listen", "[\"a\", \"b\"]"),
                ("https.certificate[0].cert", "\"c\""),
                ("server.egress_marks.eth0", "1"),
                ("volume[pub].name", "\"pub\""),
                ("volume[pub].path", "\"x\""),
            ]
        );
    }
}
