//! Users that sign in: their rights, the cost of passwords, and clients that are held off.

use std::sync::Arc;
use std::time::Duration;

use http::limits::Limits;
use http::service::Role;
use http::settings::Auth;
use identity::{Accounts, PasswordHash, Strength, Writable};
use lane::backend::sim::{Config, seeds};
use lane::time::sleep;

use crate::sim::client::{Client, Response, request};
use crate::sim::server::{ADDRESS, Pair};
use crate::sim::tls_client::{SUITES, TlsClient};
use crate::sim::uploads::writable;

/// alice:sesame, alice:wrong and nobody:sesame as clients send them.
const RIGHT: &str = "Authorization: Basic YWxpY2U6c2VzYW1l\r\n";
const WRONG: &str = "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n";
const UNKNOWN: &str = "Authorization: Basic bm9ib2R5OnNlc2FtZQ==\r\n";

/// A server of which alice may change everything.
fn pair(seed: u64, role: Role, auth: Auth) -> Pair {
    let strength = Strength { memory_kib: 64, passes: 1, lanes: 1 };
    let hash = PasswordHash::new(&"sesame".into(), strength);
    let text = format!("version = 1\n[user.alice]\nid = 1000\npassword = \"{}\"\n", *hash.to_text());
    let accounts = Accounts::parse(&text).unwrap();
    Pair::serving(seed, Config::default(), Limits::default(), &[("f", b"old")], role, move || {
        let site = writable("alice".parse::<Writable>().unwrap(), auth);
        site.of_users(Arc::clone(&accounts))
    })
}

async fn connect(role: Role) -> Client {
    match role {
        Role::Tls => Client::connect_tls(ADDRESS, TlsClient::new(SUITES[0])).await.unwrap(),
        _ => Client::connect(ADDRESS).await.unwrap(),
    }
}

async fn ask(role: Role, method: &str, lines: &str) -> Response {
    let mut client = connect(role).await;
    let bytes = match method {
        "PUT" => request(method, "/f", &format!("Content-Length: 3\r\n{lines}")) + "new",
        _ => request(method, "/f", lines),
    };
    match role {
        Role::Tls => client.send_sealed(bytes).await.unwrap(),
        _ => client.send(bytes).await.unwrap(),
    }
    client.response().await.unwrap()
}

#[test]
fn user_may_what_the_anonymous_may_not() {
    seeds(10, |seed| {
        let pair = pair(seed, Role::Tls, Auth::WhenRequired);
        pair.run(async {
            assert_eq!(ask(Role::Tls, "GET", "").await.body, b"old");
            let asked = ask(Role::Tls, "PUT", "").await;
            let challenge = "Basic realm=\"linerate\", charset=\"UTF-8\"";
            assert_eq!((asked.status, asked.field("WWW-Authenticate")), (401, Some(challenge)));
            for lines in [WRONG, UNKNOWN] {
                for method in ["PUT", "GET", "DELETE"] {
                    let refused = ask(Role::Tls, method, lines).await;
                    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (401, Some(challenge)));
                }
            }
            assert_eq!(ask(Role::Tls, "GET", RIGHT).await.body, b"old");
            assert_eq!(ask(Role::Tls, "PUT", RIGHT).await.status, 204);
            assert_eq!(ask(Role::Tls, "GET", "").await.body, b"new");
            assert_eq!(ask(Role::Tls, "DELETE", RIGHT).await.status, 204);
        });
        let counters = &pair.counters;
        assert_eq!((counters.logins_right.get(), counters.logins_wrong.get()), (1, 6));
        assert_eq!(counters.logins_remembered.get(), 2);
        pair.end();
    });
}

#[test]
fn passwords_are_neither_taken_nor_asked_for_where_others_may_listen() {
    let pair = pair(1, Role::Plain, Auth::WhenRequired);
    pair.run(async {
        assert_eq!(ask(Role::Plain, "GET", "").await.body, b"old");
        for (method, lines) in [("PUT", ""), ("PUT", RIGHT), ("GET", RIGHT), ("DELETE", WRONG)] {
            let refused = ask(Role::Plain, method, lines).await;
            assert_eq!((refused.status, refused.field("WWW-Authenticate")), (403, None), "{method} {lines}");
            assert!(String::from_utf8(refused.body).unwrap().contains("over HTTPS alone"));
        }
    });
    assert_eq!(pair.counters.logins_right.get() + pair.counters.logins_wrong.get(), 0, "none was looked at");
    pair.end();
}

