//! Features that the kernel or a filter of system calls refuses, reported once at the start with their
//! effect.

use identity::Writable;
use lane::fs::changes_identities;
use lane::probe::HandlesLack;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags};
use rustix::io::Errno;
use service::volumes::VolumeSection;

use crate::config::Config;

/// Returns a line for each missing feature; `sends_datagrams` says that a service has a UDP socket.
pub(crate) fn warnings(lanes: usize, sends_datagrams: bool) -> Vec<String> {
    let segments = sends_datagrams && !matches!(lane::socket::gso::is_available(), Ok(true));
    watches(lanes).err().map(without_watches).into_iter().chain(segments.then(without_segments)).collect()
}

/// Returns a line for each reason why files of volumes cannot be found by the kernel's handles, for volumes
/// with lasting numbers.
pub(crate) fn without_handles(config: &Config) -> Vec<String> {
    let is_numbered = |volume: &&VolumeSection| volume.objects || volume.writable != Writable::Nobody;
    // AFS tells of those by itself, with more to it.
    let of_afs = |volume: &VolumeSection| {
        let mut wanted = config.wishes.iter().filter(|wish| wish.service.name() == AFS);
        let is_served = wanted
            .any(|wish| wish.settings.as_ref().is_some_and(|settings| settings.needs_objects(&volume.name)));
        is_served && changes_identities(&volume.path).is_ok_and(|changes| changes)
    };
    let mut lacks: Vec<(HandlesLack, Vec<String>)> = Vec::new();
    for volume in config.volumes.iter().filter(is_numbered).filter(|volume| !of_afs(volume)) {
        let Some(lack) = HandlesLack::at(&volume.path) else { continue };
        let name = volume.name.to_string();
        match lacks.iter_mut().find(|(known, _)| *known == lack) {
            Some((_, names)) => names.push(name),
            None => lacks.push((lack, vec![name])),
        }
    }
    lacks.into_iter().map(|(lack, names)| told_of_handles(lack, &names)).collect()
}

fn told_of_handles(lack: HandlesLack, names: &[String]) -> String {
    let of = if names.len() == 1 { "volume" } else { "volumes" };
    //@ level: WARN
    //@ cause: A filter of system calls refuses `name_to_handle_at` or `open_by_handle_at`, or the file system of the volumes gives no
    //@ handles. Files that clients name by numbers (AFS, durable opens of SMB) are then looked for where they were last seen.
    //@ remedy: Do what the line says. None is needed where nothing beside the server moves files of the volumes.
    format!(
        "file handles: {lack}; files of {of} {} that a client names by number alone are found only where they were last seen; {} \
         [handles-refused]",
        names.join(", "),
        lack.advice()
    )
}

/// Checks whether each lane can open a change notification (inotify), as it does once it needs one.
fn watches(lanes: usize) -> Result<(), Errno> {
    let opened: Result<Vec<OwnedFd>, _> = (0..lanes).map(|_| inotify::init(CreateFlags::CLOEXEC)).collect();
    opened.map(drop)
}

fn without_watches(error: Errno) -> String {
    let remedy = match error {
        Errno::MFILE => "raise fs.inotify.max_user_instances (sysctl)",
        _ => "allow inotify_init1(2) in the seccomp profile",
    };
    //@ level: WARN
    //@ cause: The kernel gives the server no inotify instance for each of its lanes: this user has as many as it may, or a seccomp filter
    //@ refuses the call.
    //@ remedy: Raise `fs.inotify.max_user_instances`, or allow `inotify_init1` and `inotify_add_watch` in the filter's profile. Nothing is
    //@ needed where no other program changes what is served.
    format!(
        "file changes: inotify is refused ({error}), so what other programs change is seen up to a second late, and by clients of AFS at \
         the next look by any client; {remedy} [changes-unwatched]"
    )
}

fn without_segments() -> String {
    //@ level: WARN
    //@ cause: The kernel is older than 4.18, or a filter of system calls hides UDP segmentation (GSO) from the server.
    //@ remedy: None is needed: AFS is served all the same, at less speed. For full speed run a later kernel, or allow socket options of
    //@ UDP in the seccomp profile.
    "packets: UDP segmentation (GSO) is refused, so each packet of AFS takes a share of a system call of its own and large files are sent \
     at less than full speed; use Linux 4.18 or later, or allow the socket option UDP_SEGMENT [packets-unsegmented]"
        .to_owned()
}

/// Name of the service.
const AFS: &str = "afs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_with_what_helps() {
        assert!(without_watches(Errno::MFILE).contains("raise fs.inotify.max_user_instances"));
        for error in [Errno::NOSYS, Errno::PERM] {
            let told = without_watches(error);
            assert!(told.contains("seccomp") && told.contains(&error.to_string()), "{told}");
        }
        assert!(without_segments().contains("at less than full speed"));
        for lack in [HandlesLack::Refused(Errno::NOSYS), HandlesLack::NotOpened(Errno::PERM)] {
            let told = told_of_handles(lack, &["a".to_owned(), "b".to_owned()]);
            assert!(told.contains("of volumes a, b that") && told.contains("seccomp"), "{told}");
        }
    }
}
