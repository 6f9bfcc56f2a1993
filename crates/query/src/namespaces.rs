//! Namespaces selected by `--netns`.

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags};
use sockeye_console::notes::say;
use sockeye_model::{Losses, NetnsInode, Pid};
use sockeye_source::names::{FirstProcesses, SystemNames};
use sockeye_source::{BpfEngine, OpenNetns};
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{self, CheckedIn};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Network namespaces selected by `--netns`.
#[derive(Debug)]
pub enum NetnsSelection {
    /// Our own namespace.
    Here,
    /// One that was named.
    One(Namespace),
    /// Every namespace that was found.
    All {
        /// The namespaces, in the order of their inodes.
        namespaces: Vec<Namespace>,
        /// Number of searches for another process in a namespace.
        searches: AtomicU32,
    },
}

/// A network namespace and where it can be opened.
#[derive(Debug)]
pub struct Namespace {
    inode: NetnsInode,
    location: Location,
}

#[derive(Debug)]
enum Location {
    /// An open file, with the process that it was selected by, if any.
    Open(File, Option<Pid>),
    /// Opened when needed: there may be more namespaces than we may have descriptors.
    Path(PathBuf),
    Process(Pid),
    /// It is only recorded.
    Gone,
}

/// How a command can be run in a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetnsAccess {
    /// It is our own namespace.
    Here,
    /// By its name under `/run/netns`.
    Named(String),
    /// Through a process in it.
    Process(Pid),
}

impl NetnsSelection {
    /// Finds the namespaces that `--netns` selects. One that cannot be opened is counted as a loss if all are selected,
    /// else it is an error. With an engine, processes are found by BPF, if that works.
    pub fn find(
        netns: Option<&str>,
        names: &SystemNames,
        engine: Option<&BpfEngine>,
        losses: &mut Losses,
    ) -> anyhow::Result<Self> {
        match netns {
            None => Ok(Self::Here),
            Some("all") => Ok(Self::All {
                namespaces: find_all(names, engine, losses)?,
                searches: AtomicU32::new(0),
            }),
            Some(text) => find_one(text, names).map(Self::One),
        }
    }

    /// Selects our own namespace by its inode, which each of its sockets then carries.
    pub fn own() -> anyhow::Result<Self> {
        let opened = open_own().map_err(|error| {
            let remedy = proc_mount::problem().map_or(String::new(), |problem| format!("; {problem}"));
            anyhow!("cannot open the network namespace of this process: {error}{remedy}")
        });
        opened.map(|(inode, file)| {
            Self::One(Namespace {
                inode,
                location: Location::Open(file, None),
            })
        })
    }

    /// Selects one that is only recorded.
    pub(crate) const fn gone() -> Self {
        Self::One(Namespace {
            inode: NetnsInode(0),
            location: Location::Gone,
        })
    }

    /// Iterates over the namespaces; `None` is our own.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Namespace>> {
        let (here, elsewhere) = match self {
            Self::Here => (Some(None), &[][..]),
            Self::One(namespace) => (None, std::slice::from_ref(namespace)),
            Self::All { namespaces, .. } => (None, &namespaces[..]),
        };
        here.into_iter().chain(elsewhere.iter().map(Some))
    }

    /// Returns the namespace with this inode, if it is selected.
    pub fn with_inode(&self, inode: NetnsInode) -> Option<&Namespace> {
        match self {
            Self::Here => None,
            Self::One(namespace) => (namespace.inode == inode).then_some(namespace),
            Self::All { namespaces, .. } => {
                let index = namespaces.binary_search_by_key(&inode, |namespace| namespace.inode);
                index.ok().map(|index| &namespaces[index])
            }
        }
    }

    /// Opens a namespace, runs `act`, and closes it. The error is `NotFound` if it no longer exists.
    pub fn open<T>(&self, namespace: &Namespace, act: impl FnOnce(OpenNetns<'_>) -> T) -> io::Result<T> {
        let inode = namespace.inode;
        let process = match namespace.location {
            Location::Process(pid) | Location::Open(_, Some(pid)) => Some(pid),
            Location::Open(_, None) | Location::Path(_) | Location::Gone => None,
        };
        let opened = match &namespace.location {
            Location::Open(file, _) => {
                let fd = file.as_fd();
                return Ok(act(OpenNetns { fd, inode, process }));
            }
            Location::Path(path) => open_again(path, inode),
            Location::Process(pid) => open_again(&of_process(*pid), inode),
            Location::Gone => return Err(ErrorKind::NotFound.into()),
        };
        let file = opened.or_else(|error| {
            // Its name was deleted, or its first process ended: other processes may be in it.
            let may_search = match self {
                Self::All { searches, .. } => searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_MAX,
                _ => true,
            };
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            if !may_search {
                return Err(io::Error::other(error));
            }
            let other = FirstProcesses::scan()?.of(inode).ok_or(error)?;
            open_again(&of_process(other), inode)
        })?;
        let fd = file.as_fd();
        Ok(act(OpenNetns { fd, inode, process }))
    }

    /// Returns whether rows need a namespace column.
    pub const fn are_many(&self) -> bool {
        matches!(self, Self::All { .. })
    }
}

