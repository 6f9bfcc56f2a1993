//! Which mechanisms for functions work here, tested without attaching anything. `doctor` prints it.

use super::kernel_probes::KernelProbeMechanism;
use super::links::ProbePmu;
use super::probes::{OBJECT, ProbeMechanism};
use crate::Unavailable;
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable as NotLoaded};
use sockeye_sys::bpf::{Kind, LoadOptions, ProbePoint};

/// Returns the name of the mechanism that watches functions of programs here.
pub(crate) fn user_mechanism(engine: &BpfEngine) -> Result<&'static str, Unavailable> {
    try_maps(engine, "functions")?;
    first(
        "functions",
        ProbeMechanism::ALL,
        ProbeMechanism::name,
        |mechanism| match mechanism {
            ProbeMechanism::Session => engine
                .empty_program(Kind::UserSession)?
                .try_user_probes(ProbePoint::Both)
                .map_err(NotUsable::Attach),
            ProbeMechanism::Many => engine
                .empty_program(Kind::UserProbes)?
                .try_user_probes(ProbePoint::Entry)
                .map_err(NotUsable::Attach),
            ProbeMechanism::Single => single(engine, "uprobe"),
        },
    )
}

/// Returns the name of the mechanism that watches functions of the kernel here.
pub(crate) fn kernel_mechanism(engine: &BpfEngine) -> Result<&'static str, Unavailable> {
    try_maps(engine, "kernel_functions")?;
    first(
        "kernel_functions",
        KernelProbeMechanism::ALL,
        KernelProbeMechanism::name,
        |mechanism| match mechanism {
            KernelProbeMechanism::Many => engine
                .empty_program(Kind::KernelProbes)?
                .try_kernel_probes()
                .map_err(NotUsable::Attach),
            KernelProbeMechanism::Single => single(engine, "kprobe"),
            KernelProbeMechanism::Traced => Ok(engine.empty_program(Kind::Entry(TRACED)).map(drop)?),
        },
    )
}

/// Tests what the programs of every mechanism need: atomic operations, and maps of their sizes. The programs themselves are not loaded:
/// before Linux 5.17 that takes seconds.
fn try_maps(engine: &BpfEngine, part: &'static str) -> Result<(), Unavailable> {
    engine
        .try_atomic_results()
        .and_then(|()| engine.programs(OBJECT, &LoadOptions::default()).map(drop))
        .map_err(|unavailable| Unavailable::new(part, unavailable.to_string()))
}

/// Why a mechanism cannot be used.
enum NotUsable {
    Load(NotLoaded),
    Attach(Errno),
}

impl From<NotLoaded> for NotUsable {
    fn from(error: NotLoaded) -> Self {
        Self::Load(error)
    }
}

/// Tests probes by single perf events.
fn single(engine: &BpfEngine, pmu: &str) -> Result<(), NotUsable> {
    engine.empty_program(Kind::Probe)?;
    ProbePmu::read(pmu).map(drop).map_err(NotUsable::Attach)
}

/// Returns the name of the first mechanism that can be used, or why none can.
fn first<M: Copy, const N: usize>(
    part: &'static str,
    all: [M; N],
    name: fn(M) -> &'static str,
    test: impl Fn(M) -> Result<(), NotUsable>,
) -> Result<&'static str, Unavailable> {
    let mut tried = Vec::with_capacity(N);
    for mechanism in all {
        match test(mechanism) {
            Ok(()) => return Ok(name(mechanism)),
            // The other mechanisms need the same rights.
            Err(NotUsable::Load(error)) if error.is_forbidden() && tried.is_empty() => {
                return Err(Unavailable::new(part, error.to_string()));
            }
            Err(NotUsable::Load(error)) => tried.push(format!("{}: {error}", name(mechanism))),
            Err(NotUsable::Attach(errno)) => tried.push(format!("{}: {errno}", name(mechanism))),
        }
    }
    Err(Unavailable::new(part, tried.join("; ")))
}

/// A function that every kernel has.
const TRACED: &str = "do_exit";
