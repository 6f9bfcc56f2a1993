//! `--netns`: from what was typed to namespaces to look into.

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags};
use sockeye_model::{Losses, NetnsInode, Pid};
use sockeye_source::names::{FirstProcesses, SystemNames};
use sockeye_source::{BpfEngine, OpenNetns};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The network namespaces to look into.
#[derive(Debug)]
pub enum Places {
    /// Our own.
    Here,
    /// One that was named.
    One(Namespace),
    /// Every one that can be found, in the order of their inodes.
    All {
        /// The namespaces, in the order of their inodes.
        namespaces: Vec<Namespace>,
        /// How often a way in was sought again.
        searches: AtomicU32,
    },
}

/// A network namespace, and the way in.
#[derive(Debug)]
pub struct Namespace {
    inode: NetnsInode,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// With a process in it, if it was named by that.
    Open(File, Option<Pid>),
    /// To be opened when it is needed: there may be more namespaces than we may have descriptors.
    Path(PathBuf),
    Process(Pid),
}

/// How a command can be run in a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetnsAccess {
    /// It is our own.
    Here,
    /// By its name under `/run/netns`.
    Named(String),
    /// Through a process that lives in it.
    Process(Pid),
}

impl Places {
    /// Finds what `--netns` names. Namespaces that cannot be opened are counted when all are wanted, and
    /// an error when one is. With an engine, processes are looked for by BPF, if that runs here.
    pub fn find(
        netns: Option<&str>,
        names: &SystemNames,
        engine: Option<&BpfEngine>,
        losses: &mut Losses,
    ) -> anyhow::Result<Self> {
        match netns {
            None => Ok(Self::Here),
            Some("all") => Ok(Self::All {
                namespaces: all(names, engine, losses)?,
                searches: AtomicU32::new(0),
            }),
            Some(text) => one(text, names).map(Self::One),
        }
    }

    /// Each of them; `None` is where we are.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Namespace>> {
        let (here, elsewhere) = match self {
            Self::Here => (Some(None), &[][..]),
            Self::One(namespace) => (None, std::slice::from_ref(namespace)),
            Self::All { namespaces, .. } => (None, &namespaces[..]),
        };
        here.into_iter().chain(elsewhere.iter().map(Some))
    }

    /// The one with this inode, if it is among them.
    pub fn with_inode(&self, inode: NetnsInode) -> Option<&Namespace> {
        match self {
            Self::Here => None,
            Self::One(namespace) => (namespace.inode == inode).then_some(namespace),
            Self::All { namespaces, .. } => {
                let place = namespaces.binary_search_by_key(&inode, |namespace| namespace.inode);
                place.ok().map(|place| &namespaces[place])
            }
        }
    }

    /// Opens one of them for as long as `act` takes. `NotFound` if it is gone.
    pub fn open<T>(&self, namespace: &Namespace, act: impl FnOnce(OpenNetns<'_>) -> T) -> io::Result<T> {
        let inode = namespace.inode;
        let process = match namespace.way {
            Way::Process(pid) | Way::Open(_, Some(pid)) => Some(pid),
            Way::Open(_, None) | Way::Path(_) => None,
        };
        let opened = match &namespace.way {
            Way::Open(file, _) => {
                let fd = file.as_fd();
                return Ok(act(OpenNetns { fd, inode, process }));
            }
            Way::Path(path) => open_again(path, inode),
            Way::Process(pid) => open_again(&of_process(*pid), inode),
        };
        let file = opened.or_else(|error| {
            // Its name was deleted, or its first process ended: others may be in it still.
            let is_worth_it = match self {
                Self::All { searches, .. } => searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_MAX,
                _ => true,
            };
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            if !is_worth_it {
                return Err(io::Error::other(error));
            }
            let other = FirstProcesses::scan()?.of(inode).ok_or(error)?;
            open_again(&of_process(other), inode)
        })?;
        let fd = file.as_fd();
        Ok(act(OpenNetns { fd, inode, process }))
    }

    /// Whether rows have to say where they are from.
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

/// Opens the namespace that this path stands for.
fn open(path: &Path) -> io::Result<(NetnsInode, File)> {
    // A name may stand for anything: opening a FIFO must not wait, and reading a disk must not begin.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !sockeye_sys::netns::is_namespace(&file)? {
        return Err(io::Error::other("it is no namespace"));
    }
    let inode = u32::try_from(file.metadata()?.st_ino()).map_err(io::Error::other)?;
    Ok((NetnsInode(inode), file))
}

/// Opens what was found at this path before, unless something else is there by now.
fn open_again(path: &Path, inode: NetnsInode) -> io::Result<File> {
    match open(path)? {
        (found, file) if found == inode => Ok(file),
        _ => Err(ErrorKind::NotFound.into()),
    }
}

/// By name as `ip netns` keeps it, by the number of a process, by path, or by what it is called in our listings.
fn one(text: &str, names: &SystemNames) -> anyhow::Result<Namespace> {
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
                way: Way::Open(file, process),
            });
        }
        Err(error) => error,
    };
    if error.kind() == ErrorKind::NotFound {
        if let Some(namespace) = called(text, names)? {
            return Ok(namespace);
        }
        if let Some(namespace) = numbered(text, names) {
            return Ok(namespace);
        }
    }
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "namespaces of others' processes need CAP_SYS_PTRACE: run as root of the host"
        }
        _ => {
            "`ip netns list` shows names, a number is taken for a pid, text with a '/' for a path; a container's \
             name will do, or its id, or at least the first 12 digits of it, and so will an inode"
        }
    };
    Err(anyhow!(
        "cannot open network namespace {text:?} ({path:?}): {error}; {remedy}"
    ))
}

