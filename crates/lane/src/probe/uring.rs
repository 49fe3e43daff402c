//! Support of io_uring: whether this process may have a ring, which operations the kernel knows, and reasons
//! of a refusal.

use std::fmt;
use std::io;
use std::path::Path;

use io_uring::{IoUring, Probe, opcode};

use super::{Area, Finding, Verdict, sysctl_advice};
use crate::topology::Tree;

/// Reason why the kernel gives this process no ring. Displays as one sentence; [`advice`](Self::advice) says
/// what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingRefusal {
    /// No process may use io_uring, as `kernel.io_uring_disabled` is 2.
    ForbiddenToAll,
    /// Only processes with CAP_SYS_ADMIN and members of `kernel.io_uring_group` may use io_uring, as
    /// `kernel.io_uring_disabled` is 1.
    ForbiddenToUnprivileged {
        /// Number of the group, when one is set.
        group: Option<u32>,
    },
    /// A seccomp filter, as containers and services have, forbids the call.
    Filtered,
    /// A security module such as SELinux forbids the call.
    SecurityModule,
    /// The kernel was built without io_uring.
    Absent,
    /// The kernel has a ring, but not of the kind wanted.
    TooOld,
    /// The limit RLIMIT_MEMLOCK is too small for a ring.
    LockedMemory,
    /// The kernel gave an error that none of the other reasons explains.
    Other(String),
}

impl RingRefusal {
    /// Returns the reason for an error of `io_uring_setup`, found in the files below `root`.
    pub fn diagnose(root: &Path, error: &io::Error) -> Self {
        Self::diagnose_in(&Tree::new(root), error)
    }

    /// Returns the advice for this reason, as words for the operator.
    pub fn advice(&self) -> String {
        match self {
            Self::ForbiddenToAll => sysctl_advice("kernel.io_uring_disabled", 0),
            Self::ForbiddenToUnprivileged { group: Some(group) } => format!(
                "run the server with group {group} (SupplementaryGroups={group} in the service file), or {}",
                sysctl_advice("kernel.io_uring_disabled", 0)
            ),
            Self::ForbiddenToUnprivileged { group: None } => format!(
                "set kernel.io_uring_group to a group of the server, or {}",
                sysctl_advice("kernel.io_uring_disabled", 0)
            ),
            Self::Filtered => "allow io_uring_setup, io_uring_enter and io_uring_register: docker and podman \
                               --security-opt seccomp=PROFILE with these three added (or =unconfined); Kubernetes \
                               seccompProfile of type Localhost; systemd SystemCallFilter=@aio"
                .to_owned(),
            Self::SecurityModule => "allow io_uring to the server's domain; `ausearch -m avc -ts recent` shows what \
                                     was denied"
                .to_owned(),
            Self::Absent | Self::TooOld => {
                "boot a kernel from 6.1 on that is built with CONFIG_IO_URING".to_owned()
            }
            Self::LockedMemory => {
                "LimitMEMLOCK=infinity in the service file, or --ulimit memlock=-1 for docker".to_owned()
            }
            Self::Other(_) => "see the system log".to_owned(),
        }
    }

    fn diagnose_in(tree: &Tree, error: &io::Error) -> Self {
        let disabled: Option<u32> = tree.number("proc/sys/kernel/io_uring_disabled");
        match (error.raw_os_error(), disabled) {
            (Some(libc::EPERM), Some(2)) => Self::ForbiddenToAll,
            // No group is written as -1.
            (Some(libc::EPERM), Some(1)) => {
                Self::ForbiddenToUnprivileged { group: tree.number("proc/sys/kernel/io_uring_group") }
            }
            // Filters answer either; a kernel without io_uring has no such setting.
            (Some(libc::EPERM | libc::ENOSYS), _) if is_filtered(tree) => Self::Filtered,
            (Some(libc::EPERM | libc::EACCES), _) => Self::SecurityModule,
            (Some(libc::ENOSYS), _) => Self::Absent,
            (Some(libc::EINVAL), _) => Self::TooOld,
            (Some(libc::ENOMEM), _) => Self::LockedMemory,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl fmt::Display for RingRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForbiddenToAll => f.write_str("io_uring is switched off (kernel.io_uring_disabled = 2)"),
            Self::ForbiddenToUnprivileged { .. } => {
                f.write_str("io_uring is for privileged processes only (kernel.io_uring_disabled = 1)")
            }
            Self::Filtered => f.write_str("a seccomp filter of the container or service forbids io_uring"),
            Self::SecurityModule => f.write_str("a security module forbids io_uring"),
            Self::Absent => f.write_str("the kernel has no io_uring"),
            Self::TooOld => f.write_str("the kernel's io_uring is too old"),
            Self::LockedMemory => f.write_str("the limit for locked memory is too small for a ring"),
            Self::Other(error) => write!(f, "io_uring failed: {error}"),
        }
    }
}

