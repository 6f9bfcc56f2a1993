//! Rules about limits of a network namespace as a whole.

use crate::finding::Subject;
use crate::share::{fill_above, severity_of_fill};
use crate::{Finding, Limit, Limits, Rule};
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

/// Without its loopback device a network namespace with servers is not what its programs expect.
pub(crate) fn loopback(vitals: &Vitals) -> Option<Finding> {
    let device = vitals
        .devices
        .iter()
        .find(|device| device.is_loopback && !device.is_up)?;
    Some(
        Finding::about(Rule::LoopbackDown, vitals.netns, Subject::Device(device.name))
            .fact("index", device.index.0)
            .inside("ip link set dev lo up"),
    )
}

fn time_wait_max(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let fill = Fill {
        used: vitals.usage.time_wait?,
        max: vitals.settings.time_wait_max?,
    };
    let share = fill_above(fill, limits.of(Limit::TimeWaitShare))?;
    Some(
        Finding::about(Rule::TimeWaitMax, vitals.netns, Subject::Namespace)
            .fact("time_wait", fill.used)
            .fact("time_wait_max", fill.max)
            .fact("share_permille", share)
            .sockeye("flows -s 'state time-wait'")
            .inside(format!(
                "sysctl -w net.ipv4.tcp_max_tw_buckets={}",
                fill.max.saturating_mul(4)
            ))
            .advice("keep connections open and use them again (HTTP keep-alive, connection pools)"),
    )
}

fn time_wait(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let time_wait = vitals.usage.time_wait?;
    let others = vitals.usage.tcp?;
    let applies = time_wait >= limits.of(Limit::TimeWaitCount)
        && time_wait >= others.saturating_mul(limits.of(Limit::TimeWaitRatio));
    applies.then(|| {
        Finding::about(Rule::TimeWait, vitals.netns, Subject::Namespace)
            .fact("time_wait", time_wait)
            .fact("other_tcp", others)
            .sockeye("flows -s 'state time-wait'")
            .inside("sysctl -w net.ipv4.tcp_tw_reuse=1")
            .advice("keep connections open and use them again (HTTP keep-alive, connection pools)")
    })
}

fn conntrack(vitals: &Vitals, limits: &Limits) -> Option<Finding> {
    let fill = vitals.conntrack?;
    let share = fill_above(fill, limits.of(Limit::ConntrackShare))?;
    let finding = Finding::about(Rule::Conntrack, vitals.netns, Subject::Namespace)
        .fact("entries", fill.used)
        .fact("entries_max", fill.max)
        .fact("share_permille", share)
        .inside("conntrack -S")
        .inside("conntrack -L | awk '{print $1, $4}' | sort | uniq -c | sort -rn | head")
        .anywhere(format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}",
            fill.max.saturating_mul(2)
        ));
    Some(finding.with(severity_of_fill(share)))
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
    fn unknown_values_give_no_finding() {
        check(|_| {}, &[]);
        // At the maximum, but the number in use is unknown.
        check(|vitals| vitals.settings.time_wait_max = Some(10), &[]);
        check(|vitals| vitals.usage.time_wait = Some(1_000_000), &[]);
    }

    #[test]
    fn time_wait_counts_with_and_without_limit() {
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
    fn conntrack_near_its_limit_is_found() {
        let of = |used| move |vitals: &mut Vitals| vitals.conntrack = Some(Fill { used, max: 1000 });
        check(of(799), &[]);
        check(of(800), &["warning conntrack"]);
        check(of(949), &["warning conntrack"]);
        check(of(950), &["critical conntrack"]);
    }
}
