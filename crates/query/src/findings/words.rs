//! Findings in words, as a store keeps them and log records have them.

use sockeye_history::{FindingRecord, FindingSeverity, RemedyText};
use sockeye_model::Endpoint;
use sockeye_verdict::{EndpointText, Finding, Severity, Subject};

/// Returns a finding with its remedies, each with whether it is a command.
#[must_use]
pub fn finding_record(finding: &Finding, remedies: Vec<(String, bool)>) -> FindingRecord {
    let rank = Severity::ALL.iter().position(|one| *one == finding.severity);
    let worst = finding.examples.first();
    let facts = worst.iter().flat_map(|worst| worst.facts.iter());
    FindingRecord {
        rule: finding.rule.name().to_owned(),
        severity: FindingSeverity {
            rank: rank.unwrap_or_default() as u8,
            name: finding.severity.name().to_owned(),
        },
        netns: finding.netns,
        subject: finding.subject.to_string(),
        owner: finding
            .owner
            .map(|owner| (owner.pid, text(owner.comm.as_bytes()))),
        sockets: finding.sockets,
        example: worst.map(|worst| ends(&worst.local, &worst.peer)),
        facts: finding
            .facts
            .iter()
            .chain(facts)
            .map(|fact| (fact.name.to_owned(), fact.value))
            .collect(),
        meaning: finding.meaning.to_owned(),
        remedies: remedies
            .into_iter()
            .map(|(text, is_command)| RemedyText { text, is_command })
            .collect(),
    }
}

/// Returns the ends of a socket; of one that is not connected its own.
fn ends(local: &Endpoint, peer: &Endpoint) -> String {
    let is_connected = peer.port().is_none_or(|port| port.0 != 0) && *peer != Endpoint::None;
    let (local, peer) = (*local, *peer);
    if is_connected {
        Subject::Service { local, peer }.to_string()
    } else {
        EndpointText(&local).to_string()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
