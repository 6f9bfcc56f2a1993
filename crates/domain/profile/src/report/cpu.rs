//! Table `cpu` of a profile for `prof`: functions by the number of CPU samples, own and total.

use super::{NAME_MAX, TableBuilder, permille, table};
use crate::profile::Space;
use crate::stacks;
use crate::tally;
use sockeye_measure::{Column, Table, Unit, Value};

impl TableBuilder<'_> {
    pub(super) fn cpu(&mut self) -> Option<Table> {
        let cpu = self.profile.cpu.as_ref()?;
        let rows = tally::cpu(self.profile, self.view.by_process);
        let whole = tally::sum(cpu.stacks.iter().map(|one| one.samples));
        let for_eyes = self.view.for_eyes;
        let columns = vec![
            Column::new("function", "function", Unit::Text),
            Column::new("self", "self_permille", Unit::Permille),
            Column::new("samples", "self_samples", Unit::Count),
            Column::new("total", "total_permille", Unit::Permille),
            Column::hidden("total_samples", Unit::Count),
            Column::new("module", "module", Unit::Text),
            Column::hidden("space", Unit::Text),
        ];
        let mut table = table(self, "cpu", columns);
        let shown = self.rows(rows, ["function", "functions"], |row| row.own, Unit::Count);
        for row in shown {
            let function = match row.function {
                Some(name) => self.name(name, NAME_MAX),
                // In addition to the module: rows of several files would look the same.
                None if for_eyes => self.name(&stacks::unnamed(row.module), NAME_MAX),
                None => Value::Absent,
            };
            let is_kernel = row.space == Space::Kernel;
            // Kernel modules have their own names.
            let module = match row.module {
                Some(module) if for_eyes && is_kernel && module != "kernel" => {
                    Value::Text(format!("kernel {module}"))
                }
                Some(module) => self.name(module, NAME_MAX),
                None => Value::Absent,
            };
            let space = if is_kernel { "kernel" } else { "user" };
            let mut values = vec![
                function,
                permille(row.own, whole),
                Value::Whole(row.own),
                permille(row.total, whole),
                Value::Whole(row.total),
                module,
                space.into(),
            ];
            self.process_values(&mut values, row.pid.unwrap_or(0));
            table.row(values);
        }
        Some(table)
    }
}
