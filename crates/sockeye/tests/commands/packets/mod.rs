//! Tests of `capture`, `analyze` and `graph`.

mod analysis;
mod analyze;
mod analyze_capture_points;
mod analyze_files;
mod analyze_threads;
mod capture;
mod graph;
mod graph_folder;
mod graph_xplot;
mod huge_captures;
mod impaired_path;
mod labelled_captures;
mod schema;
mod stdin;
mod tshark_flags;
