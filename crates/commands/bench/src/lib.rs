//! `sockeye bench`: measures what this host and its paths can do, and reports what limited it.
//!
//! What it deliberately does not do: create load (crate `sockeye_load` does that), judge the figures (`sockeye_measure`), or
//! format reports (`sockeye_output`). It parses arguments, runs the benchmark and builds its report.
//!
//! | file | content |
//! |---|---|
//! | `args.rs`, `run.rs` | the subcommands and their dispatch |
//! | `stream/`, `latency/`, `serve/`, `tun/`, `file/`, `memory/`, `sources/` | a benchmark each: arguments, run, report |
//! | `output/` | what the reports share |
//! | `output_args.rs`, `family_args.rs`, `secret_args.rs`, `affinity.rs`, `sizes.rs` | arguments that several benchmarks share |

mod affinity;
mod args;
mod family_args;
mod file;
mod latency;
mod memory;
mod output;
mod output_args;
mod run;
mod secret_args;
mod serve;
mod sizes;
mod sources;
mod stream;
mod tun;

pub use args::BenchArgs;
pub use run::run;
#[cfg(any(test, fuzzing))]
pub use stream::fuzz_body;
