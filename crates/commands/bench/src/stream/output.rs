//! The report of `sockeye bench stream`.

use sockeye_load::Transport;
use sockeye_load::session::Connector;
use sockeye_load::stream::{Outcome, Plan, Until};
use sockeye_measure::{
    Chart, Column, Datagrams, End, LimitShares, Line, Repeats, Report, RequestedLimits, Scale, Sender,
    StreamTransfer, Table, TypedCommand, Unit, Value, what_limited,
};

/// Fills the report. With several repeats, the details are those of the median one.
pub(super) fn fill(
    report: &mut Report,
    plan: &Plan,
    connector: &Connector,
    command: &TypedCommand,
    outcomes: &[Outcome],
    for_eyes: bool,
) {
    let Some(typical) = typical(plan, outcomes) else {
        return;
    };
    settings(report, plan, connector, typical);
    report.tables.push(summary(plan, outcomes, typical));
    if outcomes.len() > 1 {
        report.tables.push(repeats(plan, outcomes));
    }
    if !for_eyes || typical.streams.len() > directions(plan).len() {
        report.tables.push(streams(plan, typical));
    }
    report.tables.extend(limits(plan, typical));
    report.tables.push(ends(typical));
    if !for_eyes {
        report.tables.push(devices(typical));
    }
    if !for_eyes || (2..=INTERVALS_FOR_EYES).contains(&typical.intervals.len()) {
        report.tables.push(intervals(plan, typical));
    }
    for is_sent in directions(plan) {
        let limits = RequestedLimits {
            host: &connector.host,
            rate: plan.rate,
            window: plan.window.map(|window| window as u64),
            is_udp: plan.transport == Transport::Udp,
            length: plan.length.map(|length| length as u64),
            command: Some(command),
        };
        report.sentences.extend(what_limited(typical, is_sent, limits));
    }
    let is_one_sided = |stream: &StreamTransfer| stream.received.is_none() && stream.sent.is_some();
    if typical.streams.iter().any(is_one_sided) {
        report.say(
            "sent-only",
            "What arrived is not known: the figures are of what the kernel took from us.",
        );
    }
    report.charts.extend(chart(plan, connector, typical));
    report.partial = outcomes.iter().find_map(|outcome| outcome.partial.clone());
}

/// Returns the directions of the plan: true for sent, false for received.
fn directions(plan: &Plan) -> Vec<bool> {
    let mut ways = Vec::new();
    if plan.direction.sends() {
        ways.push(true);
    }
    if plan.direction.receives() {
        ways.push(false);
    }
    ways
}

const fn direction_name(is_sent: bool) -> &'static str {
    if is_sent { "sent" } else { "received" }
}

/// Returns the outcome with median throughput; the last one if all are partial.
fn typical<'a>(plan: &Plan, outcomes: &'a [Outcome]) -> Option<&'a Outcome> {
    let total = |outcome: &Outcome| -> f64 {
        let rates = directions(plan)
            .into_iter()
            .filter_map(|way| outcome.bytes_per_s(way));
        rates.sum()
    };
    let mut sorted: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| outcome.partial.is_none())
        .collect();
    if sorted.is_empty() {
        return outcomes.last();
    }
    sorted.sort_by(|one, other| total(one).total_cmp(&total(other)));
    sorted.get((sorted.len() - 1) / 2).copied()
}

