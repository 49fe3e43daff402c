//! The configured sending rates hold on a real socket. How closely is shown in simulation (`http/tests/sim/rates.rs`)
//! and in the kernel lab; a machine that runs tests may be too busy to reach a rate, and never goes beyond it.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::raw;
use crate::support::site::{ANY_PORT, Site};
use crate::support::{Server, tool};

#[test]
fn connections_together_keep_the_servers_rate_and_a_reload_changes_it_under_them() {
    let limits = |rate: u64| format!("[server]\negress_rate = {rate}\n");
    let (site, server) = serve(&limits(RATE));
    let plain = (0..8).map(|_| download(server.http[0]));
    let mut clients: Vec<Download> = plain.chain([download_sealed(&server)]).collect();
    assert_rate(&mut clients, 1, RATE);
    site.configure(&format!("{}{ANY_PORT}", limits(RATE / 4)));
    server.reload("reloaded");
    assert_rate(&mut clients, 1, RATE / 4);
}

#[test]
fn each_connection_keeps_its_rate_and_a_reload_changes_it_under_it() {
    let limits = |rate: u64| format!("[http.limits]\npacing_bytes_per_second = {rate}\n");
    let (site, server) = serve(&limits(RATE));
    let mut clients = vec![download(server.http[0]), download(server.http[0]), download_sealed(&server)];
    assert_rate(&mut clients, 3, RATE);
    site.configure(&format!("{}{ANY_PORT}", limits(RATE / 4)));
    server.reload("reloaded");
    assert_rate(&mut clients, 3, RATE / 4);
}

fn serve(limits: &str) -> (Site, Server) {
    let site = Site::new(&[], limits);
    // A hole takes no room on the disk.
    std::fs::File::create(site.path("big")).unwrap().set_len(1 << 30).unwrap();
    let server = site.start();
    (site, server)
}

type Download = Box<dyn Read + Send>;

fn download(server: SocketAddr) -> Download {
    let mut stream: TcpStream = raw::connect(server);
    raw::send_all(&mut stream, b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    Box::new(stream)
}

fn download_sealed(server: &Server) -> Download {
    let mut curl = tool("curl", "curl");
    curl.args(["--silent", "--insecure", "--max-time", "60"]).arg(server.https_url("/big"));
    // It ends when its output is not read any more.
    Box::new(curl.stdout(Stdio::piped()).spawn().unwrap().stdout.take().unwrap())
}

/// All clients together get `flows` times `rate`, and not more.
fn assert_rate(clients: &mut Vec<Download>, flows: u64, rate: u64) {
    take(clients, SETTLING);
    let begun = Instant::now();
    let bytes = take(clients, WINDOW) as f64;
    let wanted = (flows * rate) as f64 * begun.elapsed().as_secs_f64();
    let most = 1.05 * wanted + BUFFERED * clients.len() as f64;
    assert!(bytes <= most, "{bytes} bytes in {:?}, at most {most}", begun.elapsed());
    assert!(bytes >= wanted / 4.0, "{bytes} bytes in {:?}, wanted {wanted}", begun.elapsed());
}

fn take(clients: &mut Vec<Download>, time: Duration) -> u64 {
    let until = Instant::now() + time;
    let read = |mut client: Download| {
        std::thread::spawn(move || {
            let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
            while Instant::now() < until {
                let length = client.read(&mut buffer).expect("the transfer goes on");
                assert!(length > 0, "the transfer is over too early");
                bytes += length as u64;
            }
            (client, bytes)
        })
    };
    let readers: Vec<JoinHandle<(Download, u64)>> = clients.drain(..).map(read).collect();
    let mut bytes = 0;
    for reader in readers {
        let (client, more) = reader.join().unwrap();
        clients.push(client);
        bytes += more;
    }
    bytes
}

const RATE: u64 = 4_000_000;
/// For the first packets, which are not paced, and for what lies in buffers when a rate changes.
const SETTLING: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);
/// Bytes that may lie in a client's buffers when the counting begins.
const BUFFERED: f64 = 256e3;
