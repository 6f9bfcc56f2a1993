//! Table `waits` of a profile for `prof`: waits by reason, system call, object and function.

use super::{NAME_MAX, TableBuilder, mean, permille, table};
use crate::format::short;
use crate::stack_site::StackSite;
use crate::tally;
use sockeye_measure::{Column, Table, Unit, Value};

impl TableBuilder<'_> {
    pub(super) fn waits(&mut self) -> Option<Table> {
        self.profile.waits.as_ref()?;
        let rows = tally::waits(self.profile, self.view.by_process);
        let whole = tally::sum(rows.iter().map(|row| row.total_ns));
        let for_eyes = self.view.for_eyes;
        let with_unfinished = !for_eyes || rows.iter().any(|row| row.unfinished > 0);
        let with_object = !for_eyes || rows.iter().any(|row| row.object.is_some());
        let mut columns = vec![
            Column::new("waits for", "reason", Unit::Text),
            Column::new("in call", "call", Unit::Text),
            Column::new("count", "count", Unit::Count),
            Column::new("total", "total_ns", Unit::Nanoseconds),
            Column::new("share", "share_permille", Unit::Permille),
            Column::new("mean", "mean_ns", Unit::Nanoseconds),
            Column::new(self.max_heading(), "max_ns", Unit::Nanoseconds),
        ];
        if with_unfinished {
            columns.push(Column::new("open", "unfinished", Unit::Count));
        }
        if for_eyes {
            // One column for both: together they are too wide for a screen.
            let heading = if with_object { "at, in" } else { "in" };
            columns.push(Column::new(heading, "where", Unit::Text).breaking());
        } else {
            columns.push(Column::new("at", "object", Unit::Text));
            columns.push(Column::new("in", "function", Unit::Text));
            columns.push(Column::new("in the kernel", "kernel_function", Unit::Text));
        }
        let mut table = table(self, "waits", columns);
        let shown = self.rows(
            rows,
            ["wait", "kinds of waits"],
            |row| row.total_ns,
            Unit::Nanoseconds,
        );
        for row in shown {
            let reason = if for_eyes {
                row.reason.name().replace('_', " ")
            } else {
                row.reason.name().to_owned()
            };
            let mut values = vec![
                Value::Text(reason),
                row.syscall.map_or(Value::Absent, Value::from),
                Value::Whole(row.count),
                Value::Whole(row.total_ns),
                permille(row.total_ns, whole),
                mean(row.total_ns, row.count),
                Value::Whole(row.max_ns),
            ];
            if with_unfinished {
                values.push(Value::Whole(row.unfinished));
            }
            if for_eyes {
                values.push(location(row.object, row.place));
            } else {
                let words = [row.object, row.place.user, row.place.kernel];
                values.extend(words.map(|word| word.map_or(Value::Absent, Value::from)));
            }
            self.process_values(&mut values, row.pid.unwrap_or(0));
            table.row(values);
        }
        Some(table)
    }
}

/// `fd 5 tcp 10.0.0.2:40112 > 10.0.0.1:443, read_reply / tcp_recvmsg`.
fn location(object: Option<&str>, place: StackSite<'_>) -> Value {
    let functions: Vec<String> = [place.user, place.kernel]
        .into_iter()
        .flatten()
        .map(|name| short(name, NAME_MAX))
        .collect();
    let functions = Some(functions.join(" / ")).filter(|functions| !functions.is_empty());
    let words: Vec<String> = object
        .map(|object| short(object, OBJECT_MAX))
        .into_iter()
        .chain(functions)
        .collect();
    if words.is_empty() {
        Value::Absent
    } else {
        Value::Text(words.join(", "))
    }
}

/// Two IPv6 addresses fit.
const OBJECT_MAX: usize = 100;
