//! Calls of the kernel's own functions, where it lets them be watched.

use super::attach::Probes;
use super::kernel_means::KernelWish;
use super::obstacles::Obstacles;
use super::pattern::{self, Pattern};
use super::reach::Users;
use super::{Functions, WATCHED_MAX, Watched, look_at, settings_of};
use crate::{Obstacle, Scope};
use sockeye_source::BpfEngine;
use sockeye_wire::functions as wire;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CString;

impl Functions {
    /// Watches functions of the kernel, in the processes that are looked at: whoever they are, or, of everybody, told
    /// together as process 0. No call counts before [`Functions::begin`].
    ///
    /// # Errors
    /// When it does not work here, and what works instead.
    pub fn start_kernel(engine: &BpfEngine, scope: &Scope, pattern: &str) -> Result<Self, Obstacle> {
        let failed = |text: String| {
            Obstacle::new(PART, text)
                .with_remedy("what works without: system calls, waits with their stacks in the kernel, samples of the kernel's code")
        };
        let compiled = Pattern::new(pattern);
        let names = names(&compiled).map_err(|error| {
            failed(format!(
                "read the names of the kernel's functions in /proc/kallsyms: {error}"
            ))
        })?;
        if names.meant.is_empty() {
            let obstacle = Obstacle::new(PART, format!("the kernel has no function {pattern}"));
            return Err(
                match pattern::similar(&compiled.words(), names.all.into_iter()).as_slice() {
                    [] => obstacle,
                    similar => obstacle.with_remedy(format!("similar: {}", similar.join(", "))),
                },
            );
        }
        let found = names.meant.len();
        let meant: Vec<CString> = names
            .meant
            .into_iter()
            .take(WATCHED_MAX)
            .filter_map(|name| CString::new(name).ok())
            .collect();
        let mut tried = Vec::new();
        for wish in KernelWish::ALL {
            let watched = &meant[..meant.len().min(wish.functions_max())];
            let mut probes = match Probes::load_kernel(engine, wish, watched) {
                Ok(probes) => probes,
                // The others would be as well: they are the same programs.
                Err(failure) if failure.is_forbidden() && wish == KernelWish::Many => {
                    return Err(failed(format!(
                        "functions of the kernel cannot be watched: {failure}"
                    )));
                }
                Err(failure) => {
                    tried.push(format!("{}: {failure}", wish.name()));
                    continue;
                }
            };
            let settings = wire::Settings {
                in_kernel: true,
                ..settings_of(scope)
            };
            look_at(&probes, scope, settings)
                .map_err(|errno| failed(format!("tell BPF programs whose calls to follow: {errno}")))?;
            let refused = probes.attach_kernel(watched);
            if let Some((_, errno)) = refused.first().filter(|_| refused.len() == watched.len()) {
                tried.push(format!("{}: {errno}", wish.name()));
                continue;
            }
            let mut obstacles = Obstacles::default();
            for (place, errno) in refused {
                obstacles.refused(errno, &watched[place].to_string_lossy());
            }
            let this = Self {
                probes,
                settings,
                pattern: compiled,
                library: None,
                text: pattern.to_owned(),
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
                is_exact: false,
                users: Users::default(),
                shared: Vec::new(),
                each: HashSet::new(),
                costs: None,
                obstacles,
            };
            return Ok(this);
        }
        Err(failed(format!(
            "no BPF program can be attached to {} functions of the kernel that {pattern} means; tried: {}",
            meant.len(),
            tried.join("; ")
        )))
    }
}

/// The names that a pattern means, and all that there are.
#[derive(Debug, Default)]
struct Names {
    meant: BTreeSet<String>,
    all: BTreeSet<String>,
}

/// Reads the kernel's functions: those that it lets be watched, if it tells, else all that it has.
///
/// # Errors
/// When it tells neither.
fn names(pattern: &Pattern) -> Result<Names, std::io::Error> {
    let mut names = Names::default();
    let mut take = |name: &str| {
        if pattern.fits(name.as_bytes()) {
            names.meant.insert(name.to_owned());
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

const FILTERABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

const PART: &str = "kernel_functions";
/// What the kernel is called where the others have the names of their files.
const KERNEL: &str = "kernel";
