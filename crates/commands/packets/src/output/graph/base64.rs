//! Base64 (RFC 4648).

/// All of `bytes`, padded.
pub(super) fn encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for nth in 0..4 {
            let digit = (word >> (18 - 6 * nth)) & 63;
            out.push(if nth <= group.len() {
                char::from(DIGITS[digit as usize])
            } else {
                '='
            });
        }
    }
    out
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn vectors_of_the_rfc() {
        for (plain, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encoded(plain.as_bytes()), expected);
        }
    }
}
