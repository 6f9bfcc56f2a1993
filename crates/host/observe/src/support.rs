//! What of a profile can be had here: tried, and given up at once.

use crate::calls::{Calls, Wanted};
use crate::functions::{self, Functions};
use crate::{Obstacle, Sampler, Scope};
use sockeye_source::BpfEngine;
use std::sync::Arc;
use std::time::Instant;

/// A part of a profile, and whether it can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ability {
    /// Which: a word of [`sockeye_profile::Missing::part`].
    pub part: &'static str,
    /// By what means, or why not.
    pub finding: Result<String, Obstacle>,
    /// What of it cannot be had, though the rest can.
    pub but: Vec<Obstacle>,
}

/// Tries all parts.
#[must_use]
pub fn abilities(engine: &Arc<BpfEngine>) -> Vec<Ability> {
    // Attaching is what is tried: of nobody is anything seen.
    let nobody = Scope::Processes(Vec::new());
    let calls = |part, syscalls| {
        let wanted = Wanted {
            syscalls,
            waits: !syscalls,
            from_exec: false,
        };
        let started = Calls::start(Arc::clone(engine), &nobody, wanted);
        let but = started
            .as_ref()
            .map_or_else(|_| Vec::new(), |calls| calls.obstacles().to_vec());
        let means = if syscalls {
            "BPF at raw_syscalls"
        } else {
            "BPF at sched_switch"
        };
        Ability {
            part,
            finding: started.map(|_| means.to_owned()),
            but,
        }
    };
    let (sampler, whom) = match Sampler::start(&Scope::System, Some(1), Instant::now()) {
        Ok(sampler) => (Ok(sampler), "of each processor"),
        // Somebody of the same user's, mostly.
        Err(refused) => {
            let parent = Scope::Processes(vec![std::os::unix::process::parent_id()]);
            let own = Sampler::start(&parent, Some(1), Instant::now());
            (own.map_err(|_| refused), "of the threads of your own processes")
        }
    };
    let but = sampler
        .as_ref()
        .map_or_else(|_| Vec::new(), |sampler| sampler.obstacles().to_vec());
    let samples = Ability {
        part: "cpu",
        finding: sampler.map(|_| format!("perf's clock {whom}")),
        but,
    };
    let wanted = functions::Wanted::default();
    let user = Functions::start(engine, &nobody, &wanted).map(|functions| functions.means().to_owned());
    let kernel = Functions::start_kernel(engine, &nobody, KERNEL_FUNCTION);
    let kernel = kernel.map(|functions| functions.means().to_owned());
    let plain = |part, finding| Ability {
        part,
        finding,
        but: Vec::new(),
    };
    vec![
        calls("syscalls", true),
        calls("waits", false),
        samples,
        plain("functions", user),
        plain("kernel_functions", kernel),
    ]
}

/// One that every kernel has, and that is not called all the time.
const KERNEL_FUNCTION: &str = "do_exit";
