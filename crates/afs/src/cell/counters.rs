//! Counters of the cell's servers.

lane::counter_block! {
    /// Calls to the cell's servers on one lane.
    pub struct CellCounters {
        count location_calls as cell_calls [service = "location"]: "Calls to the servers of the embedded cell.",
        count protection_calls as cell_calls [service = "protection"]: "Calls to the servers of the embedded cell.",
        count volume_calls as cell_calls [service = "volume"]: "Calls to the servers of the embedded cell.",
        count volumes_not_found: "Volumes that clients asked for and that are not attached to AFS.",
        count changes_refused: "Calls that would have changed volumes, users or groups through the cell's servers.",
    }
}
