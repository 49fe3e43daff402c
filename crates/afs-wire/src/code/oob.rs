//! Abort codes of out-of-band TCP: ours, docs/design/oob.md. After each of them the client tries over Rx.

/// As many transfers as there may be, of all or of this client.
pub const OOB_BUSY: i32 = 0x4c4e_1001;
/// No connection came with the token in time.
pub const OOB_UNCLAIMED: i32 = 0x4c4e_1002;
/// A connection failed before its part had ended.
pub const OOB_BROKEN: i32 = 0x4c4e_1003;
/// A frame that cannot be, or the peer's word to stop.
pub const OOB_FRAME: i32 = 0x4c4e_1004;
/// The client took, or sent, too little for too long.
pub const OOB_STALLED: i32 = 0x4c4e_1005;
/// The request names no file, a version or flag that is not known, a wish for no stream.
pub const OOB_UNSUITABLE: i32 = 0x4c4e_1006;
/// The call is encrypted and the transfer would not be.
pub const OOB_PRIVATE: i32 = 0x4c4e_1007;

/// Returns whether a call failed for the sake of its connections, so that the same may be had over Rx.
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
