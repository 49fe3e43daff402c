//! Counters of a lane about trees.

use crate::breaks::GrantedCaching;
use crate::open::Open;

lane::counter_block! {
    /// Opens and refusals of one lane.
    pub struct TreeCounters {
        count opens_made: "Opens that SMB's clients made.",
        count opens_closed: "Opens that SMB's clients closed, or that went with their session.",
        count caching_opens_made: "Of the opens made, those that were granted an oplock or a lease.",
        count caching_opens_closed: "Of the opens closed, those that had been granted an oplock or a lease.",
        count opens_refused_limit: "Opens refused because the process, the session or the address has as many as it may.",
        count breaks_oplock as breaks_sent [kind = "oplock"]: "Breaks handed to connections.",
        count breaks_lease as breaks_sent [kind = "lease"]: "Breaks handed to connections.",
        count breaks_of_closed_opens: "Breaks dropped because their open was closed before its client could be told.",
        count durable_granted: "Durable opens that were granted.",
        count durable_disconnected: "Durable opens that stayed when their session ended.",
        count durable_reconnected: "Durable opens that their clients have again.",
        count durable_reconnect_refused: "Requests for a durable open that could not be had again.",
        count durable_expired as durable_closed [reason = "time"]: "Durable opens that were closed without their client.",
        count durable_gave_way_conflict as durable_closed [reason = "conflict"]: "Durable opens that were closed without their client.",
        count durable_gave_way_limit as durable_closed [reason = "limit"]: "Durable opens that were closed without their client.",
        count durable_taken_over as durable_closed [reason = "instance"]: "Durable opens that were closed without their client.",
        count durable_kept: "Durable opens that were written down for the next server as this one ended.",
        count durable_restored: "Durable opens of the last server that wait for their clients since this one began.",
        count durable_lost_late as durable_lost [reason = "time"]: "Durable opens of the last server that could not be had again.",
        count durable_lost_gone as durable_lost [reason = "gone"]: "Durable opens of the last server that could not be had again.",
        count durable_lost_changed as durable_lost [reason = "changed"]: "Durable opens of the last server that could not be had again.",
        count durable_lost_user as durable_lost [reason = "user"]: "Durable opens of the last server that could not be had again.",
        count durable_lost_share as durable_lost [reason = "share"]: "Durable opens of the last server that could not be had again.",
        count durable_lost_conflict as durable_lost [reason = "conflict"]: "Durable opens of the last server that could not be had again.",
        count creates_replayed: "Creates that came again and were answered with what the first had opened.",
        count creates_replayed_early as replay_refused [reason = "under_way"]: "Creates refused by their CreateGuid.",
        count creates_replayed_wrongly as replay_refused [reason = "known"]: "Creates refused by their CreateGuid.",
        count lease_key_conflicts: "Leases broken because their client asked for another by the same key and name, of a file below another root of the share.",
        count lane_handles_reopened: "Files opened again by another lane than the one that made the open.",
        count lane_handles_reaped: "Files of closed opens that a lane closed later because another lane closed the open.",
        count refused_sharing as create_refused [reason = "sharing"]: "Creates refused.",
        count refused_access as create_refused [reason = "access"]: "Creates refused.",
        count refused_name as create_refused [reason = "name"]: "Creates refused.",
        count refused_other as create_refused [reason = "other"]: "Creates refused.",
        count creates_given_up: "Creates refused because what their name leads to came and went at each of sixteen attempts.",
        count listings_refused: "Enumerations refused because the directory has too many names or the open's session holds too many listings.",
        count caching_withheld: "Opens granted no write or handle caching, as their client did not answer a break in time.",
        count ranges_refused: "Locks refused because the session, the address or the process has as many ranges locked as it may.",
        count security_refused: "Security descriptors refused because no access list can hold them.",
        count change_times_lost: "Times of change that clients set and that could not be kept, as the machine was too slow: the kernel's are told.",
        count notify_refused: "Watches refused because the process or the open has as many as it may.",
        count notify_overflows: "Watches whose changes were too many to be told one by one.",
    }
}

impl TreeCounters {
    /// Counts an open that was made.
    pub(crate) fn made(&self, open: &Open) {
        self.opens_made.increment();
        self.caching_opens_made.add((open.held != GrantedCaching::Nothing).into());
    }

    /// Counts an open that was closed.
    pub(crate) fn closed(&self, open: &Open) {
        self.opens_closed.increment();
        self.caching_opens_closed.add((open.held != GrantedCaching::Nothing).into());
    }
}
