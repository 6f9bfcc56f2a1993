//! BPF programs: loading compiled objects, attaching and running them.
//!
//! `aya-obj`, the object half of aya 0.14, parses an [`Object`]. Its other half, the loader, is not used: it
//! parses the kernel's whole BTF before it does anything (`EbpfLoader::new` calls `Btf::from_sys_fs`: 22 ms
//! here, three times what a walk over 80,000 sockets takes), and it supports neither kfuncs nor
//! passing the BTF id of an iterator's function. So the caller resolves relocations against the kernel's BTF and
//! writes the values into the instructions ([`Object::patch`]).
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
mod attach_call;
mod call;
pub mod cgroup;
mod link;
mod load;
mod map;
mod memory_lock;
mod object;
mod probes;
mod program;
mod ring;
mod support;
mod table;

pub use array::{Array, Slot};
pub use link::Link;
pub use load::{CgroupHook, Kind, LoadOptions, LoadedObject};
pub use map::Map;
pub use object::{LoadError, Object};
pub use probes::ProbePoint;
pub use program::{Iteration, Program, ProgramInfo};
pub use ring::Ring;
pub use table::Table;
