//! Looks at processes from outside: counts and times their system calls, their waits and the functions they call,
//! samples what they compute, and finds the names for it.
//!
//! Everything that is attached to the kernel is gone when the value that stands for it is dropped, or the process ends.
//!
//! What it deliberately does not do: read flags, print, judge. What was seen is told as a [`sockeye_profile::Profile`].

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_observe;

mod abilities;
pub mod calls;
mod clock;
mod frames;
pub mod functions;
mod launch;
mod mapping;
mod obstacle;
mod pid_namespace;
mod processes;
mod processors;
mod raw;
mod sampler;
mod scope;
mod session;
mod symbols;
#[cfg(test)]
mod tests;

pub use abilities::{Ability, abilities};
use clock::now_ns;
pub use launch::{Launch, Launched, NotLaunched};
pub use mapping::{FileNumber, Mapping};
pub use obstacle::Obstacle;
pub use processes::{Event as ProcessEvent, Keep, Processes};
pub use raw::{Incarnation, RawStack};
pub use sampler::{RawCpu, Sampler};
pub use scope::Scope;
pub use session::{NotStarted, Plan, Session, Target, Woken};
pub use symbols::{FunctionSymbol, Symbols};
