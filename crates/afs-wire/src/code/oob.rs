//! Abort codes of out-of-band TCP: ours, docs/design/oob.md. After each of them the client tries over Rx.

/// OOB_BUSY: the server or this client has as many transfers as allowed.
pub const OOB_BUSY: i32 = 0x4c4e_1001;
/// OOB_UNCLAIMED: no connection came with the token in time.
pub const OOB_UNCLAIMED: i32 = 0x4c4e_1002;
/// OOB_BROKEN: a connection failed before the end of its part.
pub const OOB_BROKEN: i32 = 0x4c4e_1003;
/// OOB_FRAME: a frame was invalid, or the peer sent a stop.
pub const OOB_FRAME: i32 = 0x4c4e_1004;
/// OOB_STALLED: the client took or sent too little for too long.
pub const OOB_STALLED: i32 = 0x4c4e_1005;
/// OOB_UNSUITABLE: the request names no file, an unknown version or flag, or no stream.
pub const OOB_UNSUITABLE: i32 = 0x4c4e_1006;
/// OOB_PRIVATE: the call is encrypted and the transfer would not be.
pub const OOB_PRIVATE: i32 = 0x4c4e_1007;

/// Returns whether a call failed over its connections, so that the client may try it over Rx.
pub fn is_out_of_band(code: i32) -> bool {
    (OOB_BUSY..=OOB_PRIVATE).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_that_the_specification_says() {
        assert_eq!(OOB_BUSY, 1_280_184_321);
        assert!(is_out_of_band(1_280_184_327) && !is_out_of_band(1_280_184_328) && !is_out_of_band(-455));
    }
}
