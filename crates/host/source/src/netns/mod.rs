//! All network namespaces of the host: with or without a name, with or without processes.
//!
//! One pass over all processes finds their namespaces and the descriptors that hold namespaces open (`process_scan.rs`);
//! with BPF another pass replaces the latter and also finds sockets that keep a namespace alive (`descriptors.rs`). The
//! mount tables have names and other mounts (`mounts.rs`). Each namespace is entered once to read its counts (`visit.rs`).
//!
//! What it deliberately does not do: list sockets; or read, without BPF, the descriptor tables of single threads
//! (`unshare(CLONE_FILES)`), messages in flight that contain descriptors, or mount namespaces without a process.

mod descriptors;
mod members;
mod mounts;
mod process_scan;
mod visit;

pub use members::{NetnsProcesses, is_in_netns, process_name};

use crate::bpf::BpfEngine;
use crate::names::{FirstProcesses, SeenProcess, SystemNames};
use crate::outcome::Reason;
use crate::owners::ScanError;
use crate::process_netns::own_namespace;
use crate::query::Choice;
use crate::threads::for_each;
use descriptors::{ForeignSockets, NetnsDescriptors};
use mounts::Mounts;
use process_scan::{NetnsTasks, ProcessScan};
use rustix::time::{ClockId, clock_gettime};
use sockeye_model::{
    Age, AgeFrom, Comm, DescriptorHolder, Fd, Losses, MountHolder, Namespace, NetnsInode, NetnsName, Pid,
    Process, ThreadHolder, TruncatedList, natural_order,
};
use sockeye_sys::proc_mount::{self, ProcProblem};
use sockeye_wire::proc_pid;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;
use visit::{NetnsEntry, NetnsStats, OpenVia, VisitStatus};

/// Options of a survey.
pub struct SurveyOptions<'a> {
    /// Names; the survey adds the first process of each namespace.
    pub names: &'a SystemNames,
    /// The BPF programs, which find namespaces that only sockets keep alive.
    pub engine: &'a BpfEngine,
    /// The sources that may be used.
    pub choice: Choice,
    /// Whether to find the containers of named namespaces too.
    pub containers: bool,
    /// Whether to enter each namespace for its counts of sockets and interfaces and its nsid.
    pub counts: bool,
    /// Whether to read the mounts of every mount namespace, however long it takes.
    pub complete: bool,
    /// Called once with the number of namespaces to enter, then with 0 after each.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// All namespaces, and what could not be read.
#[derive(Debug, Default)]
pub struct Survey {
    /// Sorted in the natural order of their names; unnamed ones follow, sorted by inode.
    pub namespaces: Vec<Namespace>,
    /// Processes that could not be read and namespaces that could not be entered.
    pub losses: Losses,
    /// Unreadable processes whose namespace is unknown. Descriptors of the other unreadable processes are unknown.
    pub unplaced_processes: u64,
    /// Namespaces that were not entered because we ran out of descriptors.
    pub out_of_descriptors: u64,
    /// Names whose namespace is gone.
    pub stale_names: u64,
    /// Mount namespaces that were not read.
    pub unread_mounts: u64,
    /// Whether `/proc` hides the processes of other users.
    pub hidden: bool,
    /// Why no process is known; `None` if `/proc` is usable.
    pub proc_error: Option<ProcProblem>,
    /// Why namespaces that only sockets keep alive were not found; `None` if they were.
    pub socket_scan_error: Option<Reason>,
}

