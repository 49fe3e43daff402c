//! Media types by file name, with a charset for text, and the codings that names imply.

use crate::encoding::Coding;

/// Returns the media type of a file by its name, ready for Content-Type.
pub fn of_name(name: &[u8]) -> &'static str {
    let Some(extension) = extension(name) else {
        return if is_plain_text_name(name) { TEXT } else { OCTETS };
    };
    let mut lower = [0; EXTENSION_LEN_MAX];
    let Some(lower) = lower.get_mut(..extension.len()) else { return OCTETS };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    let Ok(extension) = std::str::from_utf8(lower) else { return OCTETS };
    let extension = plain_of(extension.as_bytes()).unwrap_or(extension);
    if let Ok(found) = OVERRIDES.binary_search_by_key(&extension, |(extension, _)| extension) {
        return OVERRIDES[found].1;
    }
    mime_guess::from_ext(extension).first_raw().map_or(OCTETS, with_charset)
}

/// Returns the coding that a file's content has where its name says so and its type is that of what is coded: `a.svgz`
/// is an SVG image in gzip. Archives and compressed files that are types of their own (`.gz`, `.tgz`, `.zst`) have
/// none.
pub fn implied_coding(name: &[u8]) -> Option<Coding> {
    let (_, [b'z' | b'Z']) = name.split_last_chunk()? else { return None };
    plain_of(extension(name)?).map(|_| Coding::Gzip)
}

/// Returns the extension of what a file with this one holds in gzip.
fn plain_of(extension: &[u8]) -> Option<&'static str> {
    let is_it = |(coded, _): &&(&str, &str)| extension.eq_ignore_ascii_case(coded.as_bytes());
    IMPLY_GZIP.iter().find(is_it).map(|(_, plain)| *plain)
}

/// Returns whether files of this type are worth compressing, and so may have precompressed siblings: text in
/// its many registrations, and the binary formats that are not compressed themselves. An unknown type is not,
/// and neither is a container whose name merely mentions one (Office files are ZIP archives).
pub fn is_compressible(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_ascii();
    essence.starts_with("text/")
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| essence.ends_with(suffix))
        || COMPRESSIBLE.binary_search(&essence).is_ok()
}

/// Returns whether browsers run scripts of a document of this type: HTML, and XML in all its kinds, SVG among
/// them.
pub fn is_active(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_ascii();
    essence.ends_with("+xml") || ["text/html", "text/xml", "application/xml"].contains(&essence)
}

