//! Every network namespace of the host: with a name or without, lived in or merely held.
//!
//! One pass over all processes tells who lives where and who holds what open (`processes.rs`), the tables of mounts
//! tell of names and their like (`mounts.rs`), and each namespace is entered once to be asked for its counts (`inside.rs`). Where BPF
//! is there, descriptors are told by that (`held.rs`), and with them the sockets that keep a namespace in which nobody lives.
//!
//! What it deliberately does not do: list sockets, or look into threads' own tables of descriptors
//! (`unshare(CLONE_FILES)`) without BPF, messages under way with descriptors in them, or mount namespaces that no process is in.

mod held;
mod inside;
mod mounts;
mod processes;
mod residents;

pub use residents::{Residents, lives_in, process_name};

use crate::bpf::Engine;
use crate::names::{FirstProcesses, Sighting, SystemNames, own_namespace};
use crate::owners::{ScanError, for_each};
use crate::{Choice, Reason};
use held::{Held, SocketsElsewhere};
use inside::{Door, Fate, Inside, Way};
use mounts::Mounts;
use processes::{Inhabitants, Lives};
use rustix::time::{ClockId, clock_gettime};
use sockeye_model::{
    Age, AgeFrom, Comm, DescriptorKeeper, Fd, Few, Losses, MountKeeper, Namespace, NetnsInode, NetnsName,
    Pid, Process, ThreadKeeper, natural_order,
};
use sockeye_wire::proc_pid;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// What shall be found out.
pub struct Look<'a> {
    /// The names of things; told on the way which namespaces and processes there are.
    pub names: &'a SystemNames,
    /// For namespaces that only sockets keep.
    pub engine: &'a Engine,
    /// Whether the engine may be asked.
    pub choice: Choice,
    /// The containers also of namespaces that have names.
    pub containers: bool,
    /// Sockets, interfaces and numbers.
    pub counts: bool,
    /// The mounts of every mount namespace, however many there are.
    pub complete: bool,
    /// Called once with how many namespaces there are to enter, and after each with 0.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Every namespace, and what could not be seen.
#[derive(Debug, Default)]
pub struct Survey {
    /// In the natural order of their names; those without one behind them, by inode.
    pub namespaces: Vec<Namespace>,
    /// Processes that could not be read, namespaces that could not be entered.
    pub losses: Losses,
    /// Of the processes that could not be read, how many live nobody knows where; what the others hold open is unknown.
    pub lost_processes: u64,
    /// Namespaces that were not entered because we may have so few descriptors.
    pub without_descriptors: u64,
    /// Names that are no namespaces: remains of some.
    pub remains: u64,
    /// Mount namespaces that were not looked at.
    pub unread_mounts: u64,
    /// `/proc` keeps the processes of others out of sight.
    pub hidden: bool,
    /// Why namespaces that only sockets keep were not looked for.
    pub without_sockets: Option<Reason>,
}

/// The names of all namespaces that have one, in their natural order: what is in the folder of names, namespaces or remains.
///
/// # Errors
/// Those of reading the folder; that there is none is no error.
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

