//! A WebDriver client (W3C WebDriver 2) just large enough to look at a page, click and download: JSON over
//! one HTTP/1.1 exchange a command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{raw, tool};

/// A browser window and the chromedriver that runs it; both end when it goes out of scope.
pub(crate) struct Browser {
    driver: Child,
    addr: SocketAddr,
    session: String,
    scratch: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let downloads = scratch.path().join("downloads");
        std::fs::create_dir(&downloads).unwrap();
        let mut driver = tool("chromedriver", "chromium-driver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said
            .find_map(|line| {
                let line = line.expect("chromedriver speaks UTF-8");
                line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says its port");
        // Its later words must find a reader, or it stops at a full pipe.
        std::thread::spawn(move || said.for_each(drop));
        let mut browser =
            Self { driver, addr: SocketAddr::from(([127, 0, 0, 1], port)), session: String::new(), scratch };
        let profile = browser.scratch.path().join("profile");
        let _installed = tool("chromium", "chromium");
        let answer = browser.command(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
                "acceptInsecureCerts": true,
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {
                    "args": [
                        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                        "--disable-background-networking", "--disable-component-update", "--disable-sync",
                        "--disable-dev-shm-usage", "--window-size=1000,800",
                        format!("--user-data-dir={}", profile.display()),
                    ],
                    "prefs": {"download.default_directory": downloads},
                },
            }}}),
        );
        browser.session = format!("/session/{}", answer["sessionId"].as_str().expect("a session"));
        browser
    }

    /// Returns where clicked files go.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.scratch.path().join("downloads")
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    pub(crate) fn back(&self) {
        self.post("/back", &json!({}));
    }

    pub(crate) fn url(&self) -> String {
        self.get("/url").as_str().unwrap().to_owned()
    }

    /// Runs the body of a function in the page.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Gives pages the screen of a phone, in CSS pixels.
    pub(crate) fn be_a_phone(&self, width: u32, height: u32) {
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": 3, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen);
    }

    /// A command of the Chrome DevTools Protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Returns what a person reads in the first element of a CSS selector.
    pub(crate) fn text(&self, selector: &str) -> String {
        let element = self.find("css selector", selector);
        self.get(&format!("/element/{element}/text")).as_str().unwrap().to_owned()
    }

    pub(crate) fn click(&self, selector: &str) {
        self.click_element(&self.find("css selector", selector));
    }

    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.find("css selector", selector);
        self.post(&format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Clicks the link with this text.
    pub(crate) fn click_text(&self, text: &str) {
        self.click_element(&self.find("link text", text));
    }

    /// Returns what the page complained of, such as a breach of its content security policy.
    pub(crate) fn console_errors(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"}));
        let errors = entries.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        let errors = errors.map(|entry| entry["message"].as_str().unwrap().to_owned());
        // Browsers ask every site for an icon; that there is none is no fault of the page.
        errors.filter(|message| !message.contains("favicon")).collect()
    }

    fn find(&self, using: &str, value: &str) -> String {
        let found = self.post("/element", &json!({"using": using, "value": value}));
        found[ELEMENT_KEY].as_str().expect("an element").to_owned()
    }

    fn click_element(&self, element: &str) {
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    fn get(&self, path: &str) -> Value {
        self.command("GET", &format!("{}{path}", self.session), &Value::Null)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.command("POST", &format!("{}{path}", self.session), body)
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = raw::connect(self.addr);
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.addr,
            body.len()
        )
        .unwrap();
        let response = raw::read_response(&mut stream);
        let mut answer: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(response.status, 200, "{method} {path} {body}: {answer}");
        answer["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to, the browser ends with all its processes; they would outlive a killed driver.
        if !self.session.is_empty()
            && let Ok(mut stream) = std::net::TcpStream::connect(self.addr)
        {
            let _ = write!(stream, "DELETE {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.session, self.addr);
            let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(10)));
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The name under which WebDriver hands out elements (WebDriver 2, 12.1).
const ELEMENT_KEY: &str = "element-6066-11e4-a52e-4f735466cecf";
