//! Settings of the network stack, as numbers under `/proc/sys`.

use super::{Area, Finding, Verdict, sysctl_advice};
use crate::topology::Tree;

pub(super) fn all(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = AT_LEAST.iter().filter_map(|setting| at_least(tree, setting)).collect();
    findings.extend(migrate_requests(tree));
    findings
}

/// Setting that is a number, or the last of three (minimum, default, maximum), with a lower bound.
struct Setting {
    name: &'static str,
    least: u64,
    why: &'static str,
}

const AT_LEAST: [Setting; 5] = [
    Setting {
        name: "net.core.somaxconn",
        least: 4096,
        why: "a burst of connections overflows the accept queue",
    },
    Setting {
        name: "net.core.rmem_max",
        least: 16 << 20,
        why: "an Rx socket that is read in batches drops packets between two reads (not so with CAP_NET_ADMIN)",
    },
    Setting {
        name: "net.core.wmem_max",
        least: 4 << 20,
        why: "a burst of Rx packets does not fit the socket (not so with CAP_NET_ADMIN)",
    },
    Setting {
        name: "net.ipv4.tcp_wmem",
        least: 16 << 20,
        why: "one connection cannot fill 10 Gb/s over 10 ms, which has 12.5 MB in flight",
    },
    Setting { name: "net.ipv4.tcp_rmem", least: 6 << 20, why: "an upload cannot fill a long fast path" },
];

fn at_least(tree: &Tree, setting: &Setting) -> Option<Finding> {
    let text = tree.text(&format!("proc/sys/{}", setting.name.replace('.', "/")))?;
    let numbers: Vec<&str> = text.split_whitespace().collect();
    let found: u64 = numbers.last()?.parse().ok()?;
    // Of three numbers only the last is advised to change.
    let (first, least) = (&numbers[..numbers.len() - 1], setting.least.to_string());
    let value = first.iter().copied().chain([least.as_str()]).collect::<Vec<_>>().join(" ");
    let advice = format!("{}; {}", sysctl_advice(setting.name, value), setting.why);
    let finding =
        Finding::new(Area::Network, setting.name, found.to_string(), format!(">= {}", setting.least));
    Some(finding.unless(found >= setting.least, Verdict::Warn, advice))
}

/// Checks whether connections that wait in a listener that closes move to another of its group (kernel 5.14).
fn migrate_requests(tree: &Tree) -> Option<Finding> {
    let name = "net.ipv4.tcp_migrate_req";
    let found = tree.text("proc/sys/net/ipv4/tcp_migrate_req")?;
    let advice =
        format!("{}; connections that wait in a lane that stops are reset otherwise", sysctl_advice(name, 1));
    let holds = found == "1";
    Some(Finding::new(Area::Network, name, found, "1").unless(holds, Verdict::Warn, advice))
}
