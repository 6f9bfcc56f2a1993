//! Who is looked at: names, beginnings and ends, and what each has mapped.
//!
//! Fed by the events that perf tells, in the order of their times, and by `/proc` about those who were there before.

mod layout;
pub(crate) mod proc_files;

use crate::{FileNumber, Incarnation, Mapping, Scope};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use layout::Layout;
use proc_files::Membership;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// Opens the file behind a mapping of a process while it lives: [`crate::Symbols::keep`].
pub type Keep<'a> = dyn FnMut(u32, &Mapping) -> FileNumber + 'a;

/// Everybody who is looked at.
#[derive(Debug)]
pub struct Processes {
    scope: Scope,
    own_pid: u32,
    known: HashMap<u32, Known>,
    /// Those that were found not to be meant, so that nobody looks again.
    strangers: HashSet<u32>,
    /// Events may be of strangers: whoever tells them does not choose.
    hears_strangers: bool,
    membership: Option<Membership>,
    /// How many execs of whom were read but not told.
    execs_to_come: HashMap<u32, u32>,
    /// Rises whenever events were lost: what is known of everybody may be outdated then.
    losses_so_far: u32,
    lost: u64,
    unread: u64,
}

/// Something that happened to a process, as perf tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It became another program of this name.
    Exec {
        /// Who.
        pid: u32,
        /// What it is called now.
        name: Vec<u8>,
    },
    /// It has another name.
    Name {
        /// Who.
        pid: u32,
        /// What it is called now.
        name: Vec<u8>,
    },
    /// It mapped something to be executed.
    Mapped {
        /// Who.
        pid: u32,
        /// What, and where.
        mapping: Mapping,
    },
    /// There is a new process.
    Fork {
        /// The new one.
        pid: u32,
        /// The one that it is a copy of.
        parent: u32,
    },
    /// A thread ended.
    Exit {
        /// Whose.
        pid: u32,
        /// Which: the first one has the number of the process.
        tid: u32,
    },
    /// So many events, of whatever kind, were lost.
    Lost(u64),
}

#[derive(Debug)]
struct Known {
    name: Vec<u8>,
    began: bool,
    ended: bool,
    /// Its first thread ended, which may be before the others do.
    is_leaderless: bool,
    /// How many programs it was before the first of `programs`.
    forgotten: u32,
    /// What it was and is; never empty.
    programs: Vec<Program>,
}

/// A process from one exec to the next.
#[derive(Debug, Clone, Default)]
struct Program {
    /// Shared with those who are copies of it.
    layout: Arc<Layout>,
    /// When the layout was read, or known from the beginning: [`Processes::losses_so_far`] at that time.
    read_at: Option<u32>,
}

