//! What else went on in the machine while something was measured.

/// What the kernel tells of a machine at one moment. Each is None where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NoiseSample {
    /// Time of all processors, in ticks: all of it (`/proc/stat`, first line).
    pub total_ticks: Option<u64>,
    /// Of that: nothing to do, or waiting for a disk.
    pub idle_ticks: Option<u64>,
    /// Of that: the hypervisor gave it to others.
    pub steal_ticks: Option<u64>,
    /// Processor time of ourselves and of the children that we waited for, in ticks.
    pub own_ticks: Option<u64>,
    /// Tasks that want to run (`/proc/loadavg`, the last minute's mean).
    pub load: Option<f64>,
    /// Frequency of the slowest and the fastest processor, in kHz (`cpufreq`); virtual machines have none.
    pub frequency_khz: Option<(u64, u64)>,
    /// Processors that are online.
    pub processors: Option<u64>,
}

/// Two moments beside each other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    /// When it began.
    pub before: NoiseSample,
    /// When it was over.
    pub after: NoiseSample,
}

impl Noise {
    /// Time that the hypervisor gave to others, in thousandths of all time.
    #[must_use]
    pub fn steal_permille(&self) -> Option<f64> {
        self.share(|sample| sample.steal_ticks)
    }

    /// Time that others than ourselves took, in thousandths of all time. The kernel's work for us in interrupts counts as
    /// others'.
    #[must_use]
    pub fn others_permille(&self) -> Option<f64> {
        let idle = self.share(|sample| sample.idle_ticks)?;
        let own = self.share(|sample| sample.own_ticks)?;
        let steal = self.steal_permille().unwrap_or(0.0);
        Some((1000.0 - idle - own - steal).max(0.0))
    }

    /// Whether it was so noisy that figures should be taken with care: more than 2 % stolen, or other programs had more
    /// than a tenth of the machine.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.steal_permille().is_some_and(|share| share > 20.0)
            || self.others_permille().is_some_and(|share| share > 100.0)
    }

    fn share(&self, of: impl Fn(&NoiseSample) -> Option<u64>) -> Option<f64> {
        let total = self.after.total_ticks?.checked_sub(self.before.total_ticks?)?;
        let part = of(&self.after)?.saturating_sub(of(&self.before)?);
        (total > 0).then(|| part as f64 / total as f64 * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(total: u64, idle: u64, steal: u64, own: u64) -> NoiseSample {
        NoiseSample {
            total_ticks: Some(total),
            idle_ticks: Some(idle),
            steal_ticks: Some(steal),
            own_ticks: Some(own),
            ..NoiseSample::default()
        }
    }

    #[test]
    fn shares_of_what_passed() {
        let noise = Noise {
            before: at(1000, 500, 10, 100),
            after: at(2000, 1000, 60, 500),
        };
        assert_eq!(noise.steal_permille(), Some(50.0));
        assert_eq!(noise.others_permille(), Some(50.0));
        assert!(noise.is_noisy());
    }

    #[test]
    fn what_is_not_known_is_not_noisy() {
        let noise = Noise::default();
        assert_eq!(noise.steal_permille(), None);
        assert_eq!(noise.others_permille(), None);
        assert!(!noise.is_noisy());
        let still = Noise {
            before: at(5, 5, 0, 0),
            after: at(5, 5, 0, 0),
        };
        assert_eq!(still.steal_permille(), None);
    }
}
