//! Privileges of a server that it needs, with their purposes. The rest is given up at a start, so that the
//! kernel's common rules hold for what clients have the server do.

use std::io;

use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Capability that a server keeps if present, with the purpose.
#[derive(Clone, Copy, Debug)]
pub struct KeptCapability {
    /// The one capability of this entry.
    pub capability: CapabilitySet,
    /// Purpose of the capability.
    pub purpose: &'static str,
}

/// All capabilities that a server keeps. Without CAP_FSETID among them the kernel takes set-user-id and
/// set-group-id bits from what is written to, and without CAP_SYS_RESOURCE quotas of the file system bind.
pub const KEPT: [KeptCapability; 9] = [
    kept(CapabilitySet::CHOWN, "what users make becomes theirs"),
    kept(CapabilitySet::DAC_OVERRIDE, "files are changed whoever owns them: access is decided by the server"),
    kept(CapabilitySet::DAC_READ_SEARCH, "files are read whoever owns them, and opened by their handles"),
    kept(CapabilitySet::FOWNER, "modes and times of others' files are set"),
    kept(
        CapabilitySet::SYS_ADMIN,
        "access lists and marks lie in attributes that clients of the machine cannot write",
    ),
    kept(CapabilitySet::NET_ADMIN, "marks and large buffers of sockets, TLS in the kernel"),
    kept(CapabilitySet::NET_RAW, "marks of sockets, where that is all that was given for them"),
    kept(CapabilitySet::NET_BIND_SERVICE, "ports below 1024"),
    kept(CapabilitySet::IPC_LOCK, "memory that stays in place, beyond the limit for that"),
];

const fn kept(capability: CapabilitySet, purpose: &'static str) -> KeptCapability {
    KeptCapability { capability, purpose }
}

/// Gives up all capabilities but [`KEPT`], for good, for this thread and those that it starts from here on.
/// Returns what this thread had of them. Programs that they start cannot have more: none gains privileges,
/// and what is given up is out of the bounding set.
///
/// # Errors
/// As the kernel says; nothing is given up then.
pub fn give_up_the_rest() -> io::Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    set_no_new_privs(true)?;
    // Without this capability the set stays as it is: no program gains from it any more.
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for (_, capability) in given_up_of(CapabilitySet::all()).iter_names() {
            match remove_capability_from_bounding_set(capability) {
                // A kernel older than the capability.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let given_up = given_up_of(sets.permitted);
    if given_up.is_empty() && given_up_of(sets.inheritable).is_empty() {
        return Ok(given_up);
    }
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        *set = set.intersection(all_kept());
    }
    set_capabilities(None, sets)?;
    Ok(given_up)
}

/// Returns the capabilities that a server with `has` gives up at its start.
pub fn given_up_of(has: CapabilitySet) -> CapabilitySet {
    has.difference(all_kept())
}

/// Returns the capabilities of `has` that a server keeps.
pub fn kept_of(has: CapabilitySet) -> CapabilitySet {
    has.intersection(all_kept())
}

/// Returns the names of capabilities as in capabilities(7), in the order of their numbers.
pub fn names(of: CapabilitySet) -> String {
    let names: Vec<_> = of.iter_names().map(|(name, _)| name).collect();
    names.join(", ")
}

fn all_kept() -> CapabilitySet {
    KEPT.iter().fold(CapabilitySet::empty(), |all, kept| all.union(kept.capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spares_a_server_the_rules_of_everybody_is_given_up() {
        let all = CapabilitySet::all();
        let rules = CapabilitySet::FSETID
            | CapabilitySet::SYS_RESOURCE
            | CapabilitySet::SYS_MODULE
            | CapabilitySet::SETUID;
        assert!(given_up_of(all).contains(rules));
        assert!(kept_of(all).intersection(given_up_of(all)).is_empty());
        assert_eq!(kept_of(all).union(given_up_of(all)), all);
        assert_eq!(names(CapabilitySet::CHOWN | CapabilitySet::IPC_LOCK), "CHOWN, IPC_LOCK");
        assert_eq!(names(CapabilitySet::empty()), "");
    }
}
