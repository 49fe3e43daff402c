//! Tests of generated stubs against those that the stock rxgen makes of the same interface, over the stock Rx
//! library.
//!
//! Our server and the stock client, the stock server and our client, with data before and behind the
//! parameters.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{Anonymous, Driver, DriverConfig};

use crate::driver::shelf;

fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let bounded = async { lane::time::timeout(Duration::from_secs(120), test).await };
    run_here(RuntimeOptions::default(), bounded).expect("the machine has io_uring").expect("ends in time")
}

fn bind() -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 8000;
    Driver::bind(([127, 0, 0, 1], 0).into(), config).expect("loopback has free ports")
}

/// Builds the stock side; `None` where it cannot be had, and the test is skipped.
#[track_caller]
fn stock() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built =
        PROGRAM.get_or_init(|| testkit::stock_rx::build_stubs(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    if built.is_none() {
        testkit::skip("the Debian package libopenafs-dev is not installed; `cargo xtask test` installs it");
    }
    built.as_deref()
}

#[test]
fn stock_stubs_call_every_procedure_of_our_server() {
    let Some(program) = stock() else { return };
    run(async move {
        let (server, shelf) = (bind(), Rc::new(shelf::Shelf::default()));
        shelf::serve(&server, Rc::clone(&shelf));
        let port = server.local_addr().unwrap().port().to_string();
        let mut command = Command::new(program);
        let mut client =
            command.args(["client", &port]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while client.try_wait().unwrap().is_none() {
            lane::time::sleep(Duration::from_millis(2)).await;
        }
        let output = client.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
        assert_eq!(out, "all is as it should be\n");
        let tally = &shelf.tally;
        // In the order of the interface.
        let counted: Vec<_> =
            (0..8).map(|at| tally.of(at)).map(|of| (of.replied, of.refused, of.faults)).collect();
        let stored = 14;
        assert_eq!(counted[0], (stored, 1, 1), "FetchStatus");
        assert_eq!((counted[1], counted[2], counted[3]), ((1, 0, 0), (1, 0, 1), (1, 0, 0)));
        assert_eq!((counted[4], counted[5]), ((stored, 1, 0), (stored, 2, 0)), "FetchData64, StoreData64");
        assert_eq!((counted[6], counted[7].0, tally.unknown_opcodes()), ((1, 0, 0), 0, 1));
    });
}

/// Process of a stock server, stopped when dropped.
struct StockServer(Child);

impl Drop for StockServer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn our_stubs_call_a_server_of_stock_stubs() {
    let Some(program) = stock() else { return };
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddr = free.local_addr().unwrap();
    drop(free);
    let server = Command::new(program).args(["server", &address.port().to_string()]).spawn().unwrap();
    let _server = StockServer(server);
    run(async move {
        let client = bind();
        let connection = client.connect(address, shelf::SERVICE, &Anonymous).unwrap();
        shelf::scenario(connection, 7).await;
    });
}
