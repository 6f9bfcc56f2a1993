//! Findings as text: a heading, the meaning, the evidence and the remedies.

use super::{FindingsLayout, end, socket};
use sockeye_model::{CgroupId, Counter, InterfaceIndex, Names, NetnsInode, Process, Socket, Uid};
use sockeye_output::address::{push_local, push_peer};
use sockeye_output::fact::push_fact;
use sockeye_output::number::{push_decimal, push_human, push_time_us};
use sockeye_output::severity::colour;
use sockeye_output::socket::state::push_state;
use sockeye_output::text::push_clean;
use sockeye_output::wrap::push_wrapped;
use sockeye_query::findings::{CheckedScope, NotJudged};
use sockeye_verdict::{Example, Facts, Finding, MEANINGS, Severity, Subject};
use std::net::IpAddr;

pub(super) fn push(
    out: &mut Vec<u8>,
    findings: &[Finding],
    checked: &CheckedScope,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    // Ports are numbers, as in the commands below; the heading has the name of the service once.
    let numeric = &NumericPorts(names);
    for finding in findings {
        push_heading(out, finding, layout, names);
        push_wrapped(out, finding.meaning.as_bytes(), "  ", layout.width);
        let mut line = Vec::new();
        match finding.subject {
            Subject::Counter(counter) => push_counted(&mut line, counter, &finding.facts),
            _ => push_facts(&mut line, &finding.facts),
        }
        push_owner_state(&mut line, finding);
        if !line.is_empty() {
            push_wrapped(out, &line, "  ", layout.width);
        }
        let thresholds: Vec<String> = layout
            .changed_thresholds(finding)
            .map(|limit| {
                let value = limit.show(layout.limits.of(limit));
                format!("{limit}={value} instead of {}", limit.show(limit.default()))
            })
            .collect();
        if !thresholds.is_empty() {
            let text = format!("judged with {}", thresholds.join(", "));
            push_wrapped(out, text.as_bytes(), "  ", layout.width);
        }
        // The heading already shows a listener.
        let is_shown = matches!(finding.subject, Subject::Listener(_));
        for example in finding.examples.iter().filter(|_| !is_shown) {
            line.clear();
            push_example(&mut line, example, numeric);
            push_wrapped(out, &line, "    ", layout.width);
        }
        let more = finding.sockets.saturating_sub(finding.examples.len() as u64);
        if more > 0 && !finding.examples.is_empty() {
            out.extend_from_slice(format!("    ... and {more} more\n").as_bytes());
        }
        super::victims::push_text(out, finding, layout.width);
        for (text, is_command) in layout.remedy_access.remedies(finding) {
            let mark: &[u8] = if is_command { b"  $ " } else { b"  - " };
            out.extend_from_slice(mark);
            // A command is never wrapped, so that it can be copied.
            let mut clean = Vec::new();
            push_clean(&mut clean, text.as_bytes());
            if is_command {
                out.extend_from_slice(&clean);
                out.push(b'\n');
            } else {
                let begin = out.len();
                push_wrapped(out, &clean, "    ", layout.width);
                out.drain(begin..begin + 4);
            }
        }
        out.push(b'\n');
    }
    push_end(out, findings, checked, layout.width);
}