impl Namespace {
    /// Returns its inode number.
    pub const fn inode(&self) -> NetnsInode {
        self.inode
    }
}

/// Opens the namespace at a path.
fn open(path: &Path) -> io::Result<(NetnsInode, File)> {
    // The path may be of any file: opening a FIFO must not wait, and no tape must rewind.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !sockeye_sys::netns::is_namespace(&file)? {
        return Err(io::Error::other("it is no namespace"));
    }
    let inode = u32::try_from(file.metadata()?.st_ino()).map_err(io::Error::other)?;
    Ok((NetnsInode(inode), file))
}

/// Opens our own namespace, also without `/proc`.
fn open_own() -> io::Result<(NetnsInode, File)> {
    let file = File::from(sockeye_sys::netns::open_own()?);
    let inode = u32::try_from(file.metadata()?.st_ino()).map_err(io::Error::other)?;
    Ok((NetnsInode(inode), file))
}

/// Opens a namespace that was found at this path before; `NotFound` if another one is there now.
fn open_again(path: &Path, inode: NetnsInode) -> io::Result<File> {
    match open(path)? {
        (found, file) if found == inode => Ok(file),
        _ => Err(ErrorKind::NotFound.into()),
    }
}

/// Finds a namespace by its name under `/run/netns`, a pid, a path, its label in our listings, or its inode.
fn find_one(text: &str, names: &SystemNames) -> anyhow::Result<Namespace> {
    let process = text.parse().ok().map(Pid).filter(|_| !named(text).exists());
    let path: PathBuf = if text.contains('/') {
        text.into()
    } else if process.is_some() {
        format!("/proc/{text}/ns/net").into()
    } else {
        named(text)
    };
    let error = match open(&path) {
        Ok((inode, file)) => {
            return Ok(Namespace {
                inode,
                location: Location::Open(file, process),
            });
        }
        Err(error) => error,
    };
    if error.kind() == ErrorKind::NotFound {
        if let Some(namespace) = labelled(text, names)? {
            return Ok(namespace);
        }
        if let Some(namespace) = numbered(text, names) {
            return Ok(namespace);
        }
    }
    let remedy = match (error.kind(), proc_mount::problem()) {
        (ErrorKind::PermissionDenied, _) => format!(
            "namespaces of others' processes need CAP_SYS_PTRACE: {}",
            rights::remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
        ),
        // Only a name or a path is found without it.
        (ErrorKind::NotFound, Some(problem)) => problem.to_string(),
        // Process 1 exists as long as its pid namespace.
        (ErrorKind::NotFound, None) if process.is_some() && !Path::new("/proc/1").exists() => format!(
            "/proc hides the processes of other users (hidepid): {}",
            rights::remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
        ),
        _ => "`ip netns list` shows names, a number is taken for a pid, text with a '/' for a path; a container's \
              name will do, or its id, or at least the first 12 digits of it, and so will an inode"
            .to_owned(),
    };
    Err(anyhow!(
        "cannot open network namespace {text:?} ({path:?}): {error}; {remedy}"
    ))
}

/// Finds the namespace of a container or process by its label in the netns column.
fn labelled(text: &str, names: &SystemNames) -> anyhow::Result<Option<Namespace>> {
    let matching = names.netns_matching(text);
    if let [_, _, ..] = matching {
        let list: Vec<_> = matching
            .iter()
            .map(|&inode| {
                let pid = names.first_processes().of(inode);
                pid.map_or_else(
                    || format!("net:[{inode}]"),
                    |pid| format!("net:[{inode}] of pid {pid}"),
                )
            })
            .take(LISTED_MAX)
            .collect();
        let more = if matching.len() > LISTED_MAX { ", ..." } else { "" };
        bail!(
            "network namespace {text:?} is ambiguous: {} have this name: {}{more}; give a pid",
            matching.len(),
            list.join(", ")
        );
    }
    let Some(&inode) = matching.first() else {
        return Ok(None);
    };
    let Some(pid) = names.first_processes().of(inode) else {
        return Ok(None);
    };
    let file = open_again(&of_process(pid), inode)
        .with_context(|| format!("cannot open network namespace {text:?} of process {pid}"))?;
    Ok(Some(Namespace {
        inode,
        location: Location::Open(file, Some(pid)),
    }))
}

