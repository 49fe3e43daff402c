//! Counters of a connection.

lane::counter_block! {
    /// Requests and answers of a connection, and answers that were refused.
    pub struct Counters {
        count requests: "Requests sent.",
        count answers: "Answers received, interim ones apart.",
        count interim: "Interim answers received.",
        count breaks: "Breaks of oplocks and leases received.",
        count notifications: "Notifications that a session was closed received.",
        count breaks_lost: "Breaks that nobody took before too many waited.",
        count wrong_signatures as refused [reason = "wrong_signature"]: "Answers refused.",
        count unsigned as refused [reason = "unsigned"]: "Answers refused.",
        count unsealed as refused [reason = "unsealed"]: "Answers refused.",
        count unasked as refused [reason = "unasked"]: "Answers refused.",
        count credit_waits: "Requests that waited for credits.",
    }
}
