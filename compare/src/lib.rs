//! Compares Sockeye with its peers, and with the cheapest dump that the kernel offers.
//!
//! Four programs use this library:
//!
//! - `bench-load` fills a host (or a private network namespace) with TCP connections over loopback and holds
//!   them;
//! - `bench-floor` makes the cheapest possible dump: records are counted and discarded. It is the limit;
//! - `bench-packets` writes a capture of generated TCP transfers;
//! - `bench-compare` starts the load, runs Sockeye and its peers interleaved, and prints medians and their
//!   ratios.
//!
//! What it deliberately does not do: share code with Sockeye (an error there must not affect the limit, too),
//! measure processor time of anything but whole processes from start to exit, or judge absolute times.
//! Machines are shared and vary by the minute; only ratios of medians of one interleaved run are compared
//! with a target.
//!
//! ```
//! use sockeye_compare::statistics::{median, ratio};
//!
//! let ours_ns = median(&[70, 71, 190]).expect("not empty");
//! let floor_ns = median(&[60, 59, 61]).expect("not empty");
//! assert_eq!(ratio(ours_ns, floor_ns).map(|r| format!("{r:.2}")), Some("1.18".to_owned()));
//! ```

pub mod arguments;
pub mod capturing;
pub mod close_sockets;
pub mod comparison;
pub mod document;
pub mod entry;
pub mod floor;
pub mod holder;
pub mod judgement;
pub mod kernel_totals;
pub mod known_work;
pub mod load;
pub mod log;
pub mod machine;
pub mod measure;
pub mod namespaces;
pub mod netns;
pub mod netns_operations;
pub mod network;
pub mod packets;
pub mod profiling;
pub mod programs;
pub mod report;
pub mod response_times;
pub mod run;
pub mod statistics;
pub mod suite;
pub mod transfers;
pub mod tunnels;
pub mod wrapped_program;
