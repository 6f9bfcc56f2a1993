use super::open_file;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sockeye_model::NetnsName;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Moves the calling thread into a network namespace, as `ip netns exec` does it (`netns_switch()` of iproute2's
/// `lib/namespace.c`), for whatever it starts or becomes:
///
/// 1. into the network namespace;
/// 2. into a mount namespace of its own, from which nothing gets out to the mounts of others;
/// 3. where `/sys` shows the interfaces of this namespace, read-only if it was read-only before and stays below;
/// 4. and where each file of `/etc/netns/NAME` lies over that of the same name in `/etc`.
///
/// There is no way back: call it on a thread that ends, or execs, afterwards. After an error the thread is somewhere
/// in between, and good for nothing else.
///
/// # Errors
/// Which step failed, and the kernel's reason. That a file of `/etc/netns/NAME` could not be laid over another is none:
/// it is told in [`Entered`].
pub fn enter(name: &NetnsName) -> Result<Entered, CannotEnter> {
    let failed = |step| {
        move |errno| CannotEnter {
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

/// Opens the file that stands for a namespace. It need not be one.
///
/// # Errors
/// The kernel's reason, as of [`EnterStep::Open`].
pub fn open(name: &NetnsName) -> Result<OwnedFd, CannotEnter> {
    open_file(name.path()).map_err(|errno| CannotEnter {
        name: name.clone(),
        step: EnterStep::Open,
        errno,
    })
}

/// What is worth telling of an entered namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entered {
    /// The files of `/etc/netns/NAME` that could not be laid over their likes in `/etc`.
    pub failed_binds: Vec<FailedBind>,
}

/// A file that could not be laid over another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBind {
    /// The file, or the folder that could not be read to its end.
    pub from: PathBuf,
    /// Over which it should lie.
    pub to: PathBuf,
    /// The kernel's reason: `ENOENT` if there is nothing it could lie over.
    pub errno: Errno,
}

/// A namespace that could not be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotEnter {
    /// Which.
    pub name: NetnsName,
    /// What failed.
    pub step: EnterStep,
    /// The kernel's reason.
    pub errno: Errno,
}

/// The steps of entering, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnterStep {
    /// Opening the file that stands for it.
    Open,
    /// `setns(2)`
    Switch,
    /// `unshare(CLONE_NEWNS)`
    Unshare,
    /// `mount --make-rslave /`
    Slave,
    /// Mounting its own `/sys`.
    Sysfs,
}

/// Takes `/sys` away, and tells how the new one has to be mounted.
fn flags_of_sys() -> MountFlags {
    // If it cannot be taken away there may be none (good), or one that is locked (in a container of a user namespace):
    // the new one then lies over it, and the kernel allows no writable one over a read-only one.
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
    // Most have none.
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

impl fmt::Display for CannotEnter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path, errno) = (self.name.as_os_str(), self.name.path(), self.errno);
        match self.step {
            EnterStep::Open => write!(
                f,
                "cannot open network namespace {name:?} ({}): {errno}",
                path.display()
            ),
            EnterStep::Switch => write!(f, "cannot enter network namespace {name:?}: {errno}"),
            EnterStep::Unshare => write!(f, "cannot have mounts of its own for {name:?}: unshare: {errno}"),
            EnterStep::Slave => write!(
                f,
                "cannot make mounts its own for {name:?}: mount --make-rslave /: {errno}"
            ),
            EnterStep::Sysfs => write!(f, "cannot mount /sys for {name:?}: {errno}"),
        }?;
        let remedy = match (self.step, errno) {
            (EnterStep::Open, Errno::NOENT) => "`sockeye ns list -1` tells which names there are",
            (_, Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`, or lower -j",
            (_, Errno::PERM) => "it takes CAP_SYS_ADMIN: run as root of the host",
            (_, Errno::ACCESS) => "run as root",
            (EnterStep::Switch, Errno::INVAL) => {
                return write!(
                    f,
                    ": {} is no network namespace, or what is left of one",
                    path.display()
                );
            }
            (EnterStep::Unshare, Errno::NOSPC) => "raise the sysctl user.max_mnt_namespaces",
            (EnterStep::Sysfs, Errno::NOENT) => "there has to be a folder /sys",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

/// The errno is in the text, before its remedy, and in its field: it is no `source()` to be told once more.
impl std::error::Error for CannotEnter {}

const SYS: &str = "/sys";
const ETC: &str = "/etc";
