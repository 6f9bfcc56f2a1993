//! `--netns`: from what was typed to open namespaces.

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_model::{Losses, NetnsInode};
use sockeye_source::Place;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The network namespaces to look into.
#[derive(Debug)]
pub(crate) enum Places {
    /// Our own.
    Here,
    /// One that was named.
    One(Namespace),
    /// Every one that can be found, in the order of their inodes.
    All(Vec<Namespace>),
}

/// An open network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
    inode: NetnsInode,
}

impl Places {
    /// Finds what `--netns` names. Namespaces that cannot be opened are counted when all are wanted, and
    /// an error when one is.
    pub(crate) fn find(netns: Option<&str>, losses: &mut Losses) -> anyhow::Result<Self> {
        match netns {
            None => Ok(Self::Here),
            Some("all") => Ok(Self::All(all(losses)?)),
            Some(text) => one(text).map(Self::One),
        }
    }

    /// Each of them, as a source wants it; `None` is where we are.
    pub(crate) fn iter(&self) -> Vec<Option<Place<'_>>> {
        match self {
            Self::Here => vec![None],
            Self::One(namespace) => vec![Some(namespace.place())],
            Self::All(namespaces) => namespaces
                .iter()
                .map(|namespace| Some(namespace.place()))
                .collect(),
        }
    }

    /// Whether rows have to say where they are from.
    pub(crate) const fn are_many(&self) -> bool {
        matches!(self, Self::All(_))
    }
}

impl Namespace {
    fn open(path: &Path) -> std::io::Result<Self> {
        // A name may stand for anything: opening a FIFO must not wait, and reading a disk must not begin.
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if rustix::fs::fstatfs(&file)?.f_type != NSFS_MAGIC {
            return Err(std::io::Error::other("it is no namespace"));
        }
        let inode = u32::try_from(file.metadata()?.st_ino()).map_err(std::io::Error::other)?;
        Ok(Self {
            file,
            inode: NetnsInode(inode),
        })
    }

    fn place(&self) -> Place<'_> {
        Place {
            fd: self.file.as_fd(),
            inode: self.inode,
        }
    }
}

/// By name as `ip netns` keeps it, by the number of a process, or by path.
fn one(text: &str) -> anyhow::Result<Namespace> {
    let path: PathBuf = if text.contains('/') {
        text.into()
    } else if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !named(text).exists() {
        format!("/proc/{text}/ns/net").into()
    } else {
        named(text)
    };
    Namespace::open(&path).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => {
                "namespaces of others' processes need CAP_SYS_PTRACE: run as root of the host"
            }
            _ => "`ip netns list` shows names, a number is taken for a pid, text with a '/' for a path",
        };
        anyhow!("cannot open network namespace {text:?} ({path:?}): {error}; {remedy}")
    })
}

fn named(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Every namespace that has a name or a process.
fn all(losses: &mut Losses) -> anyhow::Result<Vec<Namespace>> {
    allow_many_files();
    let mut found: BTreeMap<u32, Namespace> = BTreeMap::new();
    let mut look = |path: &Path, losses: &mut Losses| {
        match std::fs::metadata(path) {
            Ok(metadata) => {
                let known = u32::try_from(metadata.st_ino()).is_ok_and(|inode| found.contains_key(&inode));
                if known {
                    return Ok(());
                }
                match Namespace::open(path) {
                    Ok(namespace) => drop(found.insert(namespace.inode.0, namespace)),
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => bail!(
                        "no file descriptor left after {} network namespaces; raise the limit (ulimit -n)",
                        found.len()
                    ),
                    Err(_) => losses.unreadable_namespaces += 1,
                }
            }
            // A process that just ended takes nothing with it that we could list.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => losses.unreadable_processes += 1,
        }
        Ok(())
    };
    look(Path::new("/proc/self/ns/net"), losses)?;
    if let Ok(names) = std::fs::read_dir("/run/netns") {
        for name in names.flatten() {
            look(&name.path(), losses)?;
        }
    }
    for process in std::fs::read_dir("/proc").context("read /proc")?.flatten() {
        if process
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
        {
            look(&process.path().join("ns/net"), losses)?;
        }
    }
    if found.is_empty() {
        bail!("no network namespace could be opened");
    }
    Ok(found.into_values().collect())
}

/// Each namespace needs a descriptor, and there may be more of them than the soft limit, which is often
/// 1024; up to the hard one it is ours to raise.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`: the file system whose files are namespaces.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
