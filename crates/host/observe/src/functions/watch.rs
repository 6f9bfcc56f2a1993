//! Watches functions in files, and in which processes.

use super::filter::{self, FunctionFilter};
use super::links::{ProbeError, RefusedProbes};
use super::overhead::{self, Costs};
use super::pattern::{self, Pattern};
use super::probe_scope::{FileUsers, ProbeScope};
use super::probes::{ProbeMechanism, Probes};
use super::selection::{self, ReturnProbes, SelectedFunction};
use super::unwatched::{PART, UnwatchedFunctions};
use crate::{FileNumber, Scope, Symbols, Unavailable, pid_namespace};
use rustix::io::Errno;
use sockeye_model::counted;
use sockeye_source::BpfEngine;
use sockeye_wire::functions as wire;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

/// Counts and times the calls of the functions that match a filter, in the observed processes.
///
/// Files are added one by one with [`Functions::add_file`]: those that the processes have mapped, that a command will map, and
/// that they map later.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(super) probes: Probes,
    pub(super) settings: wire::Settings,
    pub(super) pattern: Pattern,
    pub(super) library: Option<String>,
    /// The pattern as given, for messages.
    pub(super) pattern_text: String,
    /// The watched functions, by the numbers that BPF programs use.
    pub(super) watched: Vec<Watched>,
    /// The files that were added.
    pub(super) files: HashSet<FileNumber>,
    pub(super) scope: Scope,
    /// Whether children must be observed from their first instruction, even if other processes are slowed.
    pub(super) exact_children: bool,
    pub(super) file_users: FileUsers,
    /// Files that other processes use too and that are watched in some processes only.
    pub(super) shared_files: Vec<SharedFile>,
    /// Processes in which functions of shared files are watched.
    pub(super) processes: HashSet<u32>,
    /// What a call costs; `None` if it was not measured.
    pub(super) costs: Option<Costs>,
    /// Number of matching functions that are not watched because of the limit.
    pub(super) too_many: u64,
    pub(super) unwatched: UnwatchedFunctions,
}

/// A file whose functions are watched in some processes only.
#[derive(Debug)]
pub(super) struct SharedFile {
    module: String,
    file: File,
    functions: Vec<SelectedFunction>,
    /// The number of its first function.
    first: u32,
}

/// A watched function.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) name: String,
    /// The name of its file.
    pub(super) module: String,
    /// Whether calls are only counted, not timed.
    pub(super) entries_only: bool,
    /// Overhead of a call in nanoseconds; `None` if it was not measured.
    pub(super) cost_ns: Option<f64>,
}

