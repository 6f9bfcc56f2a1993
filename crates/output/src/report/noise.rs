//! The noise of the machine as a sentence.

use sockeye_measure::Noise;

/// Returns a line with stolen time, other programs, load and frequency, and a warning if the figures are unreliable.
pub(super) fn describe(noise: &Noise) -> String {
    let is_noisy = noise.is_noisy();
    let mut parts = Vec::new();
    parts.push(match noise.steal_permille() {
        Some(steal) if steal >= STEAL_PERMILLE_MIN => {
            format!(
                "{} of the machine's time was stolen by the hypervisor",
                percent(steal)
            )
        }
        Some(_) => "no time was stolen by the hypervisor".to_owned(),
        None => "whether a hypervisor took time is not known".to_owned(),
    });
    parts.push(match noise.others_permille() {
        Some(others) => format!("other programs had {}", percent(others)),
        None => "what other programs took is not known".to_owned(),
    });
    match (noise.before.load, noise.after.load) {
        (Some(before), Some(after)) => parts.push(format!("load {before:.1} before and {after:.1} after")),
        (Some(load), None) | (None, Some(load)) => parts.push(format!("load {load:.1}")),
        (None, None) => {}
    }
    match noise.after.processors.or(noise.before.processors) {
        Some(1) => parts.push("1 processor".to_owned()),
        Some(count) => parts.push(format!("{count} processors")),
        None => {}
    }
    parts.push(match frequency_khz(noise) {
        Some((low, high)) if low == high => format!("frequency {}", gigahertz(low)),
        Some((low, high)) => format!("frequency between {} and {}", gigahertz(low), gigahertz(high)),
        None => "frequency unknown".to_owned(),
    });
    let end = if is_noisy {
        ": figures of other runs may differ by as much"
    } else {
        ""
    };
    format!("noise: {}{end}", parts.join(", "))
}

/// Returns the lowest and the highest frequency seen, before and after the run; `None` if unknown.
pub(super) fn frequency_khz(noise: &Noise) -> Option<(u64, u64)> {
    let seen = [noise.before.frequency_khz, noise.after.frequency_khz];
    let low = seen.iter().flatten().map(|(low, _)| *low).min()?;
    let high = seen.iter().flatten().map(|(_, high)| *high).max()?;
    Some((low, high))
}

fn gigahertz(khz: u64) -> String {
    format!("{:.2} GHz", khz as f64 / 1e6)
}

fn percent(permille: f64) -> String {
    let percent = permille / 10.0;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Stolen time below a tenth of a percent is not reported.
const STEAL_PERMILLE_MIN: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_measure::NoiseSample;

    fn sample(total: u64, idle: u64, steal: u64, own: u64) -> NoiseSample {
        NoiseSample {
            total_ticks: Some(total),
            idle_ticks: Some(idle),
            steal_ticks: Some(steal),
            own_ticks: Some(own),
            load: Some(2.14),
            frequency_khz: None,
            processors: Some(2),
        }
    }

    #[test]
    fn noisy_quiet_and_unknown_machines_are_described() {
        let noisy = Noise {
            before: sample(0, 0, 0, 0),
            after: sample(1000, 500, 30, 350),
        };
        assert_eq!(
            describe(&noisy),
            "noise: 3.0 % of the machine's time was stolen by the hypervisor, other programs had 12 %, load 2.1 before \
             and 2.1 after, 2 processors, frequency unknown: figures of other runs may differ by as much"
        );
        let mut quiet = Noise {
            before: sample(0, 0, 0, 0),
            after: sample(1000, 500, 0, 490),
        };
        (quiet.before.load, quiet.before.frequency_khz) = (None, Some((1_200_000, 1_200_000)));
        quiet.after.frequency_khz = Some((3_000_000, 3_500_000));
        assert_eq!(
            describe(&quiet),
            "noise: no time was stolen by the hypervisor, other programs had 1.0 %, load 2.1, 2 processors, frequency \
             between 1.20 GHz and 3.50 GHz"
        );
        assert_eq!(
            describe(&Noise::default()),
            "noise: whether a hypervisor took time is not known, what other programs took is not known, frequency unknown"
        );
    }
}
