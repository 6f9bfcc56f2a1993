//! Records that only `top` lists: drops, devices, findings and processes. Their columns are the one place that defines them.

mod device;
mod drop;
mod finding;
mod process;

pub(crate) use device::{DeviceRow, Devices};
pub(crate) use drop::{DropRow, Drops};
pub(crate) use finding::{FindingRow, Findings};
pub(crate) use process::{ProcessRow, Processes};

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_output::listing::Record;

    #[track_caller]
    fn check<R: Record>(schema: &str) {
        let paths = R::columns()
            .iter()
            .flat_map(sockeye_output::listing::Column::json_paths);
        let missing: Vec<_> = paths
            .map(|path| path.split('.').next().unwrap_or(path))
            .filter(|key| !schema.contains(&format!("\"{key}\": {{")))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// Regression: a column of rates, which one sample does not have, was not in the schema.
    #[test]
    fn schemas_have_each_column() {
        check::<Devices>(include_str!(
            "../../../../../../docs/schema/top-devices.schema.json"
        ));
        check::<Drops>(include_str!(
            "../../../../../../docs/schema/top-drops.schema.json"
        ));
        check::<Findings>(include_str!(
            "../../../../../../docs/schema/top-findings.schema.json"
        ));
        check::<Processes>(include_str!(
            "../../../../../../docs/schema/top-processes.schema.json"
        ));
    }
}
