//! Which parts of a profile work here: each is attached and detached again.

use crate::calls::{CallOptions, Calls};
use crate::functions::{self, Functions};
use crate::{Sampler, Scope, Unavailable};
use sockeye_source::BpfEngine;
use std::sync::Arc;
use std::time::Instant;

/// A part of a profile, and whether it works here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSupport {
    /// The part: a word of [`sockeye_profile::Missing::part`].
    pub part: &'static str,
    /// The mechanism that is used, or why there is none.
    pub mechanism: Result<String, Unavailable>,
    /// What of this part is missing although the rest works.
    pub missing: Vec<Unavailable>,
}

/// Tries each part of a profile.
#[must_use]
pub fn probe_parts(engine: &Arc<BpfEngine>) -> Vec<PartSupport> {
    // Attaching is enough: no process is observed.
    let no_process = Scope::Processes(Vec::new());
    let calls = |part, syscalls| {
        let options = CallOptions {
            syscalls,
            waits: !syscalls,
            from_exec: false,
        };
        let started = Calls::start(Arc::clone(engine), &no_process, options);
        let missing = started
            .as_ref()
            .map_or_else(|_| Vec::new(), |calls| calls.missing_parts().to_vec());
        let mechanism = if syscalls {
            "BPF at raw_syscalls"
        } else {
            "BPF at sched_switch"
        };
        PartSupport {
            part,
            mechanism: started.map(|_| mechanism.to_owned()),
            missing,
        }
    };
    let (sampler, extent) = match Sampler::start(&Scope::System, Some(1), Instant::now()) {
        Ok(sampler) => (Ok(sampler), "of each processor"),
        // Our parent usually has the same user.
        Err(unavailable) => {
            let parent = Scope::Processes(vec![std::os::unix::process::parent_id()]);
            let own = Sampler::start(&parent, Some(1), Instant::now());
            (
                own.map_err(|_| unavailable),
                "of the threads of your own processes",
            )
        }
    };
    let missing = sampler
        .as_ref()
        .map_or_else(|_| Vec::new(), |sampler| sampler.missing_parts().to_vec());
    let samples = PartSupport {
        part: "cpu",
        mechanism: sampler.map(|_| format!("perf's clock {extent}")),
        missing,
    };
    let filter = functions::FunctionFilter::default();
    let user =
        Functions::start(engine, &no_process, &filter).map(|functions| functions.mechanism().to_owned());
    let kernel = Functions::start_kernel(engine, &no_process, KERNEL_FUNCTION);
    let kernel = kernel.map(|functions| functions.mechanism().to_owned());
    let plain = |part, mechanism| PartSupport {
        part,
        mechanism,
        missing: Vec::new(),
    };
    vec![
        calls("syscalls", true),
        calls("waits", false),
        samples,
        plain("functions", user),
        plain("kernel_functions", kernel),
    ]
}

/// A function that every kernel has and that is called rarely.
const KERNEL_FUNCTION: &str = "do_exit";
