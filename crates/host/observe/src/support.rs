//! Which parts of a profile work here. Nothing is attached, except that perf's clock is opened for a moment.

use crate::calls;
use crate::functions::{kernel_mechanism, user_mechanism};
use crate::{Sampler, Scope, Unavailable, Unwind};
use sockeye_source::BpfEngine;
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

/// Tests each part of a profile.
#[must_use]
pub fn probe_parts(engine: &BpfEngine) -> Vec<PartSupport> {
    let plain = |part, mechanism: Result<&str, Unavailable>| PartSupport {
        part,
        mechanism: mechanism.map(str::to_owned),
        missing: Vec::new(),
    };
    let calls = |part, mechanism| plain(part, calls::try_programs(engine, part).map(|()| mechanism));
    vec![
        calls("syscalls", "BPF at raw_syscalls"),
        calls("waits", "BPF at sched_switch"),
        samples(),
        plain("functions", user_mechanism(engine)),
        plain("kernel_functions", kernel_mechanism(engine)),
    ]
}

fn samples() -> PartSupport {
    let (sampler, extent) =
        match Sampler::start(&Scope::System, Some(1), Unwind::FramePointers, Instant::now()) {
            Ok(sampler) => (Ok(sampler), "of each processor"),
            // Our parent usually has the same user.
            Err(unavailable) => {
                let parent = Scope::Processes(vec![std::os::unix::process::parent_id()]);
                let own = Sampler::start(&parent, Some(1), Unwind::FramePointers, Instant::now());
                (
                    own.map_err(|_| unavailable),
                    "of the threads of your own processes",
                )
            }
        };
    let missing = sampler
        .as_ref()
        .map_or_else(|_| Vec::new(), |sampler| sampler.missing_parts().to_vec());
    PartSupport {
        part: "cpu",
        mechanism: sampler.map(|_| format!("perf's clock {extent}")),
        missing,
    }
}