/// Returns all file names in the folder of namespace names, in natural order, including stale ones.
///
/// # Errors
/// When the folder cannot be read; a missing folder is empty.
pub fn names() -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    match fs::read_dir(NetnsName::FOLDER) {
        Ok(files) => {
            for file in files {
                names.push(file?.file_name());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    names.sort_by(|a, b| natural_order(a.as_bytes(), b.as_bytes()));
    Ok(names)
}

/// Finds all namespaces.
///
/// # Errors
/// When `/proc` is mounted and cannot be read. A process or namespace that may not be read is counted.
pub fn survey(options: &SurveyOptions<'_>) -> Result<Survey, ScanError> {
    let proc_error = proc_mount::problem();
    // 1. Our own counts, before we open a socket.
    let own = own_namespace();
    let own_stats = if options.counts {
        visit::own()
    } else {
        NetnsStats::default()
    };
    // 2. In this order: our mounts, the names, the descriptors, the processes. A process that enters a namespace meanwhile is
    // then found there, and a namespace that vanishes meanwhile is not reported.
    let nsfs = sockeye_sys::netns::open_own()
        .and_then(rustix::fs::fstat)
        .ok()
        .map(|stat| stat.st_dev);
    let (mut mounts, held) = std::thread::scope(|scope| {
        let own_mounts = || {
            let mounts = Mounts::own();
            options.names.namespaces();
            mounts
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, own_mounts);
        let held = match options.choice {
            Choice::Auto | Choice::Bpf => NetnsDescriptors::read(options.engine)
                .map_err(|unavailable| Reason::Bpf(Box::new(unavailable))),
            Choice::Diag | Choice::DiagV2 | Choice::Procfs => Err(Reason::NotSelected),
        };
        let mounts = match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(mounts)) => mounts,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The thread could not be started.
            Err(_) => own_mounts(),
        };
        (mounts, held)
    });
    let named = options.names.namespaces();
    let paths: HashSet<&[u8]> = named
        .all()
        .iter()
        .map(|named| named.path.as_os_str().as_bytes())
        .collect();
    mounts.keep_names(NetnsName::FOLDER.as_bytes(), |path| paths.contains(path));
    let scan = |with_descriptors| {
        if proc_error.is_some() {
            return Ok(ProcessScan::unknown());
        }
        ProcessScan::scan(nsfs, with_descriptors).map_err(|errno| ScanError::of("/proc".into(), errno))
    };
    // 3. The namespaces of the processes.
    let mut scanned = scan(held.is_err())?;
    let (sockets, socket_scan_error) = match held {
        Ok(held) => {
            scanned.held = held.descriptors;
            (held.sockets, None)
        }
        Err(reason) => (HashMap::new(), Some(reason)),
    };
    if !scanned.unreadable.is_empty()
        && matches!(options.choice, Choice::Auto | Choice::Bpf)
        && let Ok(processes) = options.engine.processes()
    {
        let processes = processes
            .iter()
            .filter_map(|found| Some((found.process.pid, found.netns?)));
        scanned.place_unreadable(processes);
    }
    let mut first = FirstProcesses::default();
    for (inode, tasks) in &scanned.tasks {
        if let Some(pid) = tasks.first.first() {
            first.record(&SeenProcess::of(*inode, *pid));
        }
    }
    options.names.set_first_processes(first);
    // 4. Mounts in other mount namespaces. Processes may have entered the namespaces that only these show.
    let own_mounts = fs::read_link("/proc/thread-self/ns/mnt")
        .ok()
        .and_then(|target| proc_pid::namespace_inode(target.as_os_str().as_bytes()));
    let known: HashSet<NetnsInode> = mounts.of.keys().copied().collect();
    mounts.read_others(&scanned.mount_namespaces, own_mounts, options.complete);
    let is_new = |inode: &NetnsInode| !known.contains(inode) && named.all_of(*inode).next().is_none();
    let mut mounted = mounts.of.keys();
    if mounted.any(|inode| is_new(inode) && !scanned.tasks.contains_key(inode)) {
        let later = scan(false)?;
        let tasks = later.tasks.into_iter().filter(|(inode, _)| is_new(inode));
        for (inode, tasks) in tasks {
            scanned.tasks.entry(inode).or_insert(tasks);
        }
    }
    let mut surveyor = Surveyor {
        options,
        own,
        scanned,
        mounts,
        sockets,
        comms: HashMap::new(),
    };
    // 5. The counts of each namespace.
    let mut survey = Survey {
        losses: Losses {
            unreadable_processes: surveyor.scanned.unreadable.len() as u64,
            ..Losses::default()
        },
        unplaced_processes: surveyor.scanned.lost as u64,
        stale_names: options.names.namespaces().unreadable(),
        unread_mounts: surveyor.mounts.unread,
        hidden: surveyor.scanned.hidden && proc_error.is_none(),
        proc_error,
        socket_scan_error,
        ..Survey::default()
    };
    let entries = surveyor.entries();
    let mut all_stats = surveyor.enter(&entries);
    if let Some(place) = entries.iter().position(|entry| Some(entry.inode) == own) {
        all_stats[place] = NetnsStats {
            id: all_stats[place].id,
            ..own_stats
        };
    }
    let is_shut = |(entry, stats): (&NetnsEntry, &NetnsStats)| {
        stats.status == VisitStatus::Gone && surveyor.sockets.contains_key(&entry.inode)
    };
    if entries.iter().zip(&all_stats).any(is_shut) {
        // The owners of the sockets may have ended meanwhile.
        surveyor.sockets = NetnsDescriptors::read(options.engine)
            .map(|held| held.sockets)
            .unwrap_or_default();
    }
    for (entry, stats) in entries.iter().zip(&all_stats) {
        match stats.status {
            // It cannot be opened, but its sockets show that it exists.
            VisitStatus::Gone if surveyor.sockets.contains_key(&entry.inode) => {}
            VisitStatus::Gone | VisitStatus::NotNetns => continue,
            VisitStatus::Denied => survey.losses.unreadable_namespaces += 1,
            VisitStatus::NoDescriptors => survey.out_of_descriptors += 1,
            VisitStatus::Read => {}
        }
        survey.namespaces.push(surveyor.namespace(entry.inode, stats));
    }
    // 6. The labels.
    surveyor.set_labels(&mut survey.namespaces);
    sort(&mut survey.namespaces);
    Ok(survey)
}

