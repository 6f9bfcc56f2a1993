/// When a run began, in the kernel's clocks: what the times in a socket are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Jiffies a second; see [`hz`].
    pub hz: u32,
    /// `jiffies_64` ([`Reply::jiffies`](super::Reply::jiffies))
    pub jiffies: u64,
    /// `CLOCK_MONOTONIC` ([`Reply::ktime_ns`](super::Reply::ktime_ns))
    pub ktime_ns: u64,
}

impl Moment {
    /// `jiffies_to_usecs()` of kernel/time/time.c.
    #[must_use]
    #[inline]
    pub fn usecs(&self, jiffies: u32) -> u32 {
        (u64::from(jiffies) * 1_000_000 / self.hz()) as u32
    }

    /// `jiffies_to_msecs()`, which rounds up where a jiffy is no whole number of milliseconds.
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

    /// Jiffies since a stamp of `tcp_jiffies32`. It may be a little younger than the run, which is 0 then: the
    /// kernel's clock goes on while we read.
    #[must_use]
    #[inline]
    pub fn jiffies_since(&self, stamp: u32) -> u32 {
        since(
            self.jiffies as u32,
            stamp,
            self.hz.saturating_mul(YOUNGER_SECONDS_MAX),
        )
    }

    /// Milliseconds since a stamp of `tcp_clock_ms()`, likewise.
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

/// What 32-bit clocks say; an age of nearly the whole circle is a stamp from after `now`.
#[inline]
fn since(now: u32, stamp: u32, younger_max: u32) -> u32 {
    let age = now.wrapping_sub(stamp);
    if age >= younger_max.wrapping_neg() { 0 } else { age }
}

/// Jiffies a second, which no kernel tells: found from two of its clocks, read at one time.
///
/// Jiffies begin at 2^32 - 300 HZ (`INITIAL_JIFFIES` of include/linux/jiffies.h), so that errors of those who forget
/// that clocks overflow show five minutes after boot. So at `uptime` they are 2^32 + HZ (uptime - 300 s). In that
/// fifth minute itself, for a few seconds, every HZ fits: `None` then, as whenever none does. Where two fit of which
/// one is usual (1000) and one is to be had only on Alpha and MIPS (1024), it is the usual one.
#[must_use]
pub fn hz(jiffies: u64, ktime_ns: u64) -> Option<u32> {
    let passed_jiffies = i128::from(jiffies) - (1 << 32);
    let passed_ns = i128::from(ktime_ns) - 300 * NS_PER_S;
    // Both times a thousand million.
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
/// How far the two clocks may be apart: the one starts when the kernel does, the other with the first tick.
const APART_NS_MAX: i128 = NS_PER_S;
/// No run takes this long.
const YOUNGER_SECONDS_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(hz: u32) -> Moment {
        Moment {
            hz,
            jiffies: (1 << 32) + 5,
            ktime_ns: 2_000_000,
        }
    }

    #[test]
    fn jiffies_become_time_as_in_the_kernel() {
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
            let moment = moment(hz);
            assert_eq!(
                (moment.usecs(jiffies), moment.msecs(jiffies)),
                (usecs, msecs),
                "{jiffies} at {hz}"
            );
        }
        assert_eq!(
            [
                moment(250).jiffies(5),
                moment(300).jiffies(5),
                moment(1000).jiffies(5)
            ],
            [2, 2, 5]
        );
        assert_eq!(
            [moment(250).usecs_per_jiffy(), moment(300).usecs_per_jiffy()],
            [4000, 3333]
        );
        // nobody's clock, but no reason to stop
        assert_eq!(moment(0).usecs(1), 1_000_000);
    }

    #[test]
    fn ages_go_round_with_their_clock_and_are_never_below_zero() {
        let moment = moment(250);
        assert_eq!(moment.jiffies_since(5), 0);
        assert_eq!(moment.jiffies_since(6), 0, "while we read");
        assert_eq!(moment.jiffies_since(u32::MAX), 6, "over the overflow");
        assert_eq!(moment.jiffies_since(5 + 250 * 60), 0);
        assert_eq!(
            moment.jiffies_since(5 + 250 * 60 + 1),
            u32::MAX - 250 * 60,
            "long ago"
        );
        assert_eq!(
            [
                moment.msecs_since(1),
                moment.msecs_since(2),
                moment.msecs_since(3)
            ],
            [1, 0, 0]
        );
    }

    /// The clocks of a kernel after so long.
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
    fn hz_is_not_guessed() {
        for hz_here in USUAL {
            let (jiffies, ktime_ns) = clocks(hz_here, 300_000, 0);
            assert_eq!(
                hz(jiffies, ktime_ns),
                None,
                "five minutes after boot all of them fit"
            );
        }
        // none that we know, clocks that are not a kernel's
        for (jiffies, ktime_ns) in [
            clocks(500, 60_000, 0),
            clocks(250, 60_000, 2000),
            (0, 0),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(hz(jiffies, ktime_ns), None);
        }
        // 250 and 300 can be told apart again six seconds later.
        let (jiffies, ktime_ns) = clocks(250, 306_100, 0);
        assert_eq!(hz(jiffies, ktime_ns), Some(250));
    }
}
