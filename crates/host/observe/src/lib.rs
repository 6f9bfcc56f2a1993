//! Observes processes from outside: counts and times their system calls, waits and function calls, samples the code that
//! runs, and resolves addresses to names. The result of a [`Session`] is a [`sockeye_profile::Profile`].
//!
//! Whatever is attached to the kernel is detached when its value is dropped or the program ends.
//!
//! What it deliberately does not do: parse options, print, or judge a profile.
//!
//! ```
//! let engine = sockeye_source::BpfEngine::default();
//! for part in sockeye_observe::probe_parts(&engine) {
//!     println!("{}: {:?}", part.part, part.mechanism);
//! }
//! ```

mod calls;
mod executable;
mod frames;
pub mod functions;
mod kernel_functions;
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
mod unwind;

pub use kernel_functions::KernelFunctions;
pub(crate) use launch::Launch;
pub use launch::{LaunchError, Launched};
pub(crate) use mapping::{FileNumber, Mapping};
pub(crate) use processes::{OnMapping, ProcessEvent, Processes};
pub(crate) use raw::{Incarnation, RawStack};
pub(crate) use sampler::Sampler;
pub use scope::Scope;
pub use session::{Plan, Session, StartError, Target, WaitResult};
use sockeye_sys::monotonic::now_ns;
pub use support::{PartSupport, probe_parts};
pub(crate) use symbols::Symbols;
#[cfg(any(test, fuzzing))]
pub use symbols::fuzz_body;
pub use unavailable::Unavailable;
pub use unwind::Unwind;
