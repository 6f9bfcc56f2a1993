//! Observes processes from outside: counts and times their system calls, waits and function calls, samples the code that
//! runs, and resolves addresses to names. The result of a [`Session`] is a [`sockeye_profile::Profile`].
//!
//! Whatever is attached to the kernel is detached when its value is dropped or the program ends.
//!
//! What it deliberately does not do: parse options, print, or judge a profile.
//!
//! ```
//! use sockeye_observe::Symbols;
//!
//! // Addresses of the kernel have no names without CAP_SYSLOG; then the frame has the address.
//! let frame = Symbols::new().kernel(0x1000);
//! assert_eq!(frame.module.as_deref(), Some("kernel"));
//! ```

pub mod calls;
mod clock;
mod executable;
mod frames;
pub mod functions;
mod launch;
mod mapping;
mod pid_namespace;
mod processes;
mod raw;
mod sampler;
mod scope;
mod session;
mod support;
mod symbols;
#[cfg(test)]
mod tests;
mod unavailable;

use clock::now_ns;
pub use launch::{Launch, LaunchError, Launched};
pub use mapping::{FileNumber, Mapping};
pub use processes::{OnMapping, ProcessEvent, Processes};
pub use raw::{Incarnation, RawStack};
pub use sampler::{RawCpu, Sampler};
pub use scope::Scope;
pub use session::{Plan, Session, StartError, Target, WaitResult};
pub use support::{PartSupport, probe_parts};
pub use symbols::{FunctionSymbol, Symbols};
pub use unavailable::Unavailable;
