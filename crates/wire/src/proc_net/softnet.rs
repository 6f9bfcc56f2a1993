use super::words::{hex, words};

/// A line of `softnet_stat`: what one processor did for the network, in hexadecimal words. Eleven of them, 13 since Linux
/// 5.14, 15 since 6.3; processors that are offline have no line.
///
/// Source: `net/core/net-procfs.c` (`softnet_seq_show`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftnetLine {
    /// Packets handled. The kernel's counters are of 32 bits and begin again at 0.
    pub processed: u32,
    /// Packets dropped, for its queue was full
    pub dropped: u32,
    /// Times it stopped with work left
    pub time_squeeze: u32,
    /// Its number; `None`: an older kernel, whose lines are in the processors' order
    pub processor: Option<u32>,
}

impl SoftnetLine {
    /// `None`: no line of this file.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut all = words(line);
        let mut number = || hex(all.next()?);
        Some(Self {
            processed: number()?,
            dropped: number()?,
            time_squeeze: number()?,
            // Nine words lie between.
            processor: all.nth(9).and_then(hex),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_new_and_old_kernels() {
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
