//! Tests of what the kernel accepts, with the smallest program of a type. Attaching for real would cost up to
//! seconds: the verifier checks the whole program, and detaching waits until no processor runs it any more.

use super::call;
use super::memory_lock;
use super::{Kind, LoadError, ProbePoint, Program};
use rustix::io::Errno;

impl Program {
    /// Loads a program of this type that does nothing. `function` is the BTF id of the kernel function
    /// ([`Kind::kernel_function`]), 0 for other types.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, or where a security module forbids it; `EINVAL` for a type that this
    /// kernel does not have.
    pub fn load_empty(kind: Kind<'_>, function: u32) -> Result<Self, LoadError> {
        let (program_type, attach_type) = kind.types();
        let load = || call::load_empty_program(program_type, attach_type, function);
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
