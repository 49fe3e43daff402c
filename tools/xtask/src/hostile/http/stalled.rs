//! Replies that their clients do not take: streams whose window is shut and connections that never read.

use std::io::Write;

use super::http2::Http2;
use crate::hostile::net::{connect_from, connections_possible, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::HTTP;

/// Ten thousand and more of them, of one kind of reply.
pub(crate) struct Stalled {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Path that is asked for.
    pub(crate) path: &'static str,
    /// Connections of HTTP/2, each with [`STREAMS`] streams.
    pub(crate) http2: usize,
    /// Connections of HTTP/1.1.
    pub(crate) http1: usize,
}

impl Scenario for Stalled {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut streams, mut held) = (Vec::new(), Vec::new());
        let wanted = connections_possible(self.http1);
        for n in 0..self.http2.max(wanted) {
            if field.is_over() {
                break;
            }
            // A refusal is the server's right; what it does not refuse must not harm it.
            if n < self.http2
                && let Ok(mut client) = Http2::connect(source(n))
            {
                (0..STREAMS).for_each(|_| _ = client.get(self.path));
                if client.flush().is_ok() {
                    streams.push(client);
                }
            }
            if n < wanted
                && let Ok(mut stream) = connect_from(source(n), HTTP)
            {
                let request = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", self.path);
                if stream.write_all(request.as_bytes()).is_ok() {
                    held.push(stream);
                }
            }
        }
        field.sit_out();
        Ok(Findings::default()
            .with("HTTP/2 streams", streams.len() * STREAMS)
            .with("HTTP/1.1 connections", held.len()))
    }
}

/// Streams of a connection: as many as most servers allow, and more than this one does.
const STREAMS: usize = 250;
