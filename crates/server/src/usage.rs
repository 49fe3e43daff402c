//! Usage and quotas of volumes at the admin address: as metrics, and in `/health` while unknown.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::logs::counted;
use crate::volumes::{UsageShown, UsageState, VolumeShown};

/// Gauges of every writable volume that is counted.
#[derive(Debug)]
pub(crate) struct UsageGauges(pub(crate) Vec<VolumeShown>);

/// Gauge of volumes: its name, its help, and its value for a volume.
type Gauge = (&'static str, &'static str, fn(&UsageShown) -> Option<u64>);

impl Collector for UsageGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let writable = self.0.iter().filter(|volume| volume.writable);
        let counted: Vec<_> =
            writable.filter_map(|volume| Some((volume.name.as_str(), volume.usage.as_ref()?))).collect();
        for (name, help, read) in GAUGES {
            let values: Vec<_> =
                counted.iter().filter_map(|(volume, usage)| Some((volume, read(usage)?))).collect();
            if values.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (volume, value) in values {
                let gauge = ConstGauge::new(value.cast_signed());
                gauge.encode(family.encode_family(&[("volume", *volume)])?)?;
            }
        }
        Ok(())
    }
}

/// Returns why a volume's quota is not enforced yet, in words for the administrator; `None` where it is.
pub(crate) fn trouble(volume: &VolumeShown) -> Option<String> {
    let usage = volume.usage.as_ref().filter(|_| volume.writable)?;
    let (UsageShown { files, bytes, .. }, kept) =
        (usage, "until then nothing limits it beyond what was seen");
    match usage.state {
        UsageState::Counted | UsageState::Earlier => None,
        UsageState::Counting { directories } => Some(format!(
            "what is in it is being counted, {}, {} and {} by now; {kept}",
            counted(directories, "directory", "directories"),
            counted(*files, "file", "files"),
            counted(*bytes, "byte", "bytes")
        )),
        UsageState::InDoubt => Some(format!("what is in it is to be counted anew; {kept}")),
    }
}

const GAUGES: [Gauge; 5] = [
    ("linerate_volume_used_bytes", "Lengths of the files of a volume", |usage| Some(usage.bytes)),
    ("linerate_volume_used_files", "Files, directories and links of a volume", |usage| Some(usage.files)),
    ("linerate_volume_quota_bytes", "What the files of a volume may be long together", |usage| {
        usage.quota_bytes
    }),
    ("linerate_volume_quota_files", "Files, directories and links that there may be in a volume", |usage| {
        usage.quota_files
    }),
    ("linerate_volume_counted", "1 where all of a volume is counted, 0 while it is not", |usage| {
        Some((usage.state == UsageState::Counted).into())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Blocks;

    fn volume(usage: Option<UsageShown>) -> VolumeShown {
        VolumeShown {
            name: "home".into(),
            id: 7,
            path: "/srv".into(),
            created: 0,
            generation: 1,
            served: true,
            writable: true,
            trouble: None,
            usage,
        }
    }

    #[test]
    fn a_volume_shows_what_it_holds_and_only_the_limits_that_it_has() {
        let usage = |state| UsageShown { bytes: 5, files: 2, quota_bytes: Some(9), quota_files: None, state };
        let text = |volume: VolumeShown| {
            Blocks::default().prometheus_with(Box::new(UsageGauges(vec![volume]))).unwrap()
        };
        let counted = text(volume(Some(usage(UsageState::Counted))));
        for line in
            ["used_bytes{volume=\"home\"} 5", "quota_bytes{volume=\"home\"} 9", "counted{volume=\"home\"} 1"]
        {
            assert!(counted.contains(&format!("linerate_volume_{line}\n")), "{counted}");
        }
        assert!(!counted.contains("quota_files"), "{counted}");
        assert!(!text(volume(None)).contains("linerate_volume"));
        let counting = volume(Some(usage(UsageState::Counting { directories: 3 })));
        assert!(trouble(&counting).unwrap().starts_with("what is in it is being counted, 3 directories"));
        assert!(text(counting).contains("linerate_volume_counted{volume=\"home\"} 0\n"));
        assert_eq!(trouble(&volume(Some(usage(UsageState::Counted)))), None);
    }
}