/// The namespace of a container or process, by what the netns column shows.
fn called(text: &str, names: &SystemNames) -> anyhow::Result<Option<Namespace>> {
    let meant = names.netns_matching(text);
    if let [_, _, ..] = meant {
        let list: Vec<_> = meant
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
        let more = if meant.len() > LISTED_MAX { ", ..." } else { "" };
        bail!(
            "network namespace {text:?} is ambiguous: {} are called so: {}{more}; name one by a pid",
            meant.len(),
            list.join(", ")
        );
    }
    let Some(&inode) = meant.first() else {
        return Ok(None);
    };
    let Some(pid) = names.first_processes().of(inode) else {
        return Ok(None);
    };
    let file = open_again(&of_process(pid), inode)
        .with_context(|| format!("cannot open network namespace {text:?} of process {pid}"))?;
    Ok(Some(Namespace {
        inode,
        way: Way::Open(file, Some(pid)),
    }))
}

/// The namespace with this inode, as listings show one that has no name: `4026531833` or `net:[4026531833]`.
fn numbered(text: &str, names: &SystemNames) -> Option<Namespace> {
    let digits = text
        .strip_prefix("net:[")
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let inode = NetnsInode(digits.parse().ok()?);
    let own = PathBuf::from("/proc/self/ns/net");
    let others = names.first_processes().of(inode).map(of_process);
    let mut ways = std::iter::once(own).chain(others);
    ways.find_map(|path| {
        Some(Namespace {
            inode,
            way: Way::Open(open_again(&path, inode).ok()?, None),
        })
    })
}

fn named(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

fn of_process(pid: Pid) -> PathBuf {
    format!("/proc/{pid}/ns/net").into()
}

/// Every namespace that has a name or a process, none of them opened. One pass over all processes, which names them
/// as well.
fn all(
    names: &SystemNames,
    engine: Option<&BpfEngine>,
    losses: &mut Losses,
) -> anyhow::Result<Vec<Namespace>> {
    // Names are looked at beside, if a thread can be had: each takes a system call.
    let walked = std::thread::scope(|scope| {
        let _ = std::thread::Builder::new().spawn_scoped(scope, || names.namespaces());
        engine.map(FirstProcesses::from_bpf)
    });
    let (first, by_bpf) = match walked {
        Some(Ok(first)) => (first, true),
        Some(Err(_)) | None => (FirstProcesses::scan().context("read /proc")?, false),
    };
    *losses += first.losses();
    let mut found: BTreeMap<NetnsInode, Way> = first
        .iter()
        .map(|(inode, pid)| (inode, Way::Process(pid)))
        .collect();
    names.set_first_processes(first);
    let named = names.namespaces();
    // Names come and go; a listing by BPF misses nothing for want of one.
    if !by_bpf {
        losses.unreadable_namespaces += named.unreadable();
    }
    // A name outlives processes.
    found.extend(
        named
            .all()
            .iter()
            .map(|named| (named.inode, Way::Path(named.path.clone()))),
    );
    // Ours needs no right.
    if let Ok((inode, file)) = open(Path::new("/proc/self/ns/net")) {
        found.insert(inode, Way::Open(file, None));
    }
    if found.is_empty() {
        bail!("no network namespace could be found");
    }
    Ok(found
        .into_iter()
        .map(|(inode, way)| Namespace { inode, way })
        .collect())
}

/// So often `/proc` is searched for another process in a namespace. When thousands of containers end while they are
/// listed, the rest of them are counted as unreadable.
const SEARCHES_MAX: u32 = 64;

/// So many namespaces are told apart in an error.
const LISTED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> NetnsInode {
        open(Path::new("/proc/self/ns/net")).unwrap().0
    }

    /// A process that was first in a namespace, and has ended.
    fn gone(inode: NetnsInode) -> Namespace {
        Namespace {
            inode,
            way: Way::Process(Pid(u32::MAX)),
        }
    }

    #[test]
    fn a_namespace_is_entered_by_another_process_when_the_first_has_ended() {
        let places = Places::All {
            namespaces: vec![gone(here())],
            searches: AtomicU32::new(0),
        };
        let namespace = places.with_inode(here()).unwrap();
        let found = places.open(namespace, |place| {
            (place.inode, rustix::fs::fstat(place.fd).unwrap().st_ino)
        });
        assert_eq!(found.unwrap(), (here(), u64::from(here().0)));
        // Nobody is in it.
        let found = places.open(&gone(NetnsInode(1)), |_| ());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound);
        // Another namespace has taken the name.
        let renamed = Namespace {
            inode: NetnsInode(1),
            way: Way::Path("/proc/self/ns/net".into()),
        };
        assert_eq!(
            places.open(&renamed, |_| ()).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn the_search_for_another_way_in_ends() {
        let places = Places::All {
            namespaces: Vec::new(),
            searches: AtomicU32::new(SEARCHES_MAX),
        };
        let found = places.open(&gone(here()), |_| ());
        assert_ne!(found.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
