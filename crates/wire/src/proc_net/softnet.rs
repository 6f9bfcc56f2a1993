//! Parses `/proc/net/softnet_stat`, the packet and drop counters of each processor, for `source::vitals`.
//! `check` judges them.

use super::words::{hex, words};

/// A line of `softnet_stat`: the network counters of one processor, in hexadecimal words. Eleven words, 13 since Linux
/// 5.14, 15 since 6.3; offline processors have no line.
///
/// Source: `net/core/net-procfs.c` (`softnet_seq_show`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftnetLine {
    /// Packets processed. The kernel's counters have 32 bits and wrap around.
    pub processed: u32,
    /// Packets dropped because its queue was full
    pub dropped: u32,
    /// Number of times that it stopped with work left
    pub time_squeeze: u32,
    /// Number of the processor; `None` on older kernels, whose lines are in the processors' order
    pub processor: Option<u32>,
}

impl SoftnetLine {
    /// Parses one line; `None` if it has another form.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut all = words(line);
        let mut number = || hex(all.next()?);
        Some(Self {
            processed: number()?,
            dropped: number()?,
            time_squeeze: number()?,
            // Nine words are in between.
            processor: all.nth(9).and_then(hex),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_new_and_old_kernels_are_parsed() {
        let line = b"03699051 00000ce1 00000019 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000f 00000000 00000000";
        let expected = SoftnetLine {
            processed: 0x0369_9051,
            dropped: 0xce1,
            time_squeeze: 25,
            processor: Some(15),
        };
        assert_eq!(SoftnetLine::parse(line), Some(expected));
        let old = SoftnetLine {
            processor: None,
            ..expected
        };
        assert_eq!(SoftnetLine::parse(&line[..11 * 9]), Some(old));
        assert_eq!(SoftnetLine::parse(b"1 2"), None);
        assert_eq!(SoftnetLine::parse(b""), None);
    }
}
