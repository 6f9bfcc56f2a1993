//! Parses `/proc/net/dev`. `netstat -i` shows its counters; `source::netns` only counts the interfaces.

use super::words::{decimal, words};

/// A line of `dev`: an interface and its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLine<'a> {
    /// Name
    pub name: &'a [u8],
    /// Received: bytes, packets, errs, drop, fifo, frame, compressed, multicast; then sent: bytes, packets, errs,
    /// drop, fifo, colls, carrier, compressed
    pub counters: [u64; 16],
}

impl<'a> DeviceLine<'a> {
    /// Parses one line; `None` for the header and for lines of another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        // A name never contains a colon (net/core/dev.c, dev_valid_name).
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = line[..colon].trim_ascii();
        let mut counters = [0; 16];
        let mut numbers = words(&line[colon + 1..]);
        for counter in &mut counters {
            *counter = decimal(numbers.next()?)?;
        }
        Some(Self { name, counters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_parsed() {
        let line = b"  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        let found = DeviceLine::parse(line).unwrap();
        assert_eq!(
            (found.name, found.counters[0], found.counters[15]),
            (&b"eth0"[..], 1, 16)
        );
        assert_eq!(DeviceLine::parse(b" face |bytes    packets errs"), None);
        assert_eq!(DeviceLine::parse(b"lo: 1 2"), None);
    }
}
