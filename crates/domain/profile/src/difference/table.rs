//! The layout of the tables.

use super::Difference;
use super::part::Part;
use super::rows::{Row, Scale};
use crate::format::short;
use sockeye_measure::{Column, Table, Unit, Value};

impl Difference<'_> {
    pub(super) fn table(&self, part: Part, rows: &[Row], scale: &Scale) -> Table {
        let text = |heading, key| Column::new(heading, key, Unit::Text);
        let mut columns = match part {
            Part::Syscalls => vec![text("call", "call")],
            Part::Waits => vec![text("waits for", "reason"), text("in call", "call")],
            Part::Functions if self.for_eyes => vec![text("function", "function")],
            Part::Cpu | Part::Functions => vec![text("function", "function"), text("module", "module")],
        };
        let words = columns.len();
        let (unit, headings, keys) = match (part, scale.is_rate) {
            (Part::Cpu, _) => (
                Unit::Permille,
                ["self A", "self B", "change"],
                ["a_permille", "b_permille", "permille_change"],
            ),
            (_, false) => (
                Unit::Nanoseconds,
                ["time A", "time B", "change"],
                ["a_total_ns", "b_total_ns", "total_ns_change"],
            ),
            (_, true) => (
                Unit::Nanoseconds,
                ["time/s A", "time/s B", "change"],
                ["a_ns_per_s", "b_ns_per_s", "ns_per_s_change"],
            ),
        };
        columns.push(Column::new(headings[0], keys[0], unit));
        columns.push(Column::new(headings[1], keys[1], unit));
        columns.push(Column::change(headings[2], keys[2], unit));
        let headings = match part {
            Part::Waits => ["count A", "count B"],
            Part::Cpu => ["samples A", "samples B"],
            Part::Syscalls | Part::Functions => ["calls A", "calls B"],
        };
        let (unit, keys) = match (part, scale.is_rate) {
            (Part::Cpu, _) => (Unit::Count, ["a_samples", "b_samples", ""]),
            (Part::Waits, false) => (Unit::Count, ["a_count", "b_count", "count_change"]),
            (Part::Waits, true) => (Unit::PerSecond, ["a_per_s", "b_per_s", "per_s_change"]),
            (_, false) => (Unit::Count, ["a_calls", "b_calls", "calls_change"]),
            (_, true) => (
                Unit::PerSecond,
                ["a_calls_per_s", "b_calls_per_s", "calls_per_s_change"],
            ),
        };
        columns.push(Column::new(headings[0], keys[0], unit));
        columns.push(Column::new(headings[1], keys[1], unit));
        if part != Part::Cpu {
            columns.push(Column::change("change", keys[2], unit));
        }
        columns.push(text("", "only_in"));
        let mut table = Table::new(part.name(), columns);
        for row in rows {
            table.row(self.values(part, row, words));
        }
        table
    }

    fn values(&self, part: Part, row: &Row, words: usize) -> Vec<Value> {
        let mut values: Vec<Value> = row.words[..words]
            .iter()
            .map(|word| match word {
                Some(word) if self.for_eyes => Value::Text(short(word, NAME_MAX)),
                Some(word) => word.as_str().into(),
                None => Value::Absent,
            })
            .collect();
        let number = |amount: Option<f64>| amount.map(|amount| (amount * 1e3).round() / 1e3).into();
        values.push(number(row.a.map(|one| one.amount)));
        values.push(number(row.b.map(|one| one.amount)));
        values.push(number(Some(row.change_ns())));
        values.push(number(row.a.map(|one| one.count)));
        values.push(number(row.b.map(|one| one.count)));
        if part != Part::Cpu {
            values.push(number(Some(row.change_count())));
        }
        values.push(match (row.a, row.b) {
            (None, Some(_)) if self.for_eyes => "new".into(),
            (Some(_), None) if self.for_eyes => "gone".into(),
            (None, Some(_)) => "b".into(),
            (Some(_), None) => "a".into(),
            _ => Value::Absent,
        });
        values
    }
}

/// Longest name from outside, in characters, for people
const NAME_MAX: usize = 28;
