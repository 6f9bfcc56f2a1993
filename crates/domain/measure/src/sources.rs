//! Speed of the sources of the socket table, in comparison with each other and with a bare dump.

use crate::Repeats;

/// Times to read the sockets of one protocol from one source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceTimes {
    /// Which sockets: `tcp`, `udp`, `unix`...
    pub what: &'static str,
    /// The source: the name of a step of the ladder, or [`FLOOR`].
    pub source: &'static str,
    /// Number of sockets in the last read.
    pub sockets: u64,
    /// Nanoseconds of the first read, including the start: loading BPF programs, reading the kernel's types.
    pub first_ns: Option<f64>,
    /// Nanoseconds of each further read.
    pub ns: Repeats,
    /// Why it does not work here; `None` if it works.
    pub missing: Option<String>,
    /// Repeated reads because the table changed meanwhile; included in the times.
    pub read_again: u64,
}

/// The lower bound: a bare netlink dump, received and discarded.
pub const FLOOR: &str = "floor";

impl SourceTimes {
    /// Nanoseconds per socket, without the start.
    #[must_use]
    pub fn ns_per_socket(&self) -> Option<f64> {
        Some(self.ns.median()? / self.sockets as f64).filter(|ns| ns.is_finite())
    }

    /// Time as a multiple of the floor's.
    #[must_use]
    pub fn ratio_to(&self, floor: &Self) -> Option<f64> {
        Some(self.ns.median()? / floor.ns.median()?).filter(|ratio| ratio.is_finite())
    }
}

/// The fastest and the slowest working source, if there are two; the floor is no source.
#[must_use]
pub fn fastest_and_slowest<'a>(
    all: impl Iterator<Item = &'a SourceTimes>,
) -> Option<(&'a SourceTimes, &'a SourceTimes)> {
    let mut timed: Vec<(f64, &SourceTimes)> = all
        .filter(|one| one.source != FLOOR)
        .filter_map(|one| Some((one.ns.median()?, one)))
        .collect();
    timed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ((_, fastest), (_, slowest)) = (timed.first()?, timed.last()?);
    (timed.len() > 1).then_some((fastest, slowest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(source: &'static str, sockets: u64, ns: &[f64]) -> SourceTimes {
        SourceTimes {
            what: "tcp",
            source,
            sockets,
            ns: ns.iter().copied().collect(),
            ..SourceTimes::default()
        }
    }

    #[test]
    fn cost_per_socket_and_ratio() {
        let floor = times(FLOOR, 100, &[50_000.0, 40_000.0, 60_000.0]);
        let procfs = times("procfs", 100, &[200_000.0]);
        assert_eq!(procfs.ns_per_socket(), Some(2_000.0));
        assert_eq!(procfs.ratio_to(&floor), Some(4.0));
        assert_eq!(
            times("bpf", 0, &[1.0]).ns_per_socket(),
            None,
            "of no sockets none costs anything"
        );
        assert_eq!(times("bpf", 1, &[]).ratio_to(&floor), None);
    }

    #[test]
    fn floor_is_not_ranked() {
        let all = [
            times(FLOOR, 9, &[1.0]),
            times("procfs", 9, &[9.0]),
            times("one-pass", 9, &[2.0]),
            times("bpf", 9, &[]),
        ];
        let (fastest, slowest) = fastest_and_slowest(all.iter()).unwrap();
        assert_eq!((fastest.source, slowest.source), ("one-pass", "procfs"));
        assert!(fastest_and_slowest(all[..2].iter()).is_none());
    }
}