fn settings(report: &mut Report, plan: &Plan, connector: &Connector, outcome: &Outcome) {
    report.setting("host", "host", Unit::Text, connector.host.as_str().into());
    if let Some(peer) = outcome.peer {
        report.setting("peer", "address", Unit::Text, Value::Text(peer.to_string()));
    }
    report.setting("protocol", "protocol", Unit::Text, plan.transport.name().into());
    report.setting("direction", "direction", Unit::Text, plan.direction.name().into());
    report.setting(
        "streams",
        "streams",
        Unit::Count,
        Value::Whole(plan.streams.into()),
    );
    match plan.until {
        Until::Time(time) => {
            report.setting("time_s", "time", Unit::Seconds, Value::Real(time.as_secs_f64()));
        }
        Until::Bytes(bytes) => report.setting("bytes", "bytes", Unit::Bytes, Value::Whole(bytes)),
    }
    if !plan.omit.is_zero() {
        report.setting(
            "omit_s",
            "omitted",
            Unit::Seconds,
            Value::Real(plan.omit.as_secs_f64()),
        );
    }
    if let Some(length) = plan.length {
        report.setting("length_bytes", "length", Unit::Bytes, Value::Whole(length as u64));
    }
    if let Some(window) = plan.window {
        report.setting(
            "window_bytes",
            "buffers",
            Unit::Bytes,
            Value::Whole(window as u64),
        );
    }
    if let Some(rate) = plan.rate {
        report.setting(
            "rate_bytes_per_s",
            "rate of a stream",
            Unit::BitsPerSecond,
            Value::Whole(rate),
        );
    }
    for (key, label, end) in [
        ("congestion", "congestion control", Some(&outcome.ours)),
        ("their_congestion", "at the other end", outcome.theirs.as_ref()),
    ] {
        let name = end.and_then(|end| end.congestion.as_deref());
        let is_same = key != "congestion" && name == outcome.ours.congestion.as_deref();
        if let (Some(name), false) = (name, is_same) {
            report.setting(key, label, Unit::Text, name.into());
        }
    }
    if let Some(program) = outcome.theirs.as_ref().and_then(|end| end.program.as_deref()) {
        report.setting("their_program", "other end", Unit::Text, program.into());
    }
}

/// Returns the sender and the receiver of a direction.
fn sender_and_receiver(outcome: &Outcome, is_sent: bool) -> (Option<&End>, Option<&End>) {
    let (ours, theirs) = (Some(&outcome.ours), outcome.theirs.as_ref());
    if is_sent { (ours, theirs) } else { (theirs, ours) }
}

fn summary(plan: &Plan, outcomes: &[Outcome], typical: &Outcome) -> Table {
    let is_repeated = outcomes.len() > 1;
    let mut columns = vec![
        Column::new("direction", "direction", Unit::Text),
        Column::new("throughput", "bytes_per_s", Unit::BitsPerSecond),
    ];
    if is_repeated {
        columns.push(Column::new("spread", "spread_permille", Unit::Permille));
        columns.push(Column::new("lowest", "lowest_bytes_per_s", Unit::BitsPerSecond));
        columns.push(Column::new("highest", "highest_bytes_per_s", Unit::BitsPerSecond));
    }
    columns.push(Column::new("arrived", "received_bytes", Unit::Bytes));
    columns.push(Column::new("in", "elapsed_us", Unit::Microseconds));
    columns.push(Column::hidden("sent_bytes", Unit::Bytes));
    columns.extend(path_columns(plan));
    // The table of the ends shows these to people.
    columns.push(Column::hidden("sender_cpu_permille", Unit::Permille));
    columns.push(Column::hidden("receiver_cpu_permille", Unit::Permille));
    columns.push(Column::hidden("sender_cpu_ns_per_kib", Unit::Number));
    columns.push(Column::hidden("receiver_cpu_ns_per_kib", Unit::Number));
    let mut table = Table::new("summary", columns);
    for is_sent in directions(plan) {
        let complete = outcomes.iter().filter(|outcome| outcome.partial.is_none());
        let rates: Repeats = complete
            .filter_map(|outcome| outcome.bytes_per_s(is_sent))
            .collect();
        let streams: Vec<&StreamTransfer> = typical.streams(is_sent).collect();
        let sum = |of: fn(&StreamTransfer) -> Option<u64>| {
            streams
                .iter()
                .filter_map(|stream| of(stream))
                .reduce(u64::saturating_add)
        };
        let mut row = vec![
            direction_name(is_sent).into(),
            rates.median().or_else(|| typical.bytes_per_s(is_sent)).into(),
        ];
        if is_repeated {
            row.push(rates.spread_permille().into());
            row.push(rates.range().map(|(low, _)| low).into());
            row.push(rates.range().map(|(_, high)| high).into());
        }
        row.push(sum(|stream| stream.received?.bytes).into());
        row.push(
            streams
                .iter()
                .filter_map(|stream| stream.carried_us())
                .max()
                .into(),
        );
        row.push(sum(|stream| stream.sent?.bytes).into());
        row.extend(path_values(plan, &streams));
        // An end that sends and receives has one processor time for both.
        let (sender, receiver) = sender_and_receiver(typical, is_sent);
        row.push(sender.and_then(End::cpu_permille).into());
        row.push(receiver.and_then(End::cpu_permille).into());
        row.push(sender.and_then(End::cpu_ns_per_kib).map(f64::round).into());
        row.push(receiver.and_then(End::cpu_ns_per_kib).map(f64::round).into());
        table.row(row);
    }
    table
}

