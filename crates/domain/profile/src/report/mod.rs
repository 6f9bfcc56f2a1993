//! A profile as a report: tables for eyes and spreadsheets, and what they mean.

mod cpu;
mod functions;
mod syscalls;
mod time;
mod waits;

use crate::profile::Profile;
use crate::words::{count, counted, percent, time};
use crate::{gaps, judge, tally};
use sockeye_measure::{Column, Partial, Report, Table, Unit, Value};
use std::collections::HashMap;

/// How a profile is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// So many rows of each table, the largest; 0: all.
    pub rows: usize,
    /// Each process by itself, else all together.
    pub by_process: bool,
    /// For people: long names are shortened, columns that say nothing are left out.
    pub for_eyes: bool,
    /// The profile is of the time between two looks ([`Profile::since`]): the longest are those of the whole run.
    pub is_part: bool,
}

impl View {
    /// Rows that a screen has room for.
    pub const ROWS: usize = 20;
}

impl Default for View {
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
    /// Its tables, and sentences on what they mean.
    #[must_use]
    pub fn report(&self, view: &View) -> Report {
        let mut report = Report::of("prof", "prof");
        self.settings(&mut report);
        let mut sheet = Sheet {
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
        tables.extend(sheet.syscalls());
        tables.extend(sheet.waits());
        tables.extend(sheet.cpu());
        tables.extend(sheet.functions());
        // CSV has the rows of the first one, and this one is a summary of others.
        let place = if view.for_eyes { 0 } else { tables.len() };
        if let Some(time) = sheet.time() {
            tables.insert(place, time);
        }
        let left_out = sheet.left_out;
        report.tables = tables;
        if !left_out.is_empty() {
            let text = format!("Left out: {}; --rows 0 shows all.", left_out.join("; "));
            report.say("rows-left-out", text);
        }
        judge::judge(self, &mut report);
        gaps::tell(self, &mut report);
        if report.tables.iter().all(|table| table.rows.is_empty()) && self.missing.is_empty() {
            report.say(
                "nothing-seen",
                "Nothing was seen: nobody who was looked at did anything meanwhile.",
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

/// Where tables are made.
struct Sheet<'a> {
    profile: &'a Profile,
    view: &'a View,
    processes: HashMap<u32, &'a str>,
    /// Of each table what there was no room for
    left_out: Vec<String>,
}

impl Sheet<'_> {
    /// The columns that say whose it is.
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

    /// So many rows; of the others it notes what they are together.
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
            Value::Text(crate::words::short(name, most))
        } else {
            name.into()
        }
    }
}

/// An empty table with these columns and those of the process.
fn table(sheet: &Sheet<'_>, name: &'static str, mut columns: Vec<Column>) -> Table {
    sheet.process_columns(&mut columns);
    Table::new(name, columns)
}

/// Thousandths; of nothing there are none.
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

/// Characters of names from outside, for eyes
const NAME_MAX: usize = 40;
