//! A finding as a line of CSV: its evidence in one field, and only the worst of its sockets.

use super::FindingsLayout;
use sockeye_model::Names;
use sockeye_output::fact::push_fact;
use sockeye_output::sheet::Sheet;
use sockeye_output::socket::{LOCAL_FIELDS, PEER_FIELDS, push_endpoint_csv};
use sockeye_output::text::push_clean;
use sockeye_verdict::{Example, Finding, Subject};

pub(super) fn push(out: &mut Vec<u8>, findings: &[Finding], layout: &FindingsLayout, names: &dyn Names) {
    let columns = [
        "rule,severity,netns_inode,netns,subject,owners,sockets",
        &LOCAL_FIELDS.join(","),
        &PEER_FIELDS.join(","),
        "facts,meaning,remedies",
    ]
    .join(",");
    let mut sheet = Sheet::begin_sample(out, &layout.envelope, layout.sample, layout.no_header, &columns);
    for finding in findings {
        let mut line = sheet.line();
        line.word(finding.rule.name());
        line.word(finding.severity.name());
        line.number(finding.netns.map(|inode| inode.0));
        line.text(finding.netns.and_then(|inode| names.netns(inode)));
        line.outside(|out| push_subject(out, &finding.subject));
        line.outside(|out| {
            if let Some(owner) = &finding.owner {
                push_clean(out, owner.comm.as_bytes());
                out.extend_from_slice(format!("({})", owner.pid).as_bytes());
            }
        });
        line.number(Some(finding.sockets));
        let worst = finding.examples.first();
        match worst.map(Example::socket) {
            Some(socket) => {
                push_endpoint_csv(&mut line, &socket.local, &socket, names);
                push_endpoint_csv(&mut line, &socket.peer, &socket, names);
            }
            None => line.empty(LOCAL_FIELDS.len() + PEER_FIELDS.len()),
        }
        let facts = finding
            .facts
            .iter()
            .chain(worst.iter().flat_map(|worst| worst.facts.iter()));
        line.outside(|out| {
            for (nth, fact) in facts.enumerate() {
                if nth > 0 {
                    out.extend_from_slice(b"; ");
                }
                push_fact(out, fact.name, fact.value);
            }
        });
        line.text(Some(finding.meaning));
        line.outside(|out| {
            for (nth, (text, _)) in layout.remedy_access.remedies(finding).iter().enumerate() {
                if nth > 0 {
                    out.extend_from_slice(b" | ");
                }
                push_clean(out, text.as_bytes());
            }
        });
        line.end();
    }
    sheet.end();
}

fn push_subject(out: &mut Vec<u8>, subject: &Subject) {
    match subject {
        Subject::Device(name) | Subject::Qdisc { device: name, .. } => push_clean(out, name.as_bytes()),
        Subject::NextHop { ip, .. } => out.extend_from_slice(ip.to_string().as_bytes()),
        Subject::Table(name) => push_clean(out, name.as_bytes()),
        Subject::FirewallRule(name) => push_clean(out, name.to_string().as_bytes()),
        Subject::Counter(counter) => out.extend_from_slice(counter.to_string().as_bytes()),
        Subject::Processor(number) => out.extend_from_slice(format!("processor {number}").as_bytes()),
        Subject::Sockets | Subject::Listener(_) | Subject::Service { .. } => {
            out.extend_from_slice(b"sockets");
        }
        Subject::Namespace => out.extend_from_slice(b"namespace"),
        Subject::Host => out.extend_from_slice(b"host"),
        Subject::Process => out.extend_from_slice(b"process"),
    }
}
