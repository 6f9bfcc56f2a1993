//! Methods of sending a file to a socket: results, and which is the fastest.

use crate::Repeats;

/// Results of one method, for one file size and one path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileTransfers {
    /// `lo`, `veth`
    pub device: &'static str,
    /// 4 or 6
    pub ip_version: u8,
    /// The method: `sendfile`
    pub method: &'static str,
    /// Size of the file, which is sent repeatedly.
    pub size_bytes: u64,
    /// The measurements.
    pub runs: Vec<FileRun>,
}

/// One measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FileRun {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Number of times that the file was sent.
    pub files: u64,
    /// Seconds from the first call to the arrival of the last byte.
    pub seconds: f64,
    /// Processor time of the sending thread, in seconds.
    pub sender_cpu_s: f64,
    /// Processor time of the receiving thread, in seconds.
    pub receiver_cpu_s: f64,
    /// System calls of the sending thread.
    pub calls: u64,
    /// The kernel's reports on zero copy; `None` if not requested.
    pub zero_copy: Option<ZeroCopy>,
    /// Bytes that the receiving interface counted meanwhile, with headers.
    pub interface_bytes: Option<u64>,
}

/// Results of zero-copy sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZeroCopy {
    /// Sends that the kernel reported as completed.
    pub sends: u64,
    /// Sends that the kernel copied nevertheless; `None` if it does not report that.
    pub copied: Option<u64>,
}

impl FileTransfers {
    /// Bytes per second of each measurement.
    #[must_use]
    pub fn rates(&self) -> Repeats {
        self.each(|run| run.bytes as f64 / run.seconds)
    }

    /// Nanoseconds of sender processor time per byte.
    #[must_use]
    pub fn sender_ns_per_byte(&self) -> Repeats {
        self.each(|run| run.sender_cpu_s * 1e9 / run.bytes as f64)
    }

    /// Nanoseconds of receiver processor time per byte.
    #[must_use]
    pub fn receiver_ns_per_byte(&self) -> Repeats {
        self.each(|run| run.receiver_cpu_s * 1e9 / run.bytes as f64)
    }

    /// System calls per file sent.
    #[must_use]
    pub fn calls_per_file(&self) -> Repeats {
        self.each(|run| run.calls as f64 / run.files as f64)
    }

    /// The kernel's reports on zero copy, summed over all measurements; `None` if not requested.
    #[must_use]
    pub fn zero_copy(&self) -> Option<ZeroCopy> {
        let all = self.runs.iter().filter_map(|run| run.zero_copy);
        all.reduce(|one, other| ZeroCopy {
            sends: one.sends + other.sends,
            copied: one.copied.zip(other.copied).map(|(one, other)| one + other),
        })
    }

    fn each(&self, of: impl Fn(&FileRun) -> f64) -> Repeats {
        self.runs.iter().map(of).collect()
    }
}

/// The fastest of several methods.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRanking {
    /// Methods that no other one clearly exceeds, by descending median.
    pub first: Vec<&'static str>,
    /// The first method's median rate as a multiple of that of plain read and write; `None` if plain is among
    /// the first.
    pub gain: Option<f64>,
    /// Whether there are too few measurements for a spread.
    pub is_single: bool,
}

