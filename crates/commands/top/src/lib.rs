//! `sockeye top`: the live screen: who talks to whom, every socket, processes, groups, listeners, drops, findings and devices, as
//! they change.
//!
//! It deliberately has no rules of its own, and changes nothing by itself: keys that close, capture or explain run the commands that do,
//! and ask first. `flows -w` and `sockets -w` remain for one listing without keys.
//!
//! Three parts, and values that go one way between them: `sample` (a thread that reads the host) -> `state` (keys and samples in, a
//! model out) -> `output` (the model as a buffer of characters) -> `screen` (bytes for the terminal). Only `sample` and `screen`
//! touch the machine.
//!
//! - `args`: arguments
//! - `run`: waits for keys, samples, the terminal and signals
//! - `replay`: the same screen over what `record` kept; only `sample/replay` is another source of samples
//! - `filter_names`: names that a filter may have while it is typed
//! - `script`: the same samples as lines, for `--once` and `--format`
//! - `observed`: names of hosts from DNS and TLS
//! - `traffic`: what processes send and receive
//! - `tool`: commands of ours that keys start

mod args;
mod filter_names;
mod observed;
mod output;
mod replay;
mod run;
mod sample;
mod screen;
mod script;
mod state;
mod tool;
mod traffic;

pub use args::TopArgs;
pub use replay::replay;
pub use run::run;
