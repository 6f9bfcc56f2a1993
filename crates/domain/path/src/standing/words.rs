//! What is said of connections whose data stand still: where the data are first, then what shows it, then commands.

use super::rows::{address, queued};
use super::why::is_cause;
use crate::command::InNamespace;
use crate::report::PathReport;
use crate::sentence::bytes;
use crate::stuck::{ABANDONED, FindingWords, Idle, PeerHere, Program, Stuck, StuckCause, Way, fin_received};
use sockeye_measure::{Sentence, duration};
use sockeye_model::{NextHop, Protocol, Queues, Socket, counted};
use sockeye_verdict::Rule;

impl PathReport {
    /// Says which connections stand still, and why.
    pub(crate) fn stuck_sentences(&self, in_namespace: InNamespace<'_>) -> Vec<Sentence> {
        let stuck = self.stuck.iter().filter(|one| !one.is_effect);
        let stuck = stuck.map(|one| one.sentence(in_namespace));
        let unlisted = (self.stuck_unlisted > 0).then(|| {
            let text = format!(
                "{} whose data stand still {} not listed: they wait for less. A filter selects them.",
                counted(self.stuck_unlisted, "more connection"),
                if self.stuck_unlisted == 1 { "is" } else { "are" }
            );
            Sentence::new("stuck-unlisted", text)
        });
        let idle = self.idle.iter().map(Idle::sentence);
        let nothing = self.nothing_waits();
        stuck.chain(unlisted).chain(idle).chain(nothing).collect()
    }
}

impl Stuck {
    fn sentence(&self, in_namespace: InNamespace<'_>) -> Sentence {
        if self.is_abandoned() {
            return Sentence::new(ABANDONED, self.abandoned());
        }
        let text = match self.cause {
            StuckCause::Unread => self.unread(),
            StuckCause::MissingSegment => self.missing_segment(),
            StuckCause::NotAccepted => self.not_accepted(),
            StuckCause::PeerWindow => self.peer_window(),
            StuckCause::HostQueue => self.host_queue(),
            StuckCause::Unanswered => self.unanswered(),
            StuckCause::NotSent => self.not_sent(),
            StuckCause::Pacing => self.pacing(),
            StuckCause::Connecting => self.connecting(),
            StuckCause::HalfOpen => self.half_open(),
            StuckCause::UnsentDatagram => self.unsent_datagram(),
        };
        let more = match self.more {
            0 => String::new(),
            more => format!(" The same is so of {}.", counted(more, "more connection")),
        };
        // Of a program on this host more is known.
        let is_known = self.cause == StuckCause::PeerWindow && self.peer.is_some();
        let finding = self.words_of_rules().filter(|_| !is_known);
        let shared = match self.other_owners {
            0 => String::new(),
            1 => " 1 more process has the socket, too.".to_owned(),
            more => format!(" {more} more processes have the socket, too."),
        };
        let advice = finding.into_iter().flat_map(|finding| &finding.advice);
        let advice = advice.filter(|_| !self.is_short_segment());
        let advice: String = advice.map(|advice| format!(" {}.", capital(advice))).collect();
        let mut commands = self.commands(in_namespace);
        // A comment makes no other command of it.
        let bare = |command: &String| command.split("    #").next().map(str::to_owned);
        let mut known = std::collections::BTreeSet::new();
        commands.retain(|command| known.insert(bare(command)));
        Sentence::new(self.cause.name(), format!("{text}{shared}{more}{advice}")).with(commands)
    }

