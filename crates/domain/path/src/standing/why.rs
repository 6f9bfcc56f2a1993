//! What is known of the way from a socket to its peer.

use crate::command::device_name;
use crate::stuck::{Program, Stuck, StuckCause, Tunnel, Way};
use sockeye_measure::duration;
use sockeye_model::{NextHop, ProcessState, TimerKind, counted};
use sockeye_verdict::Rule;

impl Stuck {
    /// Says why what was sent is not answered, as far as this host shows it.
    pub(super) fn why_unanswered(&self) -> String {
        let cause = self.finding.as_ref().filter(|finding| is_cause(finding.rule));
        if let Some(finding) = cause {
            let subject = finding.subject.as_ref();
            let subject = subject.map_or_else(String::new, |subject| format!(" ({subject})"));
            let detail = self.device_detail(finding.rule);
            return format!(" {}{subject}{detail}", finding.meaning.trim_end_matches('.')) + ".";
        }
        let special = self
            .finding
            .as_ref()
            .filter(|finding| finding.meaning != finding.rule.meaning());
        let special = special.filter(|_| !self.is_short_segment());
        let special = special.map_or_else(String::new, |finding| format!(" {}", finding.meaning));
        if self.are_segments_dropped() {
            return " This host drops them: what is said of drops says where.".to_owned();
        }
        let Some(way) = &self.way else {
            return format!("{special} The way to the peer could not be looked up.");
        };
        if special.is_empty() && self.is_under_way() {
            let info = self.socket.tcp_info.as_ref();
            let round_trip = info.and_then(|info| info.rtt_us).map_or_else(String::new, |us| {
                format!(" (a round trip took {})", duration(u64::from(us) * 1_000))
            });
            return format!(
                " From here the way is {}. It may still be under way{round_trip}, or be lost.",
                way.words()
            );
        }
        let is_here = way.tunnel.is_some() || way.next_hop == Some(NextHop::Unanswered) || !way.device.is_up;
        let elsewhere = if special.is_empty() && self.cause != StuckCause::HalfOpen && !is_here {
            match self.peer {
                Some(_) => {
                    ". Its peer is on this host, too: what is sent, or the answer, is lost on the way between them"
                }
                None => {
                    ". No fault of this host is known: the peer is gone, or the network loses what is sent, or the answers"
                }
            }
        } else {
            ""
        };
        format!("{special} From here the way is {}{elsewhere}.", way.words())
    }

    /// Says more of a device that is named as the cause.
    fn device_detail(&self, rule: Rule) -> &'static str {
        let Some(way) = self.way.as_ref().filter(|_| rule == Rule::CannotSend) else {
            return "";
        };
        if !way.device.is_up || way.device.has_carrier != Some(false) {
            return "";
        }
        match way.device.driver.as_bytes() {
            b"veth" => ", a veth whose other end is down",
            b"tun" | b"tap" => ", a tunnel that no program has open",
            _ => "",
        }
    }

    /// Whether data was sent, and not yet again.
    fn is_under_way(&self) -> bool {
        let is_repeated = self.socket.timer.is_some_and(|timer| timer.retransmits > 0);
        self.cause == StuckCause::Unanswered && !is_repeated
    }

    /// Whether each of its segments that was followed was dropped on this host.
    fn are_segments_dropped(&self) -> bool {
        self.sent.is_some_and(|sent| sent.dropped == sent.count)
    }

    /// Whether its segments that were followed are shorter than those that a smaller MTU would drop.
    pub(super) fn is_short_segment(&self) -> bool {
        let mss = self.socket.tcp_info.as_ref().and_then(|info| info.snd_mss_bytes);
        let lengths = self.sent.map(|sent| sent.bytes_max).zip(mss);
        lengths.is_some_and(|(bytes, mss)| u64::from(bytes) < u64::from(mss) * 3 / 4)
    }

    /// Says which segments were seen to leave.
    pub(super) fn segments(&self) -> String {
        let Some(sent) = self.sent else {
            return String::new();
        };
        let where_to = sent.device.map_or_else(String::new, |device| {
            format!(", last at {}", device_name(&device))
        });
        let dropped = match sent.dropped {
            0 => String::new(),
            1 if sent.count == 1 => ", and was dropped on this host".to_owned(),
            count if count == sent.count => ", and were dropped on this host".to_owned(),
            count => format!(", and {count} of them were dropped on this host"),
        };
        let segments = match sent.count {
            1 => format!("1 segment of {} bytes", sent.bytes_max),
            count => format!("{count} segments of up to {} bytes", sent.bytes_max),
        };
        format!(" While packets were followed, {segments} left the socket{where_to}{dropped}.")
    }

    /// Says what the timer does.
    pub(super) fn timer(&self) -> String {
        let Some(timer) = self.socket.timer else {
            return String::new();
        };
        let due = duration(u64::from(timer.expires_ms) * 1_000_000);
        match (timer.kind, timer.retransmits) {
            (TimerKind::Retransmission, 0) => {
                format!(" Nothing was sent again yet; the timer (on) is due in {due}.")
            }
            (TimerKind::Retransmission, tries) => {
                let times = counted(tries, "time");
                format!(" The first was sent again {times}; the timer (on) is due in {due}.")
            }
            (TimerKind::ZeroWindowProbe, unanswered) => {
                let info = self.socket.tcp_info.as_ref();
                let backoff = info.and_then(|info| info.backoff).filter(|backoff| *backoff > 0);
                let backoff = backoff.map_or_else(String::new, |backoff| {
                    format!(" after {backoff} others (backoff)")
                });
                let unanswered = match unanswered {
                    0 => String::new(),
                    1 => "; 1 was not answered".to_owned(),
                    count => format!("; {count} in a row were not answered"),
                };
                format!(" The next probe of the window (timer persist) is due in {due}{backoff}{unanswered}.")
            }
            _ => String::new(),
        }
    }
}

