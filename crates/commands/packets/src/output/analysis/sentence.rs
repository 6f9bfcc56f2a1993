//! What limited a connection, in one or two sentences.

use super::quantity::{number_of, time};
use super::shares::percent;
use crate::output::endpoint;
use sockeye_trace::{Completeness, Connection, Ending, EventKind, Flag, Limit, Side, Vantage};

/// Returns one or two sentences: first what took most of the time of the main direction, then other events.
#[must_use]
pub fn sentences(connection: &Connection) -> Vec<String> {
    let mut all = Vec::new();
    let is_forward = is_forward_main(connection);
    let (side, peer) = if is_forward {
        (&connection.forward, &connection.backward)
    } else {
        (&connection.backward, &connection.forward)
    };
    match connection.ending {
        Ending::Refused => {
            all.push(format!(
                "Refused: {} answered the SYN with RST: nothing listens there, or a firewall rejects it.",
                endpoint::text(connection.server)
            ));
            return all;
        }
        Ending::Unanswered => {
            all.push(format!(
                "No answer: {}, and nothing came back: the host is down, a firewall drops it, or the way back is broken{}.",
                if connection.syns > 1 {
                    let lasted_ns = connection.end_ns.saturating_sub(connection.begin_ns);
                    format!("{} SYNs sent within {}", connection.syns, time(lasted_ns))
                } else {
                    "1 SYN sent".to_owned()
                },
                // Without an answer the client sends another SYN after a second.
                if connection.syns > 1 {
                    ""
                } else {
                    "; or the capture ended before an answer could come"
                }
            ));
            return all;
        }
        _ => {}
    }
    if let Some(text) = limited(side, peer, connection, is_forward) {
        all.push(if carry_both(connection) {
            let (sender, receiver) = ends(connection, is_forward);
            format!("From {sender} to {receiver}: {text}")
        } else {
            text
        });
    } else if side.bytes == 0 {
        all.push("No data was sent.".to_owned());
    }
    all.extend(silence(connection, is_forward));
    all.extend(other_events(side, peer));
    all.extend(ending(connection));
    all
}

/// Returns whether the sentences are about the forward direction: about the one with most data, or, if both have much, about
/// the one that was limited for longer.
pub(super) fn is_forward_main(connection: &Connection) -> bool {
    let (forward, backward) = (&connection.forward, &connection.backward);
    let has_more = forward.bytes >= backward.bytes;
    if !carry_both(connection) {
        return has_more;
    }
    let limited_ns = |side: &Side| {
        let free_ns = side.shares.of(Limit::Application) + side.shares.of(Limit::Setup);
        side.shares.total().saturating_sub(free_ns)
    };
    let (forward_ns, backward_ns) = (limited_ns(forward), limited_ns(backward));
    if forward_ns.max(backward_ns) / 4 * 3 > forward_ns.min(backward_ns) {
        forward_ns > backward_ns
    } else {
        has_more
    }
}

/// Returns whether both directions carry much data.
pub(super) fn carry_both(connection: &Connection) -> bool {
    let (forward, backward) = (connection.forward.bytes, connection.backward.bytes);
    let less = forward.min(backward);
    less >= MUCH_DATA && less >= forward.max(backward) / 4
}

/// Returns the names of sender and receiver. If the handshake was not captured, it is unknown which end is the client.
pub(super) fn ends(connection: &Connection, is_forward: bool) -> (String, String) {
    let is_known = connection.completeness.0 & (Completeness::SYN | Completeness::SYN_ACK) != 0;
    let (client, server) = if is_known {
        ("client".to_owned(), "server".to_owned())
    } else {
        (
            endpoint::text(connection.client),
            endpoint::text(connection.server),
        )
    };
    let (client, server) = if is_known {
        (format!("the {client}"), format!("the {server}"))
    } else {
        (client, server)
    };
    if is_forward {
        (client, server)
    } else {
        (server, client)
    }
}

