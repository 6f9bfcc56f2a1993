//! Flows as tables, JSON, JSON lines and CSV.

mod columns;
mod composites;
mod layout;

pub use layout::{FlowDetails, FlowLayout};

use sockeye_model::{Flow, Names, Protocol};
use sockeye_output::JsonObject;
use sockeye_output::listing::{Column, Record};

/// The kind of record that is a host flow: `docs/schema/flows.schema.json`, `$defs/flow`.
#[derive(Debug)]
pub struct Flows;

/// A flow with what its cells need besides.
#[derive(Clone, Copy)]
pub struct FlowRow<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Names of hosts, services, users and namespaces.
    pub names: &'a dyn Names,
    /// The protocol whose services the ports are.
    pub protocol: Protocol,
    /// Whether owners were looked for: no owners found is something else than not looked for.
    pub has_owners: bool,
}

impl Record for Flows {
    type Row<'a> = FlowRow<'a>;

    const KEY: &'static str = "flows";

    fn columns() -> &'static [Column<Self>] {
        columns::COLUMNS
    }

    fn push_objects(object: &mut JsonObject<'_>, row: &FlowRow<'_>) {
        composites::push_totals(object, row.flow);
        composites::push_rates(object, row.flow);
    }
}
