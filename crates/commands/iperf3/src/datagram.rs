//! Datagrams of a UDP test: their header, and the statistics of the receiver.

/// The header of each datagram: send time and sequence number, big-endian.
///
/// ```text
///  0        4        8             12 or 16
/// +--------+--------+---------------+----
/// | sec    | usec   | number, from 1| ...
/// +--------+--------+---------------+----
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) sent_us: u64,
    pub(crate) number: u64,
}

impl Head {
    /// Writes the header; `wide` sequence numbers have 64 bits. A datagram has at least 16 bytes.
    pub(crate) fn write(self, datagram: &mut [u8], wide: bool) {
        let seconds = (self.sent_us / 1_000_000) as u32;
        let micros = (self.sent_us % 1_000_000) as u32;
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = datagram.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        put(0, &seconds.to_be_bytes());
        put(4, &micros.to_be_bytes());
        if wide {
            put(8, &self.number.to_be_bytes());
        } else {
            put(8, &(self.number as u32).to_be_bytes());
        }
    }

    /// Reads a header; `None` if the datagram is too short.
    pub(crate) fn read(datagram: &[u8], wide: bool) -> Option<Self> {
        let word = |at: usize| {
            let bytes = datagram.get(at..at + 4)?;
            Some(u64::from(u32::from_be_bytes(bytes.try_into().ok()?)))
        };
        let number = if wide {
            word(8)? << 32 | word(12)?
        } else {
            word(8)?
        };
        Some(Self {
            sent_us: word(0)? * 1_000_000 + word(4)?,
            number,
        })
    }
}

/// Statistics of the received datagrams of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// Highest received sequence number: at least this many were sent.
    pub(crate) highest: u64,
    /// Missing sequence numbers below the highest.
    pub(crate) missing: u64,
    /// Datagrams received after a higher one.
    pub(crate) out_of_order: u64,
    /// Smoothed variation of the transit time (RFC 1889, A.8).
    pub(crate) jitter_us: f64,
    transit_us: Option<i64>,
}

impl Arrivals {
    /// Records a datagram received at `now_us`. The clock can differ from the sender's.
    pub(crate) fn record(&mut self, head: Head, now_us: u64) {
        if head.number > self.highest {
            self.missing = self.missing.saturating_add(head.number - self.highest - 1);
            self.highest = head.number;
        } else {
            // It was counted as missing before.
            self.out_of_order += 1;
            self.missing = self.missing.saturating_sub(1);
        }
        let transit = now_us.cast_signed().wrapping_sub(head.sent_us.cast_signed());
        let step = self
            .transit_us
            .map_or(0, |before| transit.wrapping_sub(before).unsigned_abs());
        self.transit_us = Some(transit);
        self.jitter_us += (step as f64 - self.jitter_us) / 16.0;
    }
}

/// First datagram of a client on each UDP socket, from which the server learns its address. Servers accept any four bytes;
/// clients before 3.11 send a number.
pub(crate) const HELLO: [u8; 4] = *b"9876";
/// Answer of the server.
pub(crate) const WELCOME: [u8; 4] = *b"6789";
/// Answer of servers before 3.11, in their byte order.
pub(crate) const OLD_WELCOME: u32 = 987_654_321;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_head_reads_back_or_is_none_if_truncated() {
        let head = Head {
            sent_us: 3_000_007,
            number: 0x1_0000_0002,
        };
        let mut datagram = [0xaa; 18];
        head.write(&mut datagram, true);
        assert_eq!(
            datagram,
            [0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0xaa, 0xaa]
        );
        assert_eq!(Head::read(&datagram, true), Some(head));
        head.write(&mut datagram, false);
        assert_eq!(Head::read(&datagram, false).unwrap().number, 2);
        assert_eq!(Head::read(&datagram[..15], true), None);
        assert_eq!(Head::read(&datagram[..11], false), None);
        assert_eq!(Head::read(&[], false), None);
    }

    fn arrivals(numbers: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for (at, &number) in numbers.iter().enumerate() {
            arrivals.record(Head { sent_us: 0, number }, at as u64);
        }
        arrivals
    }

    #[test]
    fn gaps_are_missing_until_filled() {
        assert_eq!(arrivals(&[1, 2, 3]).missing, 0);
        assert_eq!(arrivals(&[1, 4]).missing, 2);
        let late = arrivals(&[1, 4, 2]);
        assert_eq!((late.missing, late.out_of_order, late.highest), (1, 1, 4));
        assert_eq!(arrivals(&[u64::MAX, 0, u64::MAX]).missing, u64::MAX - 3);
    }

    #[test]
    fn jitter_is_zero_for_constant_transit_time() {
        let mut steady = Arrivals::default();
        let mut shaky = Arrivals::default();
        for number in 1..100 {
            let sent_us = number * 1000;
            steady.record(Head { sent_us, number }, sent_us + 500_000);
            shaky.record(Head { sent_us, number }, sent_us + number % 2 * 160);
        }
        assert!(steady.jitter_us < 1e-9);
        assert!((150.0..160.0).contains(&shaky.jitter_us), "{}", shaky.jitter_us);
    }
}
