//! Choice between two formats of metrics: OpenMetrics, or the text format 0.0.4 of Prometheus, which every
//! scraper can read.

use std::collections::HashSet;
use std::fmt::Write;

/// Returns whether a client with this Accept field is sent OpenMetrics: if it names that, or takes anything
/// and no text before that, as browsers do. A client without the field takes anything.
pub(super) fn takes_openmetrics(accept: Option<&str>) -> bool {
    let is_refused = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse() == Ok(0.0)
    };
    let (mut is_named, mut takes_text) = (false, false);
    for range in accept.unwrap_or_default().split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        if !parts.any(is_refused) {
            is_named |= media_type == "application/openmetrics-text";
            takes_text |= media_type.starts_with("text/");
        }
    }
    is_named || !takes_text
}

/// Converts to the text format 0.0.4, which names counters as their samples.
pub(super) fn as_plain(openmetrics: &str) -> String {
    let of_type = |line: &'_ str| -> Option<String> {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        (kind == "counter").then(|| name.to_owned())
    };
    let counters: HashSet<String> = openmetrics.lines().filter_map(of_type).collect();
    let mut plain = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        let described =
            ["# HELP ", "# TYPE "].iter().find_map(|word| Some((*word, line.strip_prefix(*word)?)));
        let renamed = described.and_then(|(word, rest)| {
            let (name, rest) = rest.split_once(' ')?;
            counters.contains(name).then_some((word, name, rest))
        });
        // A string takes every text.
        let _ = match renamed {
            Some((word, name, rest)) => writeln!(plain, "{word}{name}_total {rest}"),
            None if line == "# EOF" || line.starts_with("# UNIT ") => Ok(()),
            None => writeln!(plain, "{line}"),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_who_names_it_or_takes_anything_without_saying() {
        for (accept, openmetrics) in [
            (None, true),
            (Some("application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"), true),
            (Some("text/plain;version=0.0.4"), false),
            (Some("*/*"), true),
            (Some("text/html,application/xhtml+xml,*/*;q=0.8"), false),
            (Some("application/openmetrics-text;q=0, text/plain"), false),
        ] {
            assert_eq!(takes_openmetrics(accept), openmetrics, "{accept:?}");
        }
    }

    #[test]
    fn the_plain_text_names_counters_as_their_samples() {
        let openmetrics = "# HELP a What.\n# TYPE a counter\n# UNIT a bytes\na_total{x=\"1\"} 5\n# HELP b How many.\n\
                           # TYPE b gauge\nb 1\n# EOF\n";
        let plain = "# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"1\"} 5\n# HELP b How many.\n# TYPE b gauge\nb 1\n";
        assert_eq!(as_plain(openmetrics), plain);
    }
}