impl Processes {
    /// Nobody yet but those that `scope` names.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        let mut processes = Self {
            scope: scope.clone(),
            own_pid: std::process::id(),
            known: HashMap::new(),
            strangers: HashSet::new(),
            hears_strangers: true,
            membership: None,
            execs_to_come: HashMap::new(),
            losses_so_far: 0,
            lost: 0,
            unread: 0,
        };
        match scope {
            Scope::Processes(pids) => {
                for &pid in pids {
                    processes.meet(pid);
                }
            }
            Scope::Cgroup { folder, .. } => processes.membership = Some(Membership::of(folder)),
            Scope::System => {}
        }
        processes
    }

    /// Reads who is there already: their names, and of those who are named by the scope, or in its cgroup, what they have
    /// mapped. To be called when events are told already, so that nobody is missed in between.
    pub fn read_those_there(&mut self, keep: &mut Keep<'_>) {
        match &self.scope {
            Scope::Processes(pids) => {
                for pid in pids.clone() {
                    self.read(pid, keep);
                }
            }
            Scope::Cgroup { folder, .. } => {
                for pid in proc_files::members(folder) {
                    if pid != self.own_pid {
                        self.meet(pid);
                        self.read(pid, keep);
                    }
                }
            }
            // What thousands have mapped is read when they are seen.
            Scope::System => {
                for pid in proc_files::everybody() {
                    if pid != self.own_pid {
                        self.meet(pid);
                    }
                }
            }
        }
    }

    /// Of an event that was read, and will be told when it is its turn. What `/proc` says meanwhile of who becomes another
    /// program by it is of that one.
    pub(crate) fn expect(&mut self, event: &Event) {
        if let Event::Exec { pid, .. } = event {
            *self.execs_to_come.entry(*pid).or_default() += 1;
        }
    }

    /// Takes note of an event. Events come in the order of their times.
    pub fn tell(&mut self, event: Event, keep: &mut Keep<'_>) {
        match event {
            Event::Exec { pid, name } => {
                // It may have been moved to another cgroup before.
                self.strangers.remove(&pid);
                if let Some(to_come) = self.execs_to_come.get_mut(&pid) {
                    *to_come -= 1;
                    if *to_come == 0 {
                        self.execs_to_come.remove(&pid);
                    }
                }
                if self.admits(pid) {
                    self.meet(pid);
                    let now = self.losses_so_far;
                    if let Some(known) = self.known.get_mut(&pid) {
                        known.become_another(name, now);
                    }
                }
            }
            Event::Name { pid, name } => {
                if let Some(known) = self.known.get_mut(&pid) {
                    known.name = name;
                }
            }
            Event::Mapped { pid, mapping } => {
                // What is read later is read with this in it.
                let program = self
                    .known
                    .get_mut(&pid)
                    .and_then(|known| known.programs.last_mut());
                if let Some(program) = program.filter(|program| program.read_at.is_some()) {
                    let file = keep(pid, &mapping);
                    let is_kept = Arc::make_mut(&mut program.layout).put(&mapping, file);
                    self.unread += u64::from(!is_kept);
                }
            }
            Event::Fork { pid, parent } => self.fork(pid, parent, keep),
            Event::Exit { pid, tid } => {
                if let Some(known) = self.known.get_mut(&pid) {
                    known.is_leaderless |= pid == tid;
                    known.ended = known.is_leaderless;
                }
            }
            Event::Lost(count) => {
                self.lost = self.lost.saturating_add(count);
                self.losses_so_far += 1;
                self.strangers.clear();
            }
        }
    }

    /// Who it is that was seen running; none if it is not meant. Reads what it has mapped, if that is not known yet.
    /// `is_kernel`: in the kernel, where those too are who are ending.
    pub fn seen(&mut self, pid: u32, is_kernel: bool, keep: &mut Keep<'_>) -> Option<Incarnation> {
        if !self.admits(pid) {
            return None;
        }
        self.meet(pid);
        self.read(pid, keep);
        let known = self.known.get_mut(&pid)?;
        // Other threads than the first may live on.
        known.ended &= is_kernel;
        Some(Incarnation {
            pid,
            execs: known.execs(),
        })
    }

    /// Makes known somebody of whom others have told, who chose whom they look at: a system call was counted there.
    pub fn visit(&mut self, pid: u32, keep: &mut Keep<'_>) {
        if pid != 0 && !self.known.contains_key(&pid) {
            self.meet(pid);
        }
        self.read(pid, keep);
    }

    /// The file that an address is in, and where: what [`crate::Symbols::user`] takes.
    ///
    /// Of what lay at the same address at different times, the last; of processes that had the same number one after the
    /// other, likewise.
    #[must_use]
    pub fn place(&self, of: Incarnation, address: u64) -> Option<(FileNumber, u64)> {
        let known = self.known.get(&of.pid)?;
        // Others may have begun to count a moment before us.
        let last = known.programs.len().checked_sub(1)?;
        let index = of.execs.checked_sub(known.forgotten)? as usize;
        known.programs.get(index.min(last))?.layout.place(address)
    }

    /// The files that have code in a process, as it is now, each once.
    #[must_use]
    pub fn files(&self, pid: u32) -> Vec<FileNumber> {
        let program = self.known.get(&pid).and_then(|known| known.programs.last());
        program.map(|program| program.layout.files()).unwrap_or_default()
    }

    /// Everybody who is known, by number.
    #[must_use]
    pub fn all(&self) -> Vec<sockeye_profile::Process> {
        let mut all: Vec<_> = self
            .known
            .iter()
            .map(|(&pid, known)| sockeye_profile::Process {
                pid,
                name: String::from_utf8_lossy(&known.name).into_owned(),
                began: known.began,
                ended: known.ended,
            })
            .collect();
        all.sort_unstable_by_key(|process| process.pid);
        all
    }

    /// The numbers of those who are looked at and have not ended.
    pub fn alive(&self) -> impl Iterator<Item = u32> + '_ {
        self.known
            .iter()
            .filter(|(_, known)| !known.ended)
            .map(|(&pid, _)| pid)
    }

    /// Whether nobody is left of those that the scope names, and of those whom they started.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        !self.scope.is_everybody() && self.alive().next().is_none()
    }

    /// Events that were lost, processes and mappings that there was no room for or that could not be read:
    /// [`sockeye_profile::Losses::events`].
    #[must_use]
    pub const fn losses(&self) -> u64 {
        self.lost.saturating_add(self.unread)
    }

    /// From now on events may be of anybody, or are of those only who are meant.
    pub(crate) fn expect_strangers(&mut self, hears_strangers: bool) {
        self.hears_strangers = hears_strangers;
    }

    fn fork(&mut self, pid: u32, parent: u32, keep: &mut Keep<'_>) {
        if pid == parent || pid == self.own_pid || !self.admits(parent) {
            // Whoever had this number before is not who has it now.
            self.strangers.remove(&pid);
            return;
        }
        self.strangers.remove(&pid);
        self.meet(parent);
        self.read(parent, keep);
        let Some((name, program)) = self.known.get(&parent).and_then(|known| {
            let program = known.programs.last()?;
            Some((known.name.clone(), program.clone()))
        }) else {
            return;
        };
        self.insert(pid, Known::new(name, true, program));
    }

    /// Whether it is one of those that are meant.
    fn admits(&mut self, pid: u32) -> bool {
        if self.known.contains_key(&pid) {
            return true;
        }
        if matches!(pid, 0 | u32::MAX) || pid == self.own_pid || self.strangers.contains(&pid) {
            return false;
        }
        let is_meant = match &self.scope {
            Scope::System => true,
            Scope::Cgroup { .. } => {
                let membership = self.membership.as_ref();
                !self.hears_strangers || membership.is_some_and(|membership| membership.includes(pid))
            }
            // Its fork may be among what was lost.
            Scope::Processes(_) => {
                self.losses_so_far > 0
                    && proc_files::parent(pid).is_some_and(|parent| self.known.contains_key(&parent))
            }
        };
        if !is_meant {
            if self.strangers.len() >= PROCESSES_MAX {
                self.strangers.clear();
            }
            self.strangers.insert(pid);
        }
        is_meant
    }

    /// Makes somebody known by the name that `/proc` tells.
    fn meet(&mut self, pid: u32) {
        if !self.known.contains_key(&pid) {
            let name = proc_files::name(pid).unwrap_or_default();
            self.insert(pid, Known::new(name, false, Program::default()));
        }
    }

    fn insert(&mut self, pid: u32, known: Known) {
        if self.known.len() >= PROCESSES_MAX && !self.known.contains_key(&pid) {
            self.unread += 1;
            return;
        }
        self.known.insert(pid, known);
    }

    /// Reads what it has mapped, if it has not been read, or events were lost since.
    fn read(&mut self, pid: u32, keep: &mut Keep<'_>) {
        let now = self.losses_so_far;
        let will_exec = self.execs_to_come.contains_key(&pid);
        let Some(known) = self.known.get_mut(&pid).filter(|_| !will_exec) else {
            return;
        };
        let has_name = !known.name.is_empty();
        let Some(program) = known.programs.last_mut() else {
            return;
        };
        if program.read_at == Some(now) {
            return;
        }
        program.read_at = Some(now);
        match proc_files::mappings(pid) {
            Ok(mappings) => {
                let layout = Arc::make_mut(&mut program.layout);
                for mapping in mappings {
                    let file = keep(pid, &mapping);
                    self.unread += u64::from(!layout.put(&mapping, file));
                }
            }
            Err(error) => {
                self.unread += 1;
                known.ended |= is_gone(&error);
            }
        }
        if !has_name && let Some(name) = proc_files::name(pid) {
            known.name = name;
        }
    }
}

