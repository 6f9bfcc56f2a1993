//! Converts jiffies and kernel timestamps in BPF walk records into microseconds and milliseconds, and finds
//! HZ. `source::bpf` makes one for each run. Pure: it reads no clock, the kernel's times are arguments.

/// The kernel's clocks at the start of a run: the reference of the times in a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Jiffies per second; see [`hz`].
    pub hz: u32,
    /// `jiffies_64` ([`Reply::jiffies`](super::Reply::jiffies))
    pub jiffies: u64,
    /// `CLOCK_MONOTONIC` ([`Reply::ktime_ns`](super::Reply::ktime_ns))
    pub ktime_ns: u64,
}

impl KernelClock {
    /// `jiffies_to_usecs()` of kernel/time/time.c.
    #[must_use]
    #[inline]
    pub fn usecs(&self, jiffies: u32) -> u32 {
        (u64::from(jiffies) * 1_000_000 / self.hz()) as u32
    }

    /// `jiffies_to_msecs()`, which rounds up if a jiffy is not a whole number of milliseconds.
    #[must_use]
    #[inline]
    pub fn msecs(&self, jiffies: u32) -> u32 {
        (u64::from(jiffies) * 1000).div_ceil(self.hz()) as u32
    }

    /// `msecs_to_jiffies()`, which rounds up.
    #[must_use]
    #[inline]
    pub fn jiffies(&self, msecs: u32) -> u32 {
        (u64::from(msecs) * self.hz()).div_ceil(1000) as u32
    }

    /// `USEC_PER_SEC / HZ`
    #[must_use]
    #[inline]
    pub fn usecs_per_jiffy(&self) -> u64 {
        1_000_000 / self.hz()
    }

    /// Returns the jiffies since a timestamp of `tcp_jiffies32`; 0 for a timestamp slightly later than the start of the
    /// run, as sockets change while they are read.
    #[must_use]
    #[inline]
    pub fn jiffies_since(&self, stamp: u32) -> u32 {
        since(
            self.jiffies as u32,
            stamp,
            self.hz.saturating_mul(YOUNGER_SECONDS_MAX),
        )
    }

    /// Returns the milliseconds since a timestamp of `tcp_clock_ms()`, likewise.
    #[must_use]
    #[inline]
    pub fn msecs_since(&self, stamp: u32) -> u32 {
        since(
            (self.ktime_ns / 1_000_000) as u32,
            stamp,
            1000 * YOUNGER_SECONDS_MAX,
        )
    }

    #[inline]
    fn hz(&self) -> u64 {
        u64::from(self.hz.max(1))
    }
}

/// Returns the age of a timestamp on a 32-bit clock. An age of nearly 2^32 is a timestamp later than `now`: 0.
#[inline]
fn since(now: u32, stamp: u32, younger_max: u32) -> u32 {
    let age = now.wrapping_sub(stamp);
    if age >= younger_max.wrapping_neg() { 0 } else { age }
}

/// Returns the jiffies per second, which the kernel does not report, from two of its clocks read at the same time.
///
/// Jiffies start at 2^32 - 300 HZ (`INITIAL_JIFFIES` of include/linux/jiffies.h), so that overflow errors show five
/// minutes after boot. At `uptime` they are 2^32 + HZ (uptime - 300 s). For a few seconds around the fifth minute every
/// HZ fits: then the result is `None`, as when none fits. If a usual value (1000) and one of Alpha and MIPS only (1024)
/// both fit, it is the usual one.
#[must_use]
pub fn hz(jiffies: u64, ktime_ns: u64) -> Option<u32> {
    let passed_jiffies = i128::from(jiffies) - (1 << 32);
    let passed_ns = i128::from(ktime_ns) - 300 * NS_PER_S;
    // Both times 10^9.
    let fits = |hz: &&u32| {
        let hz = i128::from(**hz);
        // A tick is a whole number of nanoseconds, so that at 300 HZ jiffies run ahead by one in ten million.
        let apart_ns_max = APART_NS_MAX + i128::from(ktime_ns) / 100_000;
        (passed_jiffies * NS_PER_S - hz * passed_ns).abs() <= hz * apart_ns_max
    };
    [&USUAL[..], &UNUSUAL[..]].into_iter().find_map(|choices| {
        let mut fitting = choices.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (None, _) => None,
            (Some(&hz), None) => Some(Some(hz)),
            (Some(_), Some(_)) => Some(None),
        }
    })?
}