/// Columns of the path: statistics of TCP or UDP.
fn path_columns(plan: &Plan) -> Vec<Column> {
    match plan.transport {
        Transport::Tcp => vec![
            Column::new("retrans", "retransmitted_segs", Unit::Count),
            Column::new("rtt", "rtt_us", Unit::Microseconds),
            Column::hidden("min_rtt_us", Unit::Microseconds),
            Column::new("cwnd", "cwnd_bytes", Unit::Bytes),
            Column::hidden("retransmitted_bytes", Unit::Bytes),
            Column::hidden("timeouts", Unit::Count),
            Column::hidden("reorderings", Unit::Count),
        ],
        Transport::Udp => vec![
            Column::hidden("sent_datagrams", Unit::Count),
            Column::new("lost", "lost_datagrams", Unit::Count),
            Column::new("loss", "lost_permille", Unit::Permille),
            Column::new("reordered", "reordered_datagrams", Unit::Count),
            Column::new("jitter", "jitter_us", Unit::Microseconds),
            Column::hidden("refused_locally", Unit::Count),
        ],
    }
}

fn path_values(plan: &Plan, streams: &[&StreamTransfer]) -> Vec<Value> {
    let senders = || streams.iter().filter_map(|stream| stream.sender.as_ref());
    let datagrams = || streams.iter().filter_map(|stream| stream.datagrams.as_ref());
    let sum = |of: fn(&Sender) -> Option<u64>| senders().filter_map(of).reduce(u64::saturating_add);
    let mean = |of: fn(&Sender) -> Option<u64>| {
        let all: Vec<u128> = senders().filter_map(of).map(u128::from).collect();
        let mean = all.iter().sum::<u128>().checked_div(all.len() as u128)?;
        u64::try_from(mean).ok()
    };
    let count = |of: fn(&Datagrams) -> Option<u64>| datagrams().filter_map(of).reduce(u64::saturating_add);
    match plan.transport {
        Transport::Tcp => vec![
            sum(|it| it.retransmitted_segs).into(),
            mean(|it| it.rtt_us).into(),
            senders().filter_map(|it| it.min_rtt_us).min().into(),
            sum(|it| Some(it.cwnd_segs?.saturating_mul(it.mss_bytes?))).into(),
            sum(|it| it.retransmitted_bytes).into(),
            sum(|it| it.timeouts).into(),
            sum(|it| it.reorderings).into(),
        ],
        Transport::Udp => {
            let (sent, lost) = (count(|it| it.sent), count(|it| it.lost));
            let share = lost
                .zip(sent.filter(|&sent| sent > 0))
                .map(|(lost, sent)| lost as f64 * 1000.0 / sent as f64);
            vec![
                sent.into(),
                lost.into(),
                share.into(),
                count(|it| it.reordered).into(),
                datagrams().filter_map(|it| it.jitter_us).max().into(),
                count(|it| it.refused_locally).into(),
            ]
        }
    }
}

fn repeats(plan: &Plan, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "repeats",
        vec![
            Column::new("repeat", "repeat", Unit::Count),
            Column::new("direction", "direction", Unit::Text),
            Column::new("throughput", "bytes_per_s", Unit::BitsPerSecond),
            Column::new("ns/KiB here", "our_cpu_ns_per_kib", Unit::Number),
            Column::new("ns/KiB there", "their_cpu_ns_per_kib", Unit::Number),
            Column::new("complete", "is_complete", Unit::Text),
        ],
    );
    for (number, outcome) in (1..).zip(outcomes) {
        for is_sent in directions(plan) {
            table.row(vec![
                Value::Whole(number),
                direction_name(is_sent).into(),
                outcome.bytes_per_s(is_sent).into(),
                outcome.ours.cpu_ns_per_kib().map(f64::round).into(),
                outcome
                    .theirs
                    .as_ref()
                    .and_then(End::cpu_ns_per_kib)
                    .map(f64::round)
                    .into(),
                Value::Bool(outcome.partial.is_none()),
            ]);
        }
    }
    table
}

