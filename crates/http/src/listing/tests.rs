use super::*;

fn entry(name: &str, directory: bool, size: u64, modified_s: i64) -> Entry {
    Entry { name: name.into(), directory, size, modified_s }
}

fn sorted(query: &str) -> Vec<String> {
    let mut entries = vec![
        entry("b10.txt", false, 5, 30),
        entry("b2.txt", false, 900, 10),
        entry("A.txt", false, 7, 20),
        entry("zdir", true, 0, 99),
        entry("b002.txt", false, 1, 1),
    ];
    Order::from_query(Some(query.as_bytes())).sort(&mut entries);
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

fn page(path: &[u8], entries: &[Entry]) -> String {
    let mut out = Vec::new();
    html(&Listing { path, entries, order: Order::default() }, &mut out);
    String::from_utf8(out).unwrap()
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
    assert!(!body.contains("href=\"javascript:"), "{body}");
    assert!(!body.contains("line\nbreak") && !body.contains('\u{202e}'), "{body}");
    assert!(body.contains("href=\"./%3Cscript%3Ealert%281%29%3C%2Fscript%3E\""), "{body}");
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
fn page_of_a_small_directory_looks_as_agreed() {
    let entries = [entry("photos", true, 0, 784_111_777), entry("notes (1).txt", false, 1536, 784_111_777)];
    let page = page("a/größe".as_bytes(), &entries);
    let body = &page[page.find("<header>").unwrap()..page.find("<script>").unwrap()];
    insta::assert_snapshot!(body);
}

#[test]
fn json_holds_exact_hrefs_and_rfc_3339_times() {
    let mut entries = vec![entry("d", true, 0, 0), entry("a\"\\\n<b", false, 3, 784_111_777)];
    entries.push(Entry { name: b"\xff".to_vec(), directory: false, size: 0, modified_s: 0 });
    let mut out = Vec::new();
    json(&Listing { path: b"x", entries: &entries, order: Order::default() }, &mut out);
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}
