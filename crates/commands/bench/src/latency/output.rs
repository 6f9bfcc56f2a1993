//! The report of `sockeye bench rr` and `crr`.

use sockeye_load::latency::{EarlyEnd, Failure, Outcome, Plan, ServerLoad};
use sockeye_load::session::{Error, Kind};
use sockeye_measure::{
    Chart, Column, Histogram, Latency, Line, Load, Partial, Repeats, Report, Scale, Table, TypedCommand,
    Unit, Value,
};
use std::net::SocketAddr;

/// The results of all runs so far.
pub(super) struct Figures<'a> {
    plan: &'a Plan,
    command: TypedCommand,
    runs: Vec<Latency>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    /// Whether the server polled without sleeping, in the last run.
    is_server_polling: bool,
    partial: Option<Partial>,
    is_out_of_ports: bool,
}

impl<'a> Figures<'a> {
    pub(super) const fn new(plan: &'a Plan, command: TypedCommand) -> Self {
        Self {
            plan,
            command,
            runs: Vec::new(),
            addresses: None,
            is_server_polling: false,
            partial: None,
            is_out_of_ports: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether a run ended early, so that more runs make no sense.
    pub(super) const fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    pub(super) fn take(&mut self, outcome: Outcome) {
        let Outcome {
            tally,
            elapsed,
            busiest,
            there,
            addresses,
            is_server_polling,
            early_end,
        } = outcome;
        self.addresses = Some(addresses);
        self.is_server_polling = is_server_polling;
        let load = |ServerLoad { cpu, busiest, .. }: ServerLoad| Load {
            cpu_ns: cpu.as_nanos() as u64,
            busiest_ns: busiest.as_nanos() as u64,
        };
        self.runs.push(Latency {
            delays: tally.delays,
            connects: tally.connects,
            lateness: tally.lateness,
            sent: tally.sent,
            unsent: tally.unsent,
            lost: tally.lost,
            strays: tally.strays,
            failed: tally.failed,
            elapsed_ns: elapsed.as_nanos() as u64,
            requested_rate: self.plan.rate,
            connections: self.plan.connections as u64,
            spins: self.plan.busy_poll,
            here: Load {
                cpu_ns: tally.cpu.as_nanos() as u64,
                busiest_ns: busiest.as_nanos() as u64,
            },
            there: there.map(load),
        });
        if let Some(early_end) = early_end {
            self.is_out_of_ports =
                matches!(&early_end, EarlyEnd::Failed(failure) if is_out_of_ports(failure));
            self.partial = Some(self.partial_of(&early_end));
        }
    }

    /// Records the error that ended the runs.
    pub(super) fn fail(&mut self, error: &Error) {
        self.partial = Some(Partial {
            code: error.code(),
            text: error.to_string(),
        });
    }

    fn partial_of(&self, early_end: &EarlyEnd) -> Partial {
        let (code, text) = match early_end {
            EarlyEnd::Interrupted => ("interrupted", "interrupted".to_owned()),
            EarlyEnd::Session(error) => (error.code(), error.to_string()),
            EarlyEnd::Timeout(_) => (
                "timeout",
                format!(
                    "no answer for {:?}; does the other end live, and does something between drop packets?{}",
                    self.plan.connector.timeout,
                    self.about_ports()
                ),
            ),
            EarlyEnd::Failed(failure) if is_out_of_ports(failure) => (
                "ports-exhausted",
                format!("{failure}: no local port is left for another connection"),
            ),
            EarlyEnd::Failed(failure) if failure.is_peer_gone() => {
                ("peer-gone", format!("{failure}{}", self.about_ports()))
            }
            EarlyEnd::Failed(failure) => ("failed", failure.to_string()),
        };
        Partial { code, text }
    }

    /// Returns a hint on firewalls if no answer came.
    fn about_ports(&self) -> String {
        let has_answers = self.runs.iter().any(|run| run.delays.count() > 0);
        if self.plan.kind != Kind::Crr || has_answers {
            return String::new();
        }
        format!(
            " (The connections of crr go to a port that the server picks anew each time, not to {}: a firewall has to let it \
             through; sysctl net.ipv4.ip_local_port_range at the other end shows which ports are possible.)",
            self.plan.connector.port
        )
    }

    pub(super) fn report(self) -> Report {
        let bench = match self.plan.kind {
            Kind::Crr => "crr",
            _ => "rr",
        };
        let mut report = Report::new(bench);
        let mut all = self.runs.first().cloned().unwrap_or_default();
        self.runs.iter().skip(1).for_each(|run| all.merge(run));
        self.push_settings(&mut report);
        report.tables.push(self.answers(&all));
        if self.runs.len() > 1 {
            report.tables.push(self.each_run());
        }
        report.tables.push(ends(&all));
        report.sentences = all.sentences(&self.command);
        if self.is_out_of_ports {
            let text = "This host ran out of local ports: each connection takes one, and for a minute after its end if this \
                        end closed it first. Settings give more ports, or reuse those in TIME_WAIT.";
            report
                .say("ports-exhausted", text)
                .remedy("sysctl net.ipv4.ip_local_port_range  # how many there are")
                .remedy("sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"")
                .remedy(
                    "sysctl -w net.ipv4.tcp_tw_reuse=1  # ports in TIME_WAIT are used again after a second",
                );
        }
        report.charts.push(chart(bench, &self.plan.connector.host, &all));
        report.partial = self.partial;
        report
    }

    fn push_settings(&self, report: &mut Report) {
        let plan = self.plan;
        if let Some((local, server)) = self.addresses {
            report.setting("server", "server", Unit::Text, Value::Text(server.to_string()));
            report.setting("local", "from", Unit::Text, Value::Text(local.ip().to_string()));
        }
        report.setting("transport", "over", Unit::Text, plan.transport.name().into());
        report.setting(
            "connections",
            "connections",
            Unit::Count,
            Value::Whole(plan.connections as u64),
        );
        report.setting(
            "request_bytes",
            "request",
            Unit::Bytes,
            Value::Whole(u64::from(plan.sizes.request)),
        );
        report.setting(
            "response_bytes",
            "answer",
            Unit::Bytes,
            Value::Whole(u64::from(plan.sizes.response)),
        );
        if let Some(length) = plan.length {
            let seconds = Value::Real(length.as_secs_f64());
            report.setting("time_s", "time", Unit::Seconds, seconds);
        }
        if let Some(count) = plan.count {
            report.setting("count", "requests", Unit::Count, Value::Whole(count));
        }
        report.setting(
            "requested_rate_per_s",
            "requested rate",
            Unit::PerSecond,
            plan.rate.into(),
        );
        let loop_of = match plan.rate {
            Some(_) => "open: by schedule",
            None => "closed: each waits for the one before",
        };
        report.setting("loop", "loop", Unit::Text, loop_of.into());
        if plan.busy_poll {
            report.setting("busy_poll", "busy polling", Unit::Text, Value::Bool(true));
            if !self.runs.is_empty() {
                report.setting(
                    "server_busy_poll",
                    "busy polling of the server",
                    Unit::Text,
                    Value::Bool(self.is_server_polling),
                );
            }
        }
        report.setting("runs", "runs", Unit::Count, Value::Whole(self.runs.len() as u64));
    }

    /// Percentiles over all runs; the rate is the median of the runs.
    fn answers(&self, all: &Latency) -> Table {
        let mut columns = vec![
            Column::new("what", "what", Unit::Text),
            Column::new("count", "count", Unit::Count),
            Column::new("rate", "rate_per_s", Unit::PerSecond),
        ];
        columns.extend(delay_columns());
        columns.extend([
            Column::hidden("rate_spread_permille", Unit::Permille),
            Column::hidden("sent", Unit::Count),
            Column::hidden("unsent", Unit::Count),
            Column::hidden("lost", Unit::Count),
            Column::hidden("strays", Unit::Count),
            Column::hidden("failed", Unit::Count),
            Column::hidden("lateness_p99_ns", Unit::Nanoseconds),
        ]);
        let mut table = Table::new("answers", columns);
        let rates: Repeats = self.runs.iter().filter_map(Latency::rate).collect();
        if let Some(connects) = &all.connects {
            let mut row = vec![
                Value::from("connect"),
                Value::Whole(connects.count()),
                Value::Absent,
            ];
            row.extend(delays(connects));
            table.row(row);
        }
        let what = if all.connects.is_some() { "whole" } else { "answer" };
        let mut row = vec![
            what.into(),
            Value::Whole(all.delays.count()),
            rates.median().into(),
        ];
        row.extend(delays(&all.delays));
        row.push(rates.spread_permille().into());
        row.extend([all.sent, all.unsent, all.lost, all.strays, all.failed].map(Value::Whole));
        let late = all
            .lateness
            .as_ref()
            .and_then(|late| late.percentile(Histogram::P99));
        row.push(late.into());
        table.row(row);
        table
    }

    fn each_run(&self) -> Table {
        let mut columns = vec![
            Column::new("run", "run", Unit::Count),
            Column::new("count", "count", Unit::Count),
            Column::new("rate", "rate_per_s", Unit::PerSecond),
        ];
        columns.extend(delay_columns());
        let mut table = Table::new("runs", columns);
        for (run, number) in self.runs.iter().zip(1..) {
            let mut row = vec![
                Value::Whole(number),
                Value::Whole(run.delays.count()),
                run.rate().into(),
            ];
            row.extend(delays(&run.delays));
            table.row(row);
        }
        table
    }
}

fn delay_columns() -> Vec<Column> {
    let column = |heading, key| Column::new(heading, key, Unit::Nanoseconds);
    vec![
        column("min", "min_ns"),
        column("mean", "mean_ns"),
        column("p50", "p50_ns"),
        column("p90", "p90_ns"),
        column("p99", "p99_ns"),
        column("p99.9", "p99_9_ns"),
        column("p99.99", "p99_99_ns"),
        column("max", "max_ns"),
    ]
}

fn delays(histogram: &Histogram) -> Vec<Value> {
    let mut values = vec![Value::from(histogram.min()), histogram.mean().into()];
    let percentiles = [
        Histogram::P50,
        Histogram::P90,
        Histogram::P99,
        Histogram::P99_9,
        Histogram::P99_99,
    ];
    values.extend(percentiles.map(|ppm| Value::from(histogram.percentile(ppm))));
    values.push(histogram.max().into());
    values
}

/// Load of both ends.
fn ends(all: &Latency) -> Table {
    let columns = vec![
        Column::new("end", "end", Unit::Text),
        Column::new("cpu", "cpu_permille", Unit::Permille),
        Column::new("busiest thread", "busiest_permille", Unit::Permille),
        Column::new("cpu of a request", "cpu_ns_per_request", Unit::Nanoseconds),
    ];
    let mut table = Table::new("ends", columns);
    let count = all.delays.count();
    for (name, load) in [("here", Some(all.here)), ("there", all.there)] {
        let share = |ns: u64| (all.elapsed_ns > 0).then(|| ns as f64 / all.elapsed_ns as f64 * 1000.0);
        table.row(vec![
            name.into(),
            load.and_then(|load| share(load.cpu_ns)).into(),
            load.and_then(|load| all.busy_permille(&load)).into(),
            load.filter(|_| count > 0)
                .map(|load| load.cpu_ns as f64 / count as f64)
                .into(),
        ]);
    }
    table
}

fn chart(bench: &str, host: &str, all: &Latency) -> Chart {
    let line = |name: &str, histogram: &Histogram| Line {
        name: name.to_owned(),
        points: histogram
            .tail()
            .into_iter()
            .map(|(one_in, ns)| (one_in, ns as f64))
            .collect(),
    };
    let mut lines = Vec::new();
    if let Some(connects) = &all.connects {
        lines.push(line("connect", connects));
        lines.push(line("connect to close", &all.delays));
    } else {
        lines.push(line("answer", &all.delays));
    }
    let marks = [
        (2.0, "p50"),
        (10.0, "p90"),
        (100.0, "p99"),
        (1000.0, "p99.9"),
        (10_000.0, "p99.99"),
    ];
    let reached = all.delays.count() as f64;
    Chart {
        title: match bench {
            "crr" => {
                format!("Delay of connections to {host} with a request each: one in so many takes longer")
            }
            _ => format!("Delay of requests to {host}: one in so many takes longer"),
        },
        x: ("one in", Unit::Count),
        y: ("delay", Unit::Nanoseconds),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        lines,
        marks: marks
            .into_iter()
            .filter(|(one_in, _)| *one_in <= reached)
            .map(|(one_in, name)| (one_in, name.to_owned()))
            .collect(),
    }
}

fn is_out_of_ports(failure: &Failure) -> bool {
    failure.errno == Some(rustix::io::Errno::ADDRNOTAVAIL)
}
