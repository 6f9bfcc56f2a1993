//! A finding as text: a heading, the meaning, the evidence and the remedies.

use super::RemedyAccess;
use sockeye_model::{
    CgroupId, Counter, Endpoint, InterfaceIndex, Names, NetnsInode, Process, Protocol, Socket, State, Uid,
    counted,
};
use sockeye_output::Style;
use sockeye_output::address::{push_local, push_peer};
use sockeye_output::fact::push_fact;
use sockeye_output::number::{push_decimal, push_human};
use sockeye_output::severity::colour;
use sockeye_output::socket::state::push_state;
use sockeye_output::text::push_clean;
use sockeye_output::wrap::push_wrapped;
use sockeye_verdict::{Example, Facts, Finding, Limits, MEANINGS, Subject};
use std::net::{IpAddr, SocketAddr};

/// How findings are written as text.
#[derive(Debug, Clone, Copy)]
pub struct FindingText<'a> {
    /// Colours.
    pub style: Style,
    /// Width of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// The thresholds that findings were judged with.
    pub limits: &'a Limits,
    /// How remedies can be run in the namespaces of the findings.
    pub remedy_access: &'a RemedyAccess,
}

impl FindingText<'_> {
    /// Appends a finding.
    pub fn push(&self, out: &mut Vec<u8>, finding: &Finding, names: &dyn Names) {
        // Ports are numbers, as in the commands below; the heading has the name of the service once.
        let numeric = &NumericPorts(names);
        push_heading(out, finding, self.style, self.width, names);
        push_wrapped(out, finding.meaning.as_bytes(), "  ", self.width);
        let mut line = Vec::new();
        match finding.subject {
            Subject::Counter(counter) => push_counted(&mut line, counter, &finding.facts),
            _ => push_facts(&mut line, &finding.facts),
        }
        push_owner_state(&mut line, finding);
        if !line.is_empty() {
            push_wrapped(out, &line, "  ", self.width);
        }
        let thresholds: Vec<String> = self
            .limits
            .changed(finding.rule)
            .map(|limit| {
                let value = limit.show(self.limits.of(limit));
                format!("{limit}={value} instead of {}", limit.show(limit.default()))
            })
            .collect();
        if !thresholds.is_empty() {
            let text = format!("judged with {}", thresholds.join(", "));
            push_wrapped(out, text.as_bytes(), "  ", self.width);
        }
        // The heading already shows a listener.
        let is_shown = matches!(finding.subject, Subject::Listener(_));
        for example in finding.examples.iter().filter(|_| !is_shown) {
            line.clear();
            push_example(&mut line, example, numeric);
            push_wrapped(out, &line, "    ", self.width);
        }
        let more = finding.sockets.saturating_sub(finding.examples.len() as u64);
        if more > 0 && !finding.examples.is_empty() {
            out.extend_from_slice(format!("    ... and {more} more\n").as_bytes());
        }
        push_victims(out, finding, self.width);
        for (text, is_command) in self.remedy_access.remedies(finding) {
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
                push_wrapped(out, &clean, "    ", self.width);
                out.drain(begin..begin + 4);
            }
        }
    }
}

fn push_heading(out: &mut Vec<u8>, finding: &Finding, style: Style, width: Option<usize>, names: &dyn Names) {
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
        line.extend_from_slice(counted(more as u64, "other network namespace").as_bytes());
    }
    let begin = out.len();
    push_wrapped(out, &line, "", width);
    colour(out, begin, Some((finding.severity, severity.len())), style);
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
            out.extend_from_slice(counted(finding.sockets, "socket").as_bytes());
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
fn push_process(out: &mut Vec<u8>, process: &Process) {
    push_clean(out, process.comm.as_bytes());
    out.push(b'(');
    push_decimal(out, process.pid.0.into());
    out.push(b')');
}

fn push_example(out: &mut Vec<u8>, example: &Example, names: &dyn Names) {
    let socket = example.socket();
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

/// Appends a line for each: `dropped 2626 SOCKET_RCVBUFF  127.0.0.53:53 <-> 127.0.0.1:40910  dnscache(8)`,
/// `refused 3 syn-dropped, accept queue full  10.0.0.1:80 <-> 10.0.0.2:40910  gunicorn(8)`.
fn push_victims(out: &mut Vec<u8>, finding: &Finding, width: Option<usize>) {
    for victim in &finding.victims {
        let mut line = match &victim.refused {
            None => format!("dropped {}", victim.event.count),
            Some(refused) => {
                let sign = if refused.is_at_least { ">=" } else { "" };
                let (how, queue) = (refused.how.name(), refused.queue.name());
                format!("refused {sign}{} {how}, {queue} queue full", victim.event.count)
            }
        }
        .into_bytes();
        if let Some(reason) = &victim.event.reason {
            line.push(b' ');
            push_clean(&mut line, reason.as_bytes());
        }
        let end = |end: Option<SocketAddr>| end.map_or_else(|| "*".to_owned(), |end| end.to_string());
        if victim.local.is_some() || victim.peer.is_some() {
            let latest = "the latest ";
            let (of_both, of_peer) = match (victim.has_ends_of_latest_only(), victim.refused) {
                (false, _) => ("", ""),
                (true, None) => (latest, ""),
                (true, Some(_)) => ("", latest),
            };
            let ends = format!(
                "  {of_both}{} <-> {of_peer}{}",
                end(victim.local),
                end(victim.peer)
            );
            line.extend_from_slice(ends.as_bytes());
        }
        if let Some(owner) = &victim.owner {
            line.extend_from_slice(b"  ");
            push_clean(&mut line, owner.comm.as_bytes());
            line.extend_from_slice(format!("({})", owner.pid).as_bytes());
        }
        push_wrapped(out, &line, "    ", width);
    }
    if finding.victims_left_out > 0 {
        let text = format!("    ... and drops of {} more\n", finding.victims_left_out);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Returns a socket with only a local endpoint.
fn end(local: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.local = local;
    socket
}