/// Looks at every namespace.
///
/// # Errors
/// When there is no `/proc` to read. What may not be read is no error, but counted.
pub fn survey(look: &Look<'_>) -> Result<Survey, ScanError> {
    // 1. Ourselves, before we open a socket.
    let own = own_namespace();
    let own_inside = if look.counts {
        inside::own()
    } else {
        Inside::default()
    };
    // 2. Where they are mounted here, then their names, then who holds what, then who lives where: whoever comes in between is
    // seen to live there, and what goes in between is not found any more.
    let nsfs = fs::metadata("/proc/thread-self/ns/net")
        .ok()
        .map(|file| file.dev());
    let (mut mounts, held) = std::thread::scope(|scope| {
        let own_mounts = || {
            let mounts = Mounts::own();
            look.names.namespaces();
            mounts
        };
        let beside = std::thread::Builder::new().spawn_scoped(scope, own_mounts);
        let held = match look.choice {
            Choice::Auto | Choice::Bpf => {
                Held::read(look.engine).map_err(|obstacle| Reason::Bpf(Box::new(obstacle)))
            }
            Choice::Diag | Choice::DiagV2 | Choice::Procfs => Err(Reason::NotAsked),
        };
        let mounts = match beside.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(mounts)) => mounts,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread to be had.
            Err(_) => own_mounts(),
        };
        (mounts, held)
    });
    let named = look.names.namespaces();
    let paths: HashSet<&[u8]> = named
        .all()
        .iter()
        .map(|named| named.path.as_os_str().as_bytes())
        .collect();
    mounts.keep_names(NetnsName::FOLDER.as_bytes(), |path| paths.contains(path));
    let scan = |with_descriptors| {
        Inhabitants::scan(nsfs, with_descriptors).map_err(|errno| ScanError::Unreadable {
            path: PathBuf::from("/proc"),
            errno,
        })
    };
    // 3. Who lives where.
    let mut inhabitants = scan(held.is_err())?;
    let (sockets, without_sockets) = match held {
        Ok(held) => {
            inhabitants.held = held.descriptors;
            (held.sockets, None)
        }
        Err(reason) => (HashMap::new(), Some(reason)),
    };
    if !inhabitants.unreadable.is_empty()
        && matches!(look.choice, Choice::Auto | Choice::Bpf)
        && let Ok(told) = look.engine.processes()
    {
        let told = told
            .iter()
            .filter_map(|told| Some((told.process.pid, told.netns?)));
        inhabitants.place_unreadable(told);
    }
    let mut first = FirstProcesses::default();
    for (inode, lives) in &inhabitants.lives {
        if let Some(pid) = lives.first.first() {
            first.see(&Sighting::of(*inode, *pid));
        }
    }
    look.names.tell_processes(first);
    // 4. Where others have them mounted. Of what is known by that alone, those who live there may have come meanwhile.
    let own_mounts = fs::read_link("/proc/thread-self/ns/mnt")
        .ok()
        .and_then(|target| proc_pid::namespace_inode(target.as_os_str().as_bytes()));
    let known: HashSet<NetnsInode> = mounts.of.keys().copied().collect();
    mounts.read_others(&inhabitants.mount_namespaces, own_mounts, look.complete);
    let is_new = |inode: &NetnsInode| !known.contains(inode) && named.all_of(*inode).next().is_none();
    let mut mounted = mounts.of.keys();
    if mounted.any(|inode| is_new(inode) && !inhabitants.lives.contains_key(inode)) {
        let later = scan(false)?;
        let lives = later.lives.into_iter().filter(|(inode, _)| is_new(inode));
        for (inode, lives) in lives {
            inhabitants.lives.entry(inode).or_insert(lives);
        }
    }
    let mut gathered = Gathered {
        look,
        own,
        inhabitants,
        mounts,
        sockets,
        comms: HashMap::new(),
    };
    // 5. Into each.
    let mut survey = Survey {
        losses: Losses {
            unreadable_processes: gathered.inhabitants.unreadable.len() as u64,
            ..Losses::default()
        },
        lost_processes: gathered.inhabitants.lost as u64,
        remains: look.names.namespaces().unreadable(),
        unread_mounts: gathered.mounts.unread,
        hidden: gathered.inhabitants.hidden,
        without_sockets,
        ..Survey::default()
    };
    let doors = gathered.doors();
    let mut insides = gathered.enter(&doors);
    if let Some(place) = doors.iter().position(|door| Some(door.inode) == own) {
        insides[place] = Inside {
            id: insides[place].id,
            ..own_inside
        };
    }
    let is_shut = |(door, inside): (&Door, &Inside)| {
        inside.fate == Fate::Gone && gathered.sockets.contains_key(&door.inode)
    };
    if doors.iter().zip(&insides).any(is_shut) {
        // Those that held sockets may have ended meanwhile.
        gathered.sockets = Held::read(look.engine)
            .map(|held| held.sockets)
            .unwrap_or_default();
    }
    for (door, inside) in doors.iter().zip(&insides) {
        match inside.fate {
            // It is nowhere to be opened, but its sockets tell that it is there.
            Fate::Gone if gathered.sockets.contains_key(&door.inode) => {}
            Fate::Gone | Fate::NoNetns => continue,
            Fate::Closed => survey.losses.unreadable_namespaces += 1,
            Fate::Later => survey.without_descriptors += 1,
            Fate::Seen => {}
        }
        survey.namespaces.push(gathered.namespace(door.inode, inside));
    }
    // 6. What they are called.
    gathered.call(&mut survey.namespaces);
    sort(&mut survey.namespaces);
    Ok(survey)
}

