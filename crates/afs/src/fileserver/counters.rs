//! Counters of one lane's file server, beside the results of its calls (`xdr::rpc::Tally`).

lane::counter_block! {
    /// Work and refusals of one lane's file server.
    pub struct FileCounters {
        count fetched_bytes: "Bytes of files, directories and links sent to clients.",
        count stored_bytes: "Bytes received from clients and written to files.",
        count bulk_without_promise: "Files of which a bulk status said to ask again, as they were just changing.",
        count replies_rebuilt: "Replies built again because what they tell had changed meanwhile.",
        count changes_told_late: "Replies to changes that waited as others changed the same again and again.",
        count fetches_overtaken: "Fetches whose file changed while it was sent, and that carried no promise therefore.",
        count images_built: "Directories made into pages.",
        count images_version_bumped: "Directories that got a new version as they were made into pages, since clients may hold other pages of the old one.",
        count images_edited: "Directories whose pages were edited in place.",
        count images_hit: "Directories whose pages were at hand.",
        count directories_full: "Names refused because clients could not read the directory with them.",
        count locks_taken: "Locks given to clients, for the first time and anew.",
        count locks_refused: "Locks refused because their host, or all together, have as many as they may.",
        count stores_short: "Stores whose client sent less than it said, or died.",
    }
}