#[test]
fn volume_says_when_users_are_asked() {
    for (auth, lines, get, put) in [
        (Auth::Off, "", 200, 403),
        (Auth::Off, RIGHT, 200, 403),
        (Auth::Always, "", 401, 401),
        (Auth::Always, WRONG, 401, 401),
        (Auth::Always, "Authorization: Bearer x\r\n", 401, 401),
        (Auth::Always, RIGHT, 200, 204),
        (Auth::WhenRequired, "Authorization: Bearer x\r\n", 200, 401),
    ] {
        let pair = pair(1, Role::Tls, auth);
        pair.run(async move {
            assert_eq!(ask(Role::Tls, "GET", lines).await.status, get, "{auth:?} {lines}");
            assert_eq!(ask(Role::Tls, "PUT", lines).await.status, put, "{auth:?} {lines}");
        });
        pair.end();
    }
}

#[test]
fn address_that_guesses_is_not_listened_to_for_a_while() {
    seeds(10, |seed| {
        let pair = pair(seed, Role::Tls, Auth::WhenRequired);
        pair.run(async {
            assert_eq!(ask(Role::Tls, "GET", RIGHT).await.status, 200);
            for _ in 0..10 {
                assert_eq!(ask(Role::Tls, "GET", WRONG).await.status, 401);
            }
            let refused = ask(Role::Tls, "GET", WRONG).await;
            assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("60")));
            // A client that was right a moment ago is not locked out by others of its address.
            assert_eq!(ask(Role::Tls, "GET", RIGHT).await.status, 200);
            sleep(Duration::from_secs(7)).await;
            assert_eq!(ask(Role::Tls, "GET", WRONG).await.status, 401, "one is forgiven");
            assert_eq!(ask(Role::Tls, "GET", WRONG).await.status, 429);
            sleep(Duration::from_secs(600)).await;
            assert_eq!(ask(Role::Tls, "GET", RIGHT).await.status, 200, "verified anew");
        });
        assert_eq!((pair.counters.logins_right.get(), pair.counters.logins_wrong.get()), (2, 11));
        assert_eq!(pair.counters.refused_logins_too_many.get(), 2);
        pair.end();
    });
}

#[test]
fn crowd_of_one_address_waits_in_turns_and_is_bounded() {
    let pair = pair(1, Role::Tls, Auth::WhenRequired);
    pair.run(async {
        let asked: Vec<_> = (0..40).map(|_| lane::spawn(ask(Role::Tls, "GET", WRONG))).collect();
        let mut statuses = Vec::new();
        for one in asked {
            statuses.push(one.await.status);
        }
        let of = |wanted| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!(of(401), 10, "{statuses:?}");
        assert_eq!(of(401) + of(429) + of(503), 40, "{statuses:?}");
    });
    assert_eq!(pair.counters.logins_wrong.get(), 10);
    pair.end();
}

#[test]
fn what_is_forbidden_by_a_files_own_descriptor_is_asked_for_in_vain() {
    // A list of nothing, as Samba keeps it with a file.
    let mut nobody = vec![1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 4, 128];
    nobody.extend([[0; 4], [0; 4], [0; 4], [20, 0, 0, 0], [2, 0, 8, 0], [0; 4]].concat());
    let pair = pair(1, Role::Tls, Auth::WhenRequired);
    pair.server.fs().set_xattr("/srv/f", "user.NTACL", &nobody).unwrap();
    pair.run(async {
        for (method, lines, status) in [("GET", "", 401), ("GET", RIGHT, 403), ("PUT", RIGHT, 403)] {
            assert_eq!(ask(Role::Tls, method, lines).await.status, status, "{method} {lines}");
        }
    });
    pair.end();
}
