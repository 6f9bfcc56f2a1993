//! Load generators and their measurements: TCP and UDP streams, requests, tunnels, files, memory, and the sources of the
//! socket table. Results have the types of [`sockeye_measure`].
//!
//! Namespaces, devices and files that are created for a measurement disappear when the value that owns them is dropped.
//!
//! What it deliberately does not do: parse command lines, print, or choose what a report shows.
//!
//! It has more than 10,000 lines because one session with one server serves streams, requests and tunnels, which share its
//! limits, clocks and reports of noise. The generators that need no peer (`file`, `memory`, `sources`) are separate modules.
//!
//! ```
//! use sockeye_load::stream::Plan;
//!
//! let parameters = serde_json::json!({"direction": "send", "transport": "tcp", "streams": 2, "time_us": 1_000_000});
//! assert_eq!(Plan::from_json(&parameters)?.streams, 2);
//! # Ok::<(), String>(())
//! ```

mod affinity;
pub mod file;
pub mod latency;
pub mod memory;
mod private_netns;
mod processors;
mod protocol;
mod serve;
pub mod session;
pub mod sources;
pub mod stream;
mod transport;

pub mod tun;
pub mod world;

pub use affinity::pin_thread;
pub use processors::noise;
pub use protocol::{ProtocolOptions, StreamDocument, StreamError, StreamProtocol, StreamServer};
pub use serve::{ServePlan, serve};
pub use transport::Transport;
