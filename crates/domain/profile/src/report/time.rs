//! Table `time` of a profile for `prof`: computing and each reason of waiting, with shares of thread time.

use super::{TableBuilder, permille};
use crate::format::counted;
use crate::tally;
use sockeye_measure::{Column, Table, Unit, Value};

impl TableBuilder<'_> {
    /// Total time: computing by samples, waiting by reason.
    pub(super) fn time(&self) -> Option<Table> {
        let profile = self.profile;
        let mut rows: Vec<(String, &'static str, u64)> = Vec::new();
        if let Some(cpu) = &profile.cpu {
            let kernel = cpu.kernel_samples.min(cpu.samples);
            // In a very short run, a sample amounts to more than the run's time.
            let most_ns = profile
                .duration_ns
                .saturating_mul(u64::from(profile.processors.max(1)));
            let mut add = |words: &str, name, samples| {
                let words = match samples {
                    1..ROUGH_SAMPLES => format!("{words} ({})", counted(samples, "sample")),
                    _ => words.to_owned(),
                };
                let ns = tally::computed_ns(samples, cpu.samples_per_s);
                rows.extend(ns.map(|ns| (words, name, ns.min(most_ns))));
            };
            add("computing", "computing", cpu.samples - kernel);
            if !cpu.user_only {
                add("computing in the kernel", "computing_kernel", kernel);
            }
        }
        for (reason, ns) in tally::reasons(profile) {
            let words = match reason.words() {
                words if words.starts_with("for a lock or condition") => {
                    "waiting for a lock or condition (futex)".to_owned()
                }
                words if words.starts_with("for another process") => "waiting for another process".to_owned(),
                words if words.starts_with("for ") => format!("waiting {words}"),
                words if words.starts_with("by ") => format!("waiting {words}"),
                words => words.to_owned(),
            };
            rows.push((words, reason.name(), ns));
        }
        rows.retain(|(_, _, ns)| *ns > 0);
        if rows.is_empty() {
            return None;
        }
        // The sort is stable: of equals computing comes first.
        rows.sort_by_key(|(_, _, ns)| std::cmp::Reverse(*ns));
        let whole = tally::sum(rows.iter().map(|(_, _, ns)| *ns));
        let mut table = Table::new(
            "time",
            vec![
                Column::new("threads were", "what", Unit::Text),
                Column::new("time", "total_ns", Unit::Nanoseconds),
                Column::new("share", "share_permille", Unit::Permille),
                Column::new("threads", "threads", Unit::Number),
            ],
        );
        for (words, name, ns) in rows {
            let threads = (profile.duration_ns > 0).then(|| round(ns as f64 / profile.duration_ns as f64));
            table.row(vec![
                if self.view.for_eyes {
                    Value::Text(words)
                } else {
                    name.into()
                },
                Value::Whole(ns),
                permille(ns, whole),
                threads.into(),
            ]);
        }
        Some(table)
    }
}

/// With fewer samples the time is inexact
const ROUGH_SAMPLES: u64 = 10;

fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
