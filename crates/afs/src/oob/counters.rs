//! Counters of one lane about out-of-band TCP, beside its connections (`service::counters`).

lane::counter_block! {
    /// Transfers beside Rx calls: what moved, and what was refused.
    pub struct OobCounters {
        gauge transfers: "Transfers under way.",
        gauge idle: "Connections between two transfers.",
        gauge unclaimed: "Tokens that were given out and not claimed.",
        count fetched_bytes: "Bytes of files sent over TCP.",
        count stored_bytes: "Bytes received over TCP and written to files.",
        count streams_idle as streams [over = "idle"]: "Parts of transfers, by what the client had for them: an idle connection, or a new one.",
        count streams_new as streams [over = "new"]: "Parts of transfers, by what the client had for them: an idle connection, or a new one.",
        count handed_over: "Connections handed to the lane of their call.",
        count refused_busy as refused [reason = "busy"]: "Transfers refused: too many at once, of all or of the address.",
        count refused_unsuitable as refused [reason = "unsuitable"]: "Transfers refused: not a file, or a wish that is not understood.",
        count refused_private as refused [reason = "private"]: "Transfers refused: the call is encrypted and the transfer would not be.",
        count claims_malformed as claims_refused [reason = "malformed"]: "Connections closed that did not begin with a claim.",
        count claims_late as claims_refused [reason = "late"]: "Connections closed that made no claim in time.",
        count claims_unknown as claims_refused [reason = "unknown"]: "Connections closed whose token nobody waits for: made up, used before, or of a call that has ended.",
        count claims_expired as claims_refused [reason = "expired"]: "Connections closed whose token had expired.",
        count claims_elsewhere as claims_refused [reason = "address"]: "Connections closed that came from another address than their call.",
        count claims_lost as claims_refused [reason = "lane"]: "Connections closed because the lane of their token takes none.",
        count tokens_unclaimed: "Transfers that failed because no connection came in time.",
        count broken: "Transfers that failed with a connection.",
        count stalled: "Transfers that failed because the client did not go on.",
        count frames_refused: "Transfers that failed by a frame that cannot be.",
        count stopped: "Transfers that were given up by the client, or with their call.",
        count unreadable: "Transfers that failed because a file could not be read.",
        count idle_expired: "Connections closed because nobody used them.",
        count idle_talked: "Connections closed because something came that no transfer asked for.",
    }
}
