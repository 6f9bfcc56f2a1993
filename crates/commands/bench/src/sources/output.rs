//! The report of `sockeye bench sources`.

use sockeye_measure::{
    Chart, Column, FLOOR, Line, Report, Scale, SourceTimes, Table, Unit, Value, fastest_and_slowest,
};

pub(super) fn report(measured: &[Vec<SourceTimes>], is_own: bool) -> Report {
    let mut report = Report::new("sources");
    report.title = "How long each source takes to list sockets".to_owned();
    let place = if is_own {
        "TCP connections of its own"
    } else {
        "this network namespace"
    };
    report.setting("place", "", Unit::Text, place.into());
    // As often as it was, not as often as was asked for.
    let rounds = measured.iter().flatten().map(|one| one.ns.len() as u64).max();
    report.setting("repeats", "repeats", Unit::Count, rounds.into());
    report.tables.push(table(measured, is_own));
    for times in measured {
        push_sentences(&mut report, times, is_own);
    }
    push_small(&mut report, measured);
    report.charts = if measured.len() > 1 {
        vec![by_size(measured)]
    } else {
        by_round(measured)
    };
    report
}

fn table(measured: &[Vec<SourceTimes>], is_own: bool) -> Table {
    let mut table = Table::new(
        "sources",
        vec![
            Column::new("sockets", "protocol", Unit::Text),
            Column::new("source", "source", Unit::Text),
            Column::new("read", "sockets", Unit::Number),
            Column::new("time", "ns", Unit::Nanoseconds),
            Column::new("spread", "spread_permille", Unit::Permille),
            Column::new("a socket", "ns_per_socket", Unit::Nanoseconds),
            Column::new("to floor", "ratio_to_floor", Unit::Ratio),
            Column::new("first", "first_ns", Unit::Nanoseconds),
            Column::hidden("ns_min", Unit::Nanoseconds),
            Column::hidden("ns_max", Unit::Nanoseconds),
            Column::hidden("repeats", Unit::Count),
            Column::hidden("read_again", Unit::Count),
            Column::hidden("works", Unit::Text),
            Column::hidden("own_load", Unit::Text),
            Column::new("", "reason", Unit::Text),
        ],
    );
    for times in measured {
        for one in times {
            let floor = times
                .iter()
                .find(|other| other.what == one.what && other.source == FLOOR);
            let range = one.ns.range();
            let is_read = one.first_ns.is_some();
            let reason = one
                .missing
                .as_ref()
                .map(|reason| format!("does not work here: {reason}"));
            table.row(vec![
                one.what.into(),
                one.source.into(),
                is_read.then_some(one.sockets).into(),
                one.ns.median().into(),
                one.ns.spread_permille().into(),
                one.ns_per_socket().into(),
                floor.and_then(|floor| one.ratio_to(floor)).into(),
                one.first_ns.into(),
                range.map(|(low, _)| low).into(),
                range.map(|(_, high)| high).into(),
                Value::Whole(one.ns.len() as u64),
                Value::Whole(one.read_again),
                Value::Bool(one.missing.is_none()),
                Value::Bool(is_own),
                reason.map_or(Value::Absent, Value::Text),
            ]);
        }
    }
    table
}

/// Reports the fastest source of each protocol.
fn push_sentences(report: &mut Report, times: &[SourceTimes], is_own: bool) {
    for what in ["tcp", "udp", "unix"] {
        let own = || times.iter().filter(|one| one.what == what);
        let Some((fastest, slowest)) =
            fastest_and_slowest(own()).filter(|(fastest, _)| fastest.sockets >= FEW)
        else {
            continue;
        };
        let (Some(fast), Some(slow)) = (fastest.ns.median(), slowest.ns.median()) else {
            continue;
        };
        let floor = own().find(|one| one.source == FLOOR);
        let comparison = match floor.and_then(|floor| fastest.ratio_to(floor)) {
            Some(ratio) if ratio < 1.0 => {
                format!(", less than the floor of netlink ({ratio:.2} times it): it does not ask netlink")
            }
            Some(ratio) => format!(", {ratio:.2} times the floor"),
            None => String::new(),
        };
        let load = if is_own { " of the load" } else { "" };
        let text = format!(
            "Of {} {what} sockets{load}, {} was the fastest source{comparison}; {} took {:.1} times as long.",
            fastest.sockets,
            fastest.source,
            slowest.source,
            slow / fast
        );
        report.say("fastest", text);
        if let Some(first) = fastest
            .first_ns
            .filter(|first| *first > slow && *first > 2.0 * fast)
        {
            let text = format!(
                "The first time {} took {:.1} ms, to start: a single query is faster with {} ({:.1} ms). \
                 Sockeye chooses by the number of sockets.",
                fastest.source,
                first / 1e6,
                slowest.source,
                slow / 1e6
            );
            report.say("start-costs", text);
        }
    }
}

/// Reports that small tables give meaningless figures.
fn push_small(report: &mut Report, measured: &[Vec<SourceTimes>]) {
    let largest = measured.iter().flatten().map(|one| one.sockets).max();
    if let Some(sockets) = largest.filter(|sockets| *sockets < SMALL) {
        let most = match sockets {
            0 => "There are no sockets here".to_owned(),
            1 => "No table here has more than one socket".to_owned(),
            _ => format!("No table here has more than {sockets} sockets"),
        };
        let text = format!(
            "{most}: what was measured is mostly what asking costs, and small differences are noise."
        );
        report
            .say("small-table", text)
            .remedy("sockeye bench sources --sockets 1000,10000  # with a load, in a namespace of its own");
    }
}

/// Chart: time per socket, by the size of the table.
fn by_size(measured: &[Vec<SourceTimes>]) -> Chart {
    let mut lines: Vec<Line> = Vec::new();
    for one in measured.iter().flatten() {
        let (Some(ns), true) = (one.ns_per_socket(), one.what == "tcp") else {
            continue;
        };
        let point = (one.sockets as f64, ns);
        match lines.iter_mut().find(|line| line.name == one.source) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: one.source.to_owned(),
                points: vec![point],
            }),
        }
    }
    Chart {
        title: "Time to list one TCP socket, by the size of the table".to_owned(),
        x: ("sockets in the table", Unit::Count),
        y: ("time a socket", Unit::Nanoseconds),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        lines,
        marks: Vec::new(),
    }
}

/// Chart: time of each read, which shows how reliable the median is.
fn by_round(measured: &[Vec<SourceTimes>]) -> Vec<Chart> {
    let times = measured.first().map_or(&[][..], Vec::as_slice);
    ["tcp", "udp", "unix"]
        .into_iter()
        .filter_map(|what| {
            let own: Vec<&SourceTimes> = times.iter().filter(|one| one.what == what).collect();
            let lines = own.iter().filter(|one| !one.ns.is_empty()).map(|one| Line {
                name: one.source.to_owned(),
                points: (1_u32..)
                    .map(f64::from)
                    .zip(one.ns.all().iter().copied())
                    .collect(),
            });
            let sockets = own.first()?.sockets;
            Some(Chart {
                title: format!("Time to list {sockets} {what} sockets, in each round"),
                x: ("round", Unit::Count),
                y: ("time for the table", Unit::Nanoseconds),
                x_scale: Scale::Linear,
                y_scale: Scale::Logarithmic,
                lines: lines.collect(),
                marks: Vec::new(),
            })
        })
        .collect()
}

/// Below this many sockets the fixed cost of a query dominates.
const SMALL: u64 = 1000;

/// Below this many sockets there is no sentence on the fastest source.
const FEW: u64 = 100;