/// The results of the passes over processes, descriptors and mounts.
struct Surveyor<'a> {
    options: &'a SurveyOptions<'a>,
    own: Option<NetnsInode>,
    scanned: ProcessScan,
    mounts: Mounts,
    /// Processes with sockets in another namespace than their own.
    sockets: HashMap<NetnsInode, ForeignSockets>,
    /// Names of holders.
    comms: HashMap<Pid, Process>,
}

impl Surveyor<'_> {
    /// Returns all namespaces, sorted by inode, with paths to open them.
    fn entries(&self) -> Vec<NetnsEntry> {
        let mut paths: BTreeMap<NetnsInode, Vec<OpenVia>> = BTreeMap::new();
        if let Some(own) = self.own {
            paths
                .entry(own)
                .or_default()
                .push(OpenVia::Path("/proc/self/ns/net".into()));
        }
        for named in self.options.names.namespaces().all() {
            let paths = paths.entry(named.inode).or_default();
            if paths.len() < PATHS_MAX {
                paths.push(OpenVia::Path(named.path.clone()));
            }
        }
        for (inode, tasks) in &self.scanned.tasks {
            let paths = paths.entry(*inode).or_default();
            paths.extend(tasks.first.iter().take(2).map(|pid| OpenVia::Process(*pid)));
            if tasks.first.is_empty() {
                let threads = tasks.foreign_threads.first.iter();
                paths.extend(threads.map(|thread| OpenVia::Thread(thread.pid, thread.tid)));
            }
        }
        for (inode, mounts) in &self.mounts.of {
            let paths = paths.entry(*inode).or_default();
            for mount in mounts.first.iter().take(PATHS_MAX.saturating_sub(paths.len())) {
                let mut path = match mount.pid {
                    Some(pid) => format!("/proc/{pid}/root").into_bytes(),
                    None => Vec::new(),
                };
                path.extend_from_slice(&mount.path);
                paths.push(OpenVia::Path(PathBuf::from(OsString::from_vec(path))));
            }
        }
        for (inode, held) in &self.scanned.held {
            let paths = paths.entry(*inode).or_default();
            let held = held.first.iter().take(PATHS_MAX.saturating_sub(paths.len()));
            paths.extend(held.map(|held| OpenVia::Descriptor(held.pid, held.fd.0)));
        }
        for inode in self.sockets.keys() {
            paths.entry(*inode).or_default();
        }
        paths
            .into_iter()
            .map(|(inode, paths)| NetnsEntry {
                inode,
                paths,
                process: self.tasks(inode).and_then(|tasks| tasks.first.first().copied()),
            })
            .collect()
    }

    fn tasks(&self, inode: NetnsInode) -> Option<&NetnsTasks> {
        self.scanned.tasks.get(&inode)
    }

    fn enter(&self, entries: &[NetnsEntry]) -> Vec<NetnsStats> {
        if !self.options.counts {
            return vec![NetnsStats::default(); entries.len()];
        }
        (self.options.progress)(entries.len());
        visit::look(entries, visit::count_ids(), &|| (self.options.progress)(0))
    }

    fn namespace(&mut self, inode: NetnsInode, stats: &NetnsStats) -> Namespace {
        let mut namespace = Namespace::new(inode);
        namespace.names = self
            .options
            .names
            .namespaces()
            .all_of(inode)
            .filter_map(|named| NetnsName::of_file(named.path.file_name()?).ok())
            .collect();
        namespace.is_own = Some(inode) == self.own;
        namespace.id = stats.id;
        namespace.sockets = stats.sockets;
        namespace.interfaces = stats.interfaces;
        let (processes, threads) = self
            .tasks(inode)
            .map_or((0, 0), |tasks| (tasks.processes, tasks.threads));
        let known = |count: u32| (count > 0 || !self.scanned.is_incomplete()).then_some(count);
        namespace.processes = known(processes);
        namespace.threads = known(threads);
        namespace.age = self.age(inode);
        self.set_holders(&mut namespace);
        if stats.status == VisitStatus::Gone {
            // The sockets with a foreign owner are all that is known.
            namespace.sockets = self.sockets.get(&inode).map(|sockets| sockets.sockets);
        }
        namespace
    }

    fn age(&self, inode: NetnsInode) -> Option<Age> {
        let names = self.options.names.namespaces();
        let since = names.all_of(inode).map(|named| named.since_s).min();
        let ours = self.mounts.of.get(&inode).and_then(|mounts| mounts.first.first());
        // The path of a mount in another mount namespace goes through the root of a process there.
        let since = since.or_else(|| {
            let mount = ours?;
            let root = mount.pid.map_or(String::new(), |pid| format!("/proc/{pid}/root"));
            let path = [root.as_bytes(), &mount.path].concat();
            let file = fs::metadata(PathBuf::from(OsString::from_vec(path))).ok()?;
            (file.ino() == u64::from(inode.0)).then(|| file.ctime())
        });
        let aged = |since: i64, from| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let seconds = now.as_secs().saturating_sub(u64::try_from(since).ok()?);
            Some(Age { seconds, from })
        };
        let tasks = self.tasks(inode);
        let by_process = || {
            // An older process may be among those that could not be read.
            if self.scanned.is_incomplete() {
                return None;
            }
            let began = tasks?.first.iter().filter_map(|pid| began_s_ago(*pid));
            began.max().map(|seconds| Age {
                seconds,
                from: AgeFrom::Process,
            })
        };
        let by_holder = || {
            let held = self.scanned.held.get(&inode)?.first.first()?;
            let file = fs::metadata(format!("/proc/{}/fd/{}", held.pid, held.fd)).ok()?;
            let is_it = file.ino() == u64::from(inode.0);
            is_it.then(|| aged(file.ctime(), AgeFrom::Descriptor)).flatten()
        };
        // The initial namespace is as old as the host, whenever it was mounted.
        if tasks.is_some_and(|tasks| tasks.first.first() == Some(&Pid(1))) {
            return by_process();
        }
        if let Some(since) = since {
            return aged(since, AgeFrom::Mount);
        }
        match (by_holder(), by_process()) {
            (Some(held), Some(process)) if process.seconds > held.seconds => Some(process),
            (held, process) => held.or(process),
        }
    }

    fn set_holders(&mut self, namespace: &mut Namespace) {
        let inode = namespace.inode;
        if let Some(mounts) = self.mounts.of.remove(&inode) {
            let names = self.options.names.namespaces();
            let is_name = |mount: &mounts::Mount| {
                let mut paths = names.all_of(inode).map(|named| named.path.as_os_str().as_bytes());
                mount.pid.is_none() && paths.any(|path| path == mount.path)
            };
            let of_names = mounts.first.iter().filter(|mount| is_name(mount)).count() as u64;
            let others = mounts.first.iter().filter(|mount| !is_name(mount));
            namespace.holders.mounts = TruncatedList {
                total: mounts.total - of_names,
                first: others
                    .map(|mount| MountHolder {
                        process: mount.pid.map(|pid| self.process(pid)),
                        path: mount.path.as_slice().into(),
                    })
                    .collect(),
            };
        }
        if let Some(held) = self.scanned.held.remove(&inode) {
            namespace.holders.descriptors = with_processes(&held, |held| DescriptorHolder {
                process: self.process(held.pid),
                fd: Fd(held.fd.0),
            });
        }
        let sockets = self.sockets.get(&inode);
        namespace.holders.sockets = sockets.map(|sockets| sockets.holders.clone()).unwrap_or_default();
        let foreign_threads = self
            .scanned
            .tasks
            .get_mut(&inode)
            .map(|tasks| std::mem::take(&mut tasks.foreign_threads));
        if let Some(foreign_threads) = foreign_threads {
            namespace.holders.threads = with_processes(&foreign_threads, |thread| ThreadHolder {
                process: self.process(thread.pid),
                tid: thread.tid,
            });
        }
    }

    fn process(&mut self, pid: Pid) -> Process {
        *self.comms.entry(pid).or_insert_with(|| process(pid))
    }

    /// Sets the label and the container of each namespace.
    fn set_labels(&self, namespaces: &mut [Namespace]) {
        let names = self.options.names;
        let inodes: Vec<NetnsInode> = namespaces.iter().map(|namespace| namespace.inode).collect();
        // The names are cached; this fills the cache on several threads.
        for_each(&inodes, |inode, (): &mut ()| {
            names.netns_name(*inode);
            if self.options.containers {
                names.container_in(*inode);
            }
        });
        for namespace in namespaces {
            // A label made of the inode is no name.
            let label = names
                .netns_name(namespace.inode)
                .filter(|name| !name.starts_with("net:["));
            namespace.label = label.map(Into::into);
            let is_named = names.namespaces().chosen_name(namespace.inode).is_some();
            if self.options.containers || !(is_named || namespace.is_own) {
                namespace.container = names.container_in(namespace.inode).map(Into::into);
            }
        }
    }
}

