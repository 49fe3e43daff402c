//! Counters of one lane about hosts.

lane::counter_block! {
    /// Work of one lane about hosts: clients met and left, callbacks broken, calls refused and why.
    pub struct HostCounters {
        count hosts_made as hosts_met [how = "made"]: "Clients found to be a host, by how.",
        count hosts_again as hosts_met [how = "known"]: "Clients found to be a host, by how.",
        count hosts_moved as hosts_met [how = "moved"]: "Clients found to be a host, by how.",
        count hosts_evicted as hosts_left [why = "evicted"]: "Hosts that are no more, by why: for another, or long silent.",
        count hosts_idle as hosts_left [why = "idle"]: "Hosts that are no more, by why: for another, or long silent.",
        count clients_asked: "Clients asked who they are.",
        count clients_nameless: "Clients without an identity.",
        count probes: "Questions whether a client is where it was.",
        count probes_failed: "Such questions without the answer that it is.",
        count resets: "Clients told that all is void.",
        count breaks: "Calls that told clients of broken promises.",
        count breaks_failed: "Such calls without an answer.",
        count callbacks_broken_files: "Callbacks broken, file by file (CallBack).",
        count callbacks_broken_volumes: "Volumes of which all callbacks were broken at once.",
        count found_elsewhere: "Silent clients that answered at another of their addresses.",
        count callbacks_given_up: "Callbacks that clients gave up (GiveUpCallBacks), file by file.",
        count callbacks_given_up_all: "Clients that gave up all callbacks (GiveUpAllCallBacks).",
        count refused_silent as hosts_refused [why = "silent"]: "Calls refused because their client could not be made a host.",
        count refused_asking as hosts_refused [why = "asking"]: "Calls refused because their client could not be made a host.",
        count refused_share as hosts_refused [why = "share"]: "Calls refused because their client could not be made a host.",
        count refused_clients as hosts_refused [why = "clients"]: "Calls refused because their client could not be made a host.",
        count refused_index as hosts_refused [why = "index"]: "Calls refused because their client could not be made a host.",
        count refused_owes as hosts_refused [why = "owes"]: "Calls refused because their client could not be made a host.",
    }
}
