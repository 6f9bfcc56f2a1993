//! Calls of functions, by uprobes.
//!
//! What a pattern means in which file is found out here; the calls are followed in the kernel (`bpf/functions.bpf.c`), and
//! read from there.

mod attach;
mod choice;
mod entry;
mod exits;
mod instruction;
mod kernel;
mod kernel_means;
mod loader;
mod look;
mod nature;
mod obstacles;
mod overhead;
mod pattern;
mod reach;

pub use loader::{executable, files_of};
pub use look::SeenFunctions;

use crate::{FileNumber, Obstacle, Scope, Symbols, pid_namespace};
use attach::{Failure, Probes, Wish};
use choice::{Choice, Returns};
use obstacles::Obstacles;
use overhead::Costs;
use pattern::Pattern;
use reach::{Reach, Users};
use rustix::io::Errno;
use sockeye_source::BpfEngine;
use sockeye_wire::functions as wire;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// Calls of the functions that a pattern means, of those processes that are looked at.
///
/// Files are told one by one, by [`Functions::mapped`]: those that the processes have mapped, that a command will map, and
/// whatever they map later.
#[derive(Debug)]
pub struct Functions {
    probes: Probes,
    settings: wire::Settings,
    pattern: Pattern,
    library: Option<String>,
    text: String,
    /// By their numbers.
    watched: Vec<Watched>,
    files: HashSet<FileNumber>,
    scope: Scope,
    /// Children must be seen from their first instruction on, whoever else is slowed.
    is_exact: bool,
    users: Users,
    /// Files that others have mapped, who are not to be slowed.
    shared: Vec<Shared>,
    /// Processes in which functions of those are watched; those that have ended are forgotten.
    each: HashSet<u32>,
    costs: Option<Costs>,
    /// How many were meant beyond what is watched.
    too_many: u64,
    obstacles: Obstacles,
}

/// A file whose functions are watched in some processes alone.
#[derive(Debug)]
struct Shared {
    module: String,
    file: File,
    choices: Vec<Choice>,
    /// The number of the first of its functions.
    first: u32,
}

/// Which functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Their names, as in the file or as in the source; `*` stands for any characters, `?` for one.
    pub pattern: String,
    /// Only in files whose name begins so: `libcrypto` means `libcrypto.so.3`.
    pub library: Option<String>,
}

impl Wanted {
    /// The file that is named, if that is a path, or a program by its name.
    pub(crate) fn file(&self, path: Option<&OsStr>) -> Option<PathBuf> {
        let library = self.library.as_deref()?;
        let named = PathBuf::from(library);
        if library.contains('/') && named.is_file() {
            return Some(named);
        }
        executable(library.as_ref(), path)
    }
}

/// A function that is watched.
#[derive(Debug)]
struct Watched {
    name: String,
    module: String,
    /// Only calls are counted.
    entries_only: bool,
    /// What watching a call costs.
    cost_ns: Option<f64>,
}

impl Functions {
    /// Loads what follows calls, and measures what that costs. No function is watched before files are told, and no call
    /// counts before [`Functions::begin`].
    ///
    /// # Errors
    /// When it does not work here, and what would help.
    pub fn start(engine: &BpfEngine, scope: &Scope, wanted: &Wanted) -> Result<Self, Obstacle> {
        let settings = settings_of(scope);
        let mut failures = Vec::new();
        for wish in Wish::ALL {
            let started = Probes::load(engine, wish).and_then(|mut probes| {
                let costs = overhead::measure(&mut probes, settings)
                    .map_err(|errno| Failure::System("attach a BPF program to a function of ours", errno))?;
                Ok((probes, costs))
            });
            match started {
                Ok((probes, costs)) => {
                    look_at(&probes, scope, settings).map_err(|errno| {
                        Obstacle::new(PART, format!("tell BPF programs whose calls to follow: {errno}"))
                    })?;
                    return Ok(Self {
                        probes,
                        settings,
                        pattern: Pattern::new(&wanted.pattern),
                        library: wanted.library.clone(),
                        text: wanted.pattern.clone(),
                        watched: Vec::new(),
                        files: HashSet::new(),
                        scope: scope.clone(),
                        is_exact: false,
                        users: Users::default(),
                        shared: Vec::new(),
                        each: match scope {
                            Scope::Processes(numbers) => numbers.iter().copied().collect(),
                            Scope::Cgroup { .. } | Scope::System => HashSet::new(),
                        },
                        costs: Some(costs),
                        too_many: 0,
                        obstacles: Obstacles::default(),
                    });
                }
                // The next one would be as well.
                Err(failure) if failure.is_forbidden() => return Err(forbidden(&failure)),
                Err(failure) => failures.push(failure.to_string()),
            }
        }
        failures.dedup();
        Err(Obstacle::new(
            PART,
            format!("functions cannot be watched here: {}", failures.join("; ")),
        )
        .with_remedy("it needs a kernel with uprobes and BPF (Linux 5.15 or later)"))
    }

