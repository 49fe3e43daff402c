//! Streams that ask for a file that was not asked for before and are reset at once: the file is opened in
//! vain.

use std::time::{Duration, Instant};

use super::http2::Http2;
use crate::hostile::net::source;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::COLD_FILES;

pub(crate) struct Resets;

impl Scenario for Resets {
    fn name(&self) -> &'static str {
        "http2-resets"
    }

    fn about(&self) -> &'static str {
        "HTTP/2 streams that are reset while their cold file is opened"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut streams, mut connections, mut client) = (0, 0, None);
        while !field.is_over() {
            let began = Instant::now();
            if streams % COLD_FILES == 0 {
                // Names the kernel remembers are opened at once, and nothing is abandoned.
                let _ = std::fs::write("/proc/sys/vm/drop_caches", "2");
            }
            let open = match &mut client {
                Some(open) => open,
                none => {
                    connections += 1;
                    none.insert(Http2::connect(source(connections))?)
                }
            };
            for _ in 0..STREAMS_A_TURN {
                let stream = open.get(&format!("/cold/{}", streams % COLD_FILES));
                open.reset(stream);
                streams += 1;
            }
            // A server may end a connection that does this, and does.
            if open.flush().and_then(|()| open.discard()).is_err() {
                client = None;
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default().with("streams", streams).with("connections", connections))
    }
}

const TURN: Duration = Duration::from_millis(10);
const STREAMS_A_TURN: usize = 10;
