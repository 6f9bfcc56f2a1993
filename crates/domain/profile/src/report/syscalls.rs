//! Table `syscalls` of a profile for `prof`: calls, errors and time per system call.
//! The time of calls that were never timed is absent, not 0.

use super::{TableBuilder, mean, permille, table};
use crate::profile::Errno;
use crate::tally;
use sockeye_measure::{Column, Table, Unit, Value};

impl TableBuilder<'_> {
    pub(super) fn syscalls(&mut self) -> Option<Table> {
        self.profile.syscalls.as_ref()?;
        let rows = tally::calls(self.profile, self.view.by_process);
        let whole = tally::sum(rows.iter().map(|row| row.total_ns));
        let for_eyes = self.view.for_eyes;
        let with_unfinished = !for_eyes || rows.iter().any(|row| row.unfinished > 0);
        let mut columns = vec![
            Column::new("call", "call", Unit::Text),
            Column::new("calls", "calls", Unit::Count),
            Column::new("errors", "errors", Unit::Count),
            Column::new("total", "total_ns", Unit::Nanoseconds),
            Column::new("share", "share_permille", Unit::Permille),
            Column::new("mean", "mean_ns", Unit::Nanoseconds),
            Column::new(self.max_heading(), "max_ns", Unit::Nanoseconds),
        ];
        if with_unfinished {
            columns.push(Column::new("open", "unfinished", Unit::Count));
        }
        if !for_eyes {
            columns.push(Column::new("timed", "timed", Unit::Count));
        }
        // Only some rows have errors.
        columns.push(Column::new("", "errnos", Unit::Text).breaking());
        let mut table = table(self, "syscalls", columns);
        let shown = self.rows(
            rows,
            ["system call", "system calls"],
            |row| row.total_ns,
            Unit::Nanoseconds,
        );
        for row in shown {
            // The time of calls that were never timed is unknown, not 0.
            let has_unknown_time = row.timed_base == 0 && row.calls > 0 && row.total_ns == 0;
            let known = |ns| {
                if has_unknown_time {
                    Value::Absent
                } else {
                    Value::Whole(ns)
                }
            };
            let mut values = vec![
                row.name.into(),
                Value::Whole(row.calls),
                Value::Whole(row.errors),
                known(row.total_ns),
                if has_unknown_time {
                    Value::Absent
                } else {
                    permille(row.total_ns, whole)
                },
                mean(row.total_ns, row.timed_base),
                known(row.max_ns),
            ];
            if with_unfinished {
                values.push(Value::Whole(row.unfinished));
            }
            if !for_eyes {
                values.push(Value::Whole(row.timed));
            }
            values.push(errnos(&row.errnos, for_eyes));
            self.process_values(&mut values, row.pid.unwrap_or(0));
            table.row(values);
        }
        Some(table)
    }
}

/// Errors: the most frequent ones for people, all with counts for programs.
fn errnos(errnos: &[Errno], for_eyes: bool) -> Value {
    if errnos.is_empty() {
        return Value::Absent;
    }
    if !for_eyes {
        let all: Vec<String> = errnos
            .iter()
            .map(|errno| format!("{}={}", errno.name, errno.count))
            .collect();
        return Value::Text(all.join(" "));
    }
    let mut text: Vec<String> = errnos
        .iter()
        .take(ERRNOS_SHOWN)
        .map(|errno| errno.name.clone())
        .collect();
    if errnos.len() > ERRNOS_SHOWN {
        text.push(format!("+{}", errnos.len() - ERRNOS_SHOWN));
    }
    Value::Text(text.join(" "))
}

const ERRNOS_SHOWN: usize = 1;
