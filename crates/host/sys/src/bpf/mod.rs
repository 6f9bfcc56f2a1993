//! BPF programs: from a compiled object to something that runs.
//!
//! An [`Object`] is read by `aya-obj`, the object half of aya 0.14. Its other half, the loader, is not used: it
//! parses the kernel's whole BTF before it does anything (`EbpfLoader::new` calls `Btf::from_sys_fs`: 22 ms
//! here, three times what a walk over 80,000 sockets takes), and it knows neither kfuncs, nor
//! a way to give an iterator the BTF id that it found there. So whoever uses this finds out
//! himself what belongs into each instruction ([`Object::patch`]).
//!
//! Whole loaders would add eight packages (`aya` 0.14, whose other half needs what is said above) or three and a C compiler, libelf
//! and zlib (`libbpf-rs` 0.25). This one is built from what the binary has anyway.
//!
//! ```no_run
//! use sockeye_sys::bpf::Object;
//! # fn example(elf: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let object = Object::parse(elf)?;
//! let ([program], array) = object.load_raw_tracepoints(["walk"], "slots")?;
//! let mut slot = array.into_slots()?.swap_remove(0);
//! program.run(&mut slot, &[0, 0])?;
//! println!("{:?}", &slot.bytes()[..8]);
//! # Ok(()) }
//! ```

mod array;
mod call;
pub mod cgroup;
mod link;
mod load;
mod map;
mod object;
mod probes;
mod program;
mod table;

pub use array::{Array, Slot};
pub use link::Link;
pub use load::{Kind, Loaded, Parts};
pub use map::Map;
pub use object::{LoadError, Object};
pub use probes::Moment;
pub use program::{Iteration, Program, ProgramInfo};
pub use table::{Table, possible_processors};
