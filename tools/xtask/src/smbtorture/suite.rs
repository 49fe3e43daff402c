//! Suites, and the shares that they are run on.

use anyhow::ensure;

/// All that are run, those that take longest first. `@SHARE`: on that share, which the tests ask for. Left out are
/// `scan` (brute force), `hold-oplock`, `hold-sharemode` and `check-sharemode` (they wait for a person), and those
/// that want a server or a file made for them: `twrp`, `change_notify_disabled`, `session-require-signing`,
/// `create_no_streams`, `set-sparse-ioctl`, `zero-data-ioctl`, `timestamp_resolution`, `kernel-oplocks`, `samba3misc`.
pub(crate) const ALL: &[&str] = &[
    "replay",
    "lease",
    "multichannel",
    "oplock",
    "dirlease",
    "notify",
    "durable-v2-open",
    "durable-open",
    "session",
    "session@enc",
    "maxfid",
    "timestamps",
    "bench",
    "dir",
    "lock",
    "sharemode",
    "deny",
    "rename",
    "credits",
    "ioctl",
    "ioctl@btrfs",
    "compound",
    "compound_async@slow",
    "compound_find",
    "create",
    "acls",
    "streams",
    "connect",
    "tcon",
    "read",
    "rw",
    "getinfo",
    "setinfo",
    "delete-on-close-perms",
    "durable-v2-delay",
    "durable-open-disconnect",
    "durable-v2-regressions",
    "notify-inotify",
    "fileid",
    "mkdir",
    "sdread",
    "aio_delay@slow",
    "name-mangling",
    "openattr",
    "winattr",
    "winattr2",
    "ioctl-on-stream",
    "ea@hackme",
    "dosmode",
    "async_dosmode",
    "charset",
    "session-id",
    "maximum_allowed",
    "acls_non_canonical@non_canonical",
    "stream-inherit-perms@inherit_perms",
    // It fails to sign in until the address is held off: what followed at once would be too.
    "secleak",
];

/// Tests that CI runs: suites of every part of the protocol that smbd passes and the server passes whole, and
/// that are over within two minutes or so. A suite that the server comes to pass belongs here.
pub(crate) const QUICK: &[&str] = &[
    "oplock",
    "durable-v2-open",
    "maxfid",
    "session",
    "session@enc",
    "compound_async@slow",
    "ioctl",
    "durable-v2-delay",
    "rename",
    "compound_find",
    "lock",
    "durable-open",
    "dir",
    "create",
    "acls",
    "streams",
    "compound",
    "sharemode",
    "deny",
    "credits",
    "connect",
    "tcon",
    "rw",
    "getinfo",
    "fileid",
    "mkdir",
    "maximum_allowed",
    "openattr",
    "winattr",
    "winattr2",
    "sdread",
    "ioctl-on-stream",
    "durable-open-disconnect",
    "async_dosmode",
    "dosmode",
    "charset",
    "session-id",
    "read",
    "delete-on-close-perms",
    "name-mangling",
    "notify-inotify",
    "ea@hackme",
    "acls_non_canonical@non_canonical",
    "stream-inherit-perms@inherit_perms",
    "aio_delay@slow",
    // See above: last.
    "secleak",
];

/// Shares that there are besides those of the slots.
pub(crate) const SHARES: &[&str] = &[
    "share",
    "share1",
    "share2",
    "share3",
    "slow",
    "enc",
    "hackme",
    "non_canonical",
    "hideunread",
    "inherit_perms",
    "noperm",
    "btrfs",
    DYNAMIC,
];

/// Share with another directory for each connection, by the second at which it comes.
pub(crate) const DYNAMIC: &str = "dynamic_share";

/// A suite, or one test of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    /// Name of the test as it is asked for: with its share.
    pub(crate) name: String,
    /// Name of the test as smbtorture has it: `smb2.lock` or `smb2.lock.zerobyteread`.
    path: String,
    /// The share that the suite is part of.
    share: Option<String>,
    /// Number of letters of the path that are the suite's alone.
    suite_len: usize,
}

impl Suite {
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        let name = name.strip_prefix("smb2.").unwrap_or(name);
        // `session@enc.reauth1` is a test of `session@enc`.
        let (suite, rest) = match name.split_once('@') {
            Some((suite, rest)) => (suite, Some(rest)),
            None => (name, None),
        };
        let (share, test) = match rest.map(|rest| rest.split_once('.').unwrap_or((rest, ""))) {
            Some((share, test)) => (Some(share.to_owned()), test),
            None => (None, ""),
        };
        if let Some(share) = &share {
            ensure!(SHARES.contains(&share.as_str()), "there is no share {share}");
        }
        let test = if test.is_empty() { String::new() } else { format!(".{test}") };
        let path = format!("smb2.{suite}{test}");
        let suite_len = "smb2.".len() + suite.split('.').next().unwrap_or_default().len();
        Ok(Self { name: name.to_owned(), path, share, suite_len })
    }

    /// Returns the test's share; `slot` has its own where the suite does not say.
    pub(crate) fn share(&self, slot: usize) -> String {
        match (&self.share, slot) {
            (Some(share), _) => share.clone(),
            (None, 0) => "share".to_owned(),
            (None, slot) => format!("share{slot}"),
        }
    }

    /// Returns whether a test of smbtorture's list is of it; blanks may be written as the results write them.
    pub(crate) fn has(&self, test: &str) -> bool {
        let plain = |name: &str| name.replace(' ', "_");
        let (test, path) = (plain(test), plain(&self.path));
        test.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns how the results call a test of it: with the share.
    pub(crate) fn result_name(&self, test: &str) -> String {
        let (suite, rest) = test.split_at(self.suite_len);
        let share = self.share.as_ref().map_or(String::new(), |share| format!("@{share}"));
        format!("{suite}{share}{rest}").replace(' ', "_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_of_their_suite_alone_and_are_called_by_its_share() {
        let suite = Suite::parse("session@enc").unwrap();
        assert!(suite.has("smb2.session.reauth1") && !suite.has("smb2.session-id"));
        assert_eq!(suite.result_name("smb2.session.reauth1"), "smb2.session@enc.reauth1");
        assert_eq!((suite.share(0).as_str(), suite.share(2).as_str()), ("enc", "enc"));
        let one = Suite::parse("smb2.session@enc.reauth1").unwrap();
        assert!(one.has("smb2.session.reauth1") && !one.has("smb2.session.reauth10"));
        assert_eq!(one.result_name("smb2.session.reauth1"), "smb2.session@enc.reauth1");
        let plain = Suite::parse("lock.zerobyteread").unwrap();
        assert_eq!((plain.share(0).as_str(), plain.share(1).as_str()), ("share", "share1"));
        assert_eq!(plain.result_name("smb2.lock.zerobyteread"), "smb2.lock.zerobyteread");
        assert!(Suite::parse("lock.lock_contention").unwrap().has("smb2.lock.lock contention"));
        assert_eq!(Suite::parse("connect").unwrap().result_name("smb2.connect"), "smb2.connect");
        assert!(Suite::parse("session@nowhere").is_err());
    }

    #[test]
    fn every_suite_is_in_the_baseline() {
        let baseline = super::super::baseline().unwrap();
        for name in ALL.iter().chain(QUICK) {
            let suite = Suite::parse(name).unwrap();
            let is_of = |test: &str| test.replace(&format!("@{}", suite.share(0)), "");
            assert!(baseline.iter().any(|(test, _)| suite.has(&is_of(test))), "{name}");
        }
    }
}
