//! Tests of `capture`, `analyze` and `graph`.

mod analyze;
mod analyze_files;
mod analyze_more;
mod capture;
mod drawn;
mod graph;
mod graph_xplot;
mod road;
mod tshark_flags;
