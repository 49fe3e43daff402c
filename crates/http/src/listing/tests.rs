use super::contents::RowPosition;
use super::order::natural;
use super::*;

fn entry(name: &str, directory: bool, size: u64, modified_s: i64) -> MountEntry {
    MountEntry { name: name.into(), directory, size, modified_s: Some(modified_s) }
}

fn sorted(query: &str) -> Vec<String> {
    let entries = vec![
        entry("b10.txt", false, 5, 30),
        entry("b2.txt", false, 900, 10),
        entry("A.txt", false, 7, 20),
        entry("zdir", true, 0, 99),
        entry("b002.txt", false, 1, 1),
    ];
    let listing = Listing::of_entries(b"", Order::from_query(Some(query.as_bytes())), entries);
    let mut place = RowPosition::default();
    let names = std::iter::from_fn(|| listing.next(&mut place).map(|row| row.name.to_vec()));
    names.map(|name| String::from_utf8(name).unwrap()).collect()
}

/// All of it, in pieces of at least so many bytes.
fn rendered(listing: Listing, format: Format, piece: usize) -> String {
    let mut rendering = Rendering::new(listing, format);
    let mut whole = String::new();
    while !rendering.is_done() {
        let before = whole.len();
        rendering.render(piece, &mut whole);
        assert!(whole.len() > before, "a piece holds something");
    }
    whole
}

fn page(path: &[u8], entries: &[MountEntry]) -> String {
    rendered(Listing::of_entries(path, Order::default(), entries.to_vec()), Format::Html, usize::MAX / 2)
}

#[test]
fn pieces_of_any_size_make_the_same_listing() {
    let entries: Vec<_> = (0..500).map(|i| entry(&format!("file <{i}>"), i % 7 == 0, i, i as i64)).collect();
    for format in [Format::Html, Format::Json] {
        let listing = Listing::of_entries(b"a/b", Order::default(), entries.clone());
        let whole = rendered(listing.clone(), format, usize::MAX / 2);
        for piece in [1, 1000, 16_384] {
            assert!(rendered(listing.clone(), format, piece) == whole, "{format:?} in pieces of {piece}");
        }
    }
}

#[test]
fn a_piece_is_hardly_longer_than_was_asked_for() {
    let longest = "\"".repeat(255);
    let entries: Vec<_> = (0..300).map(|i| entry(&longest, false, i, 0)).collect();
    let mut rendering = Rendering::new(Listing::of_entries(b"", Order::default(), entries), Format::Html);
    while !rendering.is_done() {
        let mut piece = String::new();
        rendering.render(16_384, &mut piece);
        assert!(piece.len() < 16_384 + 4096, "{}", piece.len());
    }
}

#[test]
fn names_are_ordered_as_people_count_with_directories_first() {
    assert_eq!(sorted(""), ["zdir", "A.txt", "b002.txt", "b2.txt", "b10.txt"]);
    assert_eq!(sorted("order=desc"), ["zdir", "b10.txt", "b2.txt", "b002.txt", "A.txt"]);
}

#[test]
fn size_and_time_order_files() {
    assert_eq!(sorted("sort=size&order=desc")[1], "b2.txt");
    assert_eq!(sorted("sort=modified")[1], "b002.txt");
    assert_eq!(sorted("sort=drop&table"), sorted(""));
}

#[test]
fn natural_order_is_a_total_order() {
    let names = ["", "0", "00", "1", "01", "a", "A", "a1", "a01", "a1b", "a10", "b", "\u{7f}"];
    for a in names {
        for b in names {
            let (forth, back) = (natural(a.as_bytes(), b.as_bytes()), natural(b.as_bytes(), a.as_bytes()));
            assert_eq!(forth, back.reverse(), "{a:?} {b:?}");
            assert_eq!(forth.is_eq(), a == b, "{a:?} {b:?}");
        }
    }
}

#[test]
fn hostile_names_stay_text() {
    let hostile = [
        entry("<script>alert(1)</script>", false, 1, 0),
        entry("a\" onmouseover=\"x", false, 1, 0),
        entry("javascript:alert(1)", false, 1, 0),
        entry("line\nbreak\u{202e}gnp.exe", false, 1, 0),
    ];
    let page = page(b"<img src=x>/&", &hostile);
    let body = &page[..page.rfind("<script>").unwrap()];
    assert!(!body.contains("<script>") && !body.contains("<img"), "{body}");
    assert!(!body.contains("\" onmouseover"), "{body}");
    assert!(!body.contains("href=\"javascript:") && body.contains("href=\"./javascript%3A"), "{body}");
    assert!(!body.contains("line\nbreak") && !body.contains('\u{202e}'), "{body}");
    assert!(body.contains("href=\"%3Cscript%3Ealert%281%29%3C%2Fscript%3E\""), "{body}");
}

