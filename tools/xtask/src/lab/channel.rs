//! Messages between guests and host, one JSON object a line, over a virtio serial port.

use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Message from a guest to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum FromGuest {
    /// The guest is up; the scenario begins.
    Ready,
    /// A note for the person at the terminal.
    Note { text: String },
    /// A figure for the report.
    Figure { name: String, value: f64, unit: String },
    /// A request to pull or plug the cable of a card; it is answered.
    Carrier { nic: String, up: bool },
    /// A signal to the other guests that something has happened.
    Signal { event: String },
    /// A request to wait for such an event; it is answered once that has happened.
    Await { event: String },
    /// The scenario passed.
    Passed,
    /// The scenario failed.
    Failed { error: String },
}

/// Message from the host to a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum FromHost {
    /// The request was carried out.
    Done,
    /// The request could not be met.
    Refused { error: String },
}

/// One end of the channel.
pub(crate) struct Channel<R, W> {
    reader: BufReader<R>,
    writer: W,
}

impl<R: std::io::Read, W: Write> Channel<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { reader: BufReader::new(reader), writer }
    }

    pub(crate) fn say(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.writer.write_all(line.as_bytes()).context("the other end is gone")?;
        self.writer.flush().context("the other end is gone")
    }

    /// Receives the next message; `None` when the other end has closed.
    pub(crate) fn hear<M: DeserializeOwned>(&mut self) -> anyhow::Result<Option<M>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).with_context(|| format!("not understood: {line:?}"))
    }

    /// Says it and waits for the answer; for guests.
    pub(crate) fn ask(&mut self, message: &FromGuest) -> anyhow::Result<()> {
        self.say(message)?;
        match self.hear()? {
            Some(FromHost::Done) => Ok(()),
            Some(FromHost::Refused { error }) => bail!("{error}"),
            None => bail!("the host is gone"),
        }
    }
}
