//! Profiles of processes: system calls, waits, samples of computing, and watched functions. Contains the
//! [`Profile`], its JSON and tables, the stacks for flame graphs, and the comparison of two profiles.
//!
//! What it deliberately does not do: observe. It attaches to nothing, opens no file, reads no clock.
//!
//! ```
//! use sockeye_profile::Profile;
//!
//! let text = Profile::default().to_json();
//! assert_eq!(Profile::from_json(text.as_bytes()).unwrap(), Profile::default());
//! ```

mod cause;
mod difference;
mod document;
mod format;
mod gaps;
mod judge;
mod profile;
mod reason;
mod report;
mod since;
mod stack_site;
mod stacks;
mod tally;

pub use cause::{Cause, TaskState};
pub use difference::Difference;
pub use profile::{
    Cpu, CpuStack, Errno, Frame, Function, Functions, JsonError, Losses, Missing, Partial, Process, Profile,
    Reason, Space, Syscall, UnreadableProfile, Wait,
};
pub use report::ReportOptions;
pub use stacks::{DEPTH_MAX, NamedStacks, StackKind, StackName};
