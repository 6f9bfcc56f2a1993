//! The first table of a report as CSV, with the columns that tables for people hide.

use super::ReportLayout;
use crate::sheet::Sheet;
use sockeye_measure::{Report, Value};

pub(super) fn push(out: &mut Vec<u8>, report: &Report, layout: ReportLayout) {
    let Some(table) = report.tables.first() else {
        return;
    };
    let columns: Vec<_> = table.columns.iter().map(|column| column.key).collect();
    let columns = columns.join(",");
    let mut sheet = Sheet::begin_sample(out, &layout.envelope, layout.sample, layout.no_header, &columns);
    for row in &table.rows {
        let mut line = sheet.line();
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
    sheet.end();
}
