//! Tests of failed calls' ends in the stock library: handlers' abort codes, and a server that drains.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rx::abort;
use rx_lane::{AbortCode, Anonymous, CallError, ServerCall};

use super::{StockServer, bind, finished, run, stock};

/// Runs the stock client for `times` received calls of 100,000 bytes, and returns the codes of failed ones.
async fn failures(program: &Path, server: SocketAddr, times: usize) -> Vec<i32> {
    let (port, times) = (server.port().to_string(), times.to_string());
    let mut command = Command::new(program);
    command.args(["client", "-s", "127.0.0.1", "-p", &port, "-c", "recv", "-b", "100000", "-T", &times]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("rxperf starts");
    let output = finished(child).await;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let codes = complaints.lines().map(|line| {
        let code = line.strip_prefix("peer: call failed: ").expect("it complains of calls alone");
        code.parse().expect("a code")
    });
    codes.collect()
}

#[test]
fn stock_client_gets_the_handlers_error_as_its_calls_code() {
    let Some(program) = stock::rxperf() else { return };
    run(async move {
        let server = bind();
        let codes =
            Rc::new(Cell::new([110, -455, 5].into_iter().collect::<std::collections::VecDeque<i32>>()));
        server.serve(rxperf::SERVICE, move |mut call: ServerCall| {
            let mut left = codes.take();
            let code = left.pop_front().expect("three calls");
            codes.set(left);
            async move {
                call.read_to_end(1000).await?;
                // Half of the reply has left.
                call.write(&[0; 50_000]).await?;
                call.flush().await?;
                lane::time::sleep(Duration::from_millis(20)).await;
                Err(AbortCode(code))
            }
        });
        assert_eq!(failures(program, server.local_addr().unwrap(), 3).await, [110, -455, 5]);
        assert_eq!(server.counters().handlers_failed.get(), 3);
    });
}

#[test]
fn stock_client_of_a_server_that_drains_has_its_call_to_the_end_and_later_ones_told_to_come_back() {
    const CALLS: usize = 60;
    let Some(program) = stock::rxperf() else { return };
    run(async move {
        let (server, done) = (bind(), Rc::new(Cell::new(0)));
        let served = Rc::clone(&done);
        server.serve(rxperf::SERVICE, move |mut call: ServerCall| {
            let served = Rc::clone(&served);
            async move {
                call.read_to_end(1000).await?;
                lane::time::sleep(Duration::from_millis(5)).await;
                call.write(&[0; 100_000]).await?;
                call.write(&rxperf::COOKIE.to_be_bytes()).await?;
                call.finish().await?;
                served.set(served.get() + 1);
                Ok::<(), CallError>(())
            }
        });
        let client = lane::spawn(failures(program, server.local_addr().unwrap(), CALLS));
        while done.get() < 20 {
            lane::time::sleep(Duration::from_millis(1)).await;
        }
        let drained = server.drain(Duration::from_secs(30)).await;
        assert_eq!((drained.cut, drained.shielded), (0, 0));
        let served = done.get();
        let failed = client.await;
        assert_eq!(failed, vec![abort::RESTARTING; CALLS - served], "{served} were served");
        assert_eq!(done.get(), served);
        assert_eq!(server.endpoint().pool().in_use(), 0);
    });
}

#[test]
fn stock_client_whose_call_is_cut_is_told_so() {
    let Some(program) = stock::rxperf() else { return };
    run(async move {
        let server = bind();
        server.serve(rxperf::SERVICE, async |mut call: ServerCall| {
            call.read_to_end(1000).await?;
            std::future::pending::<Result<(), CallError>>().await
        });
        let client = lane::spawn(failures(program, server.local_addr().unwrap(), 1));
        while server.counters().handlers.get() == 0 {
            lane::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(server.drain(Duration::from_millis(50)).await.cut, 1);
        assert_eq!(client.await, [abort::RESTARTING]);
        assert_eq!(server.counters().handlers.get(), 0);
    });
}

#[test]
fn our_client_gets_the_code_that_a_stock_handler_returns() {
    let Some(program) = stock::rxperf() else { return };
    run(async move {
        let stock = StockServer::start(program, &[]);
        let client = bind();
        let connection = client.connect(stock.address, rxperf::SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        // No version that it knows.
        call.write(&99u32.to_be_bytes()).await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_exact(&mut [0; 4]).await, Err(CallError::Aborted(rxperf::ABORT_CODE)));
        stock.stop();
    });
}