    /// Returns the commands that show more of it, or end it.
    fn commands(&self, in_namespace: InNamespace<'_>) -> Vec<String> {
        let netns = self.socket.netns.map(|netns| netns.0);
        let here = |command: &str| match netns {
            None => Some(command.to_owned()),
            Some(netns) => in_namespace(netns, command),
        };
        let mut commands = Vec::new();
        match self.cause {
            StuckCause::PeerWindow => {
                let peer = self.peer.as_ref().and_then(|peer| peer.program);
                commands.extend(peer.and_then(|program| program.command()));
            }
            // The rules have such a command.
            StuckCause::Unread | StuckCause::NotAccepted if self.finding.is_some() => {}
            StuckCause::Unread | StuckCause::NotAccepted => {
                commands.extend(self.program.and_then(|program| program.command()));
            }
            StuckCause::HostQueue => {
                let device = self.way.as_ref().map(|way| way.device.name);
                let device = device.map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
                commands.extend(device.and_then(|device| here(&format!("tc -s qdisc show dev {device}"))));
            }
            StuckCause::Connecting => {
                let peer = self.peer.as_ref().and_then(|peer| peer.program);
                commands.extend(peer.and_then(|program| program.command()));
            }
            _ => {}
        }
        if let Some(finding) = self.words_of_rules() {
            if let (Some(mtu), Some(ip)) = (self.untried_mtu(), self.socket.peer.ip()) {
                // The headers of an echo request.
                let ip = ip.to_canonical();
                let (headers, small) = if ip.is_ipv4() { (28, 500) } else { (48, 1_000) };
                let long = mtu.saturating_sub(headers);
                commands.extend(here(&format!("ping -c 3 -M do -s {long} {ip}")).map(|command| {
                    format!("{command}    # as long as its segments: no answer proves it, if a short one is answered")
                }));
                commands.extend(here(&format!("ping -c 3 -M do -s {small} {ip}")));
            }
            commands.extend(finding.commands.iter().cloned());
        }
        commands
    }

    /// Returns what the rules say, unless it is less than what is known of the queues: that nothing leaves is no work of a filter if it is in
    /// one.
    fn words_of_rules(&self) -> Option<&FindingWords> {
        let is_device =
            |finding: &&FindingWords| finding.rule == Rule::CannotSend && finding.subject.is_some();
        let finding = self.finding.as_ref();
        match self.cause {
            StuckCause::HostQueue => finding.filter(is_device),
            _ => finding,
        }
    }

    /// Returns the path MTU, if a smaller one may drop its segments.
    fn untried_mtu(&self) -> Option<u32> {
        let finding = self.finding.as_ref()?;
        finding.untried_mtu.filter(|_| !self.is_short_segment())
    }

    /// Whether no program has it any more: the kernel tries to deliver the rest.
    const fn is_abandoned(&self) -> bool {
        let is_sending = !matches!(
            self.cause,
            StuckCause::Unread | StuckCause::NotAccepted | StuckCause::HalfOpen | StuckCause::MissingSegment
        );
        self.socket.inode.is_none() && is_sending
    }

    fn abandoned(&self) -> String {
        let (send, _) = queued(&self.socket);
        let more = match self.more {
            0 => String::new(),
            more => format!(" The same is so of {}.", counted(more, "more connection")),
        };
        format!(
            "{} waited in the send buffer of {} for at least {}, and no program has the connection: what was closed, the kernel ends by itself.{}{more}",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
            self.timer()
        )
    }

    /// Returns the ends of the connection: `10.0.0.1:5000 to 10.0.0.2:80`.
    fn both_ends(&self) -> String {
        ends(&self.socket, "to")
    }

    fn unread(&self) -> String {
        let (_, receive) = queued(&self.socket);
        let unread = receive.saturating_sub(fin_received(self.socket.state));
        let end = if is_datagram(&self.socket) {
            address(&self.socket.local)
        } else {
            ends(&self.socket, "from")
        };
        // A queue that is full all the time can be read slowly.
        let is_flooded = is_datagram(&self.socket) && self.observed.drops > Some(0);
        let program = match &self.program {
            Some(program) if is_flooded && !program.is_stopped() => {
                format!(
                    ", and its program ({}) reads them more slowly than they come, or not at all{}",
                    program.name(),
                    does(program)
                )
            }
            Some(program) => does_not(program, "read them"),
            None if self.socket.inode.is_none() => ", and no program has accepted the connection".to_owned(),
            None => ", and its program, which is not known, does not read them".to_owned(),
        };
        let memory = self.socket.memory.unwrap_or_default();
        let detail = if is_datagram(&self.socket) {
            let full = memory.rmem_alloc_bytes.zip(memory.rcvbuf_bytes);
            let full = full.map_or_else(String::new, |(used, all)| {
                format!(
                    " {} % of the receive buffer is taken.",
                    u64::from(used) * 100 / u64::from(all.max(1))
                )
            });
            let drops = match self.observed.drops {
                Some(drops @ 1..) => format!(
                    " {} dropped meanwhile, since the buffer is full.",
                    sockeye_model::counted_were(drops, "packet")
                ),
                _ => String::new(),
            };
            format!("{full}{drops}")
        } else {
            let info = self.socket.tcp_info.as_ref();
            let last = info.and_then(|info| info.last_data_recv_ms);
            let last = last.map_or_else(String::new, |ms| {
                format!(" Data came in last {} ago.", span(u64::from(ms) * 1_000_000))
            });
            match info.and_then(|info| info.rcv_wnd_bytes) {
                Some(0) => {
                    format!("{last} The window that is announced to the peer is 0: it cannot send more.")
                }
                Some(window) => format!(
                    "{last} The window that is announced to the peer is {}.",
                    bytes(window.into())
                ),
                None => last,
            }
        };
        format!(
            "{} waited in the receive queue of {end} for at least {}{program}.{detail}",
            have(unread),
            span(self.waits_ns)
        )
    }