/// Finds a namespace by its inode, as listings show one without a name: `4026531833` or `net:[4026531833]`.
fn numbered(text: &str, names: &SystemNames) -> Option<Namespace> {
    let digits = text
        .strip_prefix("net:[")
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let inode = NetnsInode(digits.parse().ok()?);
    let own = open_own().ok().filter(|(own, _)| *own == inode);
    let file = own.map(|(_, file)| file).or_else(|| {
        let process = names.first_processes().of(inode)?;
        open_again(&of_process(process), inode).ok()
    })?;
    Some(Namespace {
        inode,
        location: Location::Open(file, None),
    })
}

fn named(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

fn of_process(pid: Pid) -> PathBuf {
    format!("/proc/{pid}/ns/net").into()
}

/// Finds every namespace that has a name or a process, and opens none but our own. One pass over all processes, which
/// also gives them labels.
fn find_all(
    names: &SystemNames,
    engine: Option<&BpfEngine>,
    losses: &mut Losses,
) -> anyhow::Result<Vec<Namespace>> {
    // Names are read by another thread, if it can be started: each takes a system call.
    let scanned = std::thread::scope(|scope| {
        let _ = std::thread::Builder::new().spawn_scoped(scope, || names.namespaces());
        engine.map(FirstProcesses::from_bpf)
    });
    let (first, by_bpf) = match scanned {
        Some(Ok(first)) => (first, true),
        Some(Err(_)) | None => match (FirstProcesses::scan(), proc_mount::problem()) {
            (_, Some(problem)) => {
                say(&format!(
                    "sockeye: namespaces without a name are missing: {problem}\n"
                ));
                (FirstProcesses::default(), false)
            }
            (scanned, None) => (scanned.context("read /proc")?, false),
        },
    };
    *losses += first.losses();
    let mut found: BTreeMap<NetnsInode, Location> = first
        .iter()
        .map(|(inode, pid)| (inode, Location::Process(pid)))
        .collect();
    names.set_first_processes(first);
    let named = names.namespaces();
    // A listing by BPF needs no names, so none is missing.
    if !by_bpf {
        losses.unreadable_namespaces += named.unreadable();
    }
    // Names are preferred: they last longer than processes.
    found.extend(
        named
            .all()
            .iter()
            .map(|named| (named.inode, Location::Path(named.path.clone()))),
    );
    // Our own namespace needs no right.
    if let Ok((inode, file)) = open_own() {
        found.insert(inode, Location::Open(file, None));
    }
    if found.is_empty() {
        let reason = proc_mount::problem().map_or(String::new(), |problem| format!(": {problem}"));
        bail!("no network namespace could be found{reason}");
    }
    Ok(found
        .into_iter()
        .map(|(inode, location)| Namespace { inode, location })
        .collect())
}

/// Bound on the searches in `/proc` for another process in a namespace. When thousands of containers end while they are
/// listed, the rest of them are counted as unreadable.
const SEARCHES_MAX: u32 = 64;

/// Number of namespaces that an error lists.
const LISTED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn own_inode() -> NetnsInode {
        open(Path::new("/proc/self/ns/net")).unwrap().0
    }

    /// Returns a namespace whose first process has ended.
    fn ended(inode: NetnsInode) -> Namespace {
        Namespace {
            inode,
            location: Location::Process(Pid(u32::MAX)),
        }
    }

    #[test]
    fn open_uses_another_process_when_the_first_has_ended() {
        let selection = NetnsSelection::All {
            namespaces: vec![ended(own_inode())],
            searches: AtomicU32::new(0),
        };
        let namespace = selection.with_inode(own_inode()).unwrap();
        let found = selection.open(namespace, |netns| {
            (netns.inode, rustix::fs::fstat(netns.fd).unwrap().st_ino)
        });
        assert_eq!(found.unwrap(), (own_inode(), u64::from(own_inode().0)));
        // No process is in it.
        let found = selection.open(&ended(NetnsInode(1)), |_| ());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound);
        // Another namespace has this path now.
        let renamed = Namespace {
            inode: NetnsInode(1),
            location: Location::Path("/proc/self/ns/net".into()),
        };
        assert_eq!(
            selection.open(&renamed, |_| ()).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn open_fails_after_too_many_searches() {
        let selection = NetnsSelection::All {
            namespaces: Vec::new(),
            searches: AtomicU32::new(SEARCHES_MAX),
        };
        let found = selection.open(&ended(own_inode()), |_| ());
        assert_ne!(found.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