/// Converts the entries of a list.
fn with_processes<T, U>(list: &TruncatedList<T>, convert: impl FnMut(&T) -> U) -> TruncatedList<U> {
    TruncatedList {
        total: list.total,
        first: list.first.iter().map(convert).collect(),
    }
}

/// Returns a process with its name; without a name if it has ended.
fn process(pid: Pid) -> Process {
    let comm = process_name(pid).unwrap_or_default();
    Process {
        pid,
        pgid: None,
        comm: Comm::new(&comm),
    }
}

/// Returns the age of a process in seconds; `None` if it has ended.
fn began_s_ago(pid: Pid) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let start_s = proc_pid::start_ticks(&stat)? / sockeye_sys::clock_ticks_per_s();
    let now = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).ok()?;
    Some(now.saturating_sub(start_s))
}

/// Sorts named namespaces in natural order, then unnamed ones by inode.
fn sort(namespaces: &mut [Namespace]) {
    namespaces.sort_by(|a, b| {
        let name = |namespace: &Namespace| {
            namespace
                .names
                .first()
                .map(|name| name.as_os_str().as_bytes().to_vec())
        };
        match (name(a), name(b)) {
            (Some(a_name), Some(b_name)) => natural_order(&a_name, &b_name).then(a.inode.cmp(&b.inode)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => a.inode.cmp(&b.inode),
        }
    });
}

/// Maximum number of paths per namespace.
const PATHS_MAX: usize = 4;
