//! Makes load and measures it: TCP and UDP streams, requests, tunnels, files, memory, the sources of the socket table.
//!
//! Whatever is made (namespaces, devices, files) is gone when the value that stands for it is dropped. What was measured is
//! told in the types of [`sockeye_measure`].
//!
//! What it deliberately does not do: read flags, print, decide what is shown.

pub mod file;
pub mod latency;
pub mod memory;
mod processors;
mod protocol;
mod serve;
pub mod session;
pub mod sources;
pub mod stream;
pub mod tun;

pub use processors::noise;
pub use protocol::{StreamDocument, StreamError, StreamOptions, StreamProtocol, StreamServer};
pub use serve::{ServePlan, serve};
