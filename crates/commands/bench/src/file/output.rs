//! The report of `sockeye bench file`.

use crate::output::{rate_columns, rate_values};
use crate::sizes;
use rustix::io::Errno;
use sockeye_load::file::{
    EarlyEnd, Failure, FilePlan, LONG, Method, Outcome, Routes, Shortfall, Step, TestFile,
};
use sockeye_measure::{
    Chart, Column, FileRanking, FileTransfers, Line, Partial, Report, Scale, Table, Unit, Value,
    rank_file_methods,
};
use sockeye_sys::rights::{CheckedIn, remedy};

/// The data of the report.
pub(super) struct FileReport<'a> {
    pub(super) plan: &'a FilePlan,
    pub(super) file: &'a TestFile,
    pub(super) routes: &'a Routes,
    pub(super) outcome: &'a Outcome,
    pub(super) shortfall: Option<&'a Shortfall>,
    pub(super) is_own: bool,
    pub(super) for_eyes: bool,
}

impl FileReport<'_> {
    pub(super) fn report(&self) -> Report {
        let mut report = Report::new("file");
        report.title = "How fast each method sends a file to a socket".to_owned();
        let place = self.file.place().display();
        let what = if self.is_own {
            format!("sparse, without a name, in {place}")
        } else {
            place.to_string()
        };
        report.setting("file", "file", Unit::Text, Value::Text(what));
        let file_system = self.file.file_system();
        report.setting("file_system", "file system", Unit::Text, file_system.into());
        report.setting("source", "read from", Unit::Text, "page cache".into());
        report.setting(
            "repeats",
            "repeats",
            Unit::Count,
            Value::Whole(self.plan.repeats as u64),
        );
        report.setting(
            "verified_transfers",
            "transfers compared byte by byte",
            Unit::Count,
            Value::Whole(self.outcome.verified),
        );
        if self.for_eyes {
            report.tables.push(self.rates());
            report.tables.push(self.costs());
        } else {
            report.tables.push(self.everything());
        }
        self.verdicts(&mut report);
        self.copies(&mut report);
        self.counters(&mut report);
        self.missing(&mut report);
        report.charts = self.charts();
        report.partial = self.partial();
        report
    }

    /// A row per route and size, a column per method.
    fn rates(&self) -> Table {
        let mut columns = vec![
            Column::new("over", "device", Unit::Text),
            Column::new("size", "size_bytes", Unit::Bytes),
        ];
        columns.extend(
            self.plan
                .methods
                .iter()
                .map(|method| Column::new(method.name(), method.name(), Unit::Number)),
        );
        let mut table = Table::new("GB/s", columns);
        for route in self.routes.all() {
            for &size in &self.plan.sizes {
                let rates = self.plan.methods.iter().map(|method| {
                    let one = self.find(route.device(), route.ip_version(), method.name(), size);
                    Value::from(
                        one.and_then(|one| one.rates().median())
                            .map(|rate| hundredths(rate / 1e9)),
                    )
                });
                let rates: Vec<Value> = rates.collect();
                if rates.iter().all(|rate| *rate == Value::Absent) {
                    continue;
                }
                let name = format!("{}/{}", route.device(), route.ip_version());
                let mut row = vec![Value::Text(name), Value::Whole(size)];
                row.extend(rates);
                table.row(row);
            }
        }
        table
    }

    /// A row per method, at the longest size that was measured several times.
    fn costs(&self) -> Table {
        let size = self.costs_size();
        let mut table = Table::new(
            "costs",
            vec![
                Column::new("method", "method", Unit::Text),
                Column::new("size", "size_bytes", Unit::Bytes),
                Column::new("spread", "spread_permille", Unit::Permille),
                Column::new("send ns/B", "sender_cpu_ns_per_byte", Unit::Number),
                Column::new("recv ns/B", "receiver_cpu_ns_per_byte", Unit::Number),
                Column::new("calls/file", "calls_per_file", Unit::Number),
                Column::new("copied anyway", "copied", Unit::Text),
            ],
        );
        for method in &self.plan.methods {
            let all: Vec<&FileTransfers> = self
                .outcome
                .transfers
                .iter()
                .filter(|one| one.method == method.name() && one.size_bytes == size)
                .collect();
            if all.is_empty() {
                continue;
            }
            let median = |of: &dyn Fn(&FileTransfers) -> Option<f64>| {
                let each: sockeye_measure::Repeats = all.iter().filter_map(|one| of(one)).collect();
                Value::from(each.median().map(thousandths))
            };
            let spread = all.iter().filter_map(|one| one.rates().spread_permille());
            table.row(vec![
                method.name().into(),
                Value::Whole(size),
                Value::from(spread.max_by(f64::total_cmp)),
                median(&|one| one.sender_ns_per_byte().median()),
                median(&|one| one.receiver_ns_per_byte().median()),
                median(&|one| one.calls_per_file().median()),
                copied_text(&all).map_or(Value::Absent, Value::Text),
            ]);
        }
        table
    }

    fn costs_size(&self) -> u64 {
        let sizes = &self.plan.sizes;
        let short = sizes.iter().copied().filter(|&size| size < LONG).max();
        short.or(sizes.last().copied()).unwrap_or_default()
    }

    fn everything(&self) -> Table {
        let mut columns = vec![
            Column::new("device", "device", Unit::Text),
            Column::new("ip", "ip_version", Unit::Count),
            Column::new("method", "method", Unit::Text),
            Column::new("size", "size_bytes", Unit::Bytes),
        ];
        columns.extend(rate_columns());
        columns.extend([
            Column::new("sender", "sender_cpu_ns_per_byte", Unit::Number),
            Column::new("receiver", "receiver_cpu_ns_per_byte", Unit::Number),
            Column::new("calls", "calls_per_file", Unit::Number),
            Column::new("files", "files", Unit::Count),
            Column::new("bytes", "bytes", Unit::Bytes),
            Column::new("counted", "interface_bytes", Unit::Bytes),
            Column::new("zc sends", "zero_copy_sends", Unit::Count),
            Column::new("zc copied", "zero_copy_copied", Unit::Count),
        ]);
        let mut table = Table::new("transfers", columns);
        for one in &self.outcome.transfers {
            let zero_copy = one.zero_copy();
            let counted: Option<u64> = one.runs.iter().map(|run| run.interface_bytes).sum();
            let mut row = vec![
                one.device.into(),
                Value::Whole(one.ip_version.into()),
                one.method.into(),
                Value::Whole(one.size_bytes),
            ];
            row.extend(rate_values(&one.rates()));
            row.extend([
                one.sender_ns_per_byte().median().into(),
                one.receiver_ns_per_byte().median().into(),
                one.calls_per_file().median().into(),
                Value::Whole(one.runs.iter().map(|run| run.files).sum()),
                Value::Whole(one.runs.iter().map(|run| run.bytes).sum()),
                counted.into(),
                zero_copy.map(|zero_copy| zero_copy.sends).into(),
                zero_copy.and_then(|zero_copy| zero_copy.copied).into(),
            ]);
            table.row(row);
        }
        table
    }

    /// One sentence per device and range of sizes with the same outcome.
    fn verdicts(&self, report: &mut Report) {
        if self.plan.methods.len() < 2 {
            return;
        }
        let mut devices: Vec<&'static str> = Vec::new();
        for route in self.routes.all() {
            if !devices.contains(&route.device()) {
                devices.push(route.device());
            }
        }
        self.overall(report, &devices);
        for device in devices {
            let mut groups: Vec<(u64, u64, Vec<FileRanking>)> = Vec::new();
            for &size in &self.plan.sizes {
                let all = self.outcome.transfers.iter();
                let all: Vec<&FileTransfers> = all
                    .filter(|one| one.device == device && one.size_bytes == size)
                    .collect();
                let Some(ranking) = rank_file_methods(&all, PLAIN).filter(|_| all.len() > 1) else {
                    continue;
                };
                match groups.last_mut() {
                    Some((_, last, rankings))
                        if rankings[0].first == ranking.first
                            && rankings[0].is_single == ranking.is_single =>
                    {
                        *last = size;
                        rankings.push(ranking);
                    }
                    _ => groups.push((size, size, vec![ranking])),
                }
            }
            for (first, last, rankings) in groups {
                let sizes = if first == last {
                    format!("at {}", sizes::text(first))
                } else {
                    format!("from {} to {}", sizes::text(first), sizes::text(last))
                };
                let (code, text) = verdict(device, &sizes, &rankings);
                report.say(code, text);
            }
        }
    }

    /// The conclusion for this machine.
    fn overall(&self, report: &mut Report, devices: &[&'static str]) {
        let cases = devices
            .iter()
            .flat_map(|device| self.plan.sizes.iter().map(move |&size| (*device, size)));
        let rankings: Vec<FileRanking> = cases
            .filter_map(|(device, size)| self.ranking(device, size))
            .filter(|ranking| !ranking.is_single)
            .collect();
        if rankings.len() < 2 {
            return;
        }
        let wins = |method: &str| {
            rankings
                .iter()
                .filter(|ranking| ranking.first.contains(&method))
                .count()
        };
        let all = rankings.len();
        let plain = wins(PLAIN);
        let best = self
            .plan
            .methods
            .iter()
            .map(|method| method.name())
            .max_by_key(|method| (wins(method), *method == PLAIN));
        let Some(best) = best else { return };
        let text = if plain == all {
            format!(
                "On this machine read and write will do: in none of {all} cases (a size over lo or veth) is another method clearly faster."
            )
        } else {
            format!(
                "On this machine {best} is the fastest, or as fast as the fastest, in {} of {all} cases (a size over lo or veth); read \
                 and write in {plain}.",
                wins(best)
            )
        };
        report.say("verdict", text);
    }

    fn ranking(&self, device: &str, size: u64) -> Option<FileRanking> {
        let all = self.outcome.transfers.iter();
        let all: Vec<&FileTransfers> = all
            .filter(|one| one.device == device && one.size_bytes == size)
            .collect();
        let is_choice = all.iter().any(|one| one.method != all[0].method);
        rank_file_methods(&all, PLAIN).filter(|_| is_choice)
    }

    /// Reports whether the kernel really avoided the copy.
    fn copies(&self, report: &mut Report) {
        for method in [Method::ZeroCopy, Method::RingZeroCopy] {
            let name = if method == Method::ZeroCopy {
                "MSG_ZEROCOPY"
            } else {
                "io_uring's send_zc"
            };
            let mut parts = Vec::new();
            let (mut code, mut all_sends) = ("copies-avoided", 0);
            for device in ["lo", "veth"] {
                let all = self.outcome.transfers.iter();
                let reports: Vec<_> = all
                    .filter(|one| one.method == method.name() && one.device == device)
                    .filter_map(FileTransfers::zero_copy)
                    .collect();
                let sends: u64 = reports.iter().map(|zero_copy| zero_copy.sends).sum();
                let copied: Option<u64> = reports.iter().map(|zero_copy| zero_copy.copied).sum();
                all_sends += sends;
                match copied {
                    _ if sends == 0 => continue,
                    None => code = "copies-unknown",
                    Some(0) => {}
                    Some(_) => code = "copied-anyway",
                }
                parts.push(match copied {
                    Some(copied) => format!("{copied} of {sends} sends over {device}"),
                    None => format!("an unknown number of {sends} sends over {device}"),
                });
            }
            if all_sends == 0 {
                continue;
            }
            let meaning = match code {
                "copied-anyway" => {
                    "What stays within a machine is copied for the receiver; a network card that gathers what it sends avoids it."
                }
                "copies-unknown" => "The kernel reports this since Linux 6.2.",
                _ => "It really was without a copy.",
            };
            report.say(
                code,
                format!(
                    "{name}: the kernel says that it copied {} after all. {meaning}",
                    parts.join(", ")
                ),
            );
        }
    }

    /// Compares the counters of the interfaces with ours.
    fn counters(&self, report: &mut Report) {
        let mut bytes = 0;
        let mut counted = 0;
        for run in self
            .outcome
            .transfers
            .iter()
            .filter(|one| one.device == "veth")
            .flat_map(|one| &one.runs)
        {
            if let Some(interface_bytes) = run.interface_bytes {
                bytes += run.bytes;
                counted += interface_bytes;
            }
        }
        if bytes == 0 {
            return;
        }
        if counted < bytes {
            report.say(
                "counters-disagree",
                format!("The interface counted fewer bytes ({counted}) than arrived ({bytes}): do not trust these figures."),
            );
        } else {
            report.say(
                "counters-agree",
                format!(
                    "The receiving end of the veth pair counted {:.1} % more than the {} that were sent over it: headers.",
                    (counted as f64 / bytes as f64 - 1.0) * 100.0,
                    sizes::text(bytes)
                ),
            );
        }
    }

    fn missing(&self, report: &mut Report) {
        let mut is_reported = false;
        for (method, failure) in &self.outcome.missing {
            let is_ring = matches!(method, Method::Ring | Method::RingZeroCopy);
            let is_disabled = is_ring && matches!(failure.step, Step::Prepare(_));
            if is_disabled && std::mem::replace(&mut is_reported, true) {
                continue;
            }
            if is_disabled {
                let why = match failure.errno {
                    Errno::PERM | Errno::ACCESS => {
                        "forbidden here (kernel.io_uring_disabled, or seccomp as in containers)"
                    }
                    Errno::NOSYS => "not in this kernel, or hidden by seccomp",
                    _ => "not available",
                };
                let sentence = report.say(
                    "io-uring-missing",
                    format!("io_uring was not measured: it is {why}: {}.", failure.errno),
                );
                sentence.remedy(
                    "sysctl kernel.io_uring_disabled # 0: all users, 1: root and a group, 2: no user",
                );
            } else {
                let hint = match (method, failure.errno) {
                    (Method::RingZeroCopy, Errno::INVAL) => "; it needs Linux 6.0",
                    (_, Errno::NOBUFS | Errno::NOMEM) => {
                        "; `ulimit -l` and net.core.optmem_max limit what may be lent"
                    }
                    (_, Errno::NODEV) => "; this file system cannot map files",
                    _ => "",
                };
                report.say(
                    "method-missing",
                    format!("{} was not measured: {failure}{hint}.", method.name()),
                );
            }
        }
        let missing = self.routes.missing();
        for (place, (device, version, failure)) in missing.iter().enumerate() {
            let is_same = |other: &&(&str, u8, Failure)| (other.0, &other.2) == (*device, failure);
            if missing[..place].iter().any(|other| is_same(&other)) {
                continue;
            }
            let is_both = missing[place + 1..].iter().any(|other| is_same(&other));
            let versions = if is_both {
                "IPv4 and IPv6".to_owned()
            } else {
                format!("IPv{version}")
            };
            let sentence = report.say(
                "route-missing",
                format!("{versions} over {device}: not measured: {failure}."),
            );
            if matches!(failure.errno, Errno::PERM | Errno::ACCESS) {
                sentence.remedy(format!(
                    "sudo sockeye bench file # namespaces need CAP_SYS_ADMIN: {}",
                    remedy("it", CheckedIn::Initial)
                ));
            }
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |route: &sockeye_load::file::Route| Chart {
            title: format!(
                "Rate from a file to a socket over {}, IPv{}, by the size of the file",
                route.device(),
                route.ip_version()
            ),
            x: ("size", Unit::Bytes),
            y: ("rate", Unit::BytesPerSecond),
            x_scale: Scale::Logarithmic,
            y_scale: Scale::Linear,
            lines: self
                .plan
                .methods
                .iter()
                .map(|method| self.line(route, *method))
                .filter(|line| !line.points.is_empty())
                .collect(),
            marks: Vec::new(),
        };
        self.routes
            .all()
            .iter()
            .map(chart)
            .filter(|chart| !chart.lines.is_empty())
            .collect()
    }

    fn line(&self, route: &sockeye_load::file::Route, method: Method) -> Line {
        let point = |&size: &u64| {
            let one = self.find(route.device(), route.ip_version(), method.name(), size)?;
            Some((size as f64, one.rates().median()?))
        };
        Line {
            name: method.name().to_owned(),
            points: self.plan.sizes.iter().filter_map(point).collect(),
        }
    }

    fn find(&self, device: &str, version: u8, method: &str, size: u64) -> Option<&FileTransfers> {
        let mut all = self.outcome.transfers.iter();
        all.find(|one| {
            (one.device, one.ip_version, one.method, one.size_bytes) == (device, version, method, size)
        })
    }

    fn partial(&self) -> Option<Partial> {
        let (code, text) = match &self.outcome.early_end {
            Some(EarlyEnd::Stopped) => ("interrupted", "interrupted".to_owned()),
            Some(EarlyEnd::Failed(failure)) => (
                match failure.step {
                    Step::Stuck => "timeout",
                    Step::Shorter => "file-shorter",
                    _ => "failed",
                },
                failure.to_string(),
            ),
            None => {
                let shortfall = self.shortfall?;
                let code = if matches!(shortfall.errno, Errno::NOSPC | Errno::DQUOT) {
                    "disk-full"
                } else {
                    "no-room"
                };
                (
                    code,
                    format!(
                        "no room for files above {}: {}",
                        sizes::text(shortfall.bytes),
                        shortfall.errno
                    ),
                )
            }
        };
        Some(Partial { code, text })
    }
}

fn verdict(device: &str, sizes: &str, rankings: &[FileRanking]) -> (&'static str, String) {
    let first = &rankings[0].first;
    if rankings[0].is_single {
        let text = format!(
            "Over {device}, {sizes}: {} came first, but it was measured once only: --repeats 3 would show whether that is a difference.",
            first[0]
        );
        return ("measured-once", text);
    }
    if first.len() > 1 {
        let text = if first.contains(&PLAIN) {
            format!(
                "Over {device}, {sizes}: no clear difference between {}; read and write will do.",
                first.join(", ")
            )
        } else {
            format!(
                "Over {device}, {sizes}: {} are the fastest, with no clear difference between them{}.",
                first.join(", "),
                gain_text(rankings)
            )
        };
        return ("no-clear-difference", text);
    }
    if first[0] == PLAIN {
        return (
            "fastest-method",
            format!("Over {device}, {sizes}: nothing beats read and write."),
        );
    }
    let text = format!(
        "Over {device}, {sizes}: {} is the fastest{}.",
        first[0],
        gain_text(rankings)
    );
    ("fastest-method", text)
}

fn gain_text(rankings: &[FileRanking]) -> String {
    let gains: Vec<f64> = rankings.iter().filter_map(|ranking| ranking.gain).collect();
    let low = gains.iter().copied().reduce(f64::min);
    let high = gains.iter().copied().reduce(f64::max);
    match low.zip(high) {
        Some((low, high)) if high - low < 0.05 => format!(", {high:.2} times read and write"),
        Some((low, high)) => format!(", {low:.2} to {high:.2} times read and write"),
        None => String::new(),
    }
}

/// Returns how many zero-copy sends were copied; `None` without such sends.
fn copied_text(all: &[&FileTransfers]) -> Option<String> {
    let reports: Vec<_> = all.iter().filter_map(|one| one.zero_copy()).collect();
    let sends: u64 = reports.iter().map(|zero_copy| zero_copy.sends).sum();
    if sends == 0 {
        return None;
    }
    let copied: Option<u64> = reports.iter().map(|zero_copy| zero_copy.copied).sum();
    Some(match copied {
        None => "unknown".to_owned(),
        Some(0) => "none".to_owned(),
        Some(copied) if copied == sends => "all".to_owned(),
        Some(copied) => format!("{copied} of {sends}"),
    })
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

const PLAIN: &str = "read";
