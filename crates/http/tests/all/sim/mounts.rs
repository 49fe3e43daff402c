//! Several volumes in one tree of URLs: every link that a listing shows leads somewhere.

use http::limits::Limits;
use http::service::{Role, Site};
use lane::backend::sim::Config;
use lane::fs::Timestamp;

use crate::sim::client::Client;
use crate::sim::server::{ADDRESS, Pair, mount};

const FILES: [(&str, &[u8]); 4] =
    [("top/file", b"1"), ("top/x/inner", b"2"), ("deep/far", b"3"), ("other/y", b"4")];

fn pair(with_root: bool, root_listed: bool) -> Pair {
    let site = move || {
        let mut root = mount("/", "/srv/top");
        root.listings = root_listed;
        let mut mounts = vec![mount("/a/b/deep", "/srv/deep"), mount("/x/y", "/srv/other")];
        mounts.extend(with_root.then_some(root));
        Site::new(mounts)
    };
    let pair = Pair::serving(1, Config::clean(), Limits::default(), &FILES, Role::Plain, site);
    for (path, secs) in
        [("/srv/top", 1_000_000_000), ("/srv/deep", 1_100_000_000), ("/srv/other", 1_200_000_000)]
    {
        pair.server.fs().set_mtime(path, Timestamp { secs, nanos: 0 }).unwrap();
    }
    pair
}

async fn get(client: &mut Client, path: &str) -> (u16, String) {
    let response = client.get(path, "Accept: application/json\r\n").await.unwrap();
    (response.status, String::from_utf8(response.body).unwrap())
}

#[test]
fn the_way_to_a_mount_exists_whatever_the_volume_around_it_holds() {
    for with_root in [true, false] {
        let pair = pair(with_root, true);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            for path in ["/", "/a/", "/a/b/", "/a/b/deep/", "/x/", "/x/y/"] {
                assert_eq!(get(&mut client, path).await.0, 200, "{path}");
            }
            for path in ["/a", "/a/b", "/x"] {
                let response = client.get(path, "").await.unwrap();
                assert_eq!(
                    (response.status, response.field("Location")),
                    (301, Some(&format!("{path}/")[..]))
                );
            }
            for path in ["/a/c/", "/a/b/dee/", "/b/", "/a/file"] {
                assert_eq!(get(&mut client, path).await.0, 404, "{path}");
            }
        });
        pair.end();
    }
}

#[test]
fn mounts_show_the_time_of_their_volume_and_the_way_to_them_none() {
    let pair = pair(true, true);
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        let (_, root) = get(&mut client, "/").await;
        assert!(root.contains(r#"{"name":"a","href":"a/","type":"directory"}"#), "{root}");
        assert!(!root.contains("1970-"), "{root}");
        let (_, way) = get(&mut client, "/a/b/").await;
        assert!(way.contains(r#""modified":"2004-11-09T11:33:20Z""#), "{way}");
        // The volume around it has this directory, and so its time, and what it holds beside the mount.
        let (_, x) = get(&mut client, "/x/").await;
        assert!(x.contains(r#""name":"inner""#) && x.contains(r#""name":"y""#), "{x}");
        assert!(x.contains(r#""modified":"2008-01-10T21:20:00Z""#), "{x}");
        let page = client.get("/", "Accept: text/html\r\n").await.unwrap().body;
        assert!(!String::from_utf8(page).unwrap().contains("1970-"));
    });
    pair.end();
}

#[test]
fn volume_without_listings_does_not_tell_what_is_mounted_in_it() {
    let pair = pair(true, false);
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        for path in ["/", "/a/", "/a/b/", "/x/"] {
            assert_eq!(get(&mut client, path).await.0, 403, "{path}");
        }
        assert_eq!(get(&mut client, "/a/b/deep/").await.0, 200);
    });
    pair.end();
}