/// kernel/Kconfig.hz
const USUAL: [u32; 4] = [100, 250, 300, 1000];
/// arch/alpha/Kconfig, arch/mips/Kconfig
const UNUSUAL: [u32; 6] = [24, 48, 128, 256, 1024, 1200];
const NS_PER_S: i128 = 1_000_000_000;
/// Largest difference of the two clocks: one starts with the kernel, the other with the first tick.
const APART_NS_MAX: i128 = NS_PER_S;
/// Longer than any run takes.
const YOUNGER_SECONDS_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(hz: u32) -> KernelClock {
        KernelClock {
            hz,
            jiffies: (1 << 32) + 5,
            ktime_ns: 2_000_000,
        }
    }

    #[test]
    fn jiffies_are_converted_as_in_the_kernel() {
        // kernel/time/time.c: 300 Hz is 10000/3 us and 10/3 ms a jiffy
        let cases = [
            (100, 3, 30_000, 30),
            (250, 51, 204_000, 204),
            (300, 1, 3_333, 4),
            (300, 3, 10_000, 10),
            (1000, 200, 200_000, 200),
            (1024, 1, 976, 1),
            (1024, 1024, 1_000_000, 1000),
            (1200, 1, 833, 1),
            // an unsigned int
            (250, 1_100_000, 105_032_704, 4_400_000),
        ];
        for (hz, jiffies, usecs, msecs) in cases {
            let clock = clock(hz);
            assert_eq!(
                (clock.usecs(jiffies), clock.msecs(jiffies)),
                (usecs, msecs),
                "{jiffies} at {hz}"
            );
        }
        assert_eq!(
            [
                clock(250).jiffies(5),
                clock(300).jiffies(5),
                clock(1000).jiffies(5)
            ],
            [2, 2, 5]
        );
        assert_eq!(
            [clock(250).usecs_per_jiffy(), clock(300).usecs_per_jiffy()],
            [4000, 3333]
        );
        // an invalid clock must not divide by zero
        assert_eq!(clock(0).usecs(1), 1_000_000);
    }

    #[test]
    fn age_wraps_with_the_clock_and_is_never_negative() {
        let clock = clock(250);
        assert_eq!(clock.jiffies_since(5), 0);
        assert_eq!(clock.jiffies_since(6), 0, "while we read");
        assert_eq!(clock.jiffies_since(u32::MAX), 6, "over the overflow");
        assert_eq!(clock.jiffies_since(5 + 250 * 60), 0);
        assert_eq!(
            clock.jiffies_since(5 + 250 * 60 + 1),
            u32::MAX - 250 * 60,
            "long ago"
        );
        assert_eq!(
            [clock.msecs_since(1), clock.msecs_since(2), clock.msecs_since(3)],
            [1, 0, 0]
        );
    }

    /// The clocks of a kernel after this uptime.
    fn clocks(hz: u32, uptime_ms: u64, apart_ms: i64) -> (u64, u64) {
        let start = u64::from((300 * hz).wrapping_neg());
        (
            start + u64::from(hz) * uptime_ms / 1000,
            uptime_ms.saturating_add_signed(apart_ms) * 1_000_000,
        )
    }

    #[test]
    fn hz_is_found_from_two_clocks() {
        let minute = 60_000;
        for hz_here in USUAL {
            for uptime_ms in [
                10,
                1000,
                20_000,
                minute,
                4 * minute,
                6 * minute,
                60 * minute,
                525_600 * minute,
            ] {
                for apart_ms in [-9, 0, 500] {
                    let (jiffies, ktime_ns) = clocks(hz_here, uptime_ms, apart_ms);
                    assert_eq!(
                        hz(jiffies, ktime_ns),
                        Some(hz_here),
                        "{uptime_ms} ms, {apart_ms} apart"
                    );
                }
            }
        }
        for hz_here in UNUSUAL {
            let (jiffies, ktime_ns) = clocks(hz_here, minute, 100);
            assert_eq!(hz(jiffies, ktime_ns), Some(hz_here));
        }
    }

    #[test]
    fn ambiguous_hz_is_none() {
        for hz_here in USUAL {
            let (jiffies, ktime_ns) = clocks(hz_here, 300_000, 0);
            assert_eq!(
                hz(jiffies, ktime_ns),
                None,
                "five minutes after boot all of them fit"
            );
        }
        // an unknown HZ, and clocks that are not a kernel's
        for (jiffies, ktime_ns) in [
            clocks(500, 60_000, 0),
            clocks(250, 60_000, 2000),
            (0, 0),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(hz(jiffies, ktime_ns), None);
        }
        // 250 and 300 differ again six seconds later.
        let (jiffies, ktime_ns) = clocks(250, 306_100, 0);
        assert_eq!(hz(jiffies, ktime_ns), Some(250));
    }
}
