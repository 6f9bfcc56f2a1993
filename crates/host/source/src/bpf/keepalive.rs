//! The keepalive program for the connections of a cgroup, adapted to this kernel.

use super::kernel::{Kernel, Prepared};
use crate::unavailable::Unavailable;
use sockeye_sys::bpf::{Map, Program};
use sockeye_wire::keepalive_program;

/// Loads the program, with the maps of its settings and its counts.
pub(super) fn load(kernel: &Kernel) -> Result<(Program, [Map; 2]), Unavailable> {
    let Prepared { object, missing, .. } = kernel.prepare(KEEPALIVE, &[])?;
    object
        .load_sock_ops(
            keepalive_program::PROGRAM,
            [keepalive_program::SETTINGS, keepalive_program::COUNTS],
        )
        .map_err(|error| Unavailable::Load(error, missing))
}

/// The compiled `bpf/keepalive.bpf.c`.
const KEEPALIVE: &[u8] = include_bytes!("../../../../../bpf/keepalive.bpf.o");
