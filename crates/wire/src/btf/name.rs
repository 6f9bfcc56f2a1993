//! Names, compared eight bytes at a time.
//!
//! A pass over all strings of a kernel, to find the queried ones, would take as long as the pass over the types. So
//! a name is checked only where a type of a queried kind refers to it.

/// A name to look for in the strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'q> {
    pub(super) text: &'q [u8],
    /// The first eight bytes, the first lowest; zeros after its end.
    pub(super) head: u64,
    /// The significant bytes of `head`: the text and its NUL.
    mask: u64,
}

impl<'q> Name<'q> {
    /// Returns `None` for a text that cannot be a type's name.
    pub(super) fn new(text: &'q str) -> Option<Self> {
        let text = text.as_bytes();
        if text.is_empty() || text.contains(&0) {
            return None;
        }
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        Some(Self {
            text,
            head: u64::from_le_bytes(bytes),
            mask: if text.len() >= 7 {
                u64::MAX
            } else {
                (1 << (8 * (text.len() + 1))) - 1
            },
        })
    }

    /// Whether the string at `at` is this name.
    #[inline]
    pub(super) fn is_at(&self, strings: &[u8], at: u32) -> bool {
        let Some(rest) = strings.get(at as usize..) else {
            return false;
        };
        if let Some(&bytes) = rest.first_chunk()
            && (u64::from_le_bytes(bytes) ^ self.head) & self.mask != 0
        {
            return false;
        }
        rest.strip_prefix(self.text)
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Returns the first eight bytes of the string at `at`, the first one lowest, zeros after its end; 0 past the section.
#[inline]
pub(super) fn head(strings: &[u8], at: u32) -> u64 {
    let Some(rest) = strings.get(at as usize..) else {
        return 0;
    };
    let word = match rest.first_chunk() {
        Some(&bytes) => u64::from_le_bytes(bytes),
        None => rest
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    // The highest bit of each zero byte, and possibly of some bytes above it, which do not matter.
    let zeros = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
    if zeros == 0 {
        return word;
    }
    word & ((zeros & zeros.wrapping_neg()) >> 7).wrapping_sub(1)
}
