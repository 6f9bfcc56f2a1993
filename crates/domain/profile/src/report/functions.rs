//! Table `functions` of a profile for `prof`: calls and time of watched functions.
//! Calls without an observed return have no time, so the mean leaves them out.

use super::{NAME_MAX, TableBuilder, table};
use crate::tally;
use sockeye_measure::{Column, Table, Unit, Value};

impl TableBuilder<'_> {
    pub(super) fn functions(&mut self) -> Option<Table> {
        self.profile.functions.as_ref()?;
        let rows = tally::functions(self.profile, self.view.by_process);
        let for_eyes = self.view.for_eyes;
        let with_missed = !for_eyes || rows.iter().any(|row| row.missed_returns > 0);
        let with_unfinished = !for_eyes || rows.iter().any(|row| row.unfinished > 0);
        let mut columns = vec![
            Column::new("function", "function", Unit::Text),
            Column::new("calls", "calls", Unit::Count),
            Column::new("total", "total_ns", Unit::Nanoseconds),
            Column::new("self", "self_ns", Unit::Nanoseconds),
            Column::new("mean", "mean_ns", Unit::Nanoseconds),
            Column::new(self.max_heading(), "max_ns", Unit::Nanoseconds),
        ];
        if with_missed {
            columns.push(Column::new("missed", "missed_returns", Unit::Count));
        }
        if with_unfinished {
            columns.push(Column::new("open", "unfinished", Unit::Count));
        }
        columns.push(Column::new("module", "module", Unit::Text));
        let mut table = table(self, "functions", columns);
        let shown = self.rows(
            rows,
            ["watched function", "watched functions"],
            |row| row.total_ns.unwrap_or(0),
            Unit::Nanoseconds,
        );
        for row in shown {
            // Calls without an observed return have no time.
            let timed = row.calls.saturating_sub(row.missed_returns);
            let timed = timed.saturating_sub(row.unfinished);
            let mean = row.total_ns.filter(|_| timed > 0);
            let mut values = vec![
                self.name(&row.name, NAME_MAX),
                Value::Whole(row.calls),
                row.total_ns.into(),
                row.self_ns.into(),
                mean.map(|total| (total as f64 / timed as f64 * 10.0).round() / 10.0)
                    .into(),
                row.max_ns.into(),
            ];
            if with_missed {
                values.push(Value::Whole(row.missed_returns));
            }
            if with_unfinished {
                values.push(Value::Whole(row.unfinished));
            }
            values.push(self.name(&row.module, NAME_MAX));
            self.process_values(&mut values, row.pid);
            table.row(values);
        }
        Some(table)
    }
}
