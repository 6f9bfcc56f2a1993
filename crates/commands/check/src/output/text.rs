//! Findings as text, and what was checked.

use super::FindingsLayout;
use sockeye_model::{Names, counted};
use sockeye_output::number::push_time_us;
use sockeye_output::wrap::push_wrapped;
use sockeye_query::findings::{CheckedScope, FindingText, NotJudged};
use sockeye_verdict::{Finding, Severity};

pub(super) fn push(
    out: &mut Vec<u8>,
    findings: &[Finding],
    checked: &CheckedScope,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    let text = FindingText {
        style: layout.style,
        width: layout.width,
        limits: &layout.limits,
        remedy_access: &layout.remedy_access,
    };
    for finding in findings {
        text.push(out, finding, names);
        out.push(b'\n');
    }
    push_end(out, findings, checked, layout.width);
}

fn push_end(out: &mut Vec<u8>, findings: &[Finding], checked: &CheckedScope, width: Option<usize>) {
    let seen = &checked.seen;
    push_not_judged(out, &checked.not_judged, width);
    if !checked.on_host_only.is_empty() {
        let rules: Vec<&str> = checked.on_host_only.iter().map(|rule| rule.name()).collect();
        let line = format!(
            "Judged in the initial network namespace only: {}",
            rules.join(", ")
        );
        push_wrapped(out, line.as_bytes(), "", width);
    }
    let mut line = Vec::new();
    let is_part = !checked.not_judged.is_empty();
    if findings.is_empty() && checked.hidden > 0 {
        line.extend_from_slice(b"Nothing of this severity found");
    } else if findings.is_empty() {
        line.extend_from_slice(if is_part {
            b"No finding in what could be judged"
        } else {
            b"Nothing found"
        });
    } else {
        line.extend_from_slice(counted(findings.len() as u64, "finding").as_bytes());
        let parts: Vec<_> = Severity::ALL
            .iter()
            .rev()
            .filter_map(|severity| {
                let count = findings
                    .iter()
                    .filter(|finding| finding.severity == *severity)
                    .count();
                (count > 0).then(|| format!("{count} {severity}"))
            })
            .collect();
        line.extend_from_slice(format!(" ({})", parts.join(", ")).as_bytes());
    }
    if checked.hidden > 0 {
        line.extend_from_slice(b", ");
        line.extend_from_slice(counted(checked.hidden as u64, "other").as_bytes());
        line.extend_from_slice(b" less severe (--severity info shows all)");
    }
    line.extend_from_slice(b" in ");
    line.extend_from_slice(counted(seen.sockets, "socket").as_bytes());
    if seen.namespaces > 0 {
        line.extend_from_slice(b", ");
        line.extend_from_slice(counted(seen.devices, "device").as_bytes());
        line.extend_from_slice(b" and ");
        line.extend_from_slice(counted(seen.namespaces, "network namespace").as_bytes());
    }
    line.extend_from_slice(b" by ");
    line.extend_from_slice(counted(checked.rules as u64, "rule").as_bytes());
    line.extend_from_slice(b", ");
    match checked.interval_ms {
        Some(ms) => {
            line.extend_from_slice(b"within ");
            push_time_us(&mut line, ms.saturating_mul(1000));
        }
        None => {
            line.extend_from_slice(b"in ");
            push_time_us(&mut line, checked.took_ms.max(1).saturating_mul(1000));
        }
    }
    push_wrapped(out, &line, "", width);
}

fn push_not_judged(out: &mut Vec<u8>, not_judged: &[NotJudged], width: Option<usize>) {
    if not_judged.is_empty() {
        return;
    }
    out.extend_from_slice(b"NOT JUDGED\n");
    for gap in not_judged {
        let rules: Vec<&str> = gap.rules.iter().map(|rule| rule.name()).collect();
        let mut line = gap.text.clone();
        if rules.len() > RULES_SHOWN {
            line += &format!(" ({} rules)", rules.len());
        } else if !rules.is_empty() {
            line += &format!(" ({})", rules.join(", "));
        }
        if let Some(remedy) = &gap.remedy {
            line += &format!("; {remedy}");
        }
        push_wrapped(out, line.as_bytes(), "  ", width);
    }
    out.push(b'\n');
}

/// Names of rules that are shown; of more their number is.
const RULES_SHOWN: usize = 5;
