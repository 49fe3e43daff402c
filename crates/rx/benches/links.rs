//! Bench of simulated links (`cargo bench -p rx --bench links`): what one call reaches, one JSON line for
//! each link and congestion controller. Virtual time and fixed seeds: the same figures on every machine.

#![allow(dead_code, reason = "the tests of the simulator use the rest of it")]

#[path = "../tests/all/sim"]
mod sim {
    pub(crate) mod bulk;
    pub(crate) mod host;
    pub(crate) mod ideal;
    pub(crate) mod network;
    pub(crate) mod pattern;
    pub(crate) mod rivals;
    pub(crate) mod scenario;
    pub(crate) mod socket_buffer;
    pub(crate) mod wiretap;
    pub(crate) mod world;
}

use rx::congestion::Algorithm;
use serde_json::json;
use sim::{bulk, rivals};

fn main() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let path = bulk::wide_path(congestion);
        let share = path.bits_per_second / path.link_bits_per_second;
        let line = json!({
            "load": "simulated: one call, 10 Gb/s, 10 ms",
            "controller": format!("{congestion:?}"),
            "gbit_per_second": rounded(path.bits_per_second / 1e9),
            "share_of_link": rounded(share),
            "wanted_share_of_link": LINK_SHARE_LEAST,
            "reached": share >= LINK_SHARE_LEAST,
        });
        println!("{line}");
    }
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let path = bulk::lossy_path(congestion);
        let ratio = path.packets_per_second / path.ideal_packets_per_second;
        let spurious = path.wire.spurious as f64 / path.wire.resent as f64;
        let line = json!({
            "load": "simulated: one call, 1 % random loss, 10 ms",
            "controller": format!("{congestion:?}"),
            "packets_per_second": rounded(path.packets_per_second),
            "model_packets_per_second": rounded(path.ideal_packets_per_second),
            "ratio": rounded(ratio),
            "resends": path.wire.resent,
            "resends_spurious": path.wire.spurious,
            "wanted_ratio": [1.0 - MODEL_MARGIN, 1.0 + MODEL_MARGIN],
            "wanted_spurious_share_below": SPURIOUS_SHARE_BELOW,
            "reached": (ratio - 1.0).abs() <= MODEL_MARGIN && spurious < SPURIOUS_SHARE_BELOW,
        });
        println!("{line}");
    }
    for queue in bulk::SHALLOW_QUEUES {
        for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
            let path = bulk::shallow_path(congestion, queue);
            let wanted = queue.wanted_share(congestion);
            let spurious = path.wire.spurious as f64 / path.wire.resent.max(1) as f64;
            let (rtt, queue) = (queue.rtt_ms, queue.queue_bytes);
            let line = json!({
                "load": format!("simulated: one call, 100 Mb/s, {rtt} ms, queue of {queue} bytes"),
                "controller": format!("{congestion:?}"),
                "share_of_link": rounded(path.share),
                "model_share_of_link": rounded(path.ideal_share),
                "resends": path.wire.resent,
                "resends_spurious": path.wire.spurious,
                "wanted_share_of_link": wanted,
                "wanted_spurious_share_below": SPURIOUS_SHARE_BELOW,
                "reached": path.share >= wanted && spurious < SPURIOUS_SHARE_BELOW,
            });
            println!("{line}");
        }
    }
    for congestion in [Algorithm::Auto, Algorithm::Bbr, Algorithm::NewReno] {
        for rtt_ms in [10, 40] {
            let path = rivals::random_loss(bulk::ms(rtt_ms));
            let got = rivals::shares(&mut rivals::compete(&[congestion], &path, 1), &path)[0];
            let wanted = (congestion == Algorithm::Auto).then_some(LOSSY_MBIT_LEAST);
            let line = json!({
                "load": format!("simulated: one call, 1 Gb/s, 1 % random loss, {rtt_ms} ms"),
                "controller": format!("{congestion:?}"),
                "mbit_per_second": rounded(got / 1e6),
                "wanted_mbit_per_second": wanted,
                "reached": wanted.is_none_or(|least| got >= least * 1e6),
            });
            println!("{line}");
        }
    }
    for (queue, ours) in
        [0.25, 1.0, 4.0].into_iter().flat_map(|queue| [(queue, Algorithm::Auto), (queue, Algorithm::Bbr)])
    {
        for rival in [Algorithm::NewReno, Algorithm::Cubic] {
            let [share, rivals_share] = rivals::mean_shares([ours, rival], &rivals::shared_link(queue));
            let wanted =
                (ours == Algorithm::Auto).then_some([1.0 - RIVAL_MARGIN, 1.0 / (1.0 - RIVAL_MARGIN)]);
            let ratio = share / rivals_share;
            let line = json!({
                "load": format!("simulated: two calls, 50 Mb/s, 20 ms, queue of {queue} paths"),
                "controller": format!("{ours:?}"),
                "rival": format!("{rival:?}"),
                "share_of_link": rounded(share),
                "rivals_share_of_link": rounded(rivals_share),
                "ratio": rounded(ratio),
                "wanted_ratio": wanted,
                "reached": wanted.is_none_or(|[least, most]| (least..=most).contains(&ratio)),
            });
            println!("{line}");
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

const LINK_SHARE_LEAST: f64 = 0.9;
const MODEL_MARGIN: f64 = 0.1;
const SPURIOUS_SHARE_BELOW: f64 = 0.01;
const LOSSY_MBIT_LEAST: f64 = 100.0;
const RIVAL_MARGIN: f64 = 0.2;