impl Way {
    /// Says which way it is, and in what state.
    fn words(&self) -> String {
        let name = String::from_utf8_lossy(self.device.name.as_bytes()).into_owned();
        let gateway = self
            .gateway
            .map_or_else(String::new, |gateway| format!("via {gateway} "));
        let state = match (self.device.is_up, self.device.has_carrier) {
            (false, _) => "is down",
            (true, Some(false)) => "has no carrier",
            (true, _) => "is up",
        };
        let next_hop = match self.next_hop {
            Some(NextHop::Unanswered) => ", and its next hop does not answer ARP or neighbour discovery",
            Some(NextHop::Known) => ", and the link address of its next hop is known",
            Some(NextHop::Permanent) => ", and the link address of its next hop was set by hand",
            None => "",
        };
        let tunnel = self.tunnel.as_ref().map(Tunnel::words).unwrap_or_default();
        format!(
            "{gateway}by {name}, which {state}{next_hop}{tunnel}{}",
            self.queue_words()
        )
    }

    /// Says what waits in the queue of the device; empty if nothing does.
    pub(super) fn queue_words(&self) -> String {
        let Some(packets) = self.queued_packets.filter(|packets| *packets > 0) else {
            return String::new();
        };
        let passed = match self.passed_packets {
            Some(0) => ", which let none pass meanwhile".to_owned(),
            Some(passed) => format!(", which let {passed} pass meanwhile"),
            None => String::new(),
        };
        let (wait, name) = (
            if packets == 1 { "waits" } else { "wait" },
            String::from_utf8_lossy(self.device.name.as_bytes()),
        );
        format!(
            "; {} {wait} in the qdisc of {name}{passed}",
            counted(packets, "packet")
        )
    }
}

impl Tunnel {
    /// Says what its program does.
    fn words(&self) -> String {
        let program = match &self.program {
            Some(program) if program.activity().is_empty() => format!("a program ({}) reads", program.name()),
            Some(program) => format!(
                "a program ({}, which {}) reads",
                program.name(),
                program.activity()
            ),
            None => "no program of its network namespace reads".to_owned(),
        };
        let read = match self.read_packets {
            Some(0) => {
                "; nothing was read meanwhile: either its program hangs, or nothing came to the device"
            }
            Some(_) => "; packets were read meanwhile: what becomes of them there is not known",
            None => "",
        };
        format!(", a tunnel whose packets {program}{read}")
    }
}

impl Program {
    /// Returns its name and number: `python3, 812`.
    pub(super) fn name(&self) -> String {
        let comm = String::from_utf8_lossy(self.process.comm.as_bytes());
        format!("{comm}, {}", self.process.pid)
    }

    /// Says what it does, after its name; empty if unknown.
    pub(super) fn activity(&self) -> String {
        self.state.as_ref().and_then(activity).unwrap_or_default()
    }

    /// Whether it cannot do anything: a signal, a debugger or the freezer of its cgroup has stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.state.is_some_and(|state| state.is_stopped())
    }

    /// Returns the command that lets it run again, or that shows what it does.
    pub(super) fn command(&self) -> Option<String> {
        let (pid, state) = (self.process.pid, self.state?);
        Some(match (state.is_frozen, state.letter) {
            (true, _) => format!(
                "cat /proc/{pid}/cgroup    # its cgroup: docker unpause, systemctl thaw, or 0 into its cgroup.freeze"
            ),
            (_, b'T') => format!("kill -CONT {pid}"),
            (_, b't') => format!("grep TracerPid /proc/{pid}/status    # the debugger that stops it"),
            _ => format!("cat /proc/{pid}/stack /proc/{pid}/syscall    # where its first thread is"),
        })
    }
}

/// Says what a process does.
fn activity(state: &ProcessState) -> Option<String> {
    let name = state.name()?;
    if state.is_frozen {
        return Some("is frozen (the freezer of its cgroup, as of a paused container)".to_owned());
    }
    let letter = char::from(state.letter);
    if let (b't', Some(tracer)) = (state.letter, state.tracer) {
        let comm = String::from_utf8_lossy(tracer.comm.as_bytes());
        return Some(format!("is {name} ({comm}, {}; state {letter})", tracer.pid));
    }
    let by = if state.letter == b'T' { " by a signal" } else { "" };
    let waits_in = match state.waits_in.as_bytes() {
        b"" => String::new(),
        _ if matches!(state.letter, b'T' | b't') => String::new(),
        name => format!(" in {}", String::from_utf8_lossy(name)),
    };
    let threads = match state.threads_at_work {
        0 => String::new(),
        1 => "; another thread of it is at work".to_owned(),
        count => format!("; {count} other threads of it are at work"),
    };
    Some(format!("is {name}{by} (state {letter}{waits_in}){threads}"))
}

/// Whether a rule names the cause on this host, and not what is seen of it.
pub(super) const fn is_cause(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::CannotSend | Rule::FirewallDrops | Rule::ReversePath | Rule::MtuBlackHole
    )
}