/// Returns what limited the direction: `54% waiting for ...`.
fn limited(side: &Side, peer: &Side, connection: &Connection, is_forward: bool) -> Option<String> {
    let limit = side.verdict.limit?;
    let share = percent(&side.shares)?[limit as usize];
    let verdict = &side.verdict;
    let flight = verdict
        .in_flight_segs
        .map(|segs| format!(" with {} in flight", number_of(segs.into(), "segment")));
    let window = verdict
        .window_segs
        .filter(|window| verdict.in_flight_segs.is_none_or(|flight| *window > flight));
    let flight = flight.unwrap_or_default();
    let (sender, receiver) = ends(connection, is_forward);
    let has_scale = connection.negotiated.window_scaling.is_some() || verdict.window_segs.is_some();
    let text = match limit {
        Limit::Setup => format!("{share}% connection setup: {}.", set_up(side, connection)),
        Limit::Application => application(share, side, connection, (&sender, &receiver)),
        Limit::ReceiverWindow => {
            let closed = closings(connection, is_forward);
            let zero = peer.flags[Flag::ZeroWindow as usize];
            if closed.0 > 0 || zero > 0 {
                let (times, ns) = closed;
                let how = if times > 0 {
                    format!("its window was closed {}, {} in all", times_of(times), time(ns))
                } else {
                    "its window was closed".to_owned()
                };
                format!(
                    "{share}% waiting for {receiver} to open its window: {how}: the program there reads too slowly."
                )
            } else {
                let segs = verdict
                    .window_segs
                    .map(|segs| format!(", which holds {}", number_of(segs.into(), "segment")));
                format!(
                    "{share}% waiting for {receiver}'s window{}: it is smaller than the path needs, or the program there reads \
                     too slowly (look at net.ipv4.tcp_rmem and SO_RCVBUF there).",
                    segs.unwrap_or_default()
                )
            }
        }
        Limit::SendBuffer => {
            let would = window.map_or_else(String::new, |window| {
                format!(" while the peer's window would have held {window}")
            });
            let or_else = if !has_scale {
                ", or the receiver's window is, whose scale was not captured"
            } else if side.vantage == Vantage::Receiver {
                ", or the window that it gets to see is smaller than the one captured here"
            } else {
                ""
            };
            format!(
                "{share}% waiting for ACKs{flight}{would}, without losses and without growing: {sender}'s send buffer is full \
                 of what is not acknowledged yet (look at net.ipv4.tcp_wmem and SO_SNDBUF there){or_else}."
            )
        }
        Limit::CongestionWindow => {
            let would = window.map_or_else(String::new, |window| {
                format!(" while the peer's window would have held {window}")
            });
            let or_else = if verdict.lost_segs > 0 || side.opinions.spurious > 0 {
                ""
            } else if !has_scale {
                "; or the receiver's window is, whose scale was not captured"
            } else if side.vantage == Vantage::Receiver {
                "; or something at the sender that does not show near the receiver: its send buffer, or a window that gets there \
                 smaller than captured here"
            } else {
                ""
            };
            format!(
                "{share}% waiting for ACKs{flight}{would}: {}{or_else}.",
                held_down(side)
            )
        }
        Limit::FastRecovery => format!("{share}% recovering from losses{flight}: {}.", held_down(side)),
        Limit::Timeout => {
            let timeouts = number_of(verdict.timeouts.max(1), "retransmission timeout");
            let why = if verdict.lost_segs == 0 && side.opinions.spurious == 0 {
                "nothing is known to be lost but acknowledgements".to_owned()
            } else {
                held_down(side)
            };
            format!("{share}% waiting for {timeouts}: {why}.")
        }
    };
    Some(text)
}

/// Returns what took the time of the connection setup.
fn set_up(side: &Side, connection: &Connection) -> String {
    let took = time(side.shares.of(Limit::Setup));
    let (syns, answers) = (connection.syns, connection.syn_acks);
    if syns > 1 && answers <= 1 {
        format!("it took {took}, for {syns} SYNs were sent until one was answered: it or its answer was lost")
    } else if syns > 1 || answers > 1 {
        format!(
            "it took {took}, with {} and {}: what one end sends is lost on the way to the other",
            number_of(syns.into(), "SYN"),
            number_of(answers.into(), "SYN-ACK")
        )
    } else {
        format!("the handshake took {took}, all data less than that")
    }
}

