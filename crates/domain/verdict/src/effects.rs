//! Removes findings that another one of the same process explains.

use crate::{Finding, Rule};

/// Removes findings that are effects of another: a program without descriptors cannot accept, and a program that is stopped
/// does nothing at all. `findings`: the worst first, with the states of their owners.
pub fn remove_effects(findings: &mut Vec<Finding>) {
    findings.retain(|finding| !finding.is_work_of_threads());
    let exhausted: Vec<_> = findings
        .iter()
        .filter(|finding| finding.rule == Rule::OpenFiles && is_at_limit(finding))
        .filter_map(|finding| finding.owner)
        .collect();
    findings.retain(|finding| {
        let is_effect = finding.rule == Rule::AcceptQueue;
        !is_effect || finding.owner.is_none_or(|owner| !exhausted.contains(&owner))
    });
    let mut stopped = Vec::new();
    findings.retain(|finding| {
        let state = finding
            .owner_state
            .filter(sockeye_model::ProcessState::is_stopped);
        let Some((owner, _)) = finding.owner.zip(state) else {
            return true;
        };
        let place = (finding.netns, owner);
        let is_first = !stopped.contains(&place);
        stopped.push(place);
        is_first
    });
}

fn is_at_limit(finding: &Finding) -> bool {
    let used = finding.facts.value("open_files");
    let max = finding.facts.value("open_files_max");
    used.zip(max).is_some_and(|(used, max)| used >= max)
}
