//! Every place of the admin address is taken, by connections that ask once, in part or not at all. A client
//! that asks meanwhile must be answered.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::hostile::arena::inside;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{ADMIN, Server};

pub(crate) struct Places;

impl Scenario for Places {
    fn name(&self) -> &'static str {
        "admin-places"
    }

    fn about(&self) -> &'static str {
        "connections of the admin address that never end a request, four times as many as it has places"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut made, mut asked, mut answered) = (0u64, 0u64, 0u64);
        inside(&field.arena.server, || {
            let mut held = Vec::new();
            while !field.is_over() {
                for n in 0..CONNECTIONS {
                    let Ok(mut stream) = TcpStream::connect_timeout(&ADMIN, PATIENCE) else { continue };
                    let said = [
                        &b"GET /metrics HTTP/1.1\r\nX: "[..],
                        b"",
                        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    ];
                    // What the server has closed takes nothing.
                    let _ = stream.write_all(said[n % said.len()]);
                    held.push(stream);
                    made += 1;
                }
                asked += 1;
                answered += u64::from(Server::scrape(field.arena).is_ok());
                field.sleep(PAUSE);
                held.drain(..held.len().saturating_sub(CONNECTIONS));
            }
            Ok(())
        })?;
        Ok(Findings::default()
            .with("connections", made)
            .with("scrapes beside", answered)
            .expect(answered == asked, || {
                format!("{} of {asked} scrapes were not answered", asked - answered)
            }))
    }
}

const CONNECTIONS: usize = 256;
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);
