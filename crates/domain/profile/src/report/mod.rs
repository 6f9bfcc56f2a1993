//! A profile as a report: tables for people and spreadsheets, and conclusions.

mod cpu;
mod functions;
mod syscalls;
mod time;
mod waits;

use crate::format::{count, counted, percent, time};
use crate::profile::Profile;
use crate::{gaps, judge, tally};
use sockeye_measure::{Column, Partial, Report, Table, Unit, Value};
use std::collections::HashMap;

/// Options of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportOptions {
    /// Number of rows per table, the largest; 0: all.
    pub rows: usize,
    /// Whether processes are listed separately.
    pub by_process: bool,
    /// Whether it is for people: long names are shortened, empty columns are omitted.
    pub for_eyes: bool,
    /// Whether the profile is of the time between two others ([`Profile::since`]): maxima are those of the
    /// whole run.
    pub is_part: bool,
}

impl ReportOptions {
    /// Rows that fit on a screen.
    pub const ROWS: usize = 20;
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            rows: Self::ROWS,
            by_process: false,
            for_eyes: true,
            is_part: false,
        }
    }
}

impl Profile {
    /// Tables and conclusions.
    #[must_use]
    pub fn report(&self, view: &ReportOptions) -> Report {
        let mut report = Report::of("prof", "prof");
        self.settings(&mut report);
        let mut builder = TableBuilder {
            profile: self,
            view,
            processes: self
                .processes
                .iter()
                .map(|process| (process.pid, process.name.as_str()))
                .collect(),
            left_out: Vec::new(),
        };
        let mut tables = Vec::new();
        tables.extend(builder.syscalls());
        tables.extend(builder.waits());
        tables.extend(builder.cpu());
        tables.extend(builder.functions());
        // CSV takes the first table, and this one summarises others.
        let place = if view.for_eyes { 0 } else { tables.len() };
        if let Some(time) = builder.time() {
            tables.insert(place, time);
        }
        let left_out = builder.left_out;
        report.tables = tables;
        if !left_out.is_empty() {
            let text = format!("Left out: {}; --top 0 shows all.", left_out.join("; "));
            report.say("rows-left-out", text);
        }
        judge::judge(self, &mut report);
        gaps::add_gaps(self, &mut report);
        if report.tables.iter().all(|table| table.rows.is_empty()) && self.missing.is_empty() {
            report.say(
                "nothing-seen",
                "Nothing was seen: the observed processes did nothing meanwhile.",
            );
        }
        report.partial = self.partial.as_ref().map(|partial| Partial {
            code: match partial.code.as_str() {
                "interrupted" => "interrupted",
                _ => "ended-early",
            },
            text: partial.text.clone(),
        });
        report
    }

    fn settings(&self, report: &mut Report) {
        report.setting("target", "", Unit::Text, self.target.as_str().into());
        report.setting(
            "duration_ns",
            "for",
            Unit::Nanoseconds,
            Value::Whole(self.duration_ns),
        );
        if self.processes.len() > 1 {
            report.setting(
                "processes",
                "processes",
                Unit::Count,
                Value::Whole(self.processes.len() as u64),
            );
        }
        report.setting(
            "processors",
            "processors",
            Unit::Count,
            Value::Whole(self.processors.into()),
        );
        if let Some(cpu) = &self.cpu {
            let rate = cpu.samples_per_s;
            let text = format!("{} at {rate} Hz", counted(cpu.samples, "sample"));
            report.setting("samples", "", Unit::Text, Value::Text(text));
        }
    }
}

/// Builder of the tables.
struct TableBuilder<'a> {
    profile: &'a Profile,
    view: &'a ReportOptions,
    processes: HashMap<u32, &'a str>,
    /// Summary of the rows that did not fit, per table
    left_out: Vec<String>,
}

impl TableBuilder<'_> {
    /// Adds the columns of the process.
    fn process_columns(&self, columns: &mut Vec<Column>) {
        if self.view.by_process {
            columns.insert(0, Column::new("process", "process", Unit::Text));
            columns.insert(0, Column::new("pid", "pid", Unit::Number));
        }
    }

    fn process_values(&self, values: &mut Vec<Value>, pid: u32) {
        if self.view.by_process {
            let name = self.processes.get(&pid).copied();
            values.insert(0, name.map_or(Value::Absent, Value::from));
            let pid = if pid == 0 {
                Value::Absent
            } else {
                Value::Whole(pid.into())
            };
            values.insert(0, pid);
        }
    }

    /// The first rows; notes a summary of the others.
    fn rows<T>(
        &mut self,
        all: Vec<T>,
        [one, many]: [&str; 2],
        weight: impl Fn(&T) -> u64,
        unit: Unit,
    ) -> Vec<T> {
        let mut shown = all;
        if self.view.rows == 0 || shown.len() <= self.view.rows {
            return shown;
        }
        let sum = |rows: &[T]| tally::sum(rows.iter().map(&weight));
        let whole = sum(&shown);
        let rest = shown.split_off(self.view.rows);
        let (number, together) = (rest.len() as u64, sum(&rest));
        let amount = match unit {
            Unit::Nanoseconds => time(together),
            _ => counted(together, "sample"),
        };
        self.left_out.push(format!(
            "{} {} ({amount}, {})",
            count(number),
            if number == 1 { one } else { many },
            percent(together, whole)
        ));
        shown
    }

    fn max_heading(&self) -> &'static str {
        if self.view.is_part { "max of run" } else { "max" }
    }

    fn name(&self, name: &str, most: usize) -> Value {
        if self.view.for_eyes {
            Value::Text(crate::format::short(name, most))
        } else {
            name.into()
        }
    }
}

/// An empty table with these columns and those of the process.
fn table(builder: &TableBuilder<'_>, name: &'static str, mut columns: Vec<Column>) -> Table {
    builder.process_columns(&mut columns);
    Table::new(name, columns)
}

/// Thousandths; absent if the whole is 0.
fn permille(part: u64, whole: u64) -> Value {
    if whole == 0 {
        Value::Absent
    } else {
        Value::Real((part as f64 / whole as f64 * 1e6).round() / 1e3)
    }
}

fn mean(total: u64, number: u64) -> Value {
    if number == 0 {
        Value::Absent
    } else {
        Value::Real((total as f64 / number as f64 * 10.0).round() / 10.0)
    }
}

/// Longest name from outside, in characters, for people
const NAME_MAX: usize = 40;