/// Adds the charset to the registered types that are text in UTF-8 unless something says otherwise. `mime_guess` gives
/// `'static` names, so the ones with a charset are written out.
fn with_charset(essence: &'static str) -> &'static str {
    match essence {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/csv" => "text/csv; charset=utf-8",
        "text/markdown" => "text/markdown; charset=utf-8",
        "text/xml" => "text/xml; charset=utf-8",
        "text/calendar" => "text/calendar; charset=utf-8",
        "text/vcard" => "text/vcard; charset=utf-8",
        "text/javascript" | "application/javascript" | "application/x-javascript" => JAVASCRIPT,
        "application/xhtml+xml" => "application/xhtml+xml; charset=utf-8",
        // Sources of programs and the like: browsers show text/plain and offer the rest for download.
        other if other.starts_with("text/") => TEXT,
        other => other,
    }
}

fn extension(name: &[u8]) -> Option<&[u8]> {
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    let dot = base.iter().rposition(|byte| *byte == b'.')?;
    // A leading dot hides a file, it does not give it a type.
    (dot > 0 && dot + 1 < base.len()).then(|| &base[dot + 1..])
}

fn is_plain_text_name(name: &[u8]) -> bool {
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    PLAIN_TEXT_NAMES.iter().any(|known| base.eq_ignore_ascii_case(known.as_bytes()))
}

const TEXT: &str = "text/plain; charset=utf-8";
const OCTETS: &str = "application/octet-stream";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const EXTENSION_LEN_MAX: usize = 16;

/// Types that `mime_guess` lacks, has wrong, or names in a way browsers do not show. Sorted.
const OVERRIDES: [(&str, &str); 30] = [
    ("avif", "image/avif"),
    ("br", "application/x-brotli"),
    ("cfg", TEXT),
    ("conf", TEXT),
    ("emf", "image/emf"),
    ("go", TEXT),
    ("ini", TEXT),
    ("jxl", "image/jxl"),
    ("log", TEXT),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", JAVASCRIPT),
    ("mkv", "video/x-matroska"),
    ("opus", "audio/ogg"),
    ("py", TEXT),
    ("rs", TEXT),
    ("sh", TEXT),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("wmf", "image/wmf"),
    ("wrl", "model/vrml"),
    ("x3db", "model/x3d+fastinfoset"),
    ("x3dv", "model/x3d-vrml"),
    ("yaml", TEXT),
    ("yml", TEXT),
    ("zst", "application/zstd"),
];

/// Types beside `text/*` and the structured suffixes that shrink. Sorted.
const COMPRESSIBLE: [&str; 26] = [
    "application/ecmascript",
    "application/font-sfnt",
    "application/javascript",
    "application/json",
    "application/json5",
    "application/msword",
    "application/postscript",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-excel",
    "application/vnd.ms-fontobject",
    "application/vnd.ms-powerpoint",
    "application/wasm",
    "application/x-javascript",
    "application/x-latex",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-tex",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/sfnt",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

/// Extensions of files that are gzip inside, each with that of what they hold, whose type they have (SVG 2 1.2, ISO/IEC 19775-1, Debian's
/// mime.types).
const IMPLY_GZIP: [(&str, &str); 7] = [
    ("svgz", "svg"),
    ("emz", "emf"),
    ("wmz", "wmf"),
    ("wrz", "wrl"),
    ("x3dz", "x3d"),
    ("x3dvz", "x3dv"),
    ("x3dbz", "x3db"),
];

const PLAIN_TEXT_NAMES: [&str; 9] =
    ["README", "LICENSE", "COPYING", "CHANGELOG", "AUTHORS", "NEWS", "INSTALL", "Makefile", "SHA256SUMS"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_sorted_for_the_search() {
        assert!(OVERRIDES.is_sorted() && COMPRESSIBLE.is_sorted());
    }

    #[test]
    fn names_that_mean_gzip_have_the_type_of_what_is_in_it() {
        for (name, media_type) in [
            ("a.svgz", "image/svg+xml"),
            ("a/B.SVGZ", "image/svg+xml"),
            ("a.emz", "image/emf"),
            ("a.wmz", "image/wmf"),
            ("a.wrz", "model/vrml"),
            ("a.x3dz", "model/x3d+xml"),
            ("a.x3dvz", "model/x3d-vrml"),
            ("a.X3DBZ", "model/x3d+fastinfoset"),
        ] {
            assert_eq!(implied_coding(name.as_bytes()), Some(Coding::Gzip), "{name}");
            assert_eq!(of_name(name.as_bytes()), media_type);
            let plain = plain_of(extension(name.as_bytes()).unwrap()).unwrap();
            assert_eq!(of_name(format!("a.{plain}").as_bytes()), media_type, "{plain} in no coding");
            assert_eq!(implied_coding(plain.as_bytes()), None);
        }
        for name in [
            "a.svg", "a.tgz", "a.gz", "a.svg.gz", "a.z", "svgz", ".svgz", "a.svgz/b", "a.xz", "a.taz", "z",
            "",
        ] {
            assert_eq!(implied_coding(name.as_bytes()), None, "{name}");
        }
        assert!(IMPLY_GZIP.iter().all(|(coded, _)| coded.ends_with('z')));
    }

    #[test]
    fn only_what_shrinks_has_precompressed_siblings() {
        for name in [
            "a.html",
            "a.txt",
            "a.rs",
            "README",
            "a.css",
            "a.js",
            "a.mjs",
            "a.json",
            "a.geojson",
            "a.xml",
            "a.atom",
            "a.svg",
            "a.wasm",
            "a.toml",
            "a.yaml",
            "a.webmanifest",
            "a.ttf",
            "a.otf",
            "a.ico",
            "a.bmp",
        ] {
            assert!(is_compressible(of_name(name.as_bytes())), "{name}: {}", of_name(name.as_bytes()));
        }
        for name in [
            "a.png", "a.jpg", "a.webp", "a.avif", "a.mp4", "a.mkv", "a.ts", "a.mp3", "a.opus", "a.zip",
            "a.gz", "a.br", "a.zst", "a.7z", "a.tar", "a.tar.gz", "a.pdf", "a.docx", "a.xlsx", "a.epub",
            "a.woff2", "a.iso", "a.jar", "a.apk", "a.bin", "a",
        ] {
            assert!(!is_compressible(of_name(name.as_bytes())), "{name}: {}", of_name(name.as_bytes()));
        }
    }

    #[test]
    fn text_types_carry_utf_8() {
        assert_eq!(of_name(b"index.html"), "text/html; charset=utf-8");
        assert_eq!(of_name(b"a/b.CSS"), "text/css; charset=utf-8");
        assert_eq!(of_name(b"app.js"), JAVASCRIPT);
        assert_eq!(of_name(b"notes.txt"), TEXT);
        assert_eq!(of_name(b"main.c"), TEXT);
    }

    #[test]
    fn binary_types_do_not() {
        assert_eq!(of_name(b"a.png"), "image/png");
        assert_eq!(of_name(b"a.json"), "application/json");
        assert_eq!(of_name(b"a.tar.gz"), "application/gzip");
        assert_eq!(of_name(b"a.wasm"), "application/wasm");
        assert_eq!(of_name(b"a.mp4"), "video/mp4");
    }

    #[test]
    fn unknown_names_are_octets() {
        for name in [&b"a"[..], b".png", b"a.", b"a.\xff\xfe", b"a.averyveryverylongextension", b"dir.d/file"]
        {
            assert_eq!(of_name(name), OCTETS, "{}", name.escape_ascii());
        }
        assert_eq!(of_name(b"dir.d/readme"), TEXT);
    }
}
