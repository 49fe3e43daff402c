//! Limit on connections by the process's descriptors: each needs one, and so does each file that is kept
//! open.

use rustix::process::{Resource, getrlimit};
use service::ConnectionsMax;
use vfs::CacheOptions;

use crate::config::Config;

/// Numbers that fit below the limit of open files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Connections of each lane, by service; at most as configured.
    pub(crate) connections_per_lane: Vec<usize>,
    /// Descriptors that clients may have the process hold open together: connections, opens, transfers,
    /// locks.
    pub(crate) for_clients: usize,
    /// Warnings for the administrator where fewer fit than configured.
    pub(crate) warnings: Vec<String>,
}

/// Returns the numbers that fit after the soft limit is raised to the hard one, as every start does.
pub(crate) fn fit(config: &Config, lanes: usize) -> Fit {
    let descriptors = getrlimit(Resource::Nofile).maximum;
    let descriptors = descriptors.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let none = ConnectionsMax { key: "", per_lane: 0 };
    let wanted =
        config.wishes.iter().map(|wish| wish.settings.as_ref().map_or(none, |all| all.connections()));
    // A lane has its sockets twice: its own descriptors and the control thread's.
    let own_per_lane = OWN_PER_LANE + config.volumes.len() + 2 * config.sockets().len();
    fit_below(&wanted.collect::<Vec<_>>(), own_per_lane, lanes, descriptors)
}

fn fit_below(wanted: &[ConnectionsMax], own_per_lane: usize, lanes: usize, descriptors: usize) -> Fit {
    let all: usize = wanted.iter().map(|wanted| wanted.per_lane).sum();
    let own = OWN + ADMIN.min(descriptors / ADMIN_DIVISOR) + lanes * own_per_lane;
    let rest = descriptors.saturating_sub(own);
    // Files give way first, as the server can open them again; but without any it could answer no client.
    let files = (lanes * CacheOptions::default().open_files_max).min(rest / 4);
    let fitting = (rest - files) / lanes.max(1);
    let for_clients = (rest - files).max(lanes * wanted.len() * CONNECTIONS_MIN);
    if all <= fitting.max(CONNECTIONS_MIN) {
        let connections_per_lane = wanted.iter().map(|wanted| wanted.per_lane).collect();
        return Fit { connections_per_lane, for_clients, warnings: Vec::new() };
    }
    let needed = own + lanes * (all + all / 3 + 1);
    let share = |wanted: usize| (fitting as u128 * wanted as u128 / all as u128) as usize;
    let (mut connections_per_lane, mut short) = (Vec::new(), Vec::new());
    for ConnectionsMax { key, per_lane } in wanted {
        let fitting = share(*per_lane).max(CONNECTIONS_MIN).min(*per_lane);
        connections_per_lane.push(fitting);
        if fitting < *per_lane {
            short.push(format!("{key} {fitting} instead of {per_lane}"));
        }
    }
    let warning = (!short.is_empty()).then(|| {
        //@ level: WARN
        //@ cause: The hard limit of open files of the process is lower than the configured connections need.
        //@ remedy: Allow as many open files as the line says, by `LimitNOFILE=` of systemd or `ulimit -Hn`, or lower these keys.
        format!(
            "open files: the process may have {descriptors} only, so {} fewer connections: {}; allow {needed} open files \
             (LimitNOFILE=, ulimit -Hn) or lower these limits [open-files-short]",
            if lanes == 1 { "the lane takes".to_owned() } else { format!("each of {lanes} lanes takes") },
            short.join(", ")
        )
    });
    Fit { connections_per_lane, for_clients, warnings: warning.into_iter().collect() }
}

/// Descriptors of the process itself: standard streams, logs, signals, helpers.
const OWN: usize = 48;
/// Descriptors of the admin address: all its connections, where these are no great part of what the process
/// may have.
const ADMIN: usize = crate::admin::CONNECTIONS_MAX;
const ADMIN_DIVISOR: usize = 16;
/// Descriptors of a lane itself: ring, wakers, change notification, and what a handshake or a probe holds for
/// a moment.
const OWN_PER_LANE: usize = 16;
/// Connections of each lane even without enough descriptors, in which case accepting pauses.
const CONNECTIONS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionsMax = ConnectionsMax { key: "http.limits.connections_per_lane", per_lane: 16_384 };

    #[test]
    fn connections_leave_descriptors_for_files_and_a_limit_that_does_not_fit_is_told() {
        let fit = |lanes, descriptors| fit_below(&[ONE], 21, lanes, descriptors);
        let wide = fit(2, 1 << 20);
        assert_eq!((&*wide.connections_per_lane, wide.warnings.len()), (&[16_384][..], 0));
        // What the server needs itself, and files that it can open again, are no client's.
        assert!(wide.for_clients > (1 << 20) - 10_000 && wide.for_clients < (1 << 20) - 8192, "{wide:?}");
        let narrow = fit(2, 1024);
        assert!((300..400).contains(&narrow.connections_per_lane[0]), "{narrow:?}");
        let warning = &narrow.warnings[0];
        assert!(warning.contains("instead of 16384") && warning.contains("may have 1024 only"), "{warning}");
        assert_eq!(fit(64, 100).connections_per_lane, [CONNECTIONS_MIN]);
        // What the warning asks for is enough.
        let needed = warning.split("allow ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(fit(2, needed).warnings, [""; 0]);
    }

    #[test]
    fn services_share_what_fits_by_what_they_want_and_one_without_descriptors_takes_none() {
        let other = ConnectionsMax { key: "smb.connections_per_lane", per_lane: 16_384 / 3 };
        let datagrams = ConnectionsMax { key: "", per_lane: 0 };
        let Fit { connections_per_lane, warnings, .. } = fit_below(&[ONE, datagrams, other], 25, 2, 4096);
        let [web, none, files] = connections_per_lane[..] else { panic!("one for each service") };
        assert_eq!(none, 0);
        assert!(web / 3 >= files && web / 3 <= files + 2 && web + files <= 2048 - 25, "{web} and {files}");
        let [warning] = &warnings[..] else { panic!("one cause, one line: {warnings:?}") };
        for told in
            [format!("{} {web} instead of 16384", ONE.key), format!("{} {files} instead of 5461", other.key)]
        {
            assert!(warning.contains(&told), "{warning}");
        }
    }
}