    /// Counts from now on: what is attached is attached.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn begin(&mut self) -> Result<(), Obstacle> {
        self.settings.paused = false;
        let told = self
            .probes
            .tables
            .settings
            .update(&[0; 4], &self.settings.bytes());
        told.map_err(|errno| Obstacle::new(PART, format!("have BPF programs follow calls: {errno}")))
    }

    /// Looks at one more process, and whatever it starts from now on.
    ///
    /// # Errors
    /// `E2BIG` if there are too many.
    pub fn add_process(&self, pid: u32) -> Result<(), Errno> {
        self.probes
            .tables
            .members
            .update(&pid.to_ne_bytes(), &1_u32.to_ne_bytes())
    }

    /// Of a command: its children have to be seen from their first instruction on. Few functions of files that others have
    /// mapped are watched in all then, which slows those others as well.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Makes known who is looked at now. Where a file's functions are watched in some processes alone, those that are new are
    /// watched from now on.
    pub fn alive(&mut self, processes: &[u32]) {
        if self.shared.is_empty() {
            self.each.extend(processes);
            return;
        }
        let gone: Vec<u32> = self
            .each
            .iter()
            .filter(|known| !processes.contains(known))
            .copied()
            .collect();
        for process in gone {
            self.each.remove(&process);
            self.probes.detach_of(process);
        }
        for &process in processes {
            if self.each.contains(&process) || self.each.len() >= EACH_MAX {
                continue;
            }
            self.each.insert(process);
            for shared in &self.shared {
                // Who has ended meanwhile has no calls either.
                let _ = self
                    .probes
                    .attach(&shared.file, &shared.choices, shared.first, Some(process));
            }
        }
    }

    /// Whether new processes, and what they map, should be told soon.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.is_exact || !self.shared.is_empty()
    }

    /// Likewise in a file that was mapped while calls are counted already: those before are not.
    pub fn mapped_meanwhile(&mut self, symbols: &mut Symbols, file: FileNumber) {
        if self.mapped(symbols, file) > 0 {
            let module = symbols.file_name(file).unwrap_or_default();
            self.obstacles.meanwhile.add(module);
        }
    }

    /// Watches what is meant in a file that somebody has mapped, or will; each file once. How many functions that are.
    pub fn mapped(&mut self, symbols: &mut Symbols, file: FileNumber) -> usize {
        if !self.files.insert(file) {
            return 0;
        }
        let module = symbols.file_name(file).unwrap_or_default().to_owned();
        if self
            .library
            .as_deref()
            .is_some_and(|library| !is_called(&module, library))
        {
            return 0;
        }
        let opened = match symbols.file(file) {
            Ok(opened) => opened,
            Err(error) => {
                // Memory without a file has no functions either.
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.obstacles.unopened.add(&format!("{module} ({error})"));
                }
                return 0;
            }
        };
        let mut choices = choice::choose(symbols, file, &opened, &self.pattern);
        for name in choices.indirect {
            self.obstacles.indirect.add(&name);
        }
        for name in choices.mistaken {
            self.obstacles.mistaken.add(&name);
        }
        let room = WATCHED_MAX - self.watched.len();
        if choices.chosen.len() > room {
            self.too_many += (choices.chosen.len() - room) as u64;
            choices.chosen.truncate(room);
        }
        let mut chosen = choices.chosen;
        // Those that are refused leave no hole in the numbers: they are watched, and never seen.
        let first = self.watched.len() as u32;
        let refused = match self.reach(&opened, chosen.len()) {
            (Reach::All, _) => self.probes.attach(&opened, &chosen, first, None),
            (Reach::Each, _) => {
                let mut refused = attach::Refused::new();
                for process in &self.each {
                    let failed = self.probes.attach(&opened, &chosen, first, Some(*process));
                    // What one has, all would have; but that it has ended.
                    let failed = failed.into_iter().filter(|(_, errno)| *errno != Errno::SRCH);
                    refused = failed.collect();
                }
                if let Ok(file) = opened.try_clone() {
                    self.shared.push(Shared {
                        module: module.clone(),
                        file,
                        choices: chosen.clone(),
                        first,
                    });
                }
                refused
            }
            (Reach::Nobody, others) => {
                self.obstacles.spared.insert(module, (chosen.len(), others));
                return 0;
            }
        };
        for (place, errno) in &refused {
            self.obstacles.refused(*errno, &chosen[*place].name);
        }
        let refused: HashSet<usize> = refused.into_iter().map(|(place, _)| place).collect();
        for (place, choice) in chosen.drain(..).enumerate() {
            if let Returns::Unwatched(why) = &choice.returns
                && !refused.contains(&place)
            {
                self.obstacles
                    .unwatched
                    .entry(*why)
                    .or_default()
                    .add(&choice.name);
            }
            self.watched.push(Watched {
                entries_only: matches!(choice.returns, Returns::Unwatched(_)),
                cost_ns: self.costs.map(|costs| costs.of(&choice)),
                name: choice.name,
                module: module.clone(),
            });
        }
        self.watched.len() - first as usize - refused.len()
    }

    /// In whom functions of a file are watched, and how many processes that are not looked at have it mapped.
    fn reach(&mut self, file: &File, functions: usize) -> (Reach, usize) {
        if functions == 0 {
            return (Reach::All, 0);
        }
        let own = std::process::id();
        let is_system = self.scope.is_everybody();
        let each = &self.each;
        let users = self.users.of(file).iter();
        let others = users.filter(|user| is_system || (**user != own && !each.contains(user)));
        let others = others.count();
        let can_each = self.probes.can_be_of_one();
        let reach = Reach::of(&self.scope, functions, others, self.is_exact, can_each);
        (reach, others)
    }

    /// How many functions are watched.
    #[must_use]
    pub fn watched(&self) -> u64 {
        self.watched.len() as u64
            - self
                .obstacles
                .refused
                .values()
                .map(|names| names.count)
                .sum::<u64>()
    }

    /// By what means: `uprobe_session`, `uprobe_multi`, or one by one.
    #[must_use]
    pub const fn means(&self) -> &'static str {
        self.probes.means()
    }

    /// If nothing is watched: why, with names that are similar.
    pub fn nothing(&self, symbols: &mut Symbols) -> Option<Obstacle> {
        if self.watched() > 0
            || !self.obstacles.refused.is_empty()
            || !self.obstacles.spared.is_empty()
            || self.obstacles.indirect.count + self.obstacles.mistaken.count > 0
        {
            return None;
        }
        let mut files: Vec<FileNumber> = self.files.iter().copied().collect();
        files.sort_unstable();
        let is_meant = |symbols: &Symbols, file| {
            let name = symbols.file_name(file).unwrap_or_default();
            self.library
                .as_deref()
                .is_none_or(|library| is_called(name, library))
        };
        let looked_at: Vec<FileNumber> = files
            .iter()
            .copied()
            .filter(|file| is_meant(symbols, *file))
            .collect();
        if let (Some(library), true) = (&self.library, looked_at.is_empty()) {
            let names: HashSet<String> = files
                .iter()
                .filter_map(|file| symbols.file_name(*file).map(str::to_owned))
                .filter(|name| !name.is_empty() && !name.starts_with('['))
                .collect();
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort_unstable();
            names.truncate(FILES_TOLD_MAX);
            let text = format!("no file whose name begins with {library} is mapped");
            let obstacle = Obstacle::new(PART, text);
            return Some(match names.as_slice() {
                [] => obstacle,
                names => obstacle.with_remedy(format!("mapped are: {}", names.join(", "))),
            });
        }
        let mut names = Vec::new();
        for file in &looked_at {
            names.extend(
                symbols
                    .functions(*file)
                    .map(|function| function.demangled().into_owned()),
            );
        }
        let found = names.len();
        let similar = pattern::similar(&self.pattern.words(), names.into_iter());
        let text = format!(
            "no function is called {}: there are {found} functions in {} files",
            self.text,
            looked_at.len()
        );
        let remedy = match similar.as_slice() {
            [] if found == 0 => {
                "the files may be stripped: install their debug symbols, or functions that they export"
                    .to_owned()
            }
            [] => "a pattern may have stars: '*name*'".to_owned(),
            names => format!("similar: {}", names.join(", ")),
        };
        Some(Obstacle::new(PART, text).with_remedy(remedy))
    }

    /// What of that which is meant cannot be seen, and why.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let mut told = self.obstacles.told();
        if let Some(shared) = self.shared.first()
            && let Some(started) = self.started().filter(|started| *started > 0)
        {
            let others = self.shared.len() - 1;
            let files = if others > 0 {
                format!("{} and {others} more files", shared.module)
            } else {
                shared.module.clone()
            };
            told.push(
                Obstacle::new(
                    PART,
                    format!(
                        "{started} processes were started by those looked at: their first calls of functions of {files} are not \
                         counted, for others use it too, and only those who are looked at are slowed"
                    ),
                )
                .with_remedy("a command's children are seen from the start on: sockeye prof ... -- COMMAND"),
            );
        }
        if self.too_many > 0 {
            told.push(
                Obstacle::new(
                    PART,
                    format!(
                        "{} means {} functions: the first {} are watched",
                        self.text,
                        self.watched.len() as u64 + self.too_many,
                        self.watched.len()
                    ),
                )
                .with_remedy("a narrower pattern, or --lib"),
            );
        }
        told
    }
}

