//! A person's view: headless Chromium opens the listing, sorts it, walks into a directory and downloads a file.

use support::webdriver::Browser;
use support::{Server, patterned};

mod support;

#[test]
fn a_browser_shows_the_listing_and_downloads_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let body = patterned(3_000_000);
    std::fs::write(dir.path().join("data.bin"), &body).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "some notes\n").unwrap();
    let awkward = "<b>50% & \"so\"? #1 übung.txt";
    std::fs::write(dir.path().join(awkward), "awkward\n").unwrap();
    std::fs::create_dir(dir.path().join("music")).unwrap();
    std::fs::write(dir.path().join("music/song.ogg"), "la la\n").unwrap();
    let server = Server::start(dir.path());
    for url in [server.url("/"), server.https_url("/")] {
        let browser = Browser::start();
        browser.open(&url);
        assert_eq!(
            rows(&browser),
            ["music/", awkward, "data.bin", "notes.txt"],
            "directories first, then by name"
        );
        assert_eq!(browser.text(".entry:nth-of-type(3) .size"), "2.9 MiB");
        assert!(browser.text(".summary").starts_with("1 directory, 3 files"), "{}", browser.text(".summary"));
        // The page must bring all it needs and break none of its own rules.
        assert_eq!(browser.script("return performance.getEntriesByType('resource').length"), 0);
        assert_eq!(browser.console_errors(), Vec::<String>::new());

        browser.type_into("input", "NOTES");
        assert_eq!(rows(&browser), ["notes.txt"], "the filter leaves what matches");

        browser.click("th.size a");
        assert!(browser.url().contains("sort=size"));
        assert_eq!(rows(&browser).last().unwrap(), "data.bin");
        browser.click("th.size a");
        assert_eq!(rows(&browser)[1], "data.bin", "the second click turns the order");

        browser.click_text("music/");
        assert!(browser.url().ends_with("/music/"));
        assert_eq!(rows(&browser), ["song.ogg"]);
        browser.click("nav a");
        assert!(browser.url().ends_with('/') && rows(&browser).len() == 4);

        browser.click_text(awkward);
        assert_eq!(browser.text("body"), "awkward");
        browser.back();
        browser.click_text("data.bin");
        let file = browser.downloads().join("data.bin");
        let downloaded = support::wait_for("the download", || {
            // Chromium renames the file when it has all of it.
            std::fs::read(&file).ok().filter(|bytes| bytes.len() == body.len())
        });
        assert!(downloaded == body, "the downloaded bytes are the file's");
    }
}

fn rows(browser: &Browser) -> Vec<String> {
    let names = browser
        .script("return [...document.querySelectorAll('tr.entry .name')].filter(cell => cell.checkVisibility()).map(cell => cell.innerText.trim())");
    names.as_array().expect("a list").iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}
