//! Findings that several network namespaces have in common are one finding.

use crate::finding::Subject;
use crate::{Finding, Severity};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Merges findings about namespaces, devices and counters that only differ in the namespace and in their numbers. The
/// evidence is that of the first; findings about sockets and processes stay apart.
pub(crate) fn namespaces(found: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::with_capacity(found.len());
    let mut places: HashMap<(&'static str, Severity, Subject, &'static str), usize, FixedState> =
        HashMap::default();
    for finding in found {
        let has_own_sockets = !finding.examples.is_empty() || finding.owner.is_some();
        let is_of_namespace = matches!(
            finding.subject,
            Subject::Device(_) | Subject::Qdisc { .. } | Subject::Counter(_) | Subject::Namespace
        );
        let Some(netns) = finding.netns.filter(|_| is_of_namespace && !has_own_sockets) else {
            merged.push(finding);
            continue;
        };
        let key = (
            finding.rule.name(),
            finding.severity,
            finding.subject.clone(),
            finding.meaning,
        );
        match places.get(&key).and_then(|place| merged.get_mut(*place)) {
            Some(first) => first.more_netns.push(netns),
            None => {
                places.insert(key, merged.len());
                merged.push(finding);
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;
    use sockeye_model::{DeviceName, NetnsInode};

    #[test]
    fn same_finding_in_several_namespaces_is_one() {
        let about = |netns, device: &[u8]| {
            let subject = Subject::Device(DeviceName::new(device));
            Finding::about(Rule::NoCarrier, netns, subject)
        };
        let found = namespaces(vec![
            about(Some(NetnsInode(1)), b"eth0"),
            about(Some(NetnsInode(2)), b"eth1"),
            about(Some(NetnsInode(3)), b"eth0"),
            about(Some(NetnsInode(4)), b"eth0").with(Severity::Critical),
            about(None, b"eth0"),
        ]);
        let shown: Vec<_> = found
            .iter()
            .map(|finding| (finding.netns.map(|netns| netns.0), finding.more_netns.len()))
            .collect();
        assert_eq!(shown, [(Some(1), 1), (Some(2), 0), (Some(4), 0), (None, 0)]);
        assert_eq!(found[0].more_netns, [NetnsInode(3)]);
    }
}
