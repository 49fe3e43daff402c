//! Users that may change what a server exports, reported at the start with what an operator may not have
//! meant.

use std::path::Path;

use identity::{Accounts, Writable};
use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, accessat, statvfs};
use service::volumes::VolumeSection;

use crate::config::Config;

/// Returns a line for each volume that some user may write to. `troubles` keep those of these names from
/// being written to all the same. `by_mode`: where there is no list, mode bits count.
pub(crate) fn told(volumes: &[VolumeSection], troubles: &[(String, String)], by_mode: bool) -> Vec<String> {
    let listed = if by_mode { "whom access lists or mode bits let" } else { "whom access lists let" };
    let of = |volume: &VolumeSection| {
        let path = volume.path.display();
        // What was not asked for is not missed.
        if volume.writable == Writable::Nobody {
            return None;
        }
        if let Some((_, trouble)) = troubles.iter().find(|(name, _)| name == volume.name.as_str()) {
            return Some(format!("{path} is read-only, though the configuration says otherwise: {trouble}"));
        }
        let who = match &volume.writable {
            Writable::Nobody => return None,
            Writable::AsListed => listed.to_owned(),
            everybody if is_everybody(everybody) => {
                "everybody who reaches the address, without saying who he is".to_owned()
            }
            some => format!("{}, and {listed}", some.to_string().replace(',', ", ")),
        };
        Some(format!("{path} may be written to by {who}"))
    };
    volumes.iter().filter_map(of).collect()
}

/// Returns warnings about writable volumes for the administrator. `is_trial`: a configuration is only
/// checked, and no other report says what prevents writing.
pub(crate) fn warnings(config: &Config, is_trial: bool) -> Vec<String> {
    let is_reached = config.sockets().iter().any(|(_, wanted)| !wanted.address.ip().is_loopback());
    let of = |volume: &VolumeSection| {
        let name = &volume.name;
        let mut warnings = Vec::new();
        if volume.writable == Writable::Nobody {
            return warnings;
        }
        if is_reached && is_everybody(&volume.writable) {
            //@ level: WARN
            //@ cause: The volume is writable by `anyone`, and the server listens at an address that other machines reach.
            //@ remedy: Where that is not meant, name users and groups in `writable`, or listen at 127.0.0.1.
            warnings.push(format!(
                "volume {name}: everybody who reaches this machine may write to it without a password; name users and groups \
                 (writable) where that is not meant [volume-open-to-all]"
            ));
        }
        let hindrance = is_trial.then(|| hindrance(&volume.path)).flatten();
        warnings.extend(hindrance.map(|why| format!("volume {name}: {why}")));
        warnings
    };
    config.volumes.iter().flat_map(of).collect()
}

/// Returns writers that the configuration names and no account has: the subject in `/health`, and the line of
/// the log.
pub(crate) fn unknown(config: &Config, accounts: &Accounts) -> Vec<(String, String)> {
    let of = |volume: &VolumeSection| {
        let name = &volume.name;
        let unknown = volume.writable.named().filter(|who| accounts.id_of(who).is_none());
        let told = unknown.map(|unknown| {
            //@ level: WARN
            //@ cause: `writable` names a user or group that the accounts do not have.
            //@ remedy: Add it by `linerate user add` or `linerate group add`, or correct the name. A reload reads both again.
            let told = format!(
                "volume {name}: there is no user or group {unknown}, so nobody may write by that name; add it by `linerate user add` \
                 or correct the name [volume-writer-unknown]"
            );
            (format!("volume {name}, writer {unknown}"), told)
        });
        told.collect::<Vec<_>>()
    };
    config.volumes.iter().flat_map(of).collect()
}

fn is_everybody(writable: &Writable) -> bool {
    writable.named().any(|who| who.to_string() == ANYBODY)
}

