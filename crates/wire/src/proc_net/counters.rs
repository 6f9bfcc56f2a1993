//! Parses `/proc/net/snmp`, `netstat`, `snmp6` and `sctp/snmp`, for `source::vitals` and `netstat -s`. Names
//! of counters stay bytes: the callers know their meaning.

use super::words::{decimal, words};

/// A pair of lines of `snmp` or `netstat`: a title with the names of counters, and the same title with their values.
#[derive(Debug, Clone, Copy)]
pub struct CounterTable<'a> {
    /// `Ip`, `TcpExt`...
    pub title: &'a [u8],
    names: &'a [u8],
    values: &'a [u8],
}

impl<'a> CounterTable<'a> {
    /// Iterates over the tables of a file. Ends after the first pair of lines without titles, which is `None`.
    pub fn all(text: &'a [u8]) -> impl Iterator<Item = Option<Self>> {
        let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let mut is_over = false;
        core::iter::from_fn(move || {
            let (names, values) = (lines.next()?, lines.next()?);
            if is_over {
                return None;
            }
            let table = Self::parse(names, values);
            is_over = table.is_none();
            Some(table)
        })
    }

    fn parse(names: &'a [u8], values: &'a [u8]) -> Option<Self> {
        let (title, names) = split_colon(names)?;
        let (_, values) = split_colon(values)?;
        Some(Self { title, names, values })
    }

    /// Iterates over the counters with their values; a missing number is 0.
    pub fn counters(&self) -> impl Iterator<Item = (&'a [u8], u64)> {
        let mut values = words(self.values);
        words(self.names).map(move |name| (name, values.next().and_then(decimal).unwrap_or(0)))
    }
}

/// Iterates over the lines of `snmp6` or `sctp/snmp`: a name and a value each; invalid lines are skipped.
pub fn counter_lines(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = words(line);
        Some((words.next()?, words.next().and_then(decimal)?))
    })
}

fn split_colon(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((&line[..colon], &line[colon + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn broken_pair_of_lines_ends_the_tables() {
        let text = b"Ip: A B\nIp: 1 -1\nTcp: X\nTcp: 18446744073709551615\nbroken\n1 2\nUdp: A\nUdp: 1\n";
        let found: Vec<_> = CounterTable::all(text)
            .map(|table| table.map(|table| (table.title, table.counters().collect::<Vec<_>>())))
            .collect();
        assert_eq!(found.len(), 3);
        assert_eq!(
            found[0],
            Some((&b"Ip"[..], [(&b"A"[..], 1), (b"B", u64::MAX)].to_vec()))
        );
        assert_eq!(found[1].as_ref().map(|(_, all)| all[0].1), Some(u64::MAX));
        assert_eq!(found[2], None);
    }

    #[test]
    fn lines_without_a_value_are_skipped() {
        let found: Vec<_> = counter_lines(b"Ip6InReceives   \t 5\n\nbroken\nX 1\n").collect();
        assert_eq!(found, [(&b"Ip6InReceives"[..], 5), (b"X", 1)]);
    }
}