/// Everything that was seen from outside.
struct Gathered<'a> {
    look: &'a Look<'a>,
    own: Option<NetnsInode>,
    inhabitants: Inhabitants,
    mounts: Mounts,
    /// Processes with sockets in a namespace in which they do not live.
    sockets: HashMap<NetnsInode, SocketsElsewhere>,
    /// Names of processes that hold something.
    comms: HashMap<Pid, Process>,
}

impl Gathered<'_> {
    /// All namespaces, in the order of their inodes, with the ways to them.
    fn doors(&self) -> Vec<Door> {
        let mut ways: BTreeMap<NetnsInode, Vec<Way>> = BTreeMap::new();
        if let Some(own) = self.own {
            ways.entry(own)
                .or_default()
                .push(Way::Path("/proc/self/ns/net".into()));
        }
        for named in self.look.names.namespaces().all() {
            let ways = ways.entry(named.inode).or_default();
            if ways.len() < WAYS_MAX {
                ways.push(Way::Path(named.path.clone()));
            }
        }
        for (inode, lives) in &self.inhabitants.lives {
            let ways = ways.entry(*inode).or_default();
            ways.extend(lives.first.iter().take(2).map(|pid| Way::Process(*pid)));
            if lives.first.is_empty() {
                let threads = lives.strays.first.iter();
                ways.extend(threads.map(|stray| Way::Thread(stray.pid, stray.tid)));
            }
        }
        for (inode, mounts) in &self.mounts.of {
            let ways = ways.entry(*inode).or_default();
            for mount in mounts.first.iter().take(WAYS_MAX.saturating_sub(ways.len())) {
                let mut path = match mount.pid {
                    Some(pid) => format!("/proc/{pid}/root").into_bytes(),
                    None => Vec::new(),
                };
                path.extend_from_slice(&mount.path);
                ways.push(Way::Path(PathBuf::from(OsString::from_vec(path))));
            }
        }
        for (inode, held) in &self.inhabitants.held {
            let ways = ways.entry(*inode).or_default();
            let held = held.first.iter().take(WAYS_MAX.saturating_sub(ways.len()));
            ways.extend(held.map(|held| Way::Descriptor(held.pid, held.fd.0)));
        }
        for inode in self.sockets.keys() {
            ways.entry(*inode).or_default();
        }
        ways.into_iter()
            .map(|(inode, ways)| Door {
                inode,
                ways,
                process: self.lives(inode).and_then(|lives| lives.first.first().copied()),
            })
            .collect()
    }

    fn lives(&self, inode: NetnsInode) -> Option<&Lives> {
        self.inhabitants.lives.get(&inode)
    }

    fn enter(&self, doors: &[Door]) -> Vec<Inside> {
        if !self.look.counts {
            return vec![Inside::default(); doors.len()];
        }
        (self.look.progress)(doors.len());
        inside::look(doors, inside::count_ids(), &|| (self.look.progress)(0))
    }

    fn namespace(&mut self, inode: NetnsInode, inside: &Inside) -> Namespace {
        let mut namespace = Namespace::new(inode);
        namespace.names = self
            .look
            .names
            .namespaces()
            .all_of(inode)
            .filter_map(|named| NetnsName::of_file(named.path.file_name()?).ok())
            .collect();
        namespace.is_own = Some(inode) == self.own;
        namespace.id = inside.id;
        namespace.sockets = inside.sockets;
        namespace.interfaces = inside.interfaces;
        let (processes, threads) = self
            .lives(inode)
            .map_or((0, 0), |lives| (lives.processes, lives.threads));
        let known = |count: u32| (count > 0 || !self.inhabitants.is_incomplete()).then_some(count);
        namespace.processes = known(processes);
        namespace.threads = known(threads);
        namespace.age = self.age(inode);
        self.note_keepers(&mut namespace);
        if inside.fate == Fate::Gone {
            // What is held is all that is known.
            namespace.sockets = self.sockets.get(&inode).map(|sockets| sockets.sockets);
        }
        namespace
    }

    fn age(&self, inode: NetnsInode) -> Option<Age> {
        let names = self.look.names.namespaces();
        let since = names.all_of(inode).map(|named| named.since_s).min();
        let ours = self.mounts.of.get(&inode).and_then(|mounts| mounts.first.first());
        // The path of a mount of others is looked at by way of them.
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
        let lives = self.lives(inode);
        let by_process = || {
            // An older one may be among those that were not seen.
            if self.inhabitants.is_incomplete() {
                return None;
            }
            let began = lives?.first.iter().filter_map(|pid| began_s_ago(*pid));
            began.max().map(|seconds| Age {
                seconds,
                from: AgeFrom::Process,
            })
        };
        let by_holder = || {
            let held = self.inhabitants.held.get(&inode)?.first.first()?;
            let file = fs::metadata(format!("/proc/{}/fd/{}", held.pid, held.fd)).ok()?;
            let is_it = file.ino() == u64::from(inode.0);
            is_it.then(|| aged(file.ctime(), AgeFrom::Held)).flatten()
        };
        // The first namespace began with the host, whenever somebody mounted it.
        if lives.is_some_and(|lives| lives.first.first() == Some(&Pid(1))) {
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

    fn note_keepers(&mut self, namespace: &mut Namespace) {
        let inode = namespace.inode;
        if let Some(mounts) = self.mounts.of.remove(&inode) {
            let names = self.look.names.namespaces();
            let is_name = |mount: &mounts::Mount| {
                let mut paths = names.all_of(inode).map(|named| named.path.as_os_str().as_bytes());
                mount.pid.is_none() && paths.any(|path| path == mount.path)
            };
            let of_names = mounts.first.iter().filter(|mount| is_name(mount)).count() as u64;
            let others = mounts.first.iter().filter(|mount| !is_name(mount));
            namespace.keepers.mounts = Few {
                total: mounts.total - of_names,
                first: others
                    .map(|mount| MountKeeper {
                        process: mount.pid.map(|pid| self.process(pid)),
                        path: mount.path.as_slice().into(),
                    })
                    .collect(),
            };
        }
        if let Some(held) = self.inhabitants.held.remove(&inode) {
            namespace.keepers.descriptors = Few {
                total: held.total,
                first: held
                    .first
                    .iter()
                    .map(|held| DescriptorKeeper {
                        process: self.process(held.pid),
                        fd: Fd(held.fd.0),
                    })
                    .collect(),
            };
        }
        let sockets = self.sockets.get(&inode);
        namespace.keepers.sockets = sockets.map(|sockets| sockets.holders.clone()).unwrap_or_default();
        let strays = self
            .inhabitants
            .lives
            .get_mut(&inode)
            .map(|lives| std::mem::take(&mut lives.strays));
        if let Some(strays) = strays {
            namespace.keepers.threads = Few {
                total: strays.total,
                first: strays
                    .first
                    .iter()
                    .map(|stray| ThreadKeeper {
                        process: self.process(stray.pid),
                        tid: stray.tid,
                    })
                    .collect(),
            };
        }
    }

    fn process(&mut self, pid: Pid) -> Process {
        *self.comms.entry(pid).or_insert_with(|| process(pid))
    }

    /// Finds what each is called, and its container.
    fn call(&self, namespaces: &mut [Namespace]) {
        let names = self.look.names;
        let wanted: Vec<NetnsInode> = namespaces.iter().map(|namespace| namespace.inode).collect();
        // Names are kept where they are found; so many are best looked for at once.
        for_each(&wanted, |inode, (): &mut ()| {
            names.netns_name(*inode);
            if self.look.containers {
                names.container_in(*inode);
            }
        });
        for namespace in namespaces {
            // Its number is no name.
            let called = names
                .netns_name(namespace.inode)
                .filter(|name| !name.starts_with("net:["));
            namespace.called = called.map(Into::into);
            let is_named = names.namespaces().chosen_name(namespace.inode).is_some();
            if self.look.containers || !(is_named || namespace.is_own) {
                namespace.container = names.container_in(namespace.inode).map(Into::into);
            }
        }
    }
}

/// A process by its number; without a name if it has ended.
fn process(pid: Pid) -> Process {
    let comm = process_name(pid).unwrap_or_default();
    Process {
        pid,
        pgid: None,
        comm: Comm::new(&comm),
    }
}

/// How many seconds ago a process began.
fn began_s_ago(pid: Pid) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let start_s = proc_pid::start_ticks(&stat)? / rustix::param::clock_ticks_per_second().max(1);
    let now = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).ok()?;
    Some(now.saturating_sub(start_s))
}

/// Names in their natural order, then those without one.
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

/// So many ways to a namespace are tried.
const WAYS_MAX: usize = 4;
