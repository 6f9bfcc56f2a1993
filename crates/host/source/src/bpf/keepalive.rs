//! The program that gives keepalive to the connections of a cgroup, made to fit this kernel.

use super::kernel::{Kernel, Prepared, Unavailable};
use sockeye_sys::bpf::{Map, Program};
use sockeye_wire::keeper;

/// Loads it, with the maps of its settings and of its counts.
pub(super) fn load(kernel: &Kernel) -> Result<(Program, [Map; 2]), Unavailable> {
    let Prepared { object, missing, .. } = kernel.prepare(KEEPALIVE, &[])?;
    object
        .load_sock_ops(keeper::PROGRAM, [keeper::SETTINGS, keeper::COUNTS])
        .map_err(|error| Unavailable::Load(error, missing))
}

/// The compiled `bpf/keepalive.bpf.c`.
const KEEPALIVE: &[u8] = include_bytes!("../../../../../bpf/keepalive.bpf.o");