/// Ranks methods of the same file size over the same paths. `plain` is the method that all are compared with:
/// rates over several paths are compared as multiples of its rate there, measured at about the same time.
#[must_use]
pub fn rank_file_methods(all: &[&FileTransfers], plain: &str) -> Option<FileRanking> {
    let mut methods: Vec<(&'static str, Repeats)> = Vec::new();
    for transfers in all {
        let base = all.iter().find(|other| {
            other.method == plain
                && (other.device, other.ip_version) == (transfers.device, transfers.ip_version)
        });
        // Without the plain method, the rest is compared by rate.
        let base = base.map(|base| base.rates());
        let index = methods.iter().position(|(method, _)| *method == transfers.method);
        let index = index.unwrap_or_else(|| {
            methods.push((transfers.method, Repeats::default()));
            methods.len() - 1
        });
        for (turn, rate) in transfers.rates().all().iter().enumerate() {
            let plain_rate = match &base {
                Some(base) => base.all().get(turn).copied().or_else(|| base.median()),
                None => Some(1.0),
            };
            if let Some(plain_rate) = plain_rate {
                methods[index].1.push(rate / plain_rate);
            }
        }
    }
    // The plain method compared with itself has no spread; its noise is in all the others.
    methods.retain(|(_, ratios)| !ratios.is_empty());
    let median = |ratios: &Repeats| ratios.median().unwrap_or_default();
    methods.sort_by(|one, other| median(&other.1).total_cmp(&median(&one.1)));
    let (fastest, best) = methods.first()?;
    let is_single = best.len() < 2;
    let low = best.middle()?.0;
    let first: Vec<&'static str> = methods
        .iter()
        .filter(|(method, ratios)| {
            let high = ratios.middle().map_or(0.0, |(_, high)| high);
            method == fastest || high >= low || median(ratios) * CLEAR_FACTOR > median(best)
        })
        .map(|(method, _)| *method)
        .collect();
    let base = methods.iter().find(|(method, _)| *method == plain);
    let gain = base
        .filter(|(method, _)| !first.contains(method))
        .map(|(_, base)| median(best) / median(base));
    Some(FileRanking {
        first,
        gain,
        is_single,
    })
}

/// A difference below 5 % does not count, however small the spread.
const CLEAR_FACTOR: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn transfers(method: &'static str, ip_version: u8, rates: &[f64]) -> FileTransfers {
        let run = |&rate: &f64| FileRun {
            bytes: 1000,
            files: 2,
            seconds: 1000.0 / rate,
            sender_cpu_s: 1e-6,
            receiver_cpu_s: 2e-6,
            calls: 8,
            ..FileRun::default()
        };
        FileTransfers {
            device: "lo",
            ip_version,
            method,
            size_bytes: 500,
            runs: rates.iter().map(run).collect(),
        }
    }

    fn ranking(all: &[FileTransfers]) -> FileRanking {
        rank_file_methods(&all.iter().collect::<Vec<_>>(), "read").unwrap()
    }

    #[test]
    fn fastest_method_is_first() {
        let clear = ranking(&[
            transfers("read", 4, &[100.0, 101.0, 99.0]),
            transfers("sendfile", 4, &[150.0, 149.0, 151.0]),
            transfers("mmap", 4, &[90.0, 91.0, 89.0]),
        ]);
        assert_eq!(clear.first, ["sendfile"]);
        assert!((clear.gain.unwrap() - 1.5).abs() < 0.05);
        assert!(!clear.is_single);
    }

    #[test]
    fn overlapping_methods_share_the_first_place() {
        let noisy = ranking(&[
            transfers("read", 4, &[100.0, 130.0, 80.0, 100.0, 120.0]),
            transfers("sendfile", 4, &[120.0, 100.0, 110.0, 90.0, 125.0]),
        ]);
        assert_eq!(noisy.first.len(), 2);
        assert_eq!(noisy.gain, None);
        // A machine that becomes slower slows all methods: compare measurements of the same time.
        let slowing = ranking(&[
            transfers("read", 4, &[100.0, 50.0, 25.0]),
            transfers("sendfile", 4, &[150.0, 75.0, 38.0]),
        ]);
        assert_eq!(slowing.first, ["sendfile"]);
        // A small but constant difference.
        let close = ranking(&[
            transfers("read", 4, &[100.0, 100.0, 100.0]),
            transfers("sendfile", 4, &[102.0, 102.0, 102.0]),
        ]);
        assert_eq!(close.first, ["sendfile", "read"]);
    }

    #[test]
    fn paths_are_compared_by_ratio() {
        let two = ranking(&[
            transfers("read", 4, &[100.0, 100.0]),
            transfers("read", 6, &[10.0, 10.0]),
            transfers("splice", 4, &[140.0, 141.0]),
            transfers("splice", 6, &[14.0, 14.1]),
        ]);
        assert_eq!(two.first, ["splice"]);
        assert!(ranking(&[transfers("read", 4, &[1.0])]).is_single);
        assert_eq!(rank_file_methods(&[], "read"), None);
        let without = ranking(&[
            transfers("mmap", 4, &[1.0, 1.0]),
            transfers("splice", 4, &[2.0, 2.0]),
        ]);
        assert_eq!((without.first, without.gain), (vec!["splice"], None));
    }

    #[test]
    fn costs_per_file_and_byte() {
        let mut one = transfers("zc", 4, &[100.0, 100.0]);
        assert_eq!(one.sender_ns_per_byte().median(), Some(1.0));
        assert_eq!(one.receiver_ns_per_byte().median(), Some(2.0));
        assert_eq!(one.calls_per_file().median(), Some(4.0));
        assert_eq!(one.zero_copy(), None);
        for run in &mut one.runs {
            run.zero_copy = Some(ZeroCopy {
                sends: 3,
                copied: Some(2),
            });
        }
        assert_eq!(
            one.zero_copy(),
            Some(ZeroCopy {
                sends: 6,
                copied: Some(4)
            })
        );
        one.runs[0].zero_copy = Some(ZeroCopy {
            sends: 1,
            copied: None,
        });
        assert_eq!(one.zero_copy().unwrap().copied, None);
    }
}