/// Whether a file of this name is meant: it begins so, and what follows is not part of a longer word, as `libc` is of
/// `libcrypto.so.3`.
fn is_called(file: &str, library: &str) -> bool {
    // A path may have been typed.
    let library = library.rsplit('/').next().unwrap_or(library);
    file.strip_prefix(library)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
}

/// Tells the programs whose calls to follow.
fn look_at(probes: &Probes, scope: &Scope, settings: wire::Settings) -> Result<(), Errno> {
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

fn forbidden(failure: &Failure) -> Obstacle {
    Obstacle::new(PART, format!("functions cannot be watched: {failure}"))
        .with_remedy("samples of your own processes need neither")
}

fn settings_of(scope: &Scope) -> wire::Settings {
    wire::Settings {
        scope: match scope {
            Scope::Processes(_) => wire::Scope::Members,
            Scope::Cgroup { .. } => wire::Scope::Cgroup,
            Scope::System => wire::Scope::All,
        },
        pid_namespace: pid_namespace::own(),
        // A return takes the address away that the call has put on the stack; elsewhere that is in a register.
        return_bytes: if cfg!(target_arch = "x86_64") { 8 } else { 0 },
        in_kernel: false,
        own_process: std::process::id(),
        // To attach what is wanted may take seconds.
        paused: true,
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

const PART: &str = "functions";

/// More functions than that are not watched.
const WATCHED_MAX: usize = 10_000;

/// In more processes than that functions of shared files are not watched.
const EACH_MAX: usize = 1000;

/// So many names of files are told to who asked for another.
const FILES_TOLD_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_the_beginning_of_their_names() {
        for (file, library, fits) in [
            ("libcrypto.so.3", "libcrypto", true),
            ("libcrypto.so.3", "libcrypto.so.3", true),
            ("libcrypto.so.3", "/usr/lib/libcrypto.so.3", true),
            ("libcrypto.so.3", "libc", false),
            ("libc.so.6", "libc", true),
            ("libc-2.31.so", "libc", true),
            ("libssl3.so", "libssl", true),
            ("openssl", "libssl", false),
        ] {
            assert_eq!(is_called(file, library), fits, "{file} {library}");
        }
    }
}