    fn missing_segment(&self) -> String {
        let memory = self.socket.memory.unwrap_or_default();
        format!(
            "A segment is missing at {}: others that come after it have waited for at least {} ({} of memory), and the program gets nothing until the peer sends it again. \
             What is sent again does not arrive here{}.",
            ends(&self.socket, "from"),
            span(self.waits_ns),
            bytes(memory.rmem_alloc_bytes.unwrap_or(0).into()),
            self.peer_words()
        )
    }

    fn not_accepted(&self) -> String {
        let (waiting, backlog) = match self.socket.queues {
            Queues::Accept { waiting, backlog } => (waiting, backlog),
            _ => (0, None),
        };
        let have = if waiting == 1 { "has" } else { "have" };
        let program = match &self.program {
            Some(program) => does_not(program, "accept them"),
            None => String::new(),
        };
        let full = match backlog {
            Some(backlog) if waiting > backlog => {
                format!(" The queue is full (limit {backlog}): the kernel turns new connections away.")
            }
            _ => String::new(),
        };
        format!(
            "{} {have} waited in the accept queue of {} for at least {}, and none was accepted{program}.{full}",
            counted(waiting, "connection"),
            address(&self.socket.local),
            span(self.waits_ns),
        )
    }

    fn peer_window(&self) -> String {
        let (send, _) = queued(&self.socket);
        let info = self.socket.tcp_info.unwrap_or_default();
        let window = match info.snd_wnd_bytes {
            Some(0) => "its receive window is closed (0 bytes)".to_owned(),
            Some(window) => format!(
                "its receive window has {} left, less than a segment",
                bytes(window.into())
            ),
            None => "its receive window is closed, as the timer shows".to_owned(),
        };
        let alive = match info.last_ack_recv_ms.map(|ms| u64::from(ms) * 1_000_000) {
            // It answers each probe.
            Some(ns) if ns < self.waits_ns / 2 => {
                format!(" Its host is alive: it acknowledged last {} ago.", span(ns))
            }
            // What is known of it follows.
            Some(ns) if self.peer.is_some() => format!(" It acknowledged last {} ago.", span(ns)),
            Some(ns) => format!(
                " It acknowledged last {} ago: either its program does not read, or its host is gone since.",
                span(ns)
            ),
            None => String::new(),
        };
        format!(
            "{} waited in the send buffer of {} for at least {}: the peer does not read, {window}.{}{alive}{}",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
            self.timer(),
            self.peer_words_sentence()
        )
    }

    fn host_queue(&self) -> String {
        let (send, _) = queued(&self.socket);
        let memory = self.socket.memory.unwrap_or_default();
        let queue = self.way.as_ref().map(Way::queue_words).unwrap_or_default();
        let place = match (&self.way, queue.is_empty()) {
            (Some(_), false) => queue.trim_start_matches("; ").to_owned(),
            (Some(way), true) if way.next_hop == Some(NextHop::Unanswered) => {
                "they wait for the link address of the next hop".to_owned()
            }
            (Some(way), true) => format!(
                "in the queue or the ring of {}, or of a device below it",
                String::from_utf8_lossy(way.device.name.as_bytes())
            ),
            (None, _) => "the device is not known".to_owned(),
        };
        let finding = self.words_of_rules().filter(|finding| is_cause(finding.rule));
        let finding = finding.map_or_else(String::new, |_| self.why_unanswered());
        format!(
            "{} waited in the send buffer of {} for at least {}, and do not leave this host: {} of memory are in queues below the socket (sk_wmem_alloc): {place}.{}{finding}",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
            bytes(memory.wmem_alloc_bytes.unwrap_or(0).into()),
            self.timer(),
        )
    }