/// Returns what prevents the server itself from writing to a directory now.
pub(crate) fn hindrance(directory: &Path) -> Option<String> {
    let path = directory.display();
    if statvfs(directory).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        //@ level: WARN
        //@ subject: volume {name}:
        //@ cause: The volume is writable by its configuration, and its file system is mounted read-only.
        //@ remedy: Remount it (`mount -o remount,rw`), or leave `writable` away.
        return Some(format!(
            "nobody can write to it: the file system of {path} is mounted read-only; remount it, or leave writable away \
             [volume-mounted-read-only]"
        ));
    }
    let may = accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    //@ level: WARN
    //@ subject: volume {name}:
    //@ cause: The volume is writable by its configuration, and the user that the server runs as may not write to its directory.
    //@ remedy: Let that user write to the directory (`chown`, `chmod`), or run the server as another one.
    may.err().map(|error| {
        format!(
            "the server's user may not write to {path}: {error}; clients cannot either; change the directory's owner or mode \
             [volume-not-permitted]"
        )
    })
}

/// Name of the group that every client is in, signed in or not.
const ANYBODY: &str = "system:anyuser";

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(path: &Path, writable: &str) -> VolumeSection {
        let section = VolumeSection::new("pub".parse().unwrap(), path.to_owned());
        VolumeSection { writable: writable.parse().unwrap(), ..section }
    }

    #[test]
    fn who_may_write_is_told_for_each_volume_that_somebody_may_write_to() {
        let of = |writable: &str| told(&[volume(Path::new("/srv"), writable)], &[], false).pop();
        let by_mode = |writable: &str| told(&[volume(Path::new("/srv"), writable)], &[], true).pop().unwrap();
        assert_eq!(by_mode("listed"), "/srv may be written to by whom access lists or mode bits let");
        let alice = "/srv may be written to by alice, and whom access lists or mode bits let";
        assert_eq!(by_mode("alice"), alice);
        assert_eq!(of("nobody"), None);
        assert_eq!(of("listed").unwrap(), "/srv may be written to by whom access lists let");
        assert!(of("anyone").unwrap().contains("everybody who reaches the address"));
        assert!(of("alice,system:anyuser").unwrap().contains("everybody who reaches the address"));
        assert_eq!(
            of("alice,staff").unwrap(),
            "/srv may be written to by alice, staff, and whom access lists let"
        );
        let troubles = ["pub", "other"].map(|name| (name.to_owned(), format!("no room in {name}")));
        assert_eq!(
            told(&[volume(Path::new("/srv"), "listed")], &troubles, true),
            ["/srv is read-only, though the configuration says otherwise: no room in pub"]
        );
        assert_eq!(
            told(&[volume(Path::new("/srv"), "nobody")], &troubles, true),
            [""; 0],
            "nobody asked for it"
        );
    }

    #[test]
    fn what_was_hardly_meant_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::none();
        let warned = |http: &str, path: &Path, writable: &str| {
            let web = http::Http::listening(Some(vec![http.parse().unwrap()]), Some(Vec::new()));
            let mut config = Config::for_directory(path, &[std::sync::Arc::new(web)]).unwrap();
            config.volumes = vec![volume(path, writable)];
            let unknown = unknown(&config, &accounts).into_iter().map(|(_, told)| told);
            unknown.chain(warnings(&config, true)).collect::<Vec<_>>()
        };
        assert_eq!(warned("0.0.0.0:80", dir.path(), "nobody"), [""; 0]);
        assert_eq!(warned("127.0.0.1:80", dir.path(), "anyone"), [""; 0]);
        let open = warned("0.0.0.0:80", dir.path(), "anyone");
        assert!(open.len() == 1 && open[0].contains("everybody who reaches this machine"), "{open:?}");
        let unknown = warned("127.0.0.1:80", dir.path(), "alice");
        assert!(unknown.len() == 1 && unknown[0].contains("no user or group alice"), "{unknown:?}");
        let gone = warned("127.0.0.1:80", &dir.path().join("none"), "listed");
        assert!(gone.len() == 1 && gone[0].contains("may not write"), "{gone:?}");
    }
}
