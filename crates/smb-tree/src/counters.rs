//! What a lane counts of trees.

lane::counter_block! {
    /// Opens and refusals of one lane.
    pub struct TreeCounters {
        count opens_made: "Opens that SMB's clients made.",
        count opens_closed: "Opens that SMB's clients closed, or that went with their session.",
        count opens_refused_limit: "Opens refused because the process, the session or the address has as many as it may.",
        count breaks_oplock as breaks_sent [kind = "oplock"]: "Breaks handed to connections.",
        count breaks_lease as breaks_sent [kind = "lease"]: "Breaks handed to connections.",
        count breaks_homeless: "Breaks of opens that were closed before their client could be told.",
        count durable_granted: "Durable opens that were granted.",
        count durable_disconnected: "Durable opens that stayed when their session ended.",
        count durable_reconnected: "Durable opens that their clients have again.",
        count durable_reconnect_refused: "Requests for a durable open that could not be had again.",
        count durable_expired as durable_closed [reason = "time"]: "Durable opens that were closed without their client.",
        count durable_gave_way_conflict as durable_closed [reason = "conflict"]: "Durable opens that were closed without their client.",
        count durable_gave_way_limit as durable_closed [reason = "limit"]: "Durable opens that were closed without their client.",
        count durable_taken_over as durable_closed [reason = "instance"]: "Durable opens that were closed without their client.",
        count creates_replayed: "Creates that came again and were answered with what the first had opened.",
        count creates_replayed_early as replay_refused [reason = "under_way"]: "Creates refused by their CreateGuid.",
        count creates_replayed_wrongly as replay_refused [reason = "known"]: "Creates refused by their CreateGuid.",
        count hands_reopened: "Files of opens that were opened again by another lane than the one that made the open.",
        count hands_swept: "Files of closed opens that a lane let go later because another lane closed the open.",
        count names_unmappable: "Names left out of listings because no client can spell them.",
        count refused_sharing as create_refused [reason = "sharing"]: "Creates refused.",
        count refused_access as create_refused [reason = "access"]: "Creates refused.",
        count refused_name as create_refused [reason = "name"]: "Creates refused.",
        count refused_other as create_refused [reason = "other"]: "Creates refused.",
        count listings_refused: "Enumerations refused because the directory has too many names or the open's session holds too many listings.",
        count security_refused: "Security descriptors refused because no access list can hold them.",
        count notify_refused: "Watches refused because the process or the open has as many as it may.",
        count notify_overflows: "Watches whose changes were too many to be told one by one.",
    }
}
