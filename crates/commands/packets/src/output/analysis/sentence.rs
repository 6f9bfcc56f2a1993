//! The findings of a connection as sentences: the cause first, then the evidence, then what to do. Each kind of finding has
//! one wording, and no sentence has more than 30 words.

use super::exchanges::idle_part;
use super::quantity::{queries, time};
use super::shares::share_of;
use crate::output::endpoint;
use sockeye_model::counted;
use sockeye_output::text::harmless;
use sockeye_trace::{
    Completeness, Connection, Direction, EventKind, Finding, FindingKind, IcmpReport, Limit, Side, Turn,
    Vantage, findings,
};
use sockeye_wire::packet::IcmpKind;

/// Returns the sentences about a connection, the most important first.
#[must_use]
pub fn sentences(connection: &Connection) -> Vec<String> {
    let all = findings(connection);
    let is_healthy = all.iter().all(|finding| finding.is_minor);
    all.iter()
        .flat_map(|finding| {
            let [statement, advice] = Story {
                connection,
                finding,
                all: &all,
                is_healthy,
            }
            .text_and_advice();
            [statement, advice]
        })
        .flatten()
        .collect()
}

/// A finding with what its sentences need.
struct Story<'a> {
    connection: &'a Connection,
    finding: &'a Finding,
    all: &'a [Finding],
    is_healthy: bool,
}