/// Returns why the sender had nothing to send.
fn application(share: u8, side: &Side, connection: &Connection, (sender, receiver): (&str, &str)) -> String {
    let round_trip_ns = round_trip_ns(connection);
    let lasted_ns = connection.end_ns.saturating_sub(connection.begin_ns).max(1);
    // Two turns are one round trip.
    let asked = u64::from(connection.turns / 2);
    let under_way_ns = asked.saturating_mul(round_trip_ns);
    let turns_part = under_way_ns.saturating_mul(100) / lasted_ns;
    if asked >= FEW_TURNS && turns_part >= SOME_PART {
        return format!(
            "{share}% {sender} had nothing to send: both ends took turns {asked} times, which takes a round trip of {} each, {} in all \
             ({turns_part}% of the time); the rest is their programs.",
            time(round_trip_ns),
            time(under_way_ns)
        );
    }
    if asked >= FEW_TURNS {
        return format!(
            "{share}% {sender} had nothing to send: both ends took turns {asked} times, and their programs are what takes the time, \
             not the path."
        );
    }
    if !side.knows_losses {
        return format!(
            "{share}% nothing came from {sender}: its program had nothing to send, or what it sent was lost before it was captured \
             (captured near {receiver}; capture near {sender} to be sure)."
        );
    }
    let path_ns = round_trip_ns.max(side.rtt.p50_ns);
    if lasted_ns < FEW_ROUND_TRIPS * path_ns {
        return format!(
            "{share}% {sender} had nothing more to send: it was over within a few round trips (of {} each).",
            time(path_ns)
        );
    }
    if side.vantage == Vantage::Receiver {
        return format!(
            "{share}% {sender} had nothing to send, as far as a capture near {receiver} shows: its program is what takes the time, or \
             it waited for ACKs on their way to it (capture near {sender} to be sure)."
        );
    }
    format!(
        "{share}% {sender} had nothing to send: its program is what takes the time, neither the path nor {receiver}."
    )
}

/// Returns the shortest round trip of the whole path, 0 if unknown. The handshake may be slower, on a busy machine.
fn round_trip_ns(connection: &Connection) -> u64 {
    let (there, back) = (&connection.forward.rtt, &connection.backward.rtt);
    let both_ns = (there.count > 0 && back.count > 0).then(|| there.min_ns.saturating_add(back.min_ns));
    match (connection.handshake_ns, both_ns) {
        (Some(handshake_ns), Some(both_ns)) => handshake_ns.min(both_ns),
        (one, other) => one.or(other).unwrap_or(0),
    }
}

/// Returns why the congestion window was not larger.
fn held_down(side: &Side) -> String {
    let verdict = &side.verdict;
    let lost = verdict.lost_segs;
    if lost == 0 {
        let needless = side.opinions.spurious;
        return if needless > 0 {
            format!(
                "the congestion window was cut by {} without need, nothing was lost{}",
                number_of(needless, "retransmission"),
                if side.opinions.reordered > 0 {
                    ", but segments came late"
                } else {
                    ""
                }
            )
        } else if verdict.timeouts > 0 {
            "nothing is known to be lost".to_owned()
        } else {
            "nothing was lost: what the path lets through, or a congestion window that was still growing, is the limit"
                .to_owned()
        };
    }
    let mut text = format!("congestion window held down by {}", losses(lost));
    let grown = verdict.lost_after_growth_segs;
    match verdict.queue_segs {
        Some((least, most)) => {
            if grown >= lost {
                text.push_str(", all in bursts right after window growth");
            } else if grown > 0 {
                text.push_str(&format!(", {grown} of them in bursts right after window growth"));
            }
            let size = if least == most {
                number_of(most.into(), "segment")
            } else {
                format!("{least}-{most} segments")
            };
            text.push_str(&format!(
                ": a queue of about {size} overflows on the path (look at tun/tap txqueuelen, tc qdisc limits, the \
                 buffers of routers on the way)"
            ));
        }
        // The segments are missing here: they were lost between the sender and this capture.
        None if side.opinions.lost_before >= lost / 10 * 9 && side.vantage != Vantage::Receiver => text.push_str(
            ", before they came to where this was captured: in a queue of the sender itself or on the way here (look at tc -s qdisc \
             and ip -s link there)",
        ),
        // Between the queue and the receiver bursts are spread out, and lost segments are missing.
        None if side.vantage == Vantage::Receiver => text.push_str(
            "; captured near the receiver, which does not show whether a queue overflows (capture near the sender)",
        ),
        None if lost < LOSSES_MIN => text.push_str(
            ": too few to show whether the path loses packets, or a queue on it overflows",
        ),
        None if verdict.has_no_queue => text.push_str(
            ": in no queue of this path, it seems, for nothing waited in one when they were lost: the path loses packets (a bad link, \
             radio, a policer, or a queue full of others' packets)",
        ),
        None => text.push_str(
            ": the path loses packets, or a queue on it overflows; this capture does not show which",
        ),
    }
    text
}

