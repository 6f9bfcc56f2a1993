//! Activity of the machine during a measurement.

/// Counters of a machine at one moment; each is `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NoiseSample {
    /// Time of all processors, in ticks (`/proc/stat`, first line).
    pub total_ticks: Option<u64>,
    /// Of that: idle, or waiting for a disk.
    pub idle_ticks: Option<u64>,
    /// Of that: used by the hypervisor for others.
    pub steal_ticks: Option<u64>,
    /// Processor time of this process and of finished children, in ticks.
    pub own_ticks: Option<u64>,
    /// Runnable tasks, mean of the last minute (`/proc/loadavg`).
    pub load: Option<f64>,
    /// Lowest and highest frequency of the processors, in kHz (`cpufreq`); virtual machines have none.
    pub frequency_khz: Option<(u64, u64)>,
    /// Online processors.
    pub processors: Option<u64>,
}

/// Counters before and after a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    /// At the beginning.
    pub before: NoiseSample,
    /// At the end.
    pub after: NoiseSample,
}

impl Noise {
    /// Time that the hypervisor used for others, in thousandths of all time.
    #[must_use]
    pub fn steal_permille(&self) -> Option<f64> {
        self.share(|sample| sample.steal_ticks)
    }

    /// Time that other programs used, in thousandths of all time. Interrupts on our behalf count as others.
    #[must_use]
    pub fn others_permille(&self) -> Option<f64> {
        let idle = self.share(|sample| sample.idle_ticks)?;
        let own = self.share(|sample| sample.own_ticks)?;
        let steal = self.steal_permille().unwrap_or(0.0);
        Some((1000.0 - idle - own - steal).max(0.0))
    }

    /// Whether figures are unreliable: more than 2 % stolen, or other programs used more than a tenth of the
    /// machine.
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
    fn shares_are_of_elapsed_ticks() {
        let noise = Noise {
            before: at(1000, 500, 10, 100),
            after: at(2000, 1000, 60, 500),
        };
        assert_eq!(noise.steal_permille(), Some(50.0));
        assert_eq!(noise.others_permille(), Some(50.0));
        assert!(noise.is_noisy());
    }

    #[test]
    fn unknown_counters_are_not_noisy() {
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
