//! What a network namespace as a whole runs out of.

use crate::connection::permille;
use crate::finding::Subject;
use crate::judge::about;
use crate::{Finding, Limit, Limits, Remedy, Rule, Severity};
use sockeye_model::{Fill, Vitals};

pub(crate) fn findings(vitals: &Vitals, limits: &Limits) -> Vec<Finding> {
    [
        time_wait_max(vitals, limits).or_else(|| time_wait(vitals, limits)),
        conntrack(vitals, limits),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn time_wait_max(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let fill = Fill {
        used: vitals.usage.time_wait?,
        max: vitals.settings.time_wait_max?,
    };
    let share = full(fill, limits.of(Limit::TimeWaitShare))?;
    Some(about(
        Rule::TimeWaitMax,
        vitals.netns,
        Subject::Namespace,
        &[
            ("time_wait", Some(fill.used)),
            ("time_wait_max", Some(fill.max)),
            ("share_permille", Some(share)),
        ],
        vec![
            Remedy::Sockeye("flows -s 'state time-wait'".into()),
            Remedy::Inside(format!(
                "sysctl -w net.ipv4.tcp_max_tw_buckets={}",
                fill.max.saturating_mul(4)
            )),
            Remedy::Advice("keep connections open and use them again (HTTP keep-alive, connection pools)"),
        ],
    ))
}

fn time_wait(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let time_wait = vitals.usage.time_wait?;
    let others = vitals.usage.tcp?;
    let is_it = time_wait >= limits.of(Limit::TimeWaitCount)
        && time_wait >= others.saturating_mul(limits.of(Limit::TimeWaitRatio));
    is_it.then(|| {
        about(
            Rule::TimeWait,
            vitals.netns,
            Subject::Namespace,
            &[("time_wait", Some(time_wait)), ("other_tcp", Some(others))],
            vec![
                Remedy::Sockeye("flows -s 'state time-wait'".into()),
                Remedy::Inside("sysctl -w net.ipv4.tcp_tw_reuse=1".into()),
                Remedy::Advice(
                    "keep connections open and use them again (HTTP keep-alive, connection pools)",
                ),
            ],
        )
    })
}

fn conntrack(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let fill = vitals.conntrack?;
    let share = full(fill, limits.of(Limit::ConntrackShare))?;
    let mut finding = about(
        Rule::Conntrack,
        vitals.netns,
        Subject::Namespace,
        &[
            ("entries", Some(fill.used)),
            ("entries_max", Some(fill.max)),
            ("share_permille", Some(share)),
        ],
        vec![
            Remedy::Inside("conntrack -S".into()),
            Remedy::Inside("conntrack -L | awk '{print $1, $4}' | sort | uniq -c | sort -rn | head".into()),
            Remedy::Anywhere(format!(
                "sysctl -w net.netfilter.nf_conntrack_max={}",
                fill.max.saturating_mul(2)
            )),
        ],
    );
    finding.severity = nearly_or_full(share);
    Some(finding)
}

/// How full it is, if it is as full as that.
pub(crate) fn full(fill: Fill, least_share: u64) -> Option<u64> {
    let share = permille(fill.used, fill.max);
    (fill.used > 0 && share >= least_share).then_some(share)
}

/// Nearly full is a warning; from here on there is no room for a burst.
pub(crate) const fn nearly_or_full(share: u64) -> Severity {
    if share >= 950 {
        Severity::Critical
    } else {
        Severity::Warning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vitals), expected: &[&str]) {
        let mut vitals = Vitals::default();
        change(&mut vitals);
        let found = findings(&vitals, &Limits::default());
        let names: Vec<String> = found
            .iter()
            .map(|finding| format!("{} {}", finding.severity, finding.rule))
            .collect();
        assert_eq!(names, expected, "{found:#?}");
    }

    #[test]
    fn what_nobody_could_read_is_not_held_against_it() {
        check(|_| {}, &[]);
        // As many as may be, but who knows how many.
        check(|vitals| vitals.settings.time_wait_max = Some(10), &[]);
        check(|vitals| vitals.usage.time_wait = Some(1_000_000), &[]);
    }

    #[test]
    fn time_wait_by_its_limit_and_by_itself() {
        let of = |time_wait, max, tcp| {
            move |vitals: &mut Vitals| {
                vitals.usage.time_wait = Some(time_wait);
                vitals.usage.tcp = Some(tcp);
                vitals.settings.time_wait_max = max;
            }
        };
        check(of(799, Some(1000), 0), &[]);
        check(of(800, Some(1000), 0), &["warning time-wait-max"]);
        check(of(30_000, Some(262_144), 6000), &["warning time-wait"]);
        check(of(30_000, Some(262_144), 6001), &[]);
        check(of(29_999, None, 0), &[]);
        check(of(30_000, None, 0), &["warning time-wait"]);
        // One fault, one finding.
        check(of(30_000, Some(30_000), 0), &["warning time-wait-max"]);
        check(of(0, Some(0), 0), &[]);
    }

    #[test]
    fn tracked_connections() {
        let of = |used| move |vitals: &mut Vitals| vitals.conntrack = Some(Fill { used, max: 1000 });
        check(of(799), &[]);
        check(of(800), &["warning conntrack"]);
        check(of(949), &["warning conntrack"]);
        check(of(950), &["critical conntrack"]);
    }
}