/// Returns other events of the connection.
fn other_events(side: &Side, peer: &Side) -> Option<String> {
    let has_loss_sentence = matches!(
        side.verdict.limit,
        Some(Limit::CongestionWindow | Limit::FastRecovery | Limit::Timeout)
    );
    let (own, other) = (&side.opinions, &peer.opinions);
    let mut parts = Vec::new();
    let mut part = |count: u64, one: &str, many: &str| {
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    part(
        if has_loss_sentence {
            other.lost
        } else {
            own.lost + other.lost
        },
        if has_loss_sentence {
            "segment the other way was lost"
        } else {
            "segment was lost"
        },
        if has_loss_sentence {
            "segments the other way were lost"
        } else {
            "segments were lost"
        },
    );
    part(
        own.reordered + other.reordered,
        "came late (the path reorders)",
        "came late (the path reorders)",
    );
    part(
        own.spurious + other.spurious,
        "was sent again without need",
        "were sent again without need",
    );
    part(
        own.unclear + other.unclear,
        "was sent again, and whether it was lost or late, or its ACK lost, is unknown",
        "were sent again, and whether they were lost or late, or their ACKs lost, is unknown",
    );
    part(
        own.duplicated_by_network + other.duplicated_by_network,
        "was delivered twice by the network",
        "were delivered twice by the network",
    );
    part(
        own.duplicated_by_capture + other.duplicated_by_capture,
        "was captured twice",
        "were captured twice",
    );
    part(
        own.missing_in_capture + other.missing_in_capture,
        "gap in the capture (it missed what was acknowledged)",
        "gaps in the capture (it missed what was acknowledged)",
    );
    (!parts.is_empty()).then(|| format!("{}.", parts.join(", ")))
}

/// Returns for how long nothing came back in spite of timeouts; [`ending`] handles connections that end so.
fn silence(connection: &Connection, is_forward: bool) -> Option<String> {
    let (mut begin_ns, mut silent_ns, mut times, mut end_ns) = (0, 0, 0_u64, 0);
    for event in &connection.events {
        let EventKind::Stall { duration_ns } = event.kind else {
            continue;
        };
        if event.from_client != is_forward || !event.evidence.starts_with("data was in flight") {
            continue;
        }
        if silent_ns == 0 {
            begin_ns = event.time_ns;
        }
        if end_ns == 0 || event.time_ns > end_ns + SAME_SILENCE_NS {
            times += 1;
        }
        silent_ns += duration_ns;
        end_ns = event.time_ns + duration_ns;
    }
    let side = if is_forward {
        &connection.forward
    } else {
        &connection.backward
    };
    let is_gone = matches!(connection.ending, Ending::ClientVanished | Ending::ServerVanished);
    if side.opinions.timeouts == 0 || times == 0 || is_gone {
        return None;
    }
    let when = if times == 1 {
        format!("for {}, from {:.3} s on", time(silent_ns), begin_ns as f64 / 1e9)
    } else {
        format!("{}, {} in all", times_of(times), time(silent_ns))
    };
    let timeouts = number_of(side.opinions.timeouts, "retransmission timeout");
    Some(format!(
        "With data in flight nothing came back {when} ({timeouts})."
    ))
}

fn ending(connection: &Connection) -> Option<String> {
    let text = match connection.ending {
        Ending::ResetByClient => "Reset by the client.",
        Ending::ResetByServer => "Reset by the server.",
        Ending::ClientVanished => {
            "The client vanished: what was sent to it again and again was not answered any more."
        }
        Ending::ServerVanished => {
            "The server vanished: what was sent to it again and again was not answered any more."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns how often the window of this direction's receiver was closed, and for how long in total.
fn closings(connection: &Connection, is_forward: bool) -> (u64, u64) {
    let of_receiver = connection.events.iter().filter_map(|event| match event.kind {
        EventKind::WindowClosed { duration_ns } if event.from_client == is_forward => Some(duration_ns),
        _ => None,
    });
    of_receiver.fold((0, 0), |(count, sum), ns| (count + 1, sum + ns))
}

fn losses(count: u64) -> String {
    if count == 1 {
        "1 loss".to_owned()
    } else {
        format!("{count} losses")
    }
}

fn times_of(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

/// Turns from which the ends count as a request-response protocol.
const FEW_TURNS: u64 = 3;

/// Smallest percentage of the time that is reported.
const SOME_PART: u64 = 10;

/// Silences this close to each other are one: data was sent in between and not answered.
const SAME_SILENCE_NS: u64 = 50_000_000;

/// A shorter connection is as fast as the path allows.
const FEW_ROUND_TRIPS: u64 = 8;

/// Bytes that are more than requests.
const MUCH_DATA: u64 = 100_000;

/// Losses that are enough to show whether they are at the end of bursts.
const LOSSES_MIN: u64 = 15;
