//! How many connections the process has descriptors for: each needs one, and so does each file that is kept open.

use rustix::process::{Resource, getrlimit};
use vfs::CacheOptions;

use crate::config::Config;

/// What fits below the limit of open files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Connections of each lane; at most what is configured.
    pub(crate) connections_per_lane: usize,
    /// What the administrator should know when it is less.
    pub(crate) warning: Option<String>,
}

/// What fits, once the soft limit is raised to the hard one as every start does.
pub(crate) fn fit(config: &Config, lanes: usize) -> Fit {
    let descriptors = getrlimit(Resource::Nofile).maximum;
    fit_below(config, lanes, descriptors.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)))
}

fn fit_below(config: &Config, lanes: usize, descriptors: usize) -> Fit {
    let wanted = config.limits.connections_per_lane;
    let listeners = config.http.listen.len() + config.https.listen.len();
    // A lane has its listeners twice: its own descriptors and the control thread's.
    let own = OWN + lanes * (OWN_PER_LANE + config.volumes.len() + 2 * listeners);
    let rest = descriptors.saturating_sub(own);
    // Files give way first, as the server can open them again; but without any it could answer nobody.
    let files = (lanes * CacheOptions::default().open_files_max).min(rest / 4);
    let fitting = ((rest - files) / lanes.max(1)).max(CONNECTIONS_MIN);
    if wanted <= fitting {
        return Fit { connections_per_lane: wanted, warning: None };
    }
    let needed = own + lanes * (wanted + wanted / 3 + 1);
    let warning = format!(
        "limits.connections_per_lane is {wanted}, for {lanes} lanes, but the process may have only {descriptors} open \
         files: each lane takes {fitting} connections; allow {needed} open files (LimitNOFILE=, ulimit -Hn) or lower \
         the limit"
    );
    Fit { connections_per_lane: fitting, warning: Some(warning) }
}

/// Standard streams, logs, admin address, signals, helpers.
const OWN: usize = 48;
/// Ring, wakers, change notification, what a handshake or a probe holds for a moment.
const OWN_PER_LANE: usize = 16;
/// With fewer descriptors than even these take, accepting pauses.
const CONNECTIONS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files_and_a_limit_that_does_not_fit_is_told() {
        let config = Config::for_directory(Path::new("/"));
        let wide = fit_below(&config, 2, 1 << 20);
        assert_eq!(wide, Fit { connections_per_lane: config.limits.connections_per_lane, warning: None });
        let narrow = fit_below(&config, 2, 1024);
        assert!((300..400).contains(&narrow.connections_per_lane), "{narrow:?}");
        let warning = narrow.warning.unwrap();
        assert!(warning.contains("16384") && warning.contains("1024 open files"), "{warning}");
        assert_eq!(fit_below(&config, 64, 100).connections_per_lane, CONNECTIONS_MIN);
        // What the warning asks for is enough.
        let needed = warning.split("allow ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(fit_below(&config, 2, needed).warning, None);
    }
}
