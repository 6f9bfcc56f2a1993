//! A cgroup given on the command line.

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags, fstatfs};
use sockeye_model::Pid;
use sockeye_output::harmless;
use sockeye_source::names::{CgroupMount, Cgroups};
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open cgroup of version 2.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
    /// Path below the mount, as in filters: `/system.slice/nginx.service`.
    path: Vec<u8>,
    fd: OwnedFd,
}

impl Cgroup {
    /// Opens the cgroup that an argument names: a path (absolute or below the mount), a pid, or a container.
    ///
    /// The root cgroup is the whole host, and is accepted only by its own path.
    pub fn from_text(typed: &OsStr) -> anyhow::Result<Self> {
        let mount = mount()?;
        let plain = Path::new(typed);
        let folder = mount.point().join(plain.strip_prefix("/").unwrap_or(plain));
        let found = if let Some(folder) = mount.folder_at(plain) {
            Self::open(&mount, &folder)
        } else if plain.is_absolute() && is_cgroup(plain) {
            Self::open(&mount, plain)
        } else if plain.is_absolute() && plain.is_dir() && !folder.is_dir() {
            // A cgroup of version 1, or no cgroup: opening it gives the right error.
            Self::open(&mount, plain)
        } else if typed.as_bytes().contains(&b'/') || !typed.is_empty() && folder.is_dir() {
            Self::open(&mount, &folder)
        } else {
            // Pids, and the names of containers, are text.
            let text = typed.to_string_lossy();
            if let Some(pid) = pid(&text) {
                return Self::of_process(&mount, pid);
            }
            Self::of_container(&mount, &text)
        }?;
        let is_mount_point = mount
            .folder_at(plain)
            .is_some_and(|folder| folder == mount.point());
        if found.is_root() && !is_mount_point && plain != Path::new("/") {
            bail!("{typed:?} is in the root cgroup, which is the whole host: type / for the whole host");
        }
        Ok(found)
    }

    /// Opens our own cgroup.
    pub fn own() -> anyhow::Result<Self> {
        let mount = mount()?;
        let folder = mount.folder_of(None).context("our own cgroup")?;
        Self::open(&mount, &folder)
    }

    /// Opens every cgroup, sorted by path; also returns whether there are more than `FOLDERS_MAX`.
    pub fn all() -> anyhow::Result<(Vec<Self>, bool)> {
        let mount = mount()?;
        let mut folders = vec![mount.point().to_owned()];
        let mut seen = 0;
        // Breadth first, so that the bound cuts off the deepest.
        while seen < folders.len() && folders.len() < FOLDERS_MAX {
            // A cgroup that was deleted or may not be read has no children.
            let files = fs::read_dir(&folders[seen]).into_iter().flatten().flatten();
            folders.extend(
                files
                    .filter(|file| file.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|file| file.path()),
            );
            seen += 1;
        }
        let is_cut = seen < folders.len();
        folders.sort_unstable();
        let opened = folders
            .iter()
            .filter_map(|folder| Self::open(&mount, folder).ok());
        Ok((opened.collect(), is_cut))
    }

    fn of_process(mount: &CgroupMount, pid: Pid) -> anyhow::Result<Self> {
        let folder = mount
            .folder_of(Some(pid))
            .map_err(|error| match error.raw_os_error() {
                Some(_) if error.kind() == ErrorKind::NotFound => {
                    if let Some(problem) = proc_mount::problem() {
                        return anyhow!("the cgroup of process {pid} is not known: {problem}");
                    }
                    anyhow!("there is no process {pid}; CGROUP is a path, a pid, or a container's name or id")
                }
                Some(_) => anyhow!(
                    "the cgroup of process {pid}: {error}; {}",
                    remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
                ),
                None => anyhow!("process {pid}: {error}; give the path of a cgroup"),
            })?;
        let found = Self::open(mount, &folder)?;
        if found.is_root() {
            bail!("process {pid} is in the root cgroup, which is the whole host; type / for the whole host");
        }
        Ok(found)
    }

