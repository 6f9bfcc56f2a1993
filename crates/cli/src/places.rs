//! `--netns`: from what was typed to open namespaces.

use anyhow::{Context, bail};
use sockeye_model::{Losses, NetnsInode};
use sockeye_source::Place;
use std::collections::BTreeMap;
use std::fs::File;
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
        let file = File::open(path)?;
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
    Namespace::open(&path).with_context(|| {
        format!(
            "open network namespace {text:?} at {}; `ip netns list` shows names, a number is taken for a pid",
            path.display()
        )
    })
}

fn named(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Every namespace that has a name or a process.
fn all(losses: &mut Losses) -> anyhow::Result<Vec<Namespace>> {
    let mut found: BTreeMap<u32, Namespace> = BTreeMap::new();
    let mut look = |path: &Path, losses: &mut Losses| match std::fs::metadata(path) {
        Ok(metadata) => {
            let known = u32::try_from(metadata.st_ino()).is_ok_and(|inode| found.contains_key(&inode));
            if known {
                return;
            }
            match Namespace::open(path) {
                Ok(namespace) => drop(found.insert(namespace.inode.0, namespace)),
                Err(_) => losses.unreadable_namespaces += 1,
            }
        }
        // A process that just ended takes nothing with it that we could list.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(_) => losses.unreadable_processes += 1,
    };
    look(Path::new("/proc/self/ns/net"), losses);
    if let Ok(names) = std::fs::read_dir("/run/netns") {
        for name in names.flatten() {
            look(&name.path(), losses);
        }
    }
    for process in std::fs::read_dir("/proc").context("read /proc")?.flatten() {
        if process
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
        {
            look(&process.path().join("ns/net"), losses);
        }
    }
    if found.is_empty() {
        bail!("no network namespace could be opened");
    }
    Ok(found.into_values().collect())
}
