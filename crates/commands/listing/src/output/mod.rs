//! Flows as tables, JSON, JSON lines and CSV.

mod flow_cell;
mod flow_column;
mod flow_csv;
mod flow_json;
mod flow_writer;

pub use flow_column::FlowColumn;
pub use flow_writer::{FlowDetails, FlowLayout, FlowWriter};