pub(super) fn all(tree: &Tree) -> Vec<Finding> {
    match lane_ring() {
        Ok(ring) => features(&ring),
        Err(error) => vec![refused(&RingRefusal::diagnose_in(tree, &error))],
    }
}

/// Checks that there is a ring that may be entered and have something registered; returns the reason if not.
pub(super) fn require(tree: &Tree) -> Result<(), RingRefusal> {
    let registered = lane_ring().and_then(|ring| ring.submitter().register_probe(&mut Probe::new()));
    registered.map_err(|error| RingRefusal::diagnose_in(tree, &error))
}

/// Returns a ring of the kind that lanes use, entered once: a filter may allow the one and refuse the other.
fn lane_ring() -> io::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .build(RING_ENTRIES)?;
    ring.submit()?;
    Ok(ring)
}

fn refused(refusal: &RingRefusal) -> Finding {
    let finding = Finding::new(Area::IoUring, "ring", refusal.to_string(), "works");
    finding.unless(false, Verdict::Bad, refusal.advice())
}

fn features(ring: &IoUring) -> Vec<Finding> {
    let wanted = "SINGLE_ISSUER, DEFER_TASKRUN";
    let mut findings = vec![Finding::new(Area::IoUring, "ring", wanted, wanted)];
    let mut probe = Probe::new();
    if let Err(error) = ring.submitter().register_probe(&mut probe) {
        let finding = Finding::new(Area::IoUring, "operations", error.to_string(), "listed");
        findings.push(finding.unless(false, Verdict::Bad, "allow io_uring_register in the seccomp profile"));
        return findings;
    }
    findings.push(works("buffer rings", buffer_ring_works(ring), Verdict::Bad));
    for (name, code, verdict) in OPERATIONS {
        findings.push(works(name, probe.is_supported(code), verdict));
    }
    findings.push(works("bundles", ring.params().is_feature_recvsend_bundle(), Verdict::Good));
    findings
}

fn works(name: &str, works: bool, otherwise: Verdict) -> Finding {
    let found = if works { "works" } else { "absent" };
    let finding =
        Finding::new(Area::IoUring, name, found, if otherwise == Verdict::Good { "-" } else { "works" });
    match otherwise {
        Verdict::Good => finding,
        Verdict::Warn => finding.unless(works, Verdict::Warn, "a newer kernel saves copies here"),
        Verdict::Bad => finding.unless(works, Verdict::Bad, "boot a kernel from 6.1 on"),
    }
}

/// Registers a ring of one buffer and unregisters it; returns whether that works.
fn buffer_ring_works(ring: &IoUring) -> bool {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = Box::new(Page([0; 4096]));
    let address = page.0.as_ptr() as u64;
    // SAFETY: the page is aligned as the kernel wants it, holds more than one entry of 16 bytes, is used for nothing
    // else, and is unregistered (or, should that fail, leaked) before it goes.
    let registered = unsafe { ring.submitter().register_buf_ring_with_flags(address, 1, 0, 0) };
    match registered.and_then(|()| ring.submitter().unregister_buf_ring(0)) {
        Ok(()) => true,
        Err(_) => {
            Box::leak(page);
            false
        }
    }
}

fn is_filtered(tree: &Tree) -> bool {
    // Filters belong to threads.
    let status =
        tree.text("proc/thread-self/status").or_else(|| tree.text("proc/self/status")).unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    mode == Some("2")
}

