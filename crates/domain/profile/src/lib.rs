//! Where the time of processes went: their system calls, what they waited for, what they computed, the functions they
//! were in. The [`Profile`], its JSON, its tables, flame graphs, and what changed from one to another.
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
mod gaps;
mod judge;
mod place;
mod profile;
mod reason;
mod report;
mod since;
mod stacks;
mod tally;
mod words;

pub use cause::{Cause, TaskState};
pub use difference::Difference;
pub use profile::{
    Cpu, CpuStack, Errno, Frame, Function, Functions, Losses, Missing, Partial, Process, Profile, Reason,
    Space, Syscall, UnreadableProfile, Wait,
};
pub use report::View;
pub use stacks::{DEPTH_MAX, Stacks, Word, Worded};