impl Known {
    fn new(name: Vec<u8>, began: bool, program: Program) -> Self {
        Self {
            name,
            began,
            ended: false,
            is_leaderless: false,
            forgotten: 0,
            programs: vec![program],
        }
    }

    fn execs(&self) -> u32 {
        self.forgotten + self.programs.len() as u32 - 1
    }

    /// All that it had mapped is gone; what comes is told.
    fn become_another(&mut self, name: Vec<u8>, now: u32) {
        self.name = name;
        // Whichever thread it was, it is the first one now.
        (self.is_leaderless, self.ended) = (false, false);
        if self.programs.len() >= PROGRAMS_MAX {
            self.programs.remove(0);
            self.forgotten += 1;
        }
        self.programs.push(Program {
            layout: Arc::default(),
            read_at: Some(now),
        });
    }
}

/// Whether it says that there is no such process.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// So many processes are kept; of further ones nothing is known, and they count as losses.
const PROCESSES_MAX: usize = 131_072;
/// Of so many programs that a process was, one after the other, is known what they had mapped: the last ones.
const PROGRAMS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that no process has: beyond what `kernel.pid_max` can be.
    const A: u32 = 5_000_000;
    const B: u32 = 5_000_001;

    fn mapping(start: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset: 0x2000,
            device: (8, 1),
            inode: 1,
            path: path.into(),
        }
    }

    /// Files are numbered by their paths: `b"a"` is 97.
    fn by_path(_: u32, mapping: &Mapping) -> FileNumber {
        FileNumber(mapping.path.first().copied().unwrap_or(0).into())
    }

    fn told(scope: &Scope, events: Vec<Event>) -> Processes {
        let mut processes = Processes::of(scope);
        for event in events {
            processes.tell(event, &mut by_path);
        }
        processes
    }

    fn exec(pid: u32, name: &str) -> Event {
        Event::Exec {
            pid,
            name: name.into(),
        }
    }

    fn mapped(pid: u32, start: u64, path: &str) -> Event {
        Event::Mapped {
            pid,
            mapping: mapping(start, path),
        }
    }

    const fn at(pid: u32, execs: u32) -> Incarnation {
        Incarnation { pid, execs }
    }

    #[test]
    fn children_of_those_named_are_followed_through_fork_and_exec() {
        let processes = told(
            &Scope::Processes(vec![A]),
            vec![
                exec(A, "one"),
                mapped(A, 0x1000, "a"),
                Event::Fork { pid: B, parent: A },
                mapped(B, 0x5000, "c"),
                exec(B, "two"),
                mapped(B, 0x1000, "b"),
                exec(7, "stranger"),
                Event::Exit { pid: A, tid: A },
            ],
        );
        // The child began as a copy, and what it mapped is its own.
        assert_eq!(processes.place(at(B, 0), 0x1010), Some((FileNumber(97), 0x2010)));
        assert_eq!(processes.place(at(B, 0), 0x5000), Some((FileNumber(99), 0x2000)));
        assert_eq!(processes.place(at(A, 1), 0x5000), None);
        assert_eq!(processes.place(at(B, 1), 0x1010), Some((FileNumber(98), 0x2010)));
        assert_eq!(processes.place(at(B, 1), 0x5000), None);
        let all: Vec<_> = processes
            .all()
            .into_iter()
            .map(|it| (it.pid, it.name, it.began, it.ended))
            .collect();
        assert_eq!(
            all,
            [(A, "one".into(), false, true), (B, "two".into(), true, false)]
        );
        assert!(!processes.all_ended());
    }

    #[test]
    fn who_is_about_to_become_another_program_is_not_read_before() {
        let pid = std::process::id();
        let mut processes = Processes::of(&Scope::Processes(vec![pid]));
        processes.expect(&exec(pid, "x"));
        let here = by_path as fn(u32, &Mapping) -> FileNumber as usize as u64;
        assert_eq!(processes.seen(pid, false, &mut by_path), Some(at(pid, 0)));
        assert_eq!(processes.place(at(pid, 0), here), None);
        processes.tell(exec(pid, "x"), &mut by_path);
        assert_eq!(processes.seen(pid, false, &mut by_path), Some(at(pid, 1)));
        // All that it has mapped since would have been told.
        assert_eq!(processes.place(at(pid, 1), here), None);
        processes.tell(Event::Lost(1), &mut by_path);
        processes.seen(pid, false, &mut by_path);
        assert!(processes.place(at(pid, 1), here).is_some());
    }

    #[test]
    fn strangers_stay_strangers() {
        let mut processes = told(
            &Scope::Processes(vec![A]),
            vec![Event::Fork { pid: 9, parent: 8 }, exec(9, "x")],
        );
        assert_eq!(processes.seen(9, false, &mut by_path), None);
        assert_eq!(processes.seen(0, false, &mut by_path), None);
        assert_eq!(processes.seen(A, false, &mut by_path), Some(at(A, 0)));
    }

    #[test]
    fn in_a_whole_system_everybody_is_meant_but_ourselves() {
        let mut processes = told(&Scope::System, vec![exec(A, "x"), mapped(A, 0, "a")]);
        assert_eq!(processes.seen(A, false, &mut by_path), Some(at(A, 1)));
        assert_eq!(processes.seen(std::process::id(), false, &mut by_path), None);
        // That of a copy of ourselves, which becomes a command, we have not seen yet.
        let parent = std::process::id();
        processes.tell(Event::Fork { pid: B, parent }, &mut by_path);
        assert_eq!(processes.seen(B, false, &mut by_path), Some(at(B, 0)));
    }

    #[test]
    fn a_process_whose_first_thread_ended_lives_until_the_last_one_does() {
        let mut processes = told(&Scope::System, vec![exec(A, "x"), Event::Exit { pid: A, tid: A }]);
        assert!(processes.all()[0].ended);
        processes.seen(A, true, &mut by_path);
        assert!(processes.all()[0].ended, "it is on its way out");
        processes.seen(A, false, &mut by_path);
        assert!(!processes.all()[0].ended);
        processes.tell(Event::Exit { pid: A, tid: B }, &mut by_path);
        assert!(processes.all()[0].ended);
    }

    #[test]
    fn a_number_that_is_used_again_is_somebody_else() {
        let processes = told(
            &Scope::Processes(vec![A]),
            vec![
                Event::Fork { pid: B, parent: A },
                exec(B, "x"),
                Event::Exit { pid: B, tid: B },
                Event::Fork { pid: B, parent: A },
            ],
        );
        let b = &processes.all()[1];
        assert_eq!((b.name.as_str(), b.ended), ("", false));
    }

    #[test]
    fn programs_without_end_have_a_bound() {
        let mut events = vec![];
        for number in 0..200 {
            events.push(exec(A, "x"));
            events.push(mapped(A, 0x1000 * number, "a"));
        }
        let processes = told(&Scope::Processes(vec![A]), events);
        assert_eq!(
            processes.place(at(A, 200), 0x1000 * 199 + 1),
            Some((FileNumber(97), 0x2001))
        );
        assert_eq!(
            processes.place(at(A, 199), 0x1000 * 198),
            Some((FileNumber(97), 0x2000))
        );
        assert_eq!(processes.place(at(A, 2), 0x1000), None);
    }

    #[test]
    fn losses_have_everybody_read_again() {
        let mut processes = told(&Scope::System, vec![exec(A, "x"), Event::Lost(3)]);
        assert_eq!(processes.losses(), 3);
        processes.seen(A, false, &mut by_path);
        assert_eq!(processes.losses(), 4, "it is not in /proc");
        processes.seen(A, false, &mut by_path);
        assert_eq!(processes.losses(), 4);
    }

    #[test]
    fn a_living_process_is_read() {
        let mut processes = Processes::of(&Scope::Processes(vec![std::process::id()]));
        let mut paths = vec![];
        processes.read_those_there(&mut |_, mapping| {
            paths.push(mapping.path.clone());
            FileNumber(paths.len() as u32)
        });
        let here = a_living_process_is_read as fn() as usize as u64;
        let own = std::env::current_exe().unwrap();
        let (file, _) = processes.place(at(std::process::id(), 0), here).unwrap();
        assert_eq!(paths[file.0 as usize - 1], own.as_os_str().as_encoded_bytes());
        assert!(paths.iter().any(|path| path == b"[vdso]"));
        assert_eq!(processes.files(std::process::id()).len(), paths.len());
        assert!(!processes.all()[0].name.is_empty());
    }
}