impl Functions {
    /// Loads the BPF programs and measures their overhead. No function is watched before a file is added, and no call counts
    /// before [`Functions::begin`].
    pub(crate) fn start(
        engine: &BpfEngine,
        scope: &Scope,
        filter: &FunctionFilter,
    ) -> Result<Self, Unavailable> {
        let settings = settings_of(scope);
        let mut errors = Vec::new();
        for mechanism in ProbeMechanism::ALL {
            let started = Probes::load(engine, mechanism).and_then(|mut probes| {
                let costs = overhead::measure(&mut probes, settings).map_err(|errno| {
                    ProbeError::System("attach a BPF program to a function of ours", errno)
                })?;
                Ok((probes, costs))
            });
            match started {
                Ok((probes, costs)) => {
                    set_scope(&probes, scope, settings).map_err(|errno| {
                        Unavailable::new(PART, format!("set the scope of BPF programs: {errno}"))
                    })?;
                    return Ok(Self {
                        probes,
                        settings,
                        pattern: Pattern::new(&filter.pattern),
                        library: filter.library.clone(),
                        pattern_text: filter.pattern.clone(),
                        watched: Vec::new(),
                        files: HashSet::new(),
                        scope: scope.clone(),
                        exact_children: false,
                        file_users: FileUsers::default(),
                        shared_files: Vec::new(),
                        processes: match scope {
                            Scope::Processes(numbers) => numbers.iter().copied().collect(),
                            Scope::Cgroup { .. } | Scope::System => HashSet::new(),
                        },
                        costs: Some(costs),
                        too_many: 0,
                        unwatched: UnwatchedFunctions::default(),
                    });
                }
                // The other mechanisms need the same rights.
                Err(error) if error.is_forbidden() => return Err(forbidden(&error)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        errors.dedup();
        Err(Unavailable::new(
            PART,
            format!("functions cannot be watched here: {}", errors.join("; ")),
        )
        .with_remedy("it needs a kernel with uprobes and BPF (Linux 5.15 or later)"))
    }

    /// Starts to count. Call it when all other observers are attached.
    pub(crate) fn begin(&mut self) -> Result<(), Unavailable> {
        self.settings.paused = false;
        let started = self
            .probes
            .tables
            .settings
            .update(&[0; 4], &self.settings.bytes());
        started.map_err(|errno| Unavailable::new(PART, format!("start BPF programs: {errno}")))
    }

    /// Observes children from their first instruction, for a command. A few functions of shared files are then watched in all
    /// processes, which slows those as well.
    pub(crate) fn with_exact_children(mut self) -> Self {
        self.exact_children = true;
        self
    }

    /// Sets the observed processes. Functions of shared files are attached in new ones.
    pub(crate) fn set_processes(&mut self, processes: &[u32]) {
        if self.shared_files.is_empty() {
            self.processes.extend(processes);
            return;
        }
        let ended: Vec<u32> = self
            .processes
            .iter()
            .filter(|known| !processes.contains(known))
            .copied()
            .collect();
        for process in ended {
            self.processes.remove(&process);
            self.probes.detach_process(process);
        }
        for &process in processes {
            if self.processes.contains(&process) || self.processes.len() >= PROCESSES_MAX {
                continue;
            }
            self.processes.insert(process);
            for shared in &self.shared_files {
                // A process that has ended meanwhile has no calls.
                let _ = self
                    .probes
                    .attach(&shared.file, &shared.functions, shared.first, Some(process));
            }
        }
    }

    /// Returns whether new processes and their files must be added quickly.
    pub(crate) fn is_urgent(&self) -> bool {
        self.exact_children || !self.shared_files.is_empty()
    }

    /// Adds a file that was mapped after the counting began: its earlier calls are missing, which is reported.
    pub(crate) fn add_late_file(&mut self, symbols: &mut Symbols, file: FileNumber) {
        if self.add_file(symbols, file) > 0 {
            let module = symbols.file_name(file).unwrap_or_default();
            self.unwatched.mapped_late.add(module);
        }
    }

    /// Watches the matching functions of a file; each file once. Returns how many are watched.
    pub(crate) fn add_file(&mut self, symbols: &mut Symbols, file: FileNumber) -> usize {
        if !self.files.insert(file) {
            return 0;
        }
        let module = symbols.file_name(file).unwrap_or_default().to_owned();
        if self
            .library
            .as_deref()
            .is_some_and(|library| !filter::matches_library(&module, library))
        {
            return 0;
        }
        let opened = match symbols.file(file) {
            Ok(opened) => opened,
            Err(error) => {
                // Not found: anonymous memory, which has no functions.
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.unwatched.unopened.add(&format!("{module} ({error})"));
                }
                return 0;
            }
        };
        let mut selection = selection::select(symbols, file, &opened, &self.pattern);
        for name in selection.indirect {
            self.unwatched.indirect.add(&name);
        }
        for name in selection.misdecoded {
            self.unwatched.misdecoded.add(&name);
        }
        let available = WATCHED_MAX - self.watched.len();
        if selection.functions.len() > available {
            self.too_many += (selection.functions.len() - available) as u64;
            selection.functions.truncate(available);
        }
        let mut selected = selection.functions;
        // Refused functions keep their numbers, but never have calls.
        let first = self.watched.len() as u32;
        let refused = match self.probe_scope(&opened, selected.len()) {
            (ProbeScope::AllProcesses, _) => self.probes.attach(&opened, &selected, first, None),
            (ProbeScope::EachProcess, _) => {
                let mut refused = RefusedProbes::new();
                for process in &self.processes {
                    let failed = self.probes.attach(&opened, &selected, first, Some(*process));
                    // A refusal is the same in all processes, except that one has ended.
                    let failed = failed.into_iter().filter(|(_, errno)| *errno != Errno::SRCH);
                    refused = failed.collect();
                }
                if let Ok(file) = opened.try_clone() {
                    self.shared_files.push(SharedFile {
                        module: module.clone(),
                        file,
                        functions: selected.clone(),
                        first,
                    });
                }
                refused
            }
            (ProbeScope::Nowhere, others) => {
                self.unwatched
                    .not_attached
                    .insert(module, (selected.len(), others));
                return 0;
            }
        };
        for (index, errno) in &refused {
            self.unwatched.add_refused(*errno, &selected[*index].name);
        }
        let refused: HashSet<usize> = refused.into_iter().map(|(index, _)| index).collect();
        for (index, function) in selected.drain(..).enumerate() {
            if let ReturnProbes::Unwatched(why) = &function.returns
                && !refused.contains(&index)
            {
                self.unwatched
                    .calls_only
                    .entry(*why)
                    .or_default()
                    .add(&function.name);
            }
            self.watched.push(Watched {
                entries_only: matches!(function.returns, ReturnProbes::Unwatched(_)),
                cost_ns: self.costs.map(|costs| costs.of(&function)),
                name: function.name,
                module: module.clone(),
            });
        }
        self.watched.len() - first as usize - refused.len()
    }

    /// Returns in which processes to watch functions of a file, and how many processes out of scope have it mapped.
    fn probe_scope(&mut self, file: &File, functions: usize) -> (ProbeScope, usize) {
        if functions == 0 {
            return (ProbeScope::AllProcesses, 0);
        }
        let own = std::process::id();
        let is_system = self.scope.is_system();
        let observed = &self.processes;
        let is_other = |user| is_system || (user != own && !observed.contains(&user));
        let others = self.file_users.count(file, is_other);
        let per_process = self.probes.can_attach_per_process();
        let probe_scope = ProbeScope::new(&self.scope, functions, others, self.exact_children, per_process);
        (probe_scope, others)
    }

    /// Returns how many functions are watched.
    pub(crate) fn watched(&self) -> u64 {
        self.watched.len() as u64
            - self
                .unwatched
                .refused
                .values()
                .map(|names| names.count)
                .sum::<u64>()
    }

    /// Returns the kernel mechanism in words: `uprobe_session`, `uprobe_multi`, or single uprobes.
    pub(crate) const fn mechanism(&self) -> &'static str {
        self.probes.mechanism()
    }

    /// Returns the reason if no function matches, with similar names; `None` if some do.
    pub(crate) fn no_match(&self, symbols: &mut Symbols) -> Option<Unavailable> {
        if self.watched() > 0
            || !self.unwatched.refused.is_empty()
            || !self.unwatched.not_attached.is_empty()
            || self.unwatched.indirect.count + self.unwatched.misdecoded.count > 0
        {
            return None;
        }
        let mut files: Vec<FileNumber> = self.files.iter().copied().collect();
        files.sort_unstable();
        let matches = |symbols: &Symbols, file| {
            let name = symbols.file_name(file).unwrap_or_default();
            self.library
                .as_deref()
                .is_none_or(|library| filter::matches_library(name, library))
        };
        let searched: Vec<FileNumber> = files
            .iter()
            .copied()
            .filter(|file| matches(symbols, *file))
            .collect();
        if let (Some(library), true) = (&self.library, searched.is_empty()) {
            let names: HashSet<String> = files
                .iter()
                .filter_map(|file| symbols.file_name(*file).map(str::to_owned))
                .filter(|name| !name.is_empty() && !name.starts_with('['))
                .collect();
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort_unstable();
            names.truncate(FILES_REPORTED_MAX);
            let text = format!("no file whose name begins with {library} is mapped");
            let unavailable = Unavailable::new(PART, text);
            return Some(match names.as_slice() {
                [] => unavailable,
                names => unavailable.with_remedy(format!("mapped are: {}", names.join(", "))),
            });
        }
        let mut names = Vec::new();
        for file in &searched {
            names.extend(
                symbols
                    .functions(*file)
                    .map(|function| function.demangled().into_owned()),
            );
        }
        let found = names.len();
        let similar = pattern::similar(&self.pattern.words(), names.into_iter());
        let text = format!(
            "no function is called {}: there are {} in {}",
            self.pattern_text,
            counted(found as u64, "function"),
            counted(searched.len() as u64, "file")
        );
        let remedy = match similar.as_slice() {
            [] if found == 0 => {
                "the files may be stripped: install their debug symbols, or functions that they export"
                    .to_owned()
            }
            [] => "a pattern may have stars: '*name*'".to_owned(),
            names => format!("similar: {}", names.join(", ")),
        };
        Some(Unavailable::new(PART, text).with_remedy(remedy))
    }

    /// Returns which matching functions are not watched or not timed, and why.
    pub(crate) fn missing_parts(&self) -> Vec<Unavailable> {
        let mut reports = self.unwatched.reports();
        if let Some(shared) = self.shared_files.first()
            && let Some(started) = self.started_processes().filter(|started| *started > 0)
        {
            let others = self.shared_files.len() - 1;
            let files = if others > 0 {
                format!("{} and {}", shared.module, counted(others as u64, "more file"))
            } else {
                shared.module.clone()
            };
            reports.push(
                Unavailable::new(
                    PART,
                    format!(
                        "{started} processes were started by the observed ones: their first calls of functions of {files} are not \
                         counted, because other processes use the file too and must not be slowed"
                    ),
                )
                .with_remedy("children of a command are observed from their start: sockeye prof ... -- COMMAND"),
            );
        }
        if self.too_many > 0 {
            reports.push(
                Unavailable::new(
                    PART,
                    format!(
                        "{} matches {} functions: the first {} are watched",
                        self.pattern_text,
                        self.watched.len() as u64 + self.too_many,
                        self.watched.len()
                    ),
                )
                .with_remedy("a narrower pattern, or --lib"),
            );
        }
        reports
    }
}

/// Writes the scope and settings into the BPF maps.
pub(super) fn set_scope(probes: &Probes, scope: &Scope, settings: wire::Settings) -> Result<(), Errno> {
    let tables = &probes.tables;
    match scope {
        Scope::Processes(numbers) => {
            for number in numbers {
                tables
                    .members
                    .update(&number.to_ne_bytes(), &1_u32.to_ne_bytes())?;
            }
        }
        Scope::Cgroup { folder, .. } => {
            let folder = File::open(folder).map_err(|error| errno(&error))?;
            let descriptor = folder.as_fd().as_raw_fd();
            tables.cgroup.update(&[0; 4], &descriptor.to_ne_bytes())?;
        }
        Scope::System => {}
    }
    tables.settings.update(&[0; 4], &settings.bytes())
}

/// Returns the report for missing rights.
fn forbidden(error: &ProbeError) -> Unavailable {
    Unavailable::new(PART, format!("functions cannot be watched: {error}"))
        .with_remedy("samples of your own processes need neither")
}

/// Returns the settings for a scope, paused.
pub(super) fn settings_of(scope: &Scope) -> wire::Settings {
    wire::Settings {
        scope: match scope {
            Scope::Processes(_) => wire::Scope::Members,
            Scope::Cgroup { .. } => wire::Scope::Cgroup,
            Scope::System => wire::Scope::All,
        },
        pid_namespace: pid_namespace::own(),
        // On x86 a return removes the address that the call has pushed; other architectures have it in a register.
        return_bytes: if cfg!(target_arch = "x86_64") { 8 } else { 0 },
        in_kernel: false,
        own_process: std::process::id(),
        // Attaching can take seconds.
        paused: true,
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The most watched functions.
pub(super) const WATCHED_MAX: usize = 10_000;

/// The most processes in which functions of shared files are watched.
const PROCESSES_MAX: usize = 1000;

/// The most file names in a report.
const FILES_REPORTED_MAX: usize = 20;
