//! What is shown of a moment: which flows, in which order; sums over all moments; the graph of who talks to whom. Pure.

mod fleet;
mod map;
mod selection;
mod timeline;

pub(crate) use fleet::{FleetBy, FleetMap, fleet_map_of_edges, fleet_map_of_services};
pub(crate) use map::{Map, MapBy, Node, map};
pub(crate) use selection::{PROTOCOL, Selected, Selection, Window, row};
pub(crate) use timeline::{Point, point};
