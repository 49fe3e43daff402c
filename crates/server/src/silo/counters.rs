//! Counters of a lane about the origin of its connections.

lane::counter_block! {
    /// Connections of one lane by the node they arrived on. Each accepted one is counted under one placement.
    pub(crate) struct SiloCounters {
        count local as accepts [placement = "local"]: "Connections accepted, by where they belong.",
        count handed_off as accepts [placement = "handed_off"]: "Connections accepted, by where they belong.",
        count kept as accepts [placement = "kept"]: "Connections accepted, by where they belong.",
        count drained as accepts [placement = "drained"]: "Connections accepted, by where they belong.",
        count unknown as accepts [placement = "unknown"]: "Connections accepted, by where they belong.",
        count helped as accepts [placement = "helped"]: "Connections accepted, by where they belong.",
        count taken_over: "Connections that lanes of other silos accepted and gave to this one.",
        gauge full: "Whether the lane has as much to do as it can.",
        gauge listeners: "Listeners open.",
        count marks_given: "Times the lane's packets got the mark of a NIC.",
        count marks_lost: "Times the lane's packets lost their mark because no marked NIC of its silo had a link.",
        count listeners_died: "Listeners that something else closed; new ones were opened.",
    }
}
