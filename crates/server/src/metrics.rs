//! Register of all lanes' counters, and its Prometheus text. Lanes write their blocks; this side reads them
//! on request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use lane::counters::{CounterBlock, CounterKind, Reading};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::process;

/// Register where lanes add their counter blocks.
#[derive(Clone, Default)]
pub struct Blocks {
    blocks: Arc<Mutex<Vec<Block>>>,
}

/// Counter block with its area and lane.
#[derive(Clone)]
struct Block {
    area: &'static str,
    lane: Option<LaneLabels>,
    counters: Arc<dyn CounterBlock>,
}

/// Value of a counter with its area and lane.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Area of the counters: `lane`, `http`, `vfs`.
    pub area: &'static str,
    /// Labels of the lane; `None` for what the process has once, such as a log.
    pub lane: Option<LaneLabels>,
    /// Reading of the counter.
    pub reading: Reading,
}

/// Labels of a lane: its number and silo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLabels {
    /// Number of the lane.
    pub lane: u16,
    /// Number of the lane's silo.
    pub silo: u16,
}

impl Blocks {
    /// Adds a block of `area`, such as `http`.
    pub fn add(&self, area: &'static str, lane: u16, silo: u16, counters: Arc<dyn CounterBlock>) {
        self.lock().push(Block { area, lane: Some(LaneLabels { lane, silo }), counters });
    }

    /// Adds a block of `area` that belongs to no lane.
    pub fn add_of_process(&self, area: &'static str, counters: Arc<dyn CounterBlock>) {
        self.lock().push(Block { area, lane: None, counters });
    }

    /// Returns every counter of every block with its present value.
    pub fn samples(&self) -> Vec<Sample> {
        let blocks = self.lock().clone();
        let mut samples = Vec::new();
        for Block { area, lane, counters } in blocks {
            counters.visit(&mut |reading| samples.push(Sample { area, lane, reading }));
        }
        samples
    }

    /// Returns the Prometheus text (OpenMetrics 1.0).
    ///
    /// # Errors
    /// Only when writing to a string fails.
    pub fn prometheus(&self) -> Result<String, fmt::Error> {
        self.text(Registry::default())
    }

    /// Returns the Prometheus text with the metrics of `other`.
    ///
    /// # Errors
    /// As [`Blocks::prometheus`].
    pub(crate) fn prometheus_with(&self, other: Box<dyn Collector>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(other);
        self.text(registry)
    }

    fn text(&self, mut registry: Registry) -> Result<String, fmt::Error> {
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().expect("nothing panics while it holds the register")
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({})", self.lock().len())
    }
}

impl Collector for Blocks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families: BTreeMap<(&str, &str), Vec<Sample>> = BTreeMap::new();
        for sample in self.samples() {
            families.entry((sample.area, sample.reading.name)).or_default().push(sample);
        }
        for ((area, name), samples) in families {
            encode_family(&mut encoder, &format!("linerate_{area}_{name}"), &samples)?;
        }
        encode_process(&mut encoder)
    }
}

fn encode_family(encoder: &mut DescriptorEncoder<'_>, name: &str, samples: &[Sample]) -> fmt::Result {
    let first = &samples[0].reading;
    let kind = match first.kind {
        CounterKind::Count => MetricType::Counter,
        CounterKind::Gauge => MetricType::Gauge,
    };
    let help = first.help.trim_end_matches('.');
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for Sample { lane, reading, .. } in samples {
        let lane = lane.map(|LaneLabels { lane, silo }| (lane.to_string(), silo.to_string()));
        let mut labels = Vec::new();
        if let Some((lane, silo)) = &lane {
            labels.extend([("lane", lane.as_str()), ("silo", silo.as_str())]);
        }
        labels.extend(reading.label);
        if labels.is_empty() {
            return encode_value(family, reading);
        }
        encode_value(family.encode_family(&labels)?, reading)?;
    }
    Ok(())
}

fn encode_value(encoder: MetricEncoder<'_>, reading: &Reading) -> fmt::Result {
    match reading.kind {
        CounterKind::Count => ConstCounter::new(reading.value).encode(encoder),
        // Gauges are levels of things that fit in memory.
        CounterKind::Gauge => ConstGauge::new(reading.value.cast_signed()).encode(encoder),
    }
}

fn encode_process(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Ok(usage) = process::Usage::read() else { return Ok(()) };
    let mut counter = |name: &str, help: &str, value: f64| {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    };
    counter("process_cpu_seconds", "CPU time of the whole process", usage.cpu_seconds)?;
    counter("process_context_switches", "Context switches of all threads", usage.context_switches as f64)?;
    let metric = encoder.encode_descriptor(
        "process_resident_memory_bytes",
        "Resident memory",
        None,
        MetricType::Gauge,
    )?;
    ConstGauge::new(usage.resident_bytes.cast_signed()).encode(metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    lane::counter_block! {
        struct TestCounters {
            count requests: "Requests.",
            gauge open: "Open.",
            count refused_a as refused [reason = "a"]: "Refused.",
            count refused_b as refused [reason = "b"]: "Refused.",
        }
    }

    #[test]
    fn every_lane_and_reason_is_a_line_of_its_own() {
        let blocks = Blocks::default();
        for lane in 0..2 {
            let counters = Arc::new(TestCounters::default());
            counters.requests.add(10 + u64::from(lane));
            counters.refused_b.add(3);
            counters.open.set(5);
            blocks.add("test", lane, 0, counters);
        }
        let of_process = Arc::new(TestCounters::default());
        of_process.requests.add(7);
        of_process.refused_a.add(2);
        blocks.add_of_process("once", of_process);
        let text = blocks.prometheus().unwrap();
        for line in [
            r#"linerate_test_requests_total{lane="0",silo="0"} 10"#,
            r#"linerate_test_requests_total{lane="1",silo="0"} 11"#,
            r#"linerate_test_refused_total{lane="1",silo="0",reason="b"} 3"#,
            r#"linerate_test_open{lane="0",silo="0"} 5"#,
            "# TYPE linerate_test_open gauge",
            "linerate_once_requests_total 7",
            r#"linerate_once_refused_total{reason="a"} 2"#,
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
