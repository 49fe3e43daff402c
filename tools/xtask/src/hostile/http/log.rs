//! Requests beside an access log that goes to a FIFO without a reader.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTP, Wishes};
use crate::process;

pub(crate) struct UnreadLog;

impl Scenario for UnreadLog {
    fn name(&self) -> &'static str {
        "http-unread-access-log"
    }

    fn about(&self) -> &'static str {
        "2,000 requests/s beside an access log that nobody reads"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let fifo = work.join("access.fifo");
        process::output("mkfifo", &[&fifo])?;
        Ok(Wishes { config: format!("[log]\naccess = '{}'", fifo.display()), ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut requests, mut client) = (0, None);
        let batch = b"HEAD /small HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS_A_TURN);
        while !field.is_over() {
            let began = Instant::now();
            let open = match &mut client {
                Some(open) => open,
                none => {
                    let stream = connect_from(source(requests), HTTP)?;
                    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
                    none.insert(stream)
                }
            };
            let sent = open.write_all(&batch);
            requests += REQUESTS_A_TURN;
            // What is answered must be taken, or this were another attack.
            let mut part = [0; 64 << 10];
            while let Ok(1..) = open.read(&mut part) {}
            if sent.is_err() {
                client = None;
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default().with("requests", requests))
    }
}

const TURN: Duration = Duration::from_millis(25);
const REQUESTS_A_TURN: usize = 50;