impl Story<'_> {
    /// Returns cause and evidence, and what to do about it.
    fn text_and_advice(&self) -> [Option<String>; 2] {
        use FindingKind as Kind;
        let connection = self.connection;
        let side = connection.side(self.finding.direction);
        let (sender, receiver) = self.ends();
        let text = |statement: String, advice: &str| {
            [Some(statement), (!advice.is_empty()).then(|| advice.to_owned())]
        };
        match self.finding.kind {
            Kind::Healthy => text(self.healthy(), ""),
            Kind::HealthyIdle => {
                let (client, server) = ends(connection, true);
                let part = idle_part(connection, (&client, &server));
                text(format!("Healthy, mostly idle: {part}."), "")
            }
            Kind::Refused => text(
                format!(
                    "Refused: {} answered the SYN with RST.",
                    endpoint::text(connection.server)
                ),
                "Nothing listens there, or a firewall rejects it.",
            ),
            Kind::Unanswered => self.unanswered(),
            Kind::IcmpUnreachable | Kind::IcmpProhibited | Kind::IcmpTimeExceeded => self.icmp(),
            Kind::OneDirection => {
                let end = if connection.forward.packets > 0 {
                    connection.client
                } else {
                    connection.server
                };
                text(
                    format!(
                        "Only what {} sends was captured: answers, losses and delays cannot be judged.",
                        endpoint::text(end)
                    ),
                    "Capture at one of the ends, or on all paths between them.",
                )
            }
            Kind::BackwardTimes => text(
                "The capture's timestamps run backwards in this connection: its times are not reliable."
                    .to_owned(),
                "",
            ),
            Kind::NameLookupSlow => self.name_lookup(),
            Kind::SynLost => self.syn_lost(),
            Kind::SetupSlow => self.setup_slow(),
            Kind::ServerSlow => self.server_slow(),
            Kind::ClientIdle if self.is_healthy => [None, None],
            Kind::ClientIdle => text(format!("It was the turn of {sender} for {}.", self.share()), ""),
            Kind::SenderPaced => {
                let exchanges = &connection.exchanges;
                let pauses = match self.finding.direction {
                    Direction::Forward => &exchanges.client_pauses,
                    Direction::Backward => &exchanges.server_pauses,
                };
                // Pauses below a round trip are not counted one by one.
                let are_counted = 2 * pauses.count * pauses.p50_ns >= self.finding.cost_ns;
                let how = if are_counted {
                    format!(
                        "{} of {} (median) between its writes",
                        counted(pauses.count, "pause"),
                        time(pauses.p50_ns)
                    )
                } else {
                    "it writes little at once, with short pauses".to_owned()
                };
                text(
                    format!(
                        "The program of {sender} had nothing to send for {}: {how}.",
                        self.share()
                    ),
                    &format!("Neither the path nor {receiver} is the limit."),
                )
            }
            Kind::ReceiverWindow => self.receiver_window(),
            Kind::SlowReader => {
                let (times, ns) = self.closings();
                let closed = if times > 0 {
                    format!("its window was closed {}, {} in all", times_of(times), time(ns))
                } else {
                    "its window shrinks again and again".to_owned()
                };
                text(
                    format!(
                        "The program of {receiver} reads too slowly: {closed}, and held the sender for {}.",
                        self.share()
                    ),
                    "Look at what this program does between its reads.",
                )
            }
            Kind::SillyWindow => text(
                format!(
                    "The program of {receiver} reads few bytes at once: {} a window of less than a segment (silly window).",
                    counted(side.small_windows, "ACK")
                        + if side.small_windows == 1 { " has" } else { " have" }
                ),
                "Let it read more at once, or give it a larger receive buffer.",
            ),
            Kind::SendBuffer => self.send_buffer(),
            Kind::NagleDelayedAck => text(
                format!(
                    "Small writes of {sender} wait for delayed ACKs (Nagle's algorithm): {}, {} in all.",
                    times_of(side.small_writes.count),
                    time(side.small_writes.waited_ns)
                ),
                "Let its program write at once what belongs together, or set TCP_NODELAY.",
            ),
            Kind::QueueOverflow => self.queue_overflow(),
            Kind::PathLoss => self.path_loss(),
            Kind::LossBeforeCapture => self.loss_before_capture(),
            Kind::RetransmissionTimeouts => self.timeouts(),
            Kind::SpuriousRetransmissions => {
                let count = side.judgements.spurious;
                let rtt = &side.rtt;
                let lost = if side.judgements.lost > 0 {
                    String::new()
                } else if side.vantage == Vantage::Sender && rtt.max_ns >= LATE_NS.max(5 * rtt.min_ns) {
                    format!(
                        ": nothing was lost, but ACKs came after up to {} instead of {}",
                        time(rtt.max_ns),
                        time(rtt.min_ns)
                    )
                } else {
                    ": nothing was lost".to_owned()
                };
                text(
                    format!(
                        "{} of {sender} {} sent again without need{lost}.",
                        counted(count, "segment"),
                        was_or_were(count)
                    ),
                    "",
                )
            }
            Kind::UnclearRetransmissions => {
                let count = side.judgements.unclear;
                text(
                    format!(
                        "{} of {sender} {} sent again, and whether segments or only ACKs were lost is unknown.",
                        counted(count, "segment"),
                        was_or_were(count)
                    ),
                    "",
                )
            }
            Kind::Reordering => text(
                format!(
                    "The path to {receiver} reorders segments: {} came late.",
                    side.judgements.reordered
                ),
                "",
            ),
            Kind::Duplicates => text(
                format!(
                    "The network delivered {} of {sender} twice.",
                    counted(side.judgements.duplicated_by_network, "segment")
                ),
                "",
            ),
            Kind::CapturedTwice => {
                let count = side.judgements.duplicated_by_capture;
                text(
                    format!(
                        "{} of {sender} {} captured twice.",
                        counted(count, "packet"),
                        was_or_were(count)
                    ),
                    "",
                )
            }
            Kind::MissingInCapture => text(
                format!(
                    "The capture has {} in the data of {sender}: it missed what was acknowledged.",
                    counted(side.judgements.missing_in_capture, "gap")
                ),
                "",
            ),
            Kind::PmtuDiscovery => {
                let report = connection.too_big(self.finding.direction);
                text(
                    format!(
                        "Path MTU discovery works: {}, and {sender} sends smaller segments.",
                        report.map_or_else(String::new, mtu_report)
                    ),
                    "",
                )
            }
            Kind::PmtuBlackHole => self.black_hole(),
            Kind::Jitter => {
                let delay = &side.variation.one_way;
                text(
                    format!(
                        "The delay of the path from {sender} varies: {} above its shortest in the median, {} in 10% of the cases.",
                        time(delay.p50_ns),
                        time(delay.p90_ns)
                    ),
                    "Look for radio links, busy hosts, and queues full of others' packets.",
                )
            }
            Kind::Bufferbloat => {
                let (from_ns, to_ns) = if side.variation.one_way.p90_ns > side.rtt.max_ns {
                    let delay = &side.variation.one_way;
                    (
                        connection.round_trip_ns(),
                        connection.round_trip_ns().saturating_add(delay.p90_ns),
                    )
                } else {
                    (side.rtt.min_ns, side.rtt.p90_ns)
                };
                let overflows = if side.judgements.lost > 0 {
                    format!(", until it overflows: {}", losses(side))
                } else {
                    String::new()
                };
                text(
                    format!(
                        "A long queue on the path to {receiver} delays everything: the round trip grows with the data in flight, from {} to {}{overflows}.",
                        time(from_ns),
                        time(to_ns)
                    ),
                    "Limit the rate before this queue, or use fq_codel or CAKE there.",
                )
            }
            Kind::PathLimited if self.is_healthy => [None, None],
            Kind::PathLimited => text(
                format!(
                    "Data of {sender} waited for ACKs, and nothing was lost: the path or a growing congestion window set its pace."
                ),
                "",
            ),
            Kind::PeerVanished => self.vanished(),
            Kind::ResetAfterIdle => {
                let idle_ns = connection.idle_before_reset_ns.unwrap_or(0);
                let cause = if idle_ns >= FORGETTING_NS {
                    "probably a NAT or firewall has forgotten the connection"
                } else {
                    "a firewall, a NAT or this end gave the connection up"
                };
                text(
                    format!(
                        "Reset by {sender} when data came after {} of silence: {cause}.",
                        time(idle_ns)
                    ),
                    "Send keepalives more often than its timeout (sockeye keepalive).",
                )
            }
            Kind::Reset if self.is_first() => {
                let lost = if connection.forward.judgements.lost + connection.backward.judgements.lost > 0 {
                    "little was lost"
                } else {
                    "nothing was lost"
                };
                text(
                    format!("Reset by {sender}."),
                    &format!("Before that, {lost}, and nothing was slow."),
                )
            }
            Kind::Reset => text(format!("Reset by {sender}."), ""),
        }
    }

    /// Returns the names of sender and receiver of the direction.
    fn ends(&self) -> (String, String) {
        ends(self.connection, self.finding.direction == Direction::Forward)
    }

    /// Returns whether nothing is more important, and nothing else is a fault.
    fn is_first(&self) -> bool {
        self.finding.is_minor && self.all.first() == Some(self.finding)
    }

    /// Returns the cost as a part of the connection's time: `97% of the time`.
    fn share(&self) -> String {
        share_of(self.finding.cost_ns, self.connection)
    }

    fn has(&self, kind: FindingKind) -> bool {
        self.all.iter().any(|finding| finding.kind == kind)
    }

    fn healthy(&self) -> String {
        let connection = self.connection;
        let exchanges = &connection.exchanges;
        let side = connection.side(connection.main_direction());
        let has_lost = [&connection.forward, &connection.backward]
            .into_iter()
            .any(|side| side.judgements.lost > 0);
        let lost = if has_lost {
            "little was lost, "
        } else {
            "nothing was lost, "
        };
        let works_ns = exchanges.times.of(Turn::ServerWorks);
        let is_server_busy = works_ns >= connection.duration_ns() / 4;
        if self.has(FindingKind::PathLimited) && !is_server_busy {
            let what = if connection.negotiated.window_scaling.is_none() {
                "the path set the pace, or the receiver's window, whose scale was not captured"
            } else if side.vantage == Vantage::Receiver {
                "the path or the sender set the pace, or a window that gets there smaller than captured here"
            } else {
                "the path or a growing congestion window set the pace"
            };
            return format!("Healthy: {lost}and {what}.");
        }
        if exchanges.server.count > 0 && !connection.carries_both() {
            let (_, server) = ends(connection, true);
            let share = if works_ns > 0 && works_ns >= connection.duration_ns() / 4 {
                format!(", {}", share_of(works_ns, connection))
            } else {
                String::new()
            };
            let took = time(exchanges.server.p50_ns);
            let what = if exchanges.server.count == 1 {
                format!("{took} for its answer")
            } else {
                format!("{took} (median) for each of {} answers", exchanges.server.count)
            };
            return format!(
                "Healthy: {lost}and {server} took {what}{share}; the round trip is {}.",
                time(connection.round_trip_ns())
            );
        }
        if connection.forward.bytes + connection.backward.bytes == 0 {
            return "Healthy: no data was sent.".to_owned();
        }
        format!("Healthy: {lost}and nothing was slow.")
    }

    fn unanswered(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        if connection.has_server_answered {
            [
                Some(format!(
                    "No answer: {} sent within {}, although {} accepted another connection.",
                    counted(connection.syns, "SYN"),
                    time(connection.duration_ns()),
                    endpoint::text(connection.server)
                )),
                Some(
                    "Its accept queue is probably full, or a firewall limits new connections: look at ss -ltn and nstat there."
                        .to_owned(),
                ),
            ]
        } else if connection.syns > 1 {
            [
                Some(format!(
                    "No answer: {} SYNs sent within {}, and nothing came back.",
                    connection.syns,
                    time(connection.duration_ns())
                )),
                Some("The host is down, a firewall drops it, or the way back is broken.".to_owned()),
            ]
        } else {
            [
                Some("No answer: 1 SYN sent, and nothing came back.".to_owned()),
                Some(
                    "The host is down, a firewall drops it, or the capture ended before an answer could come."
                        .to_owned(),
                ),
            ]
        }
    }

    fn icmp(&self) -> [Option<String>; 2] {
        let Some(report) = self.connection.undelivered() else {
            return [None, None];
        };
        let (says, advice) = match report.kind {
            IcmpKind::NetUnreachable => (
                "it has no route to the network: net unreachable",
                "Look at the routes there.",
            ),
            IcmpKind::PortUnreachable => (
                "nothing listens on the port: port unreachable",
                "Start the program that should listen there, or look for a firewall rule that rejects (REJECT).",
            ),
            IcmpKind::Prohibited => (
                "a firewall there prohibits it",
                "Look at the rules of this firewall.",
            ),
            IcmpKind::TimeExceeded => (
                "packets passed too many routers (time exceeded): probably a routing loop",
                "Compare the routes on the way, for example with tracepath.",
            ),
            _ => (
                "the host does not answer it: host unreachable",
                "Look whether the host is up, and at the neighbour table there.",
            ),
        };
        let times = if report.count > 1 {
            format!(" ({})", times_of(report.count))
        } else {
            String::new()
        };
        if let (IcmpKind::TimeExceeded, Some(ttl @ ..=FEW_HOPS)) = (report.kind, self.connection.syn_ttl) {
            return [
                Some(format!(
                    "Not delivered: {} reports by ICMP that the TTL ran out{times}; the client's SYN has a TTL of only {ttl}.",
                    report.reporter
                )),
                Some("Look at the TTL that the client sets (IP_TTL, net.ipv4.ip_default_ttl).".to_owned()),
            ];
        }
        if self.connection.is_delivered_after(report) {
            return [
                Some(format!(
                    "Interrupted: {} reports by ICMP that {says}{times}; later, packets were delivered again.",
                    report.reporter
                )),
                Some(advice.to_owned()),
            ];
        }
        [
            Some(format!(
                "Not delivered: {} reports by ICMP that {says}{times}.",
                report.reporter
            )),
            Some(advice.to_owned()),
        ]
    }

    fn name_lookup(&self) -> [Option<String>; 2] {
        let Some(lookup) = &self.connection.lookup else {
            return [None, None];
        };
        let kind = lookup
            .slowest
            .map_or_else(String::new, |kind| format!(" ({kind})"));
        let queries = queries(lookup.queries);
        let unanswered = match lookup.unanswered {
            0 if lookup.failed_names > 0 => match lookup.failed_names {
                1 => "and another name failed first".to_owned(),
                names => format!("and {names} other names failed first"),
            },
            0 => "all answered".to_owned(),
            1 => "1 of them not answered".to_owned(),
            more => format!("{more} of them not answered"),
        };
        [
            Some(format!(
                "The name lookup of {}{kind} took {} before the connection: {queries} to {}, {unanswered}.",
                harmless(lookup.name.as_bytes()),
                time(lookup.took_ns),
                lookup.server
            )),
            Some(
                if lookup.failed_names > 0 {
                    "Look at the search list in /etc/resolv.conf, or end the name with a dot."
                } else {
                    "Look at this name server, and at the servers in /etc/resolv.conf."
                }
                .to_owned(),
            ),
        ]
    }

    fn syn_lost(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let took = time(connection.exchanges.times.of(Turn::Setup));
        let (syns, answers) = (connection.syns, connection.syn_acks);
        let what = if answers <= 1 {
            format!("{syns} SYNs were sent until one was answered, so a SYN or its answer was lost")
        } else {
            format!(
                "{} and {} were sent, so a SYN-ACK or the ACK after it was lost",
                counted(syns, "SYN"),
                counted(answers, "SYN-ACK")
            )
        };
        [
            Some(format!("Connection setup took {took}: {what}.")),
            Some(
                "Look for losses on the path, and for a full accept queue or a firewall at the server."
                    .to_owned(),
            ),
        ]
    }

    fn setup_slow(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let took_ns = connection.exchanges.times.of(Turn::Setup);
        let round_trips = took_ns / connection.round_trip_ns().max(1);
        let what = if connection.is_syn_needless {
            "SYNs or SYN-ACKs were sent again, but nothing was lost: the first answer came late".to_owned()
        } else {
            format!(
                "{} of {}, and nothing was lost: the SYN-ACK came late",
                counted(round_trips, "round trip"),
                time(connection.round_trip_ns())
            )
        };
        [
            Some(format!("Connection setup took {}: {what}.", time(took_ns))),
            Some(
                "Look at the load and the accept queue of the server, and at delays, firewalls and SYN proxies on the way."
                    .to_owned(),
            ),
        ]
    }

    fn receiver_window(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let side = connection.side(self.finding.direction);
        let (sender, receiver) = self.ends();
        let peer = connection.side(match self.finding.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        });
        let is_unscaled = connection.negotiated.window_scaling == Some(false)
            && side.bound.window_max_bytes >= UNSCALED_BYTES;
        if is_unscaled {
            let unscaling = if peer.window_scale.is_none() {
                &receiver
            } else {
                &sender
            };
            return [
                Some(format!(
                    "The receive window of {receiver} was full for {}: {unscaling} does not offer window scaling, so 64KB per round trip of {} are the most.",
                    self.share(),
                    time(connection.round_trip_ns())
                )),
                Some(
                    "Enable net.ipv4.tcp_window_scaling there, or look for a device that removes the option."
                        .to_owned(),
                ),
            ];
        }
        let holds = side.verdict.window_segs.map_or_else(String::new, |segs| {
            format!(", which holds {},", counted(segs, "segment"))
        });
        [
            Some(format!(
                "The receive window of {receiver}{holds} was full for {}.",
                self.share()
            )),
            Some(
                "It is smaller than the path needs, or its program reads too slowly: look at net.ipv4.tcp_rmem and SO_RCVBUF there."
                    .to_owned(),
            ),
        ]
    }

    fn server_slow(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let exchanges = &connection.exchanges;
        let (_, server) = ends(connection, true);
        let (answers, slow) = (exchanges.server.count, exchanges.slow_answers);
        let is_first = slow == 1
            && answers > 1
            && exchanges
                .first_answer_ns
                .is_some_and(|ns| ns == exchanges.server.max_ns);
        let is_tls = exchanges.is_tls && (is_first || answers == 1);
        let what = if let Some(ns) = exchanges.unanswered_ns {
            format!("it did not answer the last request within {}", time(ns))
        } else if exchanges.is_server_first
            && exchanges.times.of(Turn::BeforeFirst) > exchanges.slow_answers_ns
        {
            format!(
                "it took {} to send its first data",
                time(exchanges.times.of(Turn::BeforeFirst))
            )
        } else if exchanges.interrupted_ns > exchanges.times.of(Turn::ServerWorks) {
            format!(
                "it paused for {} in the middle of an answer",
                time(exchanges.interruption_max_ns)
            )
        } else if answers == 1 {
            format!("its answer took {}", time(exchanges.server.max_ns))
        } else if is_first {
            format!(
                "its first answer took {}, the others {} (median)",
                time(exchanges.server.max_ns),
                time(exchanges.server.p50_ns)
            )
        } else if slow == answers || slow == 0 {
            format!(
                "{} took it {} (median)",
                counted(answers, "answer"),
                time(exchanges.server.p50_ns)
            )
        } else {
            format!(
                "{slow} of {answers} answers took it up to {}",
                time(exchanges.server.max_ns)
            )
        };
        let name = if is_tls {
            format!("The TLS handshake of {server} is slow")
        } else {
            format!("The program of {server} is slow")
        };
        let advice = if exchanges.server.count > 0 && exchanges.server.min_ns >= LONG_POLL_NS {
            "Unless it waits on purpose (long polling), look at what it does or waits for."
        } else {
            "Look at what it does or waits for then."
        };
        [
            Some(format!(
                "{name}: {what}, {}; the round trip takes {}.",
                self.share(),
                time(connection.round_trip_ns())
            )),
            Some(advice.to_owned()),
        ]
    }

    fn send_buffer(&self) -> [Option<String>; 2] {
        let side = self.connection.side(self.finding.direction);
        let (sender, _) = self.ends();
        let flight = side.verdict.in_flight_segs.map_or_else(String::new, |segs| {
            format!(" with {} in flight", counted(segs, "segment"))
        });
        let room = side
            .verdict
            .window_segs
            .filter(|window| side.verdict.in_flight_segs.is_none_or(|flight| *window > flight))
            .map_or_else(String::new, |window| {
                format!(", while the peer's window would have held {window}")
            });
        let advice = if self.connection.negotiated.window_scaling.is_none() {
            "Look at net.ipv4.tcp_wmem and SO_SNDBUF there, or it is the receiver's window, whose scale was not captured."
        } else if side.vantage == Vantage::Receiver {
            "Look at net.ipv4.tcp_wmem and SO_SNDBUF there; a window that gets there smaller than captured here looks the same."
        } else {
            "Look at net.ipv4.tcp_wmem and SO_SNDBUF there."
        };
        [
            Some(format!(
                "The send buffer of {sender} was full for {}{flight}{room}.",
                self.share()
            )),
            Some(advice.to_owned()),
        ]
    }

    fn queue_overflow(&self) -> [Option<String>; 2] {
        let side = self.connection.side(self.finding.direction);
        let verdict = &side.verdict;
        let (_, receiver) = self.ends();
        let (least, most) = verdict.queue_segs.unwrap_or((1, 1));
        let size = if least == most {
            counted(most, "segment")
        } else {
            format!("{least}-{most} segments")
        };
        let grown = verdict.lost_after_growth_segs;
        let when = if grown >= verdict.lost_segs {
            ", all right after window growth".to_owned()
        } else if grown > 0 {
            format!(", {grown} of them right after window growth")
        } else {
            String::new()
        };
        [
            Some(format!(
                "A queue of about {size} overflows on the path to {receiver}: {}{when}, which cost {}.",
                losses(side),
                self.share()
            )),
            Some(
                "Look at tun/tap txqueuelen, tc qdisc limits, and the buffers of routers on the way."
                    .to_owned(),
            ),
        ]
    }

    fn path_loss(&self) -> [Option<String>; 2] {
        let side = self.connection.side(self.finding.direction);
        let (_, receiver) = self.ends();
        let rtt = &side.rtt;
        let is_flat = rtt.count >= FLAT_COUNT && rtt.p90_ns <= rtt.min_ns + (rtt.min_ns / 8).max(FLAT_NS);
        let advice = if side.verdict.has_no_queue
            || is_flat && side.vantage != Vantage::Receiver && side.judgements.lost >= LOSSES_MIN
        {
            "Nothing waited in a queue then: look for a bad link, radio, a policer, or a queue full of others' packets."
        } else if side.vantage == Vantage::Receiver {
            "Captured near the receiver, a queue that overflows does not show: capture near the sender."
        } else if side.judgements.lost < LOSSES_MIN {
            "They are too few to show whether a queue overflows or a link is bad."
        } else {
            "Look for a queue that overflows, a policer, or a bad link; this capture does not show which."
        };
        [
            Some(format!(
                "The path to {receiver} loses segments: {}, which cost {}.",
                losses(side),
                self.share()
            )),
            Some(advice.to_owned()),
        ]
    }

    fn loss_before_capture(&self) -> [Option<String>; 2] {
        let side = self.connection.side(self.finding.direction);
        let (sender, _) = self.ends();
        let advice = match side.vantage {
            Vantage::Sender => "Look at tc -s qdisc and ip -s link of the sender.".to_owned(),
            _ => format!("Capture near {sender} to see whether a queue overflows or a link is bad."),
        };
        let all = side.judgements.lost == side.judgements.lost_before;
        let count = if all {
            losses(side)
        } else {
            format!("{} of {}", side.judgements.lost_before, losses(side))
        };
        [
            Some(format!(
                "Segments of {sender} were lost before they reached this capture: {count}, which cost {}.",
                self.share()
            )),
            Some(advice),
        ]
    }

    fn timeouts(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let (sender, _) = self.ends();
        let timeouts = connection.data_timeouts(self.finding.direction);
        let judgements = &connection.side(self.finding.direction).judgements;
        let advice = if judgements.lost == 0 && judgements.spurious > 0 {
            "Nothing was missing: ACKs came late or were lost."
        } else {
            "No duplicate ACKs reported what was missing: the end of a burst, or all of it, was lost."
        };
        let silence = self.silence().map_or_else(String::new, |(begin_ns, ns)| {
            format!(
                "; nothing came back for {} from {:.1}s on",
                time(ns),
                begin_ns as f64 / 1e9
            )
        });
        [
            Some(format!(
                "{} of {sender} took {}{silence}.",
                counted(timeouts, "retransmission timeout"),
                self.share()
            )),
            Some(advice.to_owned()),
        ]
    }

    fn black_hole(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let side = connection.side(self.finding.direction);
        let (sender, _) = self.ends();
        let evidence = &side.path_mtu;
        match connection.too_big(self.finding.direction) {
            Some(report) => [
                Some(format!(
                    "Path MTU black hole: {}, but {sender} sent segments of {} bytes {} more.",
                    mtu_report(report),
                    evidence.stuck_bytes,
                    times_of(evidence.stuck_times.into())
                )),
                Some(format!(
                    "Let ICMP reach {sender}, lower its MTU, or clamp the MSS on the way."
                )),
            ],
            None => [
                Some(format!(
                    "Path MTU black hole, probably: segments of {} bytes vanish, sent again {}, while smaller packets pass.",
                    evidence.stuck_bytes,
                    times_of(evidence.stuck_times.into())
                )),
                Some(
                    "Look for a smaller MTU on the way and for a firewall that drops ICMP, or clamp the MSS."
                        .to_owned(),
                ),
            ],
        }
    }

    fn vanished(&self) -> [Option<String>; 2] {
        let connection = self.connection;
        let (gone, waits) = self.ends();
        let waiting = connection.side(match self.finding.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        });
        let keepalives = waiting.unanswered_keepalives;
        let gone = capitalized(&gone);
        let what = if keepalives > 0 {
            format!(
                "{} of {waits} were not answered",
                counted(keepalives, "keepalive")
            )
        } else {
            format!("what {waits} sent to it again and again was not answered any more")
        };
        [
            Some(format!("{gone} vanished: {what}.")),
            Some(
                "Look whether the host is up, and for a NAT or firewall that forgot the connection."
                    .to_owned(),
            ),
        ]
    }

    /// Returns begin and length of the longest silence with data of this direction in flight.
    fn silence(&self) -> Option<(u64, u64)> {
        let from_client = self.finding.direction == Direction::Forward;
        let silences = self
            .connection
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Stall { duration_ns }
                    if event.from_client == from_client
                        && event.evidence.starts_with("data was in flight") =>
                {
                    Some((event.time_ns, duration_ns))
                }
                _ => None,
            });
        silences.max_by_key(|(_, duration_ns)| *duration_ns)
    }

    /// Returns how often the window of this direction's receiver was closed, and for how long in total.
    fn closings(&self) -> (u64, u64) {
        let from_client = self.finding.direction == Direction::Forward;
        let of_receiver = self
            .connection
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::WindowClosed { duration_ns } if event.from_client == from_client => {
                    Some(duration_ns)
                }
                _ => None,
            });
        of_receiver.fold((0, 0), |(count, sum), ns| (count + 1, sum + ns))
    }
}