/// Operations by name, with the opcode that tells and the verdict when absent. Multishot has no opcode of its
/// own: accept got it in 5.19 with SOCKET, receive in 6.0 with SEND_ZC.
const OPERATIONS: [(&str, u8, Verdict); 11] = [
    ("multishot accept", opcode::Socket::CODE, Verdict::Bad),
    ("multishot receive", opcode::SendZc::CODE, Verdict::Bad),
    ("ring messages", opcode::MsgRingData::CODE, Verdict::Bad),
    ("openat2", opcode::OpenAt2::CODE, Verdict::Bad),
    ("statx", opcode::Statx::CODE, Verdict::Bad),
    ("splice", opcode::Splice::CODE, Verdict::Bad),
    ("changes of names", opcode::MkDirAt::CODE, Verdict::Warn),
    ("extended attributes", opcode::FSetXattr::CODE, Verdict::Warn),
    ("zero-copy send", opcode::SendZc::CODE, Verdict::Warn),
    ("zero-copy sendmsg", opcode::SendMsgZc::CODE, Verdict::Warn),
    ("zero-copy receive", opcode::RecvZc::CODE, Verdict::Good),
];
const RING_ENTRIES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::cbpf::{Assembler, Condition};

    fn diagnosis(files: &[(&str, &str)], errno: i32) -> RingRefusal {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        RingRefusal::diagnose(root.path(), &io::Error::from_raw_os_error(errno))
    }

    const DISABLED: &str = "proc/sys/kernel/io_uring_disabled";
    const FILTERED: (&str, &str) = ("proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");

    #[test]
    fn sysctl_is_blamed_before_seccomp() {
        assert_eq!(diagnosis(&[(DISABLED, "2\n"), FILTERED], libc::EPERM), RingRefusal::ForbiddenToAll);
        assert!(RingRefusal::ForbiddenToAll.advice().contains("sysctl -w kernel.io_uring_disabled=0"));
    }

    #[test]
    fn group_that_may_is_named() {
        let refusal =
            diagnosis(&[(DISABLED, "1\n"), ("proc/sys/kernel/io_uring_group", "995\n")], libc::EPERM);
        assert_eq!(refusal, RingRefusal::ForbiddenToUnprivileged { group: Some(995) });
        assert!(refusal.advice().contains("group 995"));
        let refusal =
            diagnosis(&[(DISABLED, "1\n"), ("proc/sys/kernel/io_uring_group", "-1\n")], libc::EPERM);
        assert_eq!(refusal, RingRefusal::ForbiddenToUnprivileged { group: None });
    }

    #[test]
    fn seccomp_is_blamed_for_either_error_of_its() {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let refusal = diagnosis(&[(DISABLED, "0\n"), FILTERED], errno);
            assert_eq!(refusal, RingRefusal::Filtered);
            assert!(refusal.advice().contains("io_uring_setup, io_uring_enter and io_uring_register"));
        }
    }

    #[test]
    fn other_reasons_are_told_apart() {
        assert_eq!(diagnosis(&[], libc::ENOSYS), RingRefusal::Absent);
        assert_eq!(diagnosis(&[(DISABLED, "0\n")], libc::EPERM), RingRefusal::SecurityModule);
        assert_eq!(diagnosis(&[], libc::EINVAL), RingRefusal::TooOld);
        assert_eq!(diagnosis(&[], libc::ENOMEM), RingRefusal::LockedMemory);
        assert!(matches!(diagnosis(&[], libc::EMFILE), RingRefusal::Other(_)));
    }

    #[test]
    fn real_seccomp_filter_is_recognised() {
        if lane_ring().is_err() {
            return testkit::skip("this machine gives no ring to begin with");
        }
        // The filter binds this thread alone, and for good.
        let refusal = std::thread::spawn(|| {
            forbid_io_uring_setup();
            RingRefusal::diagnose(Path::new("/"), &lane_ring().err().unwrap())
        });
        assert_eq!(refusal.join().unwrap(), RingRefusal::Filtered);
    }

    fn forbid_io_uring_setup() {
        let mut asm = Assembler::new();
        let allowed = asm.label();
        asm.load_word(0); // The number of the system call.
        asm.jump_unless(Condition::Equal(libc::SYS_io_uring_setup as u32), allowed);
        asm.return_constant(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
        asm.place(allowed);
        asm.return_constant(libc::SECCOMP_RET_ALLOW);
        let program = asm.assemble().unwrap();
        let filter = program.as_filter();
        // SAFETY: both calls only read their arguments, and `filter` points into `program`, which lives on.
        let results = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
            ]
        };
        assert_eq!(results, [0, 0], "{}", io::Error::last_os_error());
    }
}