    fn of_container(mount: &CgroupMount, text: &str) -> anyhow::Result<Self> {
        let cgroups = Cgroups::read();
        match cgroups.of_container(text)[..] {
            [] => bail!(
                "there is no cgroup {text:?} in {}, and no container of this name; CGROUP is a path as \
                 `systemd-cgls` shows it, a pid, or a container's name or id (at least 12 digits of it)",
                mount.shown(mount.point()).display()
            ),
            [path] => Self::open(mount, &mount.point().join(path.strip_prefix('/').unwrap_or(path))),
            ref several => bail!(
                "{text:?} is ambiguous: {} containers have this name: {}; give a path",
                several.len(),
                several
                    .iter()
                    .take(LISTED_MAX)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }
    }

    fn open(mount: &CgroupMount, folder: &Path) -> anyhow::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(folder, flags, Mode::empty()).map_err(|errno| {
            let remedy = match errno {
                rustix::io::Errno::NOENT => "; `systemd-cgls` shows which there are",
                _ => "",
            };
            anyhow!(
                "cannot open cgroup {}: {errno}{remedy}",
                mount.shown(folder).display()
            )
        })?;
        if !fstatfs(&fd).is_ok_and(|found| found.f_type == CGROUP2_SUPER_MAGIC) {
            bail!(
                "{} is no cgroup of version 2; those are below {}",
                mount.shown(folder).display(),
                mount.shown(mount.point()).display()
            );
        }
        let folder = mount.plain(folder);
        let below = folder.strip_prefix(mount.point()).unwrap_or(&folder);
        let path = [b"/", below.as_os_str().as_bytes()].concat();
        Ok(Self { folder, path, fd })
    }

    /// Returns its folder in the cgroup file system.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns its path below the mount, without control characters.
    pub fn path(&self) -> String {
        harmless(&self.path)
    }

    /// Returns its path below the mount.
    pub fn path_bytes(&self) -> &[u8] {
        &self.path
    }

    /// Returns a filter for the sockets that were created in it, to be typed in single quotes; `None` if its path has
    /// characters that cannot be quoted.
    pub fn filter(&self) -> Option<String> {
        let mut filter = "cgroup = ".to_owned();
        for &byte in &self.path {
            match byte {
                b'\'' => return None,
                b'\\' | b' ' | b'(' | b')' => filter.push('\\'),
                _ if !byte.is_ascii_graphic() => return None,
                _ => {}
            }
            filter.push(char::from(byte));
        }
        Some(filter)
    }

    /// Opens its ancestors that are visible here, the parent first.
    pub fn ancestors(&self) -> anyhow::Result<Vec<Self>> {
        let mount = mount()?;
        let folders = self.folder.ancestors().skip(1);
        let above = folders.take_while(|folder| folder.starts_with(mount.point()));
        above.map(|folder| Self::open(&mount, folder)).collect()
    }

    fn is_root(&self) -> bool {
        self.path == b"/"
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn mount() -> anyhow::Result<CgroupMount> {
    let found = CgroupMount::find();
    if let (None, Some(problem)) = (&found, proc_mount::problem()) {
        bail!("where cgroups are mounted is not known: {problem}");
    }
    found.context(
        "no cgroup file system of version 2 is mounted here, nor where process 1 is (to which only root may look); as root, `mkdir -p \
         /run/cgroup2 && mount -t cgroup2 none /run/cgroup2` mounts it",
    )
}

/// Parses a pid. A container's id may consist of digits too, but is longer or begins with zeros.
fn pid(text: &str) -> Option<Pid> {
    let is_number = !text.starts_with(['0', '+']) && text.len() < CONTAINER_DIGITS;
    text.parse().ok().filter(|_| is_number).map(Pid)
}

fn is_cgroup(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type == CGROUP2_SUPER_MAGIC)
}

/// `include/uapi/linux/magic.h`
const CGROUP2_SUPER_MAGIC: rustix::fs::FsWord = 0x6367_7270;

/// Least number of digits of a container's id.
const CONTAINER_DIGITS: usize = 12;

/// Bound on the number of cgroups; a busy container host has a few thousand.
const FOLDERS_MAX: usize = 65_536;

/// Number of containers that an error lists.
const LISTED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_are_no_pids() {
        assert_eq!(pid("1"), Some(Pid(1)));
        assert_eq!(pid("4194304"), Some(Pid(4_194_304)));
        for other in [
            "",
            "0",
            "01",
            "+1",
            "-1",
            "1.5",
            "000000001243",
            "123456789012",
            "web1",
        ] {
            assert_eq!(pid(other), None, "{other}");
        }
    }
}