    fn unanswered(&self) -> String {
        let (send, _) = queued(&self.socket);
        let info = self.socket.tcp_info.unwrap_or_default();
        let unacked = match (info.unacked_segs, info.notsent_bytes) {
            (Some(segments), Some(notsent @ 1..)) => format!(
                "{} were sent and are not acknowledged, and {} more are not sent yet",
                counted(segments, "segment"),
                bytes(notsent.into())
            ),
            (Some(segments), _) => format!(
                "{} were sent and are not acknowledged",
                counted(segments, "segment")
            ),
            _ => "they were sent and are not acknowledged".to_owned(),
        };
        let unacked = unacked.replace("1 segment were sent and are", "1 segment was sent and is");
        let last = info.last_ack_recv_ms.map_or_else(String::new, |ms| {
            format!(
                " The peer acknowledged last {} ago.",
                span(u64::from(ms) * 1_000_000)
            )
        });
        let sizes = match (&self.finding, info.snd_mss_bytes, info.pmtu_bytes) {
            (Some(finding), Some(mss), Some(pmtu))
                if finding.rule == Rule::MtuBlackHole || self.untried_mtu().is_some() =>
            {
                let device = self
                    .way
                    .as_ref()
                    .and_then(|way| Some((way, way.device.mtu_bytes?)));
                let device = device.map_or_else(String::new, |(way, mtu)| {
                    format!(
                        ", MTU of {} {mtu}",
                        String::from_utf8_lossy(way.device.name.as_bytes())
                    )
                });
                format!(" Its segments have up to {mss} bytes of data (path MTU {pmtu}{device}).")
            }
            _ => String::new(),
        };
        format!(
            "{} waited in the send buffer of {} for at least {}: {unacked}.{}{last}{}{sizes}{}",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
            self.timer(),
            self.segments(),
            self.why_unanswered()
        )
    }

    fn not_sent(&self) -> String {
        let (send, _) = queued(&self.socket);
        let why = match &self.finding {
            Some(finding) if is_cause(finding.rule) => self.why_unanswered(),
            _ => format!(
                " The window of the peer is open, and nothing is in flight: this host drops them before they leave.{}",
                self.why_unanswered()
            ),
        };
        format!(
            "{} waited in the send buffer of {} for at least {}: they are not sent.{}{why}",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
            self.segments()
        )
    }

    fn pacing(&self) -> String {
        let (send, _) = queued(&self.socket);
        let info = self.socket.tcp_info.unwrap_or_default();
        let rate = info.pacing_rate_bytes_per_s.unwrap_or(0);
        let by = match info.max_pacing_rate_bytes_per_s {
            Some(most) if most <= rate => "its program allows no more (SO_MAX_PACING_RATE)",
            _ => "the congestion control has chosen it",
        };
        format!(
            "{} waited in the send buffer of {} for at least {}: the rate at which it may send is {rate} bytes a second, less than a segment; {by}.",
            have(send),
            self.both_ends(),
            span(self.waits_ns),
        )
    }

    fn connecting(&self) -> String {
        let tries = self.socket.timer.map_or(0, |timer| timer.retransmits);
        let timer = self.socket.timer.map_or_else(String::new, |timer| {
            format!(
                " The next one comes in {}.",
                duration(u64::from(timer.expires_ms) * 1_000_000)
            )
        });
        let full = self.peer.as_ref().filter(|peer| peer.is_full_listener);
        let why = match full {
            Some(peer) => format!(
                " The listener is on this host{}, and its accept queue is full ({}): it drops the attempts{}.",
                in_netns(peer),
                counted(peer.unread, "connection"),
                peer.program
                    .map_or_else(String::new, |program| does_not(&program, "accept"))
            ),
            None => self.why_unanswered(),
        };
        format!(
            "The attempt to connect {} is not answered, for at least {}: its SYN was sent {}.{timer}{}{why}",
            self.both_ends(),
            span(self.waits_ns),
            counted(tries + 1, "time"),
            self.segments()
        )
    }

