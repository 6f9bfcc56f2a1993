//! Parses `/proc/net/sockstat` and `sockstat6`: numbers of sockets, orphans, TIME_WAIT and memory pages, for
//! `source::vitals`.

use super::words::{decimal, words};

/// A line of `sockstat` or `sockstat6`: `TCP: inuse 5 orphan 0 tw 2 alloc 7 mem 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SockstatLine<'a> {
    /// `TCP`, `UDP6`, `sockets`...
    pub title: &'a [u8],
    rest: &'a [u8],
}

impl<'a> SockstatLine<'a> {
    /// Parses one line; `None` if it has another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some(Self {
            title: &line[..colon],
            rest: &line[colon + 1..],
        })
    }

    /// Iterates over the lines of a file; invalid lines are skipped.
    pub fn all(file: &'a [u8]) -> impl Iterator<Item = Self> {
        file.split(|&byte| byte == b'\n').filter_map(Self::parse)
    }

    /// Returns the number after this name.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<u64> {
        let mut words = words(self.rest);
        while let Some(found) = words.next() {
            let value = words.next()?;
            if found == name {
                return decimal(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let file = b"sockets: used 12\nTCP: inuse 5 orphan 1 tw 2 alloc 7 mem 409\n\nFRAG: inuse 0 memory\n";
        let mut lines = SockstatLine::all(file).skip(1);
        let tcp = lines.next().unwrap();
        assert_eq!(tcp.title, b"TCP");
        assert_eq!((tcp.value(b"inuse"), tcp.value(b"mem")), (Some(5), Some(409)));
        assert_eq!((tcp.value(b"5"), tcp.value(b"memory")), (None, None));
        let fragments = lines.next().unwrap();
        assert_eq!(
            (fragments.title, fragments.value(b"memory")),
            (&b"FRAG"[..], None)
        );
        assert_eq!(lines.next(), None);
    }
}
