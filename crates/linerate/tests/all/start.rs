//! What a start needs, and what `--check` finds of it before.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::linerate;
use crate::support::raw;
use crate::support::site::{ANY_PORT, Site};

/// Whether the check is passed, and what it says.
fn check(site: &Site, how: &str) -> (bool, String) {
    let (status, said) = site.launch().arg(how).fail();
    (status.success(), said)
}

fn configuration(http: SocketAddr, admin: SocketAddr, more: &str) -> String {
    format!(
        "{more}\n[http]\nlisten = [\"{http}\"]\n[https]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"{admin}\"\n"
    )
}

#[test]
fn check_finds_addresses_in_use_unless_it_is_for_the_server_that_uses_them() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let (http, admin) = (testkit::free_address(), testkit::free_address());
    site.configure(&configuration(http, admin, ""));
    let (good, said) = check(&site, "--check");
    assert!(good, "{said}");
    drop(TcpListener::bind(http).expect("a check leaves no listener"));
    for held in [http, admin] {
        let holder = TcpListener::bind(held).unwrap();
        let (good, said) = check(&site, "--check");
        assert!(!good && said.contains(&held.to_string()) && said.contains("in use"), "{said}");
        assert!(check(&site, "--check=reload").0);
        drop(holder);
    }
    let server = site.launch().start_unheard(http, admin);
    assert!(!check(&site, "--check").0);
    let (good, said) = check(&site, "--check=reload");
    assert!(good, "{said}");
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    assert_eq!(server.stderr().matches("listener").count(), 0, "{}", server.stderr());
}

#[test]
fn check_finds_what_a_start_cannot_open_and_leaves_nothing_behind() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let file = site.path("a.txt");
    let cases = [
        ("[log]\naccess = \"none/access.log\"\n".to_owned(), "none/access.log"),
        (format!("[server]\nstate_dir = \"{}/state\"\n", file.display()), "a.txt/state"),
        ("[[https.certificate]]\ncert = \"no.crt\"\nkey = \"no.key\"\n".to_owned(), "no.crt"),
        ("[server]\ndrained_nodes = [77]\n".to_owned(), "77"),
        ("[server]\nlanes = 100000\n".to_owned(), "100000"),
    ];
    for (wrong, word) in cases {
        let (server, rest) = if wrong.starts_with("[server]") { (&*wrong, "") } else { ("", &*wrong) };
        site.configure(&format!("{server}{}{rest}", ANY_PORT));
        let (good, said) = check(&site, "--check");
        assert!(!good && said.contains(word), "{wrong}: {said}");
        let (status, started) = site.launch().fail();
        assert!(!status.success() && started.contains(word), "a start says the same: {started}");
    }
    site.configure(&format!("{ANY_PORT}[log]\naccess = \"access.log\"\n"));
    assert!(check(&site, "--check").0);
    assert!(!site.beside("access.log").exists());
}

#[test]
fn without_a_home_the_state_is_kept_where_the_configuration_says_or_nowhere() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let run = |more: &str| {
        site.configure(&format!("{more}\n{ANY_PORT}"));
        let mut command: Command = linerate(["serve", "--check=reload", "--config"]);
        command.arg(site.config()).env_clear().current_dir("/");
        if rustix::process::geteuid().is_root() {
            // Root has /var/lib; another user has nothing.
            for open in [site.config().parent().unwrap().to_owned(), site.root()] {
                std::fs::set_permissions(open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
            }
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, said) = run("");
    assert!(!good && said.contains("server.state_dir") && said.contains("HOME"), "{said}");
    let (good, said) = run("[server]\nstate_dir = \"state\"");
    assert!(good && !site.beside("state").exists(), "a check leaves nothing behind: {said}");
}

#[test]
fn one_word_listens_at_both_families_and_off_at_nothing() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let port = testkit::free_address().port();
    site.configure(&format!(
        "[http]\nlisten = \"*:{port}\"\n[https]\nlisten = \"off\"\n[admin]\nlisten = \"off\"\n"
    ));
    let http = SocketAddr::from(([127, 0, 0, 1], port));
    let server = site.launch().start_unheard(http, http);
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    let six: SocketAddr = format!("[::1]:{port}").parse().unwrap();
    if std::path::Path::new("/proc/net/if_inet6").exists() && TcpListener::bind("[::1]:0").is_ok() {
        assert_eq!(raw::get(six, "/a.txt").body, b"hello\n");
    }
    let said = crate::support::wait_for("the greeting", || {
        Some(server.stdout()).filter(|text| text.contains("Ctrl-C"))
    });
    assert!(!said.contains("linerate stat") && !said.contains("https://"), "{said}");
    assert!(TcpStream::connect("127.0.0.1:8090").is_err() || !said.contains("8090"));
}