/// Finds entries as Kodi and many short scripts do: `<a href="([^"]*)"[^>]*>(.*?)</a>`, of which those are
/// entries whose text is the link; `./` is forgiven before a name with a colon.
fn entries_that_programs_find(page: &str) -> Vec<String> {
    let decoded = |link: &str| {
        percent_encoding::percent_decode_str(link).decode_utf8().unwrap().trim_end_matches('/').to_owned()
    };
    let links = page.split("<a href=\"").skip(1).map(|rest| {
        let (link, rest) = rest.split_once('"').unwrap();
        let (text, _) = rest.split_once('>').unwrap().1.split_once("</a>").unwrap();
        (decoded(link), text.trim_end_matches('/').replace("&amp;", "&").replace("&#39;", "'"))
    });
    links
        .filter(|(link, text)| link == text || text.contains(':') && *link == format!("./{text}"))
        .map(|(_, text)| text)
        .collect()
}

#[test]
fn programs_that_read_listings_by_patterns_find_every_entry_and_nothing_else() {
    let names = [
        "plain.mkv",
        "with space.mkv",
        "größe.mkv",
        "a&b.mkv",
        "100%.mkv",
        "it's.mkv",
        "a+b.mkv",
        "a#b",
        "a?b",
        "a=b;c",
        "S01E01: Start.mkv",
        "C:",
        "..a",
        "~x",
        "(1)",
        "[x]",
        "日本",
    ];
    let mut entries: Vec<_> = names.iter().map(|name| entry(name, false, 1, 0)).collect();
    entries.push(entry("Season 1", true, 0, 0));
    let page = page(b"shows/one", &entries);
    let mut found = entries_that_programs_find(&page);
    let mut expected: Vec<_> =
        entries.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // What mirrors follow: what is on the way here, and the entries.
    assert_eq!(page.matches("href=").count(), 4 + entries.len());
    assert_eq!(page.matches("<a href=\"").count(), 4 + entries.len());
    assert!(!page.contains("href=\"?"), "other orders are no other pages");
}

#[test]
fn times_that_no_four_digits_tell_are_not_told() {
    let entries = [entry("a", false, 1, -1), entry("b", false, 1, i64::MAX), entry("c", false, 1, 0)];
    let shown = page(b"", &entries);
    assert_eq!(shown.matches("<time").count(), 1);
    assert!(shown.contains("1970-01-01T00:00:00Z"));
    let listing = Listing::of_entries(b"", Order::default(), entries.to_vec());
    assert_eq!(rendered(listing, Format::Json, 1).matches("modified").count(), 1);
}

#[test]
fn page_asks_nothing_from_other_places() {
    let page = page(b"a/b", &[entry("c", false, 1, 0)]);
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    assert!(!page.contains("src="), "{page}");
}

#[test]
fn policy_allows_the_page_s_own_script_alone() {
    let page = page(b"", &[]);
    let start = page.find("<script>").unwrap() + "<script>".len();
    let script = &page[start..page.find("</script>").unwrap()];
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, script.as_bytes());
    assert!(policy().contains(&format!("script-src 'sha256-{}';", html::base64(hash.as_ref()))));
}

#[test]
fn base64_matches_the_vectors_of_rfc_4648() {
    for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
        assert_eq!(html::base64(plain.as_bytes()), encoded);
    }
}

#[test]
fn rows_come_in_groups_that_the_browser_can_leave_out() {
    for (rows, groups) in [(0, 1), (1, 1), (64, 1), (65, 2), (129, 3)] {
        let entries: Vec<_> = (0..rows).map(|i| entry(&format!("f{i}"), false, i, 0)).collect();
        let page = page(b"a", &entries);
        assert_eq!(page.matches("<tbody").count(), groups, "{rows}");
        assert_eq!(page.matches("</tbody>").count(), groups, "{rows}");
        assert_eq!(page.matches("<tr class=\"entry\"").count(), rows as usize);
    }
}

#[test]
fn page_of_a_small_directory_looks_as_agreed() {
    let entries = [entry("photos", true, 0, 784_111_777), entry("notes (1).txt", false, 1536, 784_111_777)];
    let page = page("a/größe".as_bytes(), &entries);
    let body = &page[page.find("<header>").unwrap()..page.find("<script>").unwrap()];
    insta::assert_snapshot!(body);
}

#[test]
fn json_holds_exact_hrefs_and_rfc_3339_times() {
    let mut entries = vec![entry("d", true, 0, 0), entry("a\"\\\n<b", false, 3, 784_111_777)];
    entries.push(MountEntry { name: b"\xff".to_vec(), directory: false, size: 0, modified_s: None });
    let listing = Listing::of_entries(b"x", Order::default(), entries);
    insta::assert_snapshot!(rendered(listing, Format::Json, 1));
}
