//! The first table of a report as CSV, with the columns that tables for people hide.

use crate::csv::Line;
use sockeye_measure::{Report, Value};

pub(super) fn push(out: &mut Vec<u8>, report: &Report, no_header: bool) {
    let Some(table) = report.tables.first() else {
        return;
    };
    if !no_header {
        let mut line = Line::begin(out);
        for column in &table.columns {
            line.word(column.key);
        }
        line.end();
    }
    for row in &table.rows {
        let mut line = Line::begin(out);
        for value in row {
            match value {
                Value::Absent => line.empty(1),
                Value::Whole(number) => line.number(Some(*number)),
                Value::Real(number) => line.float(Some(*number)),
                Value::Bool(yes) => line.boolean(Some(*yes)),
                Value::Text(text) => line.text(Some(text)),
            }
        }
        line.end();
    }
}