    fn half_open(&self) -> String {
        let tries = self.socket.timer.map_or(0, |timer| timer.retransmits);
        format!(
            "The handshake of {} is not complete, for at least {}: the answer (SYN and ACK) was sent {}, and no acknowledgement came. \
             Either the answers do not get through, or the client is gone or does not exist (a SYN flood), or the accept queue is full.{}",
            ends(&self.socket, "from"),
            span(self.waits_ns),
            counted(tries + 1, "time"),
            self.why_unanswered()
        )
    }

    fn unsent_datagram(&self) -> String {
        let (send, _) = queued(&self.socket);
        let queue = self.way.as_ref().map(Way::queue_words).unwrap_or_default();
        let why = if queue.is_empty() {
            "no packet waits in the qdisc of the device to its peer, so that the program has probably not completed the datagram (UDP_CORK, MSG_MORE); else it is in the ring of a device".to_owned()
        } else {
            format!(
                "either they are in a queue of this host ({}), or the program has not completed the datagram (UDP_CORK, MSG_MORE)",
                queue.trim_start_matches("; ")
            )
        };
        let program = self.program.map_or_else(String::new, |program| {
            format!(" Its program is {}.", program.name())
        });
        format!(
            "{} of memory have waited at the UDP socket {} for at least {}, and are not sent: {why}.{program}",
            bytes(send),
            self.both_ends(),
            span(self.waits_ns)
        )
    }

    /// Says what the other end does, if it is on this host, after a comma.
    fn peer_words(&self) -> String {
        self.peer.as_ref().map_or_else(String::new, |peer| {
            format!("; the peer is on this host{}", in_netns(peer))
        })
    }

    /// Says what the program of the other end does, if it is on this host.
    fn peer_words_sentence(&self) -> String {
        let Some(peer) = &self.peer else {
            return String::new();
        };
        let program = peer.program.map_or_else(
            || ", and its program is not known".to_owned(),
            |program| does_not(&program, "read them"),
        );
        format!(
            " The peer is on this host{}: {} wait in its receive queue{program}.",
            in_netns(peer),
            bytes(peer.unread)
        )
    }
}

/// Returns `5 bytes have`.
fn have(number: u64) -> String {
    let verb = if number == 1 { "has" } else { "have" };
    format!("{} {verb}", bytes(number))
}

/// Says what a program does, after a semicolon; empty if unknown.
fn does(program: &Program) -> String {
    match program.activity() {
        activity if activity.is_empty() => activity,
        activity => format!("; it {activity}"),
    }
}

/// Says that a program does not do something, and what it does instead.
fn does_not(program: &Program, what: &str) -> String {
    let (name, activity) = (program.name(), does(program));
    let activity = if program.is_stopped() {
        activity.replacen(';', ":", 1)
    } else {
        activity
    };
    format!(", and its program ({name}) does not {what}{activity}")
}

fn in_netns(peer: &PeerHere) -> String {
    match (&peer.netns_name, peer.netns) {
        (Some(name), _) => format!(", in network namespace {name}"),
        (None, Some(netns)) => format!(", in network namespace {netns}"),
        (None, None) => String::new(),
    }
}

/// Returns the ends of a connection: `10.0.0.1:80 from 10.0.0.2:5000`.
pub(super) fn ends(socket: &Socket, word: &str) -> String {
    let has_peer = socket.peer.port().is_some_and(|port| port.0 != 0);
    let local = address(&socket.local);
    if has_peer {
        format!("{local} {word} {}", address(&socket.peer))
    } else {
        local
    }
}

fn is_datagram(socket: &Socket) -> bool {
    socket.protocol != Protocol::Tcp
}

/// Returns a time for people: `12.30s`, `4m 5s`, `3h 20m`, `2d 4h`.
pub(super) fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => duration(ns),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Returns a text that begins with a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