fn streams(plan: &Plan, outcome: &Outcome) -> Table {
    let mut columns = vec![
        Column::new("stream", "stream", Unit::Count),
        Column::new("direction", "direction", Unit::Text),
        Column::new("throughput", "bytes_per_s", Unit::BitsPerSecond),
        Column::new("arrived", "received_bytes", Unit::Bytes),
        Column::hidden("elapsed_us", Unit::Microseconds),
        Column::hidden("sent_bytes", Unit::Bytes),
    ];
    columns.extend(path_columns(plan));
    columns.push(Column::hidden("local", Unit::Text));
    columns.push(Column::hidden("peer", Unit::Text));
    let mut table = Table::new("streams", columns);
    for stream in &outcome.streams {
        let address = |address: Option<std::net::SocketAddr>| {
            address.map_or(Value::Absent, |address| Value::Text(address.to_string()))
        };
        let mut row = vec![
            Value::Whole(u64::from(stream.number) + 1),
            direction_name(stream.is_sent).into(),
            stream.bytes_per_s().into(),
            stream.received.and_then(|side| side.bytes).into(),
            stream.carried_us().into(),
            stream.sent.and_then(|side| side.bytes).into(),
        ];
        row.extend(path_values(plan, &[stream]));
        row.push(address(stream.local));
        row.push(address(stream.peer));
        table.row(row);
    }
    table
}