fn push_heading(out: &mut Vec<u8>, finding: &Finding, layout: &FindingsLayout, names: &dyn Names) {
    let mut line = Vec::new();
    let severity = finding.severity.name().to_uppercase();
    line.extend_from_slice(severity.as_bytes());
    line.extend_from_slice(b"  ");
    line.extend_from_slice(finding.rule.name().as_bytes());
    let mut about = Vec::new();
    push_subject(&mut about, finding, names);
    if !about.is_empty() {
        line.extend_from_slice(b"  ");
        line.extend_from_slice(&about);
    }
    let of: &[u8] = match &finding.subject {
        _ if about.is_empty() => b"  ",
        Subject::FirewallRule(_) => b" stops ",
        _ => b" of ",
    };
    if let Some(owner) = &finding.owner {
        line.extend_from_slice(of);
        push_process(&mut line, owner);
    } else if finding.owners > 1 {
        line.extend_from_slice(of);
        line.extend_from_slice(format!("{} processes", finding.owners).as_bytes());
    } else if finding.examples.iter().any(|example| example.inode.is_some()) {
        line.extend_from_slice(of);
        line.extend_from_slice(b"an unknown process");
    } else if !finding.examples.is_empty() && !matches!(finding.subject, Subject::FirewallRule(_)) {
        line.extend_from_slice(b" without a process");
    }
    if let Some(inode) = finding.netns {
        line.extend_from_slice(b" in ");
        match names.netns(inode) {
            Some(name) => push_clean(&mut line, name.as_bytes()),
            None => line.extend_from_slice(format!("net:[{inode}]").as_bytes()),
        }
    }
    if let more @ 1.. = finding.more_netns.len() {
        line.extend_from_slice(b" and ");
        push_number_of(&mut line, more as u64, "other network namespace");
    }
    let begin = out.len();
    push_wrapped(out, &line, "", layout.width);
    colour(out, begin, Some((finding.severity, severity.len())), layout.style);
}

/// Appends the name of the service at a local port, in parentheses, if it has one.
fn push_service(out: &mut Vec<u8>, socket: &Socket, names: &dyn Names) {
    let port = socket.local.port().filter(|port| port.0 != 0);
    if let Some(name) = port.and_then(|port| names.service(socket.protocol, port)) {
        out.extend_from_slice(b" (");
        push_clean(out, name.as_bytes());
        out.push(b')');
    }
}

/// All names but those of ports.
struct NumericPorts<'a>(&'a dyn Names);

impl Names for NumericPorts<'_> {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        self.0.interface(index, netns)
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.0.host(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.0.user(uid)
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.0.cgroup(id)
    }

    fn netns(&self, inode: NetnsInode) -> Option<&str> {
        self.0.netns(inode)
    }
}

fn push_subject(out: &mut Vec<u8>, finding: &Finding, names: &dyn Names) {
    let numeric = &NumericPorts(names);
    match &finding.subject {
        Subject::Sockets => {
            let noun = if finding.sockets == 1 { "socket" } else { "sockets" };
            push_decimal(out, finding.sockets);
            out.push(b' ');
            out.extend_from_slice(noun.as_bytes());
        }
        Subject::Listener(local) => {
            let mut listener = end(*local);
            if let Some(example) = finding.examples.first() {
                listener.protocol = example.protocol;
            }
            out.extend_from_slice(b"listener ");
            push_local(out, &listener, numeric);
            push_service(out, &listener, names);
        }
        Subject::Service { local, peer } => {
            let (from, to) = (end(*local), end(*peer));
            push_local(out, &from, numeric);
            out.extend_from_slice(b" to ");
            push_local(out, &to, numeric);
            push_service(out, &to, names);
        }
        Subject::NextHop { ip, device } => {
            out.extend_from_slice(format!("next hop {ip}").as_bytes());
            if let Some(device) = device {
                out.extend_from_slice(b" on ");
                push_clean(out, device.as_bytes());
            }
        }
        Subject::Device(name) => push_clean(out, name.as_bytes()),
        Subject::Qdisc { device, kind } => {
            push_clean(out, kind.as_bytes());
            out.extend_from_slice(b" of ");
            push_clean(out, device.as_bytes());
        }
        Subject::FirewallRule(name) => push_clean(out, name.to_string().as_bytes()),
        Subject::Counter(counter) => out.extend_from_slice(counter.to_string().as_bytes()),
        Subject::Processor(number) => out.extend_from_slice(format!("processor {number}").as_bytes()),
        Subject::Table(name) => push_clean(out, name.as_bytes()),
        Subject::Namespace | Subject::Host | Subject::Process => {}
    }
}

/// Appends a process: `nginx(812)`.
pub(super) fn push_process(out: &mut Vec<u8>, process: &Process) {
    push_clean(out, process.comm.as_bytes());
    out.push(b'(');
    push_decimal(out, process.pid.0.into());
    out.push(b')');
}

