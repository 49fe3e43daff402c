//! Report of a scenario's end, for a person or a program.

use std::path::PathBuf;
use std::time::Duration;

/// A scenario's end.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) kernel: String,
    pub(crate) seconds: f64,
    pub(crate) figures: Vec<Figure>,
    /// Reason why it failed; absent when it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The guests' consoles, kept when it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) consoles: Vec<PathBuf>,
}

/// Something measured in a guest.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Report {
    pub(crate) fn new(scenario: &'static str, kernel: &str) -> Self {
        Self {
            scenario,
            kernel: kernel.to_owned(),
            seconds: 0.0,
            figures: Vec::new(),
            error: None,
            consoles: Vec::new(),
        }
    }

    pub(crate) fn took(&mut self, time: Duration) {
        self.seconds = (time.as_secs_f64() * 10.0).round() / 10.0;
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let Self { scenario, kernel, seconds, .. } = self;
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        for Figure { name, value, unit } in &self.figures {
            println!("    {name:width$}  {value:>10.3} {unit}");
        }
        match &self.error {
            None => println!("lab: {scenario} on {kernel}: passed in {seconds} s"),
            Some(error) => {
                println!("lab: {scenario} on {kernel}: FAILED after {seconds} s\n    {error}");
                self.consoles.iter().for_each(|path| println!("    console: {}", path.display()));
            }
        }
        Ok(())
    }
}
