//! Troubles that services report of their sites as time goes on, and renewal of what the server made for
//! them.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Serving;
use crate::logs;

impl Serving {
    /// Reports the present troubles of sites. `is_told`: the log has it already, as after a start or reload.
    pub(super) fn look_at_sites(&mut self, is_told: bool) {
        let now = SystemTime::now();
        let of_sites = self.sites.iter().flatten().flat_map(|site| site.troubles(now));
        let troubles: Vec<_> = of_sites.chain(self.config_troubles.iter().cloned()).collect();
        if troubles == self.site_troubles {
            return;
        }
        let health = &self.subject.health;
        let lasts = |subject: &str| troubles.iter().any(|(lasting, _)| lasting == subject);
        for (subject, _) in self.site_troubles.iter().filter(|(subject, _)| !lasts(subject)) {
            health.clear(subject);
        }
        for (subject, told) in troubles.iter().filter(|trouble| !self.site_troubles.contains(trouble)) {
            health.note(subject, text_of(subject, told));
            if !is_told {
                logs::warn(told);
            }
        }
        self.site_troubles = troubles;
    }

    /// Renews what the server made for services, such as a certificate, where it does not hold at this time.
    ///
    /// The time is the clock's, which may be set while the server runs.
    pub(super) fn renew(&mut self) {
        let now = SystemTime::now();
        let is_early = self.renewed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE);
        if is_early
            || self.reloading.is_some()
            || !self.sites.iter().flatten().any(|site| site.is_outdated(now))
        {
            return;
        }
        self.renewed = Some(Instant::now());
        if let Err(problem) = self.take_over(self.config.clone()) {
            //@ cause: The clock has left the time for which the self-signed certificate was made, and another cannot be made now.
            //@ remedy: Mend what the line says, mostly the disk or the rights of the state directory. It is tried again each minute.
            tracing::error!(
                "certificate: the self-signed one does not hold at this time and cannot be replaced: {problem}; clients may refuse it; it \
                 is tried again each minute [certificate-not-replaced]"
            );
        }
    }
}

/// Returns a line of the log for `/health`, without its subject and the message's name.
fn text_of<'a>(subject: &str, told: &'a str) -> &'a str {
    let behind_subject = told.strip_prefix(subject).and_then(|rest| rest.strip_prefix(": "));
    // That of the log may be less: one of the log may have several in `/health`.
    let behind_part =
        || told.split_once(": ").filter(|(part, _)| subject.starts_with(part)).map(|(_, text)| text);
    let text = behind_subject.or_else(behind_part).unwrap_or(told);
    logs::without_name(text)
}

/// Time between two attempts to renew.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_told_without_its_subject_and_name() {
        assert_eq!(text_of("certificate /a: b", "certificate /a: b: it ended [x]"), "it ended");
        assert_eq!(text_of("volume a, AFS", "volume a: it is read-only [y]"), "it is read-only");
        assert_eq!(text_of("other", "certificate: it ended"), "certificate: it ended");
    }
}
