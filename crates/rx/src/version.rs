//! VERSION packets, which tell a peer's software.

/// Returns the payload that answers a VERSION request: `text`, cut at 64 bytes, padded with NUL to 65.
pub fn encode_version(text: &str) -> [u8; VERSION_LEN] {
    let mut payload = [0; VERSION_LEN];
    let mut len = text.len().min(VERSION_LEN - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    payload[..len].copy_from_slice(&text.as_bytes()[..len]);
    payload
}

/// Returns the text of a VERSION answer, up to its NUL; bytes that are not UTF-8 are replaced.
pub fn decode_version(payload: &[u8]) -> String {
    let text = payload.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Length of a VERSION answer, bytes.
pub const VERSION_LEN: usize = 65;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_text_is_cut_at_64_bytes_on_a_character() {
        assert_eq!(decode_version(&encode_version("Linerate 0.1")), "Linerate 0.1");
        let long = "é".repeat(40) + "x";
        let payload = encode_version(&("x".to_owned() + &long));
        assert_eq!(payload[64], 0);
        assert_eq!(decode_version(&payload), "x".to_owned() + &"é".repeat(31));
        assert_eq!(decode_version(&[]), "");
    }
}
