//! One run of h2load against a server, with the server's processor time beside it.

use anyhow::{Context, ensure};

use super::wrk::Run;
use crate::server::Subject;
use crate::{cpu, process};

/// Runs h2load with twenty connections of sixteen streams each.
pub(crate) fn run(subject: &Subject, url: &str, seconds: u32, body: u64) -> anyhow::Result<Run> {
    let before = cpu::of_tree(subject.server.pid())?;
    let args = [format!("-c{CONNECTIONS}"), format!("-m{STREAMS}"), format!("-D{seconds}"), url.to_owned()];
    let text = process::output("h2load", &args)?;
    let cpu_s = cpu::of_tree(subject.server.pid())? - before;
    // A failed answer must never pass for a fast one.
    let (done, good) = (number_before(&text, " done")?, number_before(&text, " 2xx")?);
    let bad = number_before(&text, " failed")? + number_before(&text, " errored")?;
    ensure!(done > 0.0 && good >= done && bad == 0.0, "{} at {url}:\n{text}", subject.name);
    let requests_per_second = number_before(&text, " req/s")?;
    Ok(Run {
        requests_per_second,
        gbit_per_second: requests_per_second * body as f64 * 8.0 / 1e9,
        cpu_us_per_request: cpu_s * 1e6 / done,
        cpu_s_per_gib: cpu_s / (done * body as f64 / f64::from(1 << 30)),
    })
}

/// Returns the number before the first mention of `mark`.
fn number_before(text: &str, mark: &str) -> anyhow::Result<f64> {
    let (before, _) = text.split_once(mark).with_context(|| format!("h2load printed no{mark}:\n{text}"))?;
    let number = before.rsplit([' ', ',', '\n']).next().unwrap_or_default();
    number.parse().with_context(|| format!("not a number before{mark}: {number:?}"))
}

const CONNECTIONS: u32 = 20;
const STREAMS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_h2load_is_read() {
        let text = "finished in 2.00s, 1234.50 req/s, 1.27MB/s\n\
                    requests: 2469 total, 2789 started, 2469 done, 2469 succeeded, 0 failed, 0 errored, 0 timeout\n\
                    status codes: 2500 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        let read = |mark| number_before(text, mark).unwrap();
        assert_eq!(
            (read(" req/s"), read(" done"), read(" 2xx"), read(" failed")),
            (1234.5, 2469.0, 2500.0, 0.0)
        );
    }
}
