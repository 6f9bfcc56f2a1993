//! Verdicts and graphs of captured connections.

mod analysis;
mod endpoint;
mod event_json;
mod graph;

pub use analysis::{
    AnalysisLayout, AnalysisWriter, CaptureTally, ComparedCapture, ComparedDirection, Comparison, EndOwners,
    FlaggedSegment, Listed, UnsupportedLinks, connection_sentences, push_comparisons,
};
pub use graph::{GraphDirections, GraphFormat, GraphLayout, GraphPanel, write_graph};
