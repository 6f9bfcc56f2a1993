//! A host over all samples.

use crate::{ExporterHealth, Service, ServiceSample, Services};
use sockeye_model::ConnectionTotals;
use std::collections::BTreeMap;

/// What all samples of a host gave.
#[derive(Debug, Clone)]
pub struct HostMetrics {
    /// By service.
    pub services: Services,
    /// What the kernel counted since the begin; `None` if unknown.
    pub connections: Option<ConnectionTotals>,
    /// Resets by side and reason.
    pub resets: BTreeMap<(&'static str, Box<str>), u64>,
    /// Dropped packets by reason and class.
    pub drops: BTreeMap<(Box<str>, &'static str), u64>,
    /// The findings of the last check, by rule and severity, with 0 for those that are over; `None` without a check.
    pub findings: Option<BTreeMap<FindingCount, u64>>,
    /// The exporter itself.
    pub exporter: ExporterHealth,
}

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingCount {
    /// Name of the rule.
    pub rule: &'static str,
    /// Severity of these findings.
    pub severity: &'static str,
}

impl HostMetrics {
    /// No sample yet. At most `services_max` services have their own metrics.
    #[must_use]
    pub fn new(services_max: usize, version: &'static str) -> Self {
        Self {
            services: Services::new(services_max),
            connections: None,
            resets: BTreeMap::new(),
            drops: BTreeMap::new(),
            findings: None,
            exporter: ExporterHealth {
                version,
                ..ExporterHealth::default()
            },
        }
    }

    /// Adds a sample, and what the kernel counted since the one before.
    pub fn add(&mut self, sample: BTreeMap<Service, ServiceSample>, totals: Option<&ConnectionTotals>) {
        self.services.add(sample);
        if let Some(totals) = totals {
            let sum = self.connections.get_or_insert_default();
            sum.active_opens += totals.active_opens;
            sum.passive_opens += totals.passive_opens;
            sum.attempt_fails += totals.attempt_fails;
            sum.resets += totals.resets;
        }
    }

    /// Replaces the findings by those of another check.
    pub fn set_findings(&mut self, found: impl Iterator<Item = FindingCount>) {
        let findings = self.findings.get_or_insert_default();
        for count in findings.values_mut() {
            *count = 0;
        }
        for one in found {
            *findings.entry(one).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_are_over_are_zero() {
        let mut metrics = HostMetrics::new(1, "");
        let [one, other] = ["accept-queue", "drops"].map(|rule| FindingCount {
            rule,
            severity: "warning",
        });
        metrics.set_findings([one, one].into_iter());
        metrics.set_findings([other].into_iter());
        assert_eq!(metrics.findings, Some([(one, 0), (other, 1)].into()));
    }

    #[test]
    fn unknown_counts_of_the_kernel_are_absent_until_they_are_known() {
        let mut metrics = HostMetrics::new(1, "");
        metrics.add(BTreeMap::new(), None);
        assert_eq!(metrics.connections, None);
        let totals = ConnectionTotals {
            active_opens: 3,
            resets: 1,
            ..ConnectionTotals::default()
        };
        metrics.add(BTreeMap::new(), Some(&totals));
        metrics.add(BTreeMap::new(), Some(&totals));
        let sum = metrics.connections.unwrap();
        assert_eq!((sum.active_opens, sum.passive_opens, sum.resets), (6, 0, 2));
    }
}
