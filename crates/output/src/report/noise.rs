//! How quiet the machine was, in words.

use sockeye_measure::Noise;

/// A line that says what else went on, and what that means for the figures.
pub(super) fn in_words(noise: &Noise) -> String {
    let is_noisy = noise.is_noisy();
    let mut said = Vec::new();
    said.push(match noise.steal_permille() {
        Some(steal) if steal >= TOLD_PERMILLE => {
            format!(
                "{} of the machine's time was stolen by the hypervisor",
                percent(steal)
            )
        }
        Some(_) => "no time was stolen by the hypervisor".to_owned(),
        None => "whether a hypervisor took time is not known".to_owned(),
    });
    said.push(match noise.others_permille() {
        Some(others) => format!("other programs had {}", percent(others)),
        None => "what other programs took is not known".to_owned(),
    });
    match (noise.before.load, noise.after.load) {
        (Some(before), Some(after)) => said.push(format!("load {before:.1} before and {after:.1} after")),
        (Some(load), None) | (None, Some(load)) => said.push(format!("load {load:.1}")),
        (None, None) => {}
    }
    match noise.after.processors.or(noise.before.processors) {
        Some(1) => said.push("1 processor".to_owned()),
        Some(count) => said.push(format!("{count} processors")),
        None => {}
    }
    said.push(match frequency_khz(noise) {
        Some((low, high)) if low == high => format!("frequency {}", gigahertz(low)),
        Some((low, high)) => format!("frequency between {} and {}", gigahertz(low), gigahertz(high)),
        None => "frequency unknown".to_owned(),
    });
    let end = if is_noisy {
        ": figures of other runs may differ by as much"
    } else {
        ""
    };
    format!("noise: {}{end}", said.join(", "))
}

/// The slowest and the fastest that was seen, before and after.
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

/// A tenth of a percent of stolen time is nobody's trouble.
const TOLD_PERMILLE: f64 = 1.0;

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
    fn loud_and_quiet() {
        let loud = Noise {
            before: sample(0, 0, 0, 0),
            after: sample(1000, 500, 30, 350),
        };
        assert_eq!(
            in_words(&loud),
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
            in_words(&quiet),
            "noise: no time was stolen by the hypervisor, other programs had 1.0 %, load 2.1, 2 processors, frequency \
             between 1.20 GHz and 3.50 GHz"
        );
        assert_eq!(
            in_words(&Noise::default()),
            "noise: whether a hypervisor took time is not known, what other programs took is not known, frequency unknown"
        );
    }
}
