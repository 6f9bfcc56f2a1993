//! Links of BPF programs to probes, and why they fail.

use rustix::io::Errno;
use sockeye_source::Unavailable as NotLoaded;
use sockeye_sys::bpf::{Link, LoadedObject, ProbePoint, Program};
use sockeye_sys::perf::{Attributes, Event, PerfTarget};
use std::ffi::CStr;
use std::fmt;
use std::os::fd::AsFd;

/// A link of a program to its probes. Dropping it detaches the program.
#[derive(Debug)]
pub(super) struct ProbeLink {
    _link: Link,
    /// The perf event, if each function has one.
    _event: Option<Event>,
    /// The only process in which it is attached; `None`: all.
    pub(super) process: Option<u32>,
}

impl ProbeLink {
    pub(super) const fn new(link: Link, process: Option<u32>) -> Self {
        Self {
            _link: link,
            _event: None,
            process,
        }
    }
}

/// Where and when a program runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeLocation<'a> {
    /// A file, or the name of a kernel function.
    pub(super) path: &'a CStr,
    pub(super) moment: ProbePoint,
    /// The only process; `None`: all.
    pub(super) process: Option<u32>,
}

/// An instruction to attach to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Index of its function in the selection.
    pub(super) index: usize,
    /// Offset in the file, or in the kernel function.
    pub(super) offset: u64,
    /// The value that the program receives.
    pub(super) cookie: u64,
}

/// The kernel's PMU for uprobe or kprobe events.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbePmu {
    kind: u32,
    /// The bit of the event's configuration for a return probe.
    retprobe_bit: u64,
}

/// Functions that could not be attached: index in the selection, and the reason.
pub(super) type RefusedProbes = Vec<(usize, Errno)>;

/// Why BPF programs do not work.
#[derive(Debug)]
pub(super) enum ProbeError {
    /// Loading failed.
    Load(NotLoaded),
    /// This operation failed.
    System(&'static str, Errno),
}

/// Attaches to many probes with one link. If the kernel refuses, tries each half, down to the single probes that it refuses.
/// `index`: a probe's function in the selection; `is_of_one`: whether a single probe may cause this error.
pub(super) fn link_many<T>(
    probes: &[T],
    attach: &impl Fn(&[T]) -> Result<ProbeLink, Errno>,
    index: fn(&T) -> usize,
    is_of_one: fn(Errno) -> bool,
    links: &mut Vec<ProbeLink>,
    refused: &mut RefusedProbes,
) {
    if probes.is_empty() {
        return;
    }
    match attach(probes) {
        Ok(link) => links.push(link),
        Err(errno) if probes.len() == 1 || refused.len() >= REFUSED_MAX || !is_of_one(errno) => {
            refused.extend(probes.iter().map(|probe| (index(probe), errno)));
        }
        Err(_) => {
            let (one, other) = probes.split_at(probes.len() / 2);
            link_many(one, attach, index, is_of_one, links, refused);
            link_many(other, attach, index, is_of_one, links, refused);
        }
    }
}

/// Returns whether a single probe may be the cause of an error of many.
pub(super) fn errno_is_of_one(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::PERM | Errno::ACCESS | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::SRCH
    )
}

impl ProbePmu {
    /// Reads the PMU of this name from sysfs: `uprobe` or `kprobe`.
    pub(super) fn read(name: &str) -> Result<Self, Errno> {
        let folder = format!("/sys/bus/event_source/devices/{name}");
        let read = |file: &str| {
            std::fs::read_to_string(format!("{folder}/{file}"))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let kind = read("type")?.trim().parse().map_err(|_| Errno::INVAL)?;
        // `config:0`
        let bit = read("format/retprobe")?;
        let bit: u32 = bit
            .trim()
            .strip_prefix("config:")
            .and_then(|bit| bit.parse().ok())
            .ok_or(Errno::INVAL)?;
        let retprobe_bit = 1_u64.checked_shl(bit).ok_or(Errno::INVAL)?;
        Ok(Self { kind, retprobe_bit })
    }

    /// Attaches a program to one instruction.
    pub(super) fn link(
        self,
        program: &Program,
        at: ProbeLocation<'_>,
        probe: &Probe,
    ) -> Result<ProbeLink, Errno> {
        let config = if at.moment == ProbePoint::Return {
            self.retprobe_bit
        } else {
            0
        };
        let attributes = Attributes::new(self.kind, config);
        // The program runs on any processor and in any thread of the process.
        let (target, processor) = match at.process {
            Some(process) => (PerfTarget::Thread(process), None),
            None => (PerfTarget::AllTasks, Some(0)),
        };
        let event = Event::open_probe(&attributes, at.path, probe.offset, target, processor)?;
        Ok(ProbeLink {
            _link: program.attach_perf_event(event.as_fd(), probe.cookie)?,
            _event: Some(event),
            process: at.process,
        })
    }
}

/// Takes a program out of the loaded object.
pub(super) fn take(loaded: &mut LoadedObject, program: &str) -> Result<Program, ProbeError> {
    let program = loaded.program(program);
    program.map_err(|error| ProbeError::Load(NotLoaded::Load(error, Vec::new())))
}

impl ProbeError {
    /// Returns whether rights are missing.
    pub(super) fn is_forbidden(&self) -> bool {
        match self {
            Self::Load(reason) => reason.is_forbidden(),
            Self::System(_, errno) => matches!(*errno, Errno::PERM | Errno::ACCESS),
        }
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(reason) => reason.fmt(f),
            Self::System(operation, errno) => write!(f, "{operation}: {errno}"),
        }
    }
}

/// After this many refusals the rest is not tried one by one.
const REFUSED_MAX: usize = 200;
