//! Tests of what the kernel accepts, with the smallest program of a type. Attaching for real would cost up to
//! seconds: the verifier checks the whole program, and detaching waits until no processor runs it any more.

use super::call;
use super::memory_lock;
use super::{Kind, LoadError, ProbePoint, Program};
use aya_obj::generated::bpf_insn;
use rustix::io::Errno;

impl Program {
    /// Loads a program of this type that does nothing. `function` is the BTF id of the kernel function
    /// ([`Kind::kernel_function`]), 0 for other types.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, or where a security module forbids it; `EINVAL` for a type that this
    /// kernel does not have.
    pub fn load_empty(kind: Kind<'_>, function: u32) -> Result<Self, LoadError> {
        Self::load_small(kind, function, &return_zero())
    }

    /// Tests whether a program may use an atomic operation that returns a value (`BPF_CMPXCHG`, `BPF_FETCH`).
    ///
    /// # Errors
    /// As for [`load_empty`](Self::load_empty); `EINVAL` before Linux 5.12, `ENOTSUPP` (524) where the kernel cannot translate it, as on
    /// arm64 before 5.18.
    pub fn try_atomic_results() -> Result<(), LoadError> {
        Self::load_small(Kind::RawTracepoint, 0, &exchange()).map(drop)
    }

    fn load_small(kind: Kind<'_>, function: u32, instructions: &[bpf_insn]) -> Result<Self, LoadError> {
        let load = || call::load_small_program(kind.types(), function, instructions);
        let fd = memory_lock::with_raised_limit(load)
            .map_err(|errno| LoadError::of("load a BPF program", errno))?;
        Ok(Self { fd, array: None })
    }

    /// Tests whether this program could be attached to functions of files, without attaching it. The program must be one of
    /// [`Kind::UserProbes`] or [`Kind::UserSession`], as `point` says.
    ///
    /// # Errors
    /// `EINVAL` if the kernel has no such links.
    pub fn try_user_probes(&self, point: ProbePoint) -> Result<(), Errno> {
        // A folder has no functions: the kernel refuses it after it has accepted everything else
        // (`bpf_uprobe_multi_link_attach` in kernel/trace/bpf_trace.c).
        match self.attach_user_probes(c"/", &[0], &[0], point, None) {
            Ok(_) | Err(Errno::BADF) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Tests whether this program, one of [`Kind::KernelProbes`], could be attached to kernel functions, without attaching it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the kernel has no such links, `EPERM` where that is forbidden.
    pub fn try_kernel_probes(&self) -> Result<(), Errno> {
        // No kernel has it: `ESRCH` comes from the search for it, the last step
        // (`bpf_kprobe_multi_link_attach` in kernel/trace/bpf_trace.c).
        match self.attach_kernel_probes(&[c"sockeye_no_such_function"], &[0], ProbePoint::Entry) {
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// An instruction without an operand of 64 bits.
fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> bpf_insn {
    bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(to, from),
        off: offset,
        imm: number,
    }
}

/// `r0 = 0; exit`
fn return_zero() -> [bpf_insn; 2] {
    [instruction(0xb7, 0, 0, 0, 0), instruction(0x95, 0, 0, 0, 0)]
}

/// Writes 0 on the stack and replaces it if it is 0: `BPF_CMPXCHG` of 64 bits at `r10 - 8`.
fn exchange() -> [bpf_insn; 5] {
    let [zero, exit] = return_zero();
    [
        zero,
        instruction(0x7b, 10, 0, -8, 0),
        instruction(0xdb, 10, 0, -8, 0xf1),
        zero,
        exit,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_operations_are_accepted_where_any_program_is() {
        match Program::load_empty(Kind::RawTracepoint, 0) {
            Ok(_) if crate::kernel_release::is_since(5, 18) => {
                Program::try_atomic_results().expect("every kernel since 5.18 has them");
            }
            Ok(_) => {}
            Err(error) => println!("skipped: {error}"),
        }
    }
}