/// What the senders waited for.
fn limits(plan: &Plan, outcome: &Outcome) -> Option<Table> {
    let mut table = Table::new(
        "limits",
        vec![
            Column::new("direction", "direction", Unit::Text),
            Column::new("waited for", "limit", Unit::Text),
            Column::new("share", "share_permille", Unit::Permille),
            Column::hidden("time_us", Unit::Microseconds),
        ],
    );
    for is_sent in directions(plan) {
        let senders = outcome
            .streams(is_sent)
            .filter_map(|stream| stream.sender.as_ref());
        let Some(shares) = LimitShares::of(senders) else {
            continue;
        };
        for limit in shares.ranked() {
            table.row(vec![
                direction_name(is_sent).into(),
                limit.name().into(),
                Value::Real(shares.permille(limit)),
                Value::Whole(shares.us(limit)),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn ends(outcome: &Outcome) -> Table {
    let mut table = Table::new(
        "ends",
        vec![
            Column::new("end", "end", Unit::Text),
            Column::new("user", "cpu_user_us", Unit::Microseconds),
            Column::new("system", "cpu_system_us", Unit::Microseconds),
            Column::new("in", "wall_us", Unit::Microseconds),
            Column::new("cpu", "cpu_permille", Unit::Permille),
            Column::new("cpu ns/KiB", "cpu_ns_per_kib", Unit::Number),
            Column::new("busiest thread", "busiest_thread_permille", Unit::Permille),
            Column::new("host idle", "host_idle_permille", Unit::Permille),
            Column::hidden("busiest_processor_permille", Unit::Permille),
            Column::hidden("host_steal_permille", Unit::Permille),
            Column::hidden("processors", Unit::Count),
            Column::hidden("bytes", Unit::Bytes),
            Column::hidden("rcvbuf_bytes", Unit::Bytes),
            Column::hidden("softnet_dropped", Unit::Count),
            Column::hidden("receive_queue_drops", Unit::Count),
            Column::hidden("udp_receive_drops", Unit::Count),
        ],
    );
    for (name, end) in [("here", Some(&outcome.ours)), ("there", outcome.theirs.as_ref())] {
        let Some(end) = end else { continue };
        let work = &end.work;
        table.row(vec![
            name.into(),
            work.cpu_user_us.into(),
            work.cpu_system_us.into(),
            work.wall_us.into(),
            end.cpu_permille().into(),
            end.cpu_ns_per_kib().map(f64::round).into(),
            work.busiest_thread_permille.into(),
            work.host_idle_permille.into(),
            work.busiest_processor_permille.into(),
            work.host_steal_permille.into(),
            work.processors.into(),
            work.bytes.into(),
            work.rcvbuf_bytes.into(),
            work.softnet_dropped.into(),
            work.receive_queue_drops.into(),
            work.udp_receive_drops.into(),
        ]);
    }
    table
}

fn devices(outcome: &Outcome) -> Table {
    let mut table = Table::new(
        "devices",
        vec![
            Column::new("end", "end", Unit::Text),
            Column::new("device", "device", Unit::Text),
            Column::new("received", "rx_bytes", Unit::Bytes),
            Column::new("sent", "tx_bytes", Unit::Bytes),
            Column::new("queue", "queue", Unit::Text),
            Column::new("queue drops", "queue_dropped", Unit::Count),
            Column::new("tx drops", "tx_dropped", Unit::Count),
            Column::new("rx drops", "rx_dropped", Unit::Count),
            Column::new("ring full", "rx_missed", Unit::Count),
            Column::new("txqueuelen", "queue_packets", Unit::Count),
        ],
    );
    for (name, end) in [("here", Some(&outcome.ours)), ("there", outcome.theirs.as_ref())] {
        for device in end.into_iter().flat_map(|end| &end.devices) {
            let numbers = &device.numbers;
            table.row(vec![
                name.into(),
                device.name.as_str().into(),
                numbers.rx_bytes.into(),
                numbers.tx_bytes.into(),
                device.queue.as_deref().map_or(Value::Absent, Value::from),
                numbers.queue_dropped.into(),
                numbers.tx_dropped.into(),
                numbers.rx_dropped.into(),
                numbers.rx_missed.into(),
                numbers.queue_packets.into(),
            ]);
        }
    }
    table
}

fn intervals(plan: &Plan, outcome: &Outcome) -> Table {
    let mut columns = vec![
        Column::new("from", "from_us", Unit::Microseconds),
        Column::new("to", "until_us", Unit::Microseconds),
        Column::new("direction", "direction", Unit::Text),
        Column::new("throughput", "bytes_per_s", Unit::BitsPerSecond),
        Column::new("bytes", "bytes", Unit::Bytes),
    ];
    columns.extend(match plan.transport {
        Transport::Tcp => vec![
            Column::new("retrans", "retransmitted_segs", Unit::Count),
            Column::new("rtt", "rtt_us", Unit::Microseconds),
            Column::new("cwnd", "cwnd_bytes", Unit::Bytes),
        ],
        Transport::Udp => vec![Column::new("lost", "lost_datagrams", Unit::Count)],
    });
    let mut table = Table::new("intervals", columns);
    for interval in &outcome.intervals {
        let span = interval.until_us.saturating_sub(interval.from_us);
        let rate = (span > 0).then(|| interval.bytes as f64 * 1e6 / span as f64);
        let mut row = vec![
            Value::Whole(interval.from_us),
            Value::Whole(interval.until_us),
            direction_name(interval.is_sent).into(),
            rate.into(),
            Value::Whole(interval.bytes),
        ];
        match plan.transport {
            Transport::Tcp => row.extend([
                interval.retransmitted_segs.into(),
                interval.rtt_us.into(),
                interval.cwnd_bytes.into(),
            ]),
            Transport::Udp => row.push(interval.lost_datagrams.into()),
        }
        table.row(row);
    }
    table
}

fn chart(plan: &Plan, connector: &Connector, outcome: &Outcome) -> Option<Chart> {
    let line = |is_sent: bool| {
        let mut points: Vec<(f64, f64)> = outcome
            .intervals
            .iter()
            .filter(|interval| interval.is_sent == is_sent && interval.until_us > interval.from_us)
            .map(|interval| {
                let span = (interval.until_us - interval.from_us) as f64;
                (interval.until_us as f64 / 1e6, interval.bytes as f64 * 1e6 / span)
            })
            .collect();
        // A line from the start, even with only one point.
        if let Some(&(_, rate)) = points.first() {
            points.insert(0, (0.0, rate));
        }
        (!points.is_empty()).then(|| Line {
            name: direction_name(is_sent).to_owned(),
            points,
        })
    };
    let lines: Vec<Line> = [true, false].into_iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| Chart {
        title: title(plan, connector, outcome),
        x: ("time", Unit::Seconds),
        y: ("throughput", Unit::BitsPerSecond),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        lines,
        marks: Vec::new(),
    })
}

/// Returns the title of the chart: `Throughput of one stream over lo, 10 s`.
fn title(plan: &Plan, connector: &Connector, outcome: &Outcome) -> String {
    let transport = match plan.transport {
        Transport::Tcp => "",
        Transport::Udp => "UDP ",
    };
    let streams = match plan.streams {
        1 => format!("one {transport}stream"),
        many => format!("{many} {transport}streams"),
    };
    // The busiest device is the first.
    let path = match outcome.ours.devices.first() {
        Some(device) => format!("over {}", device.name),
        None => format!("to {}", connector.host),
    };
    let until = match plan.until {
        Until::Time(time) => format!("{} s", time.as_secs_f64()),
        Until::Bytes(bytes) => format!("{bytes} bytes"),
    };
    format!("Throughput of {streams} {path}, {until}")
}

/// Most intervals in a table for people.
const INTERVALS_FOR_EYES: usize = 40;
