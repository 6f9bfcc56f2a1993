//! Whose turn it was, as text.

use super::quantity::time;
use super::shares::share_of;
use sockeye_model::counted;
use sockeye_trace::{Connection, Percentiles, Turn, TurnTimes};

/// Returns what the idle time of a mostly idle connection was: its largest part.
pub(super) fn idle_part(connection: &Connection, (client, server): (&str, &str)) -> String {
    let exchanges = &connection.exchanges;
    let times = &exchanges.times;
    let largest = [
        Turn::ClientThinks,
        Turn::BeforeFirst,
        Turn::AfterLast,
        Turn::ClientPauses,
        Turn::ServerPauses,
    ]
    .into_iter()
    .max_by_key(|turn| times.of(*turn))
    .unwrap_or(Turn::AfterLast);
    let share = share_of(times.of(largest), connection);
    match largest {
        // One long silence is not the median.
        Turn::ClientThinks if exchanges.client.p50_ns < exchanges.client.max_ns / 10 => format!(
            "for {share} it was the turn of {client}, its next request came up to {} after an answer",
            time(exchanges.client.max_ns)
        ),
        Turn::ClientThinks => format!(
            "for {share} it was the turn of {client}, its next request came {} (median) after an answer",
            time(exchanges.client.p50_ns)
        ),
        Turn::BeforeFirst => {
            let ns = time(times.of(Turn::BeforeFirst));
            if connection.forward.bytes + connection.backward.bytes == 0 {
                format!("no end sent data for {ns}, {share}")
            } else {
                format!("{client} sent nothing for {ns} before its first request, {share}")
            }
        }
        Turn::ClientPauses | Turn::ServerPauses => {
            let (end, pauses) = if largest == Turn::ClientPauses {
                (client, &exchanges.client_pauses)
            } else {
                (server, &exchanges.server_pauses)
            };
            format!(
                "{end} sent something now and then, with {} of {} (median), {share}",
                counted(pauses.count, "pause"),
                time(pauses.p50_ns)
            )
        }
        _ => format!(
            "nothing was sent for {} after the last data, {share}",
            time(times.of(Turn::AfterLast))
        ),
    }
}

/// Returns `95% server works, 4% path, 1% connection setup`; `None` if no time passed.
pub(super) fn turn_shares(times: &TurnTimes) -> Option<String> {
    let total = u128::from(times.total());
    if total == 0 {
        return None;
    }
    let mut parts: Vec<_> = Turn::ALL
        .into_iter()
        .map(|turn| ((u128::from(times.of(turn)) * 200 / total).div_ceil(2), turn))
        .filter(|(share, _)| *share > 0)
        .collect();
    parts.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    let parts: Vec<_> = parts
        .into_iter()
        .map(|(share, turn)| format!("{}% {}", share.min(100), words(turn)))
        .collect();
    Some(parts.join(", "))
}

const fn words(turn: Turn) -> &'static str {
    match turn {
        Turn::Setup => "connection setup",
        Turn::BeforeFirst => "before the first data",
        Turn::ClientSends => "client sends",
        Turn::ServerWorks => "server works",
        Turn::ServerSends => "server sends",
        Turn::ClientThinks => "client's turn",
        Turn::ClientPauses => "client pauses",
        Turn::ServerPauses => "server pauses",
        Turn::Path => "path between turns",
        Turn::AfterLast => "after the last data",
    }
}

/// Returns the lines of details: name and text.
pub(super) fn details(connection: &Connection) -> Vec<(&'static str, String)> {
    let exchanges = &connection.exchanges;
    let mut lines = Vec::new();
    lines.extend(turn_shares(&exchanges.times).map(|text| ("turns", text)));
    for (name, noun, percentiles) in [
        ("server", "answer", &exchanges.server),
        ("client", "next request", &exchanges.client),
        ("server pauses", "pause", &exchanges.server_pauses),
        ("client pauses", "pause", &exchanges.client_pauses),
    ] {
        if percentiles.count > 0 {
            lines.push((name, distribution(noun, percentiles)));
        }
    }
    lines
}

fn distribution(noun: &str, percentiles: &Percentiles) -> String {
    format!(
        "{}, median {}, 90% {}, 99% {}, max {}",
        counted(percentiles.count, noun),
        time(percentiles.p50_ns),
        time(percentiles.p90_ns),
        time(percentiles.p99_ns),
        time(percentiles.max_ns)
    )
}
