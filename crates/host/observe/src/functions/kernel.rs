//! Watches functions of the kernel.

use super::kernel_probes::KernelProbeMechanism;
use super::pattern::{self, Pattern};
use super::probe_scope::FileUsers;
use super::probes::Probes;
use super::unwatched::UnwatchedFunctions;
use super::watch::{Functions, WATCHED_MAX, Watched, set_scope, settings_of};
use crate::{Scope, Unavailable};
use sockeye_source::BpfEngine;
use sockeye_wire::functions as wire;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CString;

impl Functions {
    /// Watches functions of the kernel that match a pattern, in the observed processes; for the whole system all processes
    /// count together as process 0. No call counts before [`Functions::begin`].
    pub(crate) fn start_kernel(
        engine: &BpfEngine,
        scope: &Scope,
        pattern: &str,
    ) -> Result<Self, Unavailable> {
        let failed = |text: String| {
            Unavailable::new(PART, text).with_remedy(
                "these still work: system calls, waits with kernel stacks, samples of kernel code",
            )
        };
        let compiled = Pattern::new(pattern);
        let names = names(&compiled).map_err(|error| {
            failed(format!(
                "read the names of the kernel's functions in /proc/kallsyms: {error}"
            ))
        })?;
        if names.matching.is_empty() {
            let unavailable = Unavailable::new(PART, format!("the kernel has no function {pattern}"));
            return Err(
                match pattern::similar(&compiled.words(), names.all.into_iter()).as_slice() {
                    [] => unavailable,
                    similar => unavailable.with_remedy(format!("similar: {}", similar.join(", "))),
                },
            );
        }
        let found = names.matching.len();
        let matching: Vec<CString> = names
            .matching
            .into_iter()
            .take(WATCHED_MAX)
            .filter_map(|name| CString::new(name).ok())
            .collect();
        let mut tried = Vec::new();
        for mechanism in KernelProbeMechanism::ALL {
            let watched = &matching[..matching.len().min(mechanism.functions_max())];
            let mut probes = match Probes::load_kernel(engine, mechanism, watched) {
                Ok(probes) => probes,
                // The other mechanisms need the same rights.
                Err(error) if error.is_forbidden() && mechanism == KernelProbeMechanism::Many => {
                    return Err(failed(format!(
                        "functions of the kernel cannot be watched: {error}"
                    )));
                }
                Err(error) => {
                    tried.push(format!("{}: {error}", mechanism.name()));
                    continue;
                }
            };
            let settings = wire::Settings {
                in_kernel: true,
                ..settings_of(scope)
            };
            set_scope(&probes, scope, settings)
                .map_err(|errno| failed(format!("set the scope of BPF programs: {errno}")))?;
            let refused = probes.attach_kernel(watched);
            if let Some((_, errno)) = refused.first().filter(|_| refused.len() == watched.len()) {
                tried.push(format!("{}: {errno}", mechanism.name()));
                continue;
            }
            let mut unwatched = UnwatchedFunctions::default();
            for (index, errno) in refused {
                unwatched.add_refused(errno, &watched[index].to_string_lossy());
            }
            let this = Self {
                probes,
                settings,
                pattern: compiled,
                library: None,
                pattern_text: pattern.to_owned(),
                too_many: (found - watched.len()) as u64,
                watched: watched
                    .iter()
                    .map(|name| Watched {
                        name: name.to_string_lossy().into_owned(),
                        module: KERNEL.to_owned(),
                        entries_only: false,
                        cost_ns: None,
                    })
                    .collect(),
                files: HashSet::new(),
                scope: scope.clone(),
                exact_children: false,
                file_users: FileUsers::default(),
                shared_files: Vec::new(),
                processes: HashSet::new(),
                costs: None,
                unwatched,
            };
            return Ok(this);
        }
        Err(failed(format!(
            "no BPF program can be attached to the {} functions of the kernel that match {pattern}; tried: {}",
            matching.len(),
            tried.join("; ")
        )))
    }
}

/// The matching and all names of kernel functions.
#[derive(Debug, Default)]
struct Names {
    matching: BTreeSet<String>,
    all: BTreeSet<String>,
}

/// Reads the names of the kernel's functions: those that ftrace can attach to if the kernel lists them, else all.
fn names(pattern: &Pattern) -> Result<Names, std::io::Error> {
    let mut names = Names::default();
    let mut take = |name: &str| {
        if pattern.matches(name.as_bytes()) {
            names.matching.insert(name.to_owned());
        }
        names.all.insert(name.to_owned());
    };
    for file in FILTERABLE {
        if let Ok(text) = std::fs::read_to_string(file) {
            text.lines()
                .filter_map(|line| line.split_whitespace().next())
                .for_each(&mut take);
            return Ok(names);
        }
    }
    // `ffffffff81000000 T _text`, with the module's name behind it
    let text = std::fs::read_to_string("/proc/kallsyms")?;
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1);
        if let (Some("t" | "T"), Some(name)) = (words.next(), words.next()) {
            take(name);
        }
    }
    Ok(names)
}

/// ftrace's list of functions.
const FILTERABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

/// The part of the profile.
const PART: &str = "kernel_functions";
/// The module name of kernel functions.
const KERNEL: &str = "kernel";
