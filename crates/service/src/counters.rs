//! Counters of every service with connections, shown under the service's own area.

lane::counter_block! {
    /// Connections of one service on one lane: their number, evictions, packets' marks, and memory.
    pub struct ConnectionCounters {
        gauge connections: "Connections open.",
        count connections_refused: "Connections refused because the lane had its maximum and nobody had to give way.",
        count evicted_idle as connections_evicted [state = "idle"]: "Connections ended to make room when places or descriptors were short.",
        count evicted_opening as connections_evicted [state = "opening"]: "Connections ended to make room when places or descriptors were short.",
        count evicted_busy as connections_evicted [state = "answered"]: "Connections ended to make room when places or descriptors were short.",
        count accept_pauses: "Times a listener paused because descriptors or memory ran out.",
        count connections_remarked: "Open connections whose packet mark was changed because a link came or went.",
        count marks_failed: "Connections whose packets could not be marked.",
        count pacing_failed: "Connections whose rate could not be bounded.",
        gauge egress_mark: "Mark of the packets that connections send; 0 for none.",
        gauge reply_memory_bytes: "Bytes that replies hold while they wait for their clients.",
        count reply_memory_waits: "Times a reply waited because its client's share of that memory was used up.",
    }
}
