//! Real curl against the service on a real lane, over HTTP/1.1, TLS and HTTP/2.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use http::service::{Mount, Role, Service, Site};
use lane::backend::ListenOptions;
use lane::net::TcpListener;
use service::commons::Commons;
use tls::{KtlsPolicy, TicketKeys, TlsConfig};
use vfs::{Cache, CacheOptions, Volume, VolumeOptions, VolumeSpec};

#[test]
fn curl_gets_the_same_bytes_over_every_protocol() {
    let served = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(served.path().join("big"), &content).unwrap();
    std::fs::write(served.path().join("small.txt"), "small\n").unwrap();
    std::fs::write(served.path().join("small.txt.gz"), b"not really gzip").unwrap();
    let (http, https) = start(served.path());

    for base in [format!("http://{http}"), format!("https://{https}")] {
        for protocol in ["--http1.1", "--http2"] {
            let get = |arguments: &[&str], path: &str| curl(protocol, arguments, &format!("{base}{path}"));
            assert!(get(&[], "/big") == content, "{base} {protocol}");
            assert!(get(&["-r", "1000000-2999999"], "/big") == content[1_000_000..3_000_000]);
            assert_eq!(get(&[], "/small.txt"), b"small\n");
            assert_eq!(get(&["-H", "Accept-Encoding: gzip"], "/small.txt"), b"not really gzip");
            assert_eq!(get(&["-o", "/dev/null", "-w", "%{http_code}"], "/absent"), b"404");
            assert_eq!(get(&["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"], "/../x"), b"400");
            let listing = get(&["-H", "Accept: application/json"], "/");
            assert!(String::from_utf8(listing).unwrap().contains("\"name\":\"small.txt\""));
        }
    }
    let version =
        curl("--http2", &["-o", "/dev/null", "-w", "%{http_version}"], &format!("https://{https}/"));
    assert_eq!(version, b"2");
    let misplaced = curl("--http1.1", &[], &format!("http://{https}/"));
    assert!(String::from_utf8(misplaced).unwrap().contains("put https:// before the address"));
}

/// Serves a directory from a lane on a thread of its own, which ends with the process.
pub(crate) fn start(directory: &Path) -> (String, String) {
    let state = directory.join(".state");
    std::fs::create_dir(&state).unwrap();
    let tls = TlsConfig::new(state).load(Arc::new(TicketKeys::new().unwrap())).unwrap().config;
    let directory = directory.to_owned();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        lane::runtime::run_here(Default::default(), async move {
            let cache = Cache::new(CacheOptions::default());
            let spec = VolumeSpec::new("test".parse().unwrap(), directory, VolumeOptions::default());
            let mut site = Site::new(vec![Mount::new("/", Volume::open(&cache, &spec).unwrap(), true)]);
            site.tls = Some(tls);
            let service = Service::new(
                site,
                Arc::default(),
                Arc::default(),
                None,
                KtlsPolicy::Auto,
                Commons::new(Arc::default()),
                1,
            );
            let any = "127.0.0.1:0".parse().unwrap();
            let bind = || TcpListener::bind(any, &ListenOptions::default()).unwrap();
            let (plain, sealed) = (bind(), bind());
            tell.send((plain.local_addr().unwrap().to_string(), sealed.local_addr().unwrap().to_string()))
                .unwrap();
            lane::spawn(service.clone().listen(sealed, Role::Tls)).detach();
            service.listen(plain, Role::Plain).await;
        })
        .unwrap();
    });
    let addresses: (String, String) = told.recv_timeout(Duration::from_secs(10)).unwrap();
    TcpStream::connect(&addresses.0).unwrap();
    addresses
}

pub(crate) fn curl(protocol: &str, arguments: &[&str], url: &str) -> Vec<u8> {
    let output = Command::new("curl")
        .args(["-sk", "--max-time", "30", protocol])
        .args(arguments)
        .arg(url)
        .output()
        .expect("curl is installed: apt-get install curl");
    assert!(output.status.success(), "curl {protocol} {arguments:?} {url}: {}", output.status);
    output.stdout
}
