//! Datagrams of a test over UDP: the head of each, and what a receiver makes of the numbers in them.

/// What the sender writes at the start of each datagram: when, and the how manieth it is. Big-endian.
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
    /// Writes it; `wide` numbers have 64 bits. The datagram has room for it: 16 bytes are the least there is.
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

    /// None: too short to be one.
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

/// What came of the datagrams of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// The highest number that came: so many were sent, at least.
    pub(crate) highest: u64,
    /// Numbers below that which did not come.
    pub(crate) missing: u64,
    /// Those that came behind a higher one.
    pub(crate) out_of_order: u64,
    /// RFC 1889, A.8: how much the way's length varies, smoothed.
    pub(crate) jitter_us: f64,
    transit_us: Option<i64>,
}

impl Arrivals {
    /// One came at this time of a clock that may be another than the sender's.
    pub(crate) fn note(&mut self, head: Head, now_us: u64) {
        if head.number > self.highest {
            self.missing = self.missing.saturating_add(head.number - self.highest - 1);
            self.highest = head.number;
        } else {
            // It was taken for lost.
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

/// What a client sends first on each of its UDP sockets, so that the server gets to know the address. A number where iperf3
/// is older than 3.11: servers take any four bytes.
pub(crate) const HELLO: [u8; 4] = *b"9876";
/// What the server answers.
pub(crate) const WELCOME: [u8; 4] = *b"6789";
/// What servers before 3.11 answer, as it lies in their memory.
pub(crate) const OLD_WELCOME: u32 = 987_654_321;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_on_the_wire() {
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
            arrivals.note(Head { sent_us: 0, number }, at as u64);
        }
        arrivals
    }

    #[test]
    fn gaps_are_losses_until_they_are_filled() {
        assert_eq!(arrivals(&[1, 2, 3]).missing, 0);
        assert_eq!(arrivals(&[1, 4]).missing, 2);
        let late = arrivals(&[1, 4, 2]);
        assert_eq!((late.missing, late.out_of_order, late.highest), (1, 1, 4));
        assert_eq!(arrivals(&[u64::MAX, 0, u64::MAX]).missing, u64::MAX - 3);
    }

    #[test]
    fn jitter_of_a_steady_way_is_none() {
        let mut steady = Arrivals::default();
        let mut shaky = Arrivals::default();
        for number in 1..100 {
            let sent_us = number * 1000;
            steady.note(Head { sent_us, number }, sent_us + 500_000);
            shaky.note(Head { sent_us, number }, sent_us + number % 2 * 160);
        }
        assert!(steady.jitter_us < 1e-9);
        assert!((150.0..160.0).contains(&shaky.jitter_us), "{}", shaky.jitter_us);
    }
}
