//! Fixed-size text for names in records (UNIX names, comm, interfaces), so that they need no allocation.
//! It does not escape: a renderer must do that before the text reaches a terminal.

use core::fmt;
use core::hash::{Hash, Hasher};

/// Up to `N` bytes (at most 255) of text from outside, without allocation.
///
/// The bytes are unchanged: not necessarily UTF-8, possibly with control characters, which
/// a renderer must escape.
#[derive(Clone, Copy)]
pub struct ShortText<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

impl<const N: usize> ShortText<N> {
    /// Copies the first `N` bytes of `text`.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        const { assert!(N <= 255) };
        let len = text.len().min(N);
        let mut bytes = [0; N];
        bytes[..len].copy_from_slice(&text[..len]);
        Self {
            len: len as u8,
            bytes,
        }
    }

    /// Copies the first `N` bytes of `start` and `end` together.
    #[must_use]
    pub fn joined(start: &[u8], end: &[u8]) -> Self {
        let mut text = Self::new(start);
        let len = usize::from(text.len);
        let taken = end.len().min(N - len);
        text.bytes[len..len + taken].copy_from_slice(&end[..taken]);
        text.len = (len + taken) as u8;
        text
    }

    /// Copies the bytes up to the first NUL of a C string.
    #[must_use]
    pub fn from_c(text: &[u8]) -> Self {
        Self::new(text.split(|&byte| byte == 0).next().unwrap_or_default())
    }

    /// Returns the text of a C array, up to its first zero.
    #[must_use]
    pub fn from_array(text: &[u8; N]) -> Self {
        const { assert!(N <= 255) };
        let len = text.iter().position(|byte| *byte == 0).unwrap_or(N);
        let bytes = core::array::from_fn(|at| if at < len { text[at] } else { 0 });
        Self {
            len: len as u8,
            bytes,
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl<const N: usize> PartialEq for ShortText<N> {
    fn eq(&self, other: &Self) -> bool {
        // Behind the text are zeros: so this is one comparison of constant length.
        (self.len, self.bytes) == (other.len, other.bytes)
    }
}

impl<const N: usize> Eq for ShortText<N> {}

impl<const N: usize> PartialOrd for ShortText<N> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for ShortText<N> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl<const N: usize> Hash for ShortText<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl<const N: usize> fmt::Debug for ShortText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_text_is_truncated() {
        let text = ShortText::<4>::new(b"abcdef");
        assert_eq!(text.as_bytes(), b"abcd");
        assert_eq!(text, ShortText::new(b"abcdzz"));
        assert!(text < ShortText::new(b"abce"));
        assert_eq!(ShortText::<8>::from_c(b"cubic\0zz").as_bytes(), b"cubic");
        assert_eq!(ShortText::<8>::from_c(b"").as_bytes(), b"");
        let of_array = ShortText::from_array(b"cubic\0zz");
        assert_eq!(
            (of_array.as_bytes(), of_array),
            (&b"cubic"[..], ShortText::new(b"cubic"))
        );
        assert_eq!(ShortText::from_array(b"full").as_bytes(), b"full");
        assert_eq!(ShortText::<4>::joined(b"ab", b"cdef").as_bytes(), b"abcd");
        assert_eq!(ShortText::<4>::joined(b"abcdef", b"g").as_bytes(), b"abcd");
        assert_eq!(ShortText::<4>::joined(b"\0", b"").as_bytes(), b"\0");
    }
}
