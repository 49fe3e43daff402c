//! A person's view: headless Chromium opens the listing, sorts it, walks into a directory and downloads a file.

use std::time::{Duration, SystemTime};

use crate::support::webdriver::Browser;
use crate::support::{Server, patterned};
use serde_json::json;

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

        sort(&browser, "th.size button", "?sort=size");
        assert_eq!(rows(&browser).last().unwrap(), "data.bin");
        sort(&browser, "th.size button", "?order=desc&sort=size");
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
        let downloaded = crate::support::wait_for("the download", || {
            // Chromium renames the file when it has all of it.
            std::fs::read(&file).ok().filter(|bytes| bytes.len() == body.len())
        });
        assert!(downloaded == body, "the downloaded bytes are the file's");
    }
}

#[test]
fn a_phone_shows_dates_and_sorts_by_them() {
    let dir = tempfile::tempdir().unwrap();
    for (name, age_s) in [("new.txt", 60), ("old.txt", 90_000_000), ("middle of three.txt", 4000)] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    let long = "a_name_without_a_blank_".repeat(8) + ".tar.gz";
    std::fs::write(dir.path().join(&long), "x").unwrap();
    let server = Server::start(dir.path());
    let browser = Browser::start();
    browser.be_a_phone(390, 844);
    browser.open(&server.url("/"));
    assert_eq!(browser.script("return innerWidth"), 390);
    assert_eq!(browser.script("return document.documentElement.scrollWidth"), 390, "nothing sticks out");
    let shown = "return [...document.querySelectorAll('tr.entry .date, tr.entry .size, th button')].filter(part => { \
        const at = part.getBoundingClientRect(); \
        return part.checkVisibility() && at.width > 0 && at.left >= 0 && at.right <= innerWidth && part.innerText; \
    }).length";
    assert_eq!(browser.script(shown), 4 + 4 + 3, "dates, sizes and ways to sort are on the screen");
    sort(&browser, "th.date button", "?sort=modified");
    assert_eq!(rows(&browser), ["old.txt", "middle of three.txt", "new.txt", &long]);
    sort(&browser, "th.date button", "?order=desc&sort=modified");
    assert_eq!(rows(&browser)[0], long);
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

/// The page's own work counts: its main thread's CPU time, whatever else the machine is doing.
#[test]
fn ten_thousand_entries_appear_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..10_000 {
        std::fs::write(dir.path().join(format!("entry {number}.txt")), "x").unwrap();
    }
    let server = Server::start(dir.path());
    for phone in [false, true] {
        let browser = Browser::start();
        if phone {
            browser.be_a_phone(390, 844);
        }
        browser.devtools("Performance.enable", &json!({"timeDomain": "threadTicks"}));
        let before = main_thread_seconds(&browser);
        browser.open(&server.url("/"));
        let drawn = "return new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))";
        browser.script(drawn);
        let spent = main_thread_seconds(&browser) - before;
        assert_eq!(browser.script("return document.querySelectorAll('tr.entry').length"), 10_000);
        assert!(spent < 1.0, "{spent} s of the main thread");

        // Rows that are not laid out are there for readers, for searching, for the keyboard and for scrolling.
        assert_eq!(browser.script("return window.find('entry 9876.txt')"), true);
        let seen = "const row = [...document.querySelectorAll('tr.entry')].at(-1); row.scrollIntoView(); \
            return row.getBoundingClientRect().top < innerHeight && row.innerText.startsWith('entry 9999.txt')";
        assert_eq!(browser.script(seen), true);
        browser.type_into("input", "entry 77 .txt");
        browser.script(drawn);
        assert_eq!(rows(&browser).len(), 280, "names with a 77 in them");
        let height = browser.script("return document.documentElement.scrollHeight").as_u64().unwrap();
        assert!(height < 280 * 60 + 1000, "what is filtered out leaves no gaps: {height}");
        assert_eq!(browser.console_errors(), Vec::<String>::new());
    }
}

#[test]
fn listing_is_a_table_for_readers_and_needs_no_script() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(dir.path().join(name), "x").unwrap();
    }
    let server = Server::start(dir.path());
    let browser = Browser::start();
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    browser.open(&server.url("/"));
    assert_eq!(rows(&browser), ["a.txt", "b.txt"]);
    sort(&browser, "th.name button", "?order=desc&sort=name");
    assert_eq!(rows(&browser), ["b.txt", "a.txt"]);
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let count = |role: &str| {
        let nodes = tree["nodes"].as_array().unwrap();
        nodes.iter().filter(|node| node["role"]["value"] == role && node["ignored"] == false).count()
    };
    assert_eq!((count("table"), count("row"), count("columnheader"), count("cell")), (1, 3, 3, 6));
}

fn main_thread_seconds(browser: &Browser) -> f64 {
    let metrics = browser.devtools("Performance.getMetrics", &json!({}));
    let metrics = metrics["metrics"].as_array().unwrap();
    let task =
        metrics.iter().find(|metric| metric["name"] == "TaskDuration").expect("Chromium measures its tasks");
    task["value"].as_f64().unwrap()
}

/// Clicks what asks for another order. Unlike a link's, a form's page may come after the click is answered.
fn sort(browser: &Browser, button: &str, query: &str) {
    browser.click(button);
    crate::support::wait_for("the listing in another order", || browser.url().ends_with(query).then_some(()));
}

fn rows(browser: &Browser) -> Vec<String> {
    let names = browser
        .script("return [...document.querySelectorAll('tr.entry .name')].filter(cell => cell.checkVisibility()).map(cell => cell.innerText.trim())");
    names.as_array().expect("a list").iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}
