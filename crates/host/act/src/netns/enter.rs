//! Entry into a named namespace for `ns exec`: `setns`, then a mount namespace with its own `/sys` and
//! `/etc/netns/NAME`. It runs on a thread that ends or execs afterwards.

use super::open_file;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sockeye_model::NetnsName;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Moves the calling thread into a network namespace as `ip netns exec` does (`netns_switch()` of iproute2's
/// `lib/namespace.c`), to start or exec programs there:
///
/// 1. enters the network namespace;
/// 2. creates a mount namespace, whose mounts do not propagate to others;
/// 3. mounts a `/sys` that shows the interfaces of this namespace, read-only if the old one is and stays below;
/// 4. bind-mounts each file of `/etc/netns/NAME` over the file with the same name in `/etc`.
///
/// It cannot be undone: call it on a thread that ends or execs afterwards. After an error the thread is in an undefined
/// mixture of namespaces and must end.
///
/// # Errors
/// The step that failed, and the kernel's errno. A file of `/etc/netns/NAME` that cannot be mounted is not an error: it
/// is listed in [`Entered`].
pub fn enter(name: &NetnsName) -> Result<Entered, EnterError> {
    let failed = |step| {
        move |errno| EnterError {
            name: name.clone(),
            step,
            errno,
        }
    };
    let file = open(name)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(failed(EnterStep::Switch))?;
    drop(file);
    sockeye_sys::mounts::unshare().map_err(failed(EnterStep::Unshare))?;
    let slaves = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slaves).map_err(failed(EnterStep::Slave))?;
    rustix::mount::mount(name.as_os_str(), SYS, "sysfs", flags_of_sys(), None)
        .map_err(failed(EnterStep::Sysfs))?;
    Ok(Entered {
        failed_binds: bind_etc(name),
    })
}

/// Opens the file of a name, without checking that it is a namespace.
///
/// # Errors
/// The kernel's errno, with [`EnterStep::Open`].
pub fn open(name: &NetnsName) -> Result<OwnedFd, EnterError> {
    open_file(name.path()).map_err(|errno| EnterError {
        name: name.clone(),
        step: EnterStep::Open,
        errno,
    })
}

/// The result of entering a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entered {
    /// Files of `/etc/netns/NAME` that could not be mounted over `/etc`.
    pub failed_binds: Vec<FailedBind>,
}

/// A file that could not be mounted over another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBind {
    /// The file, or the directory that could not be read completely.
    pub from: PathBuf,
    /// The file to mount it on.
    pub to: PathBuf,
    /// The kernel's errno: `ENOENT` if there is no file to mount it on.
    pub errno: Errno,
}

/// A failure to enter a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnterError {
    /// Name of the namespace.
    pub name: NetnsName,
    /// The step that failed.
    pub step: EnterStep,
    /// The kernel's errno.
    pub errno: Errno,
}

/// The steps of entering, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnterStep {
    /// Opening the namespace file.
    Open,
    /// `setns(2)`
    Switch,
    /// `unshare(CLONE_NEWNS)`
    Unshare,
    /// `mount --make-rslave /`
    Slave,
    /// Mounting the new `/sys`.
    Sysfs,
}

/// Unmounts `/sys`, and returns the flags for mounting the new one.
fn flags_of_sys() -> MountFlags {
    // If it cannot be unmounted, there is none, or it is locked (in a container with a user namespace): then the new
    // one covers it, and the kernel allows no writable mount over a read-only one.
    let is_gone = rustix::mount::unmount(SYS, UnmountFlags::DETACH).is_ok();
    let is_read_only =
        || rustix::fs::statvfs(SYS).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY));
    if !is_gone && is_read_only() {
        MountFlags::RDONLY
    } else {
        MountFlags::empty()
    }
}

fn bind_etc(name: &NetnsName) -> Vec<FailedBind> {
    let folder = Path::new(ETC).join("netns").join(name.as_os_str());
    let mut failed = Vec::new();
    // Most namespaces have no such directory.
    let Ok(files) = std::fs::read_dir(&folder) else {
        return failed;
    };
    for file in files {
        let (from, to, bound) = match file {
            Ok(file) => {
                let (from, to) = (file.path(), Path::new(ETC).join(file.file_name()));
                let bound = rustix::mount::mount_bind(&from, &to);
                (from, to, bound)
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                (folder.clone(), ETC.into(), Err(errno))
            }
        };
        failed.extend(bound.err().map(|errno| FailedBind { from, to, errno }));
    }
    failed
}

impl fmt::Display for FailedBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, errno } = self;
        write!(f, "bind {} -> {} failed: {errno}", from.display(), to.display())
    }
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path, errno) = (self.name.as_os_str(), self.name.path(), self.errno);
        match self.step {
            EnterStep::Open => write!(f, "cannot open network namespace {name:?} ({path:?}): {errno}"),
            EnterStep::Switch => write!(f, "cannot enter network namespace {name:?}: {errno}"),
            EnterStep::Unshare => write!(f, "cannot have mounts of its own for {name:?}: unshare: {errno}"),
            EnterStep::Slave => write!(
                f,
                "cannot make mounts its own for {name:?}: mount --make-rslave /: {errno}"
            ),
            EnterStep::Sysfs => write!(f, "cannot mount /sys for {name:?}: {errno}"),
        }?;
        let remedy = match (self.step, errno) {
            (EnterStep::Open, Errno::NOENT) => "`sockeye ns list -1` lists the names",
            (_, Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`, or lower -j",
            (_, Errno::ACCESS) => {
                return write!(f, "; {}", remedy("CAP_DAC_READ_SEARCH", CheckedIn::Initial));
            }
            (_, Errno::PERM) => {
                let remedy = remedy("it", CheckedIn::Initial);
                return write!(f, "; it takes CAP_SYS_ADMIN: {remedy}");
            }
            (EnterStep::Switch, Errno::INVAL) => {
                return write!(f, ": {path:?} is no network namespace, or what is left of one");
            }
            (EnterStep::Unshare, Errno::NOSPC) => "raise the sysctl user.max_mnt_namespaces",
            (EnterStep::Sysfs, Errno::NOENT) => "there has to be a folder /sys",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

/// The errno is in the text and in its field, so `source()` does not repeat it.
impl std::error::Error for EnterError {}

const SYS: &str = "/sys";
const ETC: &str = "/etc";
