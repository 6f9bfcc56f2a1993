//! Listings of flows: their columns and their layout.

mod columns;
mod composites;
pub mod connections;
mod layout;

pub use layout::{FlowDetails, FlowLayout};

use crate::json::Object;
use crate::listing::{Column, Record};
use sockeye_model::{Flow, Names, Protocol};

/// Host flows as records: `docs/schema/flows.schema.json`, `$defs/flow`.
#[derive(Debug)]
pub struct Flows;

/// A flow, and what its cells also need.
#[derive(Clone, Copy)]
pub struct FlowRow<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Names of hosts, services, users and namespaces.
    pub names: &'a dyn Names,
    /// Protocol of the services at the ports.
    pub protocol: Protocol,
    /// Whether owners were searched; if not, an empty list means unknown.
    pub has_owners: bool,
}

impl Record for Flows {
    type Row<'a> = FlowRow<'a>;

    const KEY: &'static str = "flows";
    const ROW: &'static str = "flow";

    fn columns() -> &'static [Column<Self>] {
        columns::COLUMNS
    }

    fn push_objects(object: &mut Object<'_>, row: &FlowRow<'_>) {
        composites::push_totals(object, row.flow);
        composites::push_rates(object, row.flow);
    }
}