fn push_example(out: &mut Vec<u8>, example: &Example, names: &dyn Names) {
    let socket = socket(example);
    push_state(out, socket.state);
    out.push(b' ');
    push_local(out, &socket, names);
    out.extend_from_slice(b" <-> ");
    push_peer(out, &socket, names);
    let mut facts = Vec::new();
    push_facts(&mut facts, &example.facts);
    if !facts.is_empty() {
        out.extend_from_slice(b"  ");
        out.extend_from_slice(&facts);
    }
}

fn push_facts(out: &mut Vec<u8>, facts: &Facts) {
    for (nth, fact) in facts.iter().enumerate() {
        if nth > 0 {
            out.extend_from_slice(b", ");
        }
        push_fact(out, fact.name, fact.value);
    }
}

/// Appends what a counter counted: `1410 since the start, 12.5% of 11280 (TcpPassiveOpens)`.
fn push_counted(out: &mut Vec<u8>, counter: Counter, facts: &Facts) {
    let (count, since) = match facts.value("since_last_sample") {
        Some(count) => (count, "since the last sample"),
        None => (facts.value("since_start").unwrap_or(0), "since the start"),
    };
    push_human(out, count.into());
    out.push(b' ');
    out.extend_from_slice(since.as_bytes());
    let Some(whole) = facts.value("compared_with") else {
        return;
    };
    let meaning = MEANINGS.iter().find(|meaning| meaning.counter == counter);
    let names: Vec<String> = meaning
        .iter()
        .flat_map(|meaning| meaning.of)
        .map(ToString::to_string)
        .collect();
    match facts.value("share_permille") {
        Some(share) => {
            out.extend_from_slice(format!(", {}.{}% of ", share / 10, share % 10).as_bytes());
            push_human(out, whole.into());
        }
        None => {
            out.extend_from_slice(b"; compared with ");
            push_human(out, whole.into());
        }
    }
    out.extend_from_slice(format!(" ({})", names.join(" + ")).as_bytes());
}

/// Appends what the owner is doing: `gunicorn(29) is asleep in futex_wait_queue`.
fn push_owner_state(out: &mut Vec<u8>, finding: &Finding) {
    let (Some(owner), Some(state)) = (&finding.owner, &finding.owner_state) else {
        return;
    };
    let Some(name) = state.name() else { return };
    if !out.is_empty() {
        out.extend_from_slice(b"; ");
    }
    if state.is_other_thread {
        out.extend_from_slice(b"a thread of ");
    }
    push_process(out, owner);
    out.extend_from_slice(b" is ");
    out.extend_from_slice(name.as_bytes());
    if let Some(tracer) = &state.tracer {
        out.extend_from_slice(b", ");
        push_process(out, tracer);
    }
    let waits_in = state.waits_in.as_bytes();
    if !waits_in.is_empty() {
        out.extend_from_slice(b" in ");
        push_clean(out, waits_in);
    }
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
        push_number_of(&mut line, findings.len() as u64, "finding");
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
        push_number_of(&mut line, checked.hidden as u64, "other");
        line.extend_from_slice(b" less severe (--severity info shows all)");
    }
    line.extend_from_slice(b" in ");
    push_number_of(&mut line, seen.sockets, "socket");
    if seen.namespaces > 0 {
        line.extend_from_slice(b", ");
        push_number_of(&mut line, seen.devices, "device");
        line.extend_from_slice(b" and ");
        push_number_of(&mut line, seen.namespaces, "network namespace");
    }
    line.extend_from_slice(b" by ");
    push_number_of(&mut line, checked.rules as u64, "rule");
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

fn push_number_of(out: &mut Vec<u8>, count: u64, noun: &str) {
    push_decimal(out, count);
    out.push(b' ');
    out.extend_from_slice(noun.as_bytes());
    if count != 1 {
        out.push(b's');
    }
}

/// Names of rules that are shown; of more their number is.
const RULES_SHOWN: usize = 5;