/// Returns the names of sender and receiver. If the handshake was not captured, it is unknown which end is the client.
pub(super) fn ends(connection: &Connection, is_forward: bool) -> (String, String) {
    let is_known = connection.completeness.0 & (Completeness::SYN | Completeness::SYN_ACK) != 0;
    let (client, server) = if is_known {
        ("the client".to_owned(), "the server".to_owned())
    } else {
        (
            endpoint::text(connection.client),
            endpoint::text(connection.server),
        )
    };
    if is_forward {
        (client, server)
    } else {
        (server, client)
    }
}

/// Returns `10.1.0.1 reports an MTU of 1400`.
fn mtu_report(report: &IcmpReport) -> String {
    match report.mtu {
        Some(mtu) => format!("{} reports an MTU of {mtu}", report.reporter),
        None => format!("{} reports a smaller MTU", report.reporter),
    }
}

/// Returns `31 losses (2.3%)`.
fn losses(side: &Side) -> String {
    let lost = side.judgements.lost;
    let noun = if lost == 1 { "loss" } else { "losses" };
    // Both are counted in segments, of which a captured packet may carry several.
    let sent = side.data_segments.saturating_add(side.judgements.lost_before);
    let permyriad = lost.saturating_mul(10_000) / sent.max(1).max(lost);
    if permyriad < 1 {
        format!("{lost} {noun}")
    } else if permyriad < 1_000 {
        format!("{lost} {noun} ({}.{:02}%)", permyriad / 100, permyriad % 100)
    } else {
        format!("{lost} {noun} ({}%)", permyriad / 100)
    }
}

fn was_or_were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

pub(super) fn times_of(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

/// Returns whether the sentences are about the forward direction first.
pub(super) fn is_forward_main(connection: &Connection) -> bool {
    connection.main_direction() == Direction::Forward
}

/// Returns whether the time with nothing to send is worth a split by whose turn it was.
pub(super) fn is_application_limited(side: &Side) -> bool {
    side.shares.of(Limit::Application) >= side.shares.total() / 5
}

/// Acknowledgements that come so late are noticed.
const LATE_NS: u64 = 200_000_000;

/// Firewalls and NAT devices rarely forget a connection that was idle for less.
const FORGETTING_NS: u64 = 60_000_000_000;

/// No system sends packets with a TTL this low by default.
const FEW_HOPS: u8 = 16;

/// Windows without scaling end here, nearly.
const UNSCALED_BYTES: u32 = 60_000;

/// Round trips that show that nothing waited, and how much they may vary.
const FLAT_COUNT: u64 = 20;
const FLAT_NS: u64 = 2_000_000;

/// Losses that are enough to show whether they are at the end of bursts.
const LOSSES_MIN: u64 = 15;

/// Answers that all take longer than this may wait on purpose.
const LONG_POLL_NS: u64 = 10_000_000_000;
