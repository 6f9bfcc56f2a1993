//! Random values that cannot be guessed.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// A random value of 256 bits, in hexadecimal.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Returns a new one from the kernel's random numbers.
    ///
    /// # Errors
    /// Those of `getrandom(2)`.
    pub(crate) fn new() -> Result<Self, Errno> {
        let mut bytes = [0_u8; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
                Err(Errno::INTR) => 0,
                filled => filled?,
            };
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether `text` is this value, in a time that does not depend on where they differ.
    pub(crate) fn is(&self, text: &str) -> bool {
        are_equal(self.0.as_bytes(), text.as_bytes())
    }
}

/// Compares in a time that depends on the lengths only.
pub(super) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_have_256_bits() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(one.as_str().len(), 64);
        assert!(one.is(one.as_str()) && !one.is(other.as_str()));
        assert!(!one.is("") && !one.is(&one.as_str()[1..]));
    }
}
