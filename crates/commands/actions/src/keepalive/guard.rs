//! The guard of `keepalive run`: a process that outlives sockeye and removes the command's cgroup when it is empty.

use anyhow::{Context, bail};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pipe to the guard of a cgroup that is created next. When it is closed (we have ended, or executed the command), the
/// guard begins to watch the cgroup.
#[derive(Debug)]
pub(super) struct Guard(File);

impl Guard {
    /// Starts the guard of `folder`.
    ///
    /// It is not a child of ours: the command that replaces us may wait for any child.
    /// `parent` is the parent folder; if `folder` is a path through a descriptor of ours, the guard gets `parent` instead.
    pub(super) fn start(folder: &Path, parent: BorrowedFd<'_>) -> anyhow::Result<Self> {
        let mut folder_fd = None;
        let mut folder = folder.to_owned();
        if let Some(name) = folder.file_name().filter(|_| folder.starts_with(OWN_DESCRIPTORS)) {
            folder = Path::new(PARENT).join(name);
            folder_fd = Some(parent.try_clone_to_owned().context(STARTING)?);
        }
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut starter = guard_command("--start", &folder, folder_fd)
            .stdin(Stdio::from(reader))
            .spawn()
            .context(STARTING)?;
        match starter.wait() {
            Ok(status) if !status.success() => bail!("{STARTING}: {status}"),
            Ok(_) => {}
            // With SIGCHLD ignored, which we may have inherited, there is no status.
            Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {}
            Err(error) => return Err(error).context(STARTING),
        }
        Ok(Self(File::from(writer)))
    }

    /// Ends the guard: the cgroup was not created, or it is not ours.
    pub(super) fn cancel(mut self) {
        let _ = self.0.write_all(b"x");
    }
}

/// Remove a cgroup when no process is left in it, after stdin is closed
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Start another process that does it
    #[arg(long)]
    start: bool,
    /// The cgroup
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(super) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    if args.start {
        return start_another(&args.folder);
    }
    let mut message = Vec::new();
    io::stdin().read_to_end(&mut message).context("read stdin")?;
    if message.is_empty() {
        remove_when_empty(&args.folder);
    }
    Ok(())
}

/// Removes an empty cgroup, unless its guard still runs.
pub(super) fn remove_unguarded(folder: &Path) {
    let Ok(mut events) = events(folder) else {
        return;
    };
    let has_guard = flock(&events, FlockOperation::NonBlockingLockExclusive).is_err();
    if !has_guard && is_populated(&mut events) == Some(false) {
        remove(folder);
    }
}

fn start_another(folder: &Path) -> anyhow::Result<()> {
    // Leave the terminal, whose signals are for the command, and the descriptors that were open for it.
    let _ = rustix::process::setsid();
    sockeye_sys::descriptors::close_on_exec().context("read /proc/self/fd")?;
    let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let folder_fd = if folder.starts_with(PARENT) {
        Some(io::stdout().as_fd().try_clone_to_owned()?)
    } else {
        None
    };
    guard_command("--", folder, folder_fd)
        .stdin(Stdio::from(stdin))
        .spawn()?;
    Ok(())
}

/// Returns the command that runs the guard; the descriptor of the parent folder is its standard output, which it never
/// writes.
fn guard_command(word: &str, folder: &Path, folder_fd: Option<OwnedFd>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("sockeye")
        .args([OsStr::new("keepalive"), OsStr::new("guard"), OsStr::new(word)])
        .arg(folder)
        .stdout(folder_fd.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        .current_dir("/");
    command
}

fn remove_when_empty(folder: &Path) {
    let Ok(mut events) = events(folder) else {
        return;
    };
    // The lock shows that the cgroup has a guard.
    let _ = flock(&events, FlockOperation::LockShared);
    while let Some(is_populated) = is_populated(&mut events) {
        if !is_populated && remove(folder) {
            return;
        }
        // The kernel notifies us when the first process enters or the last one leaves, but not when another process has
        // removed the cgroup: it is checked from time to time. One that cannot be removed yet is tried again soon.
        let wait = if is_populated { RECHECK } else { RETRY };
        let mut polled = [PollFd::new(&events, PollFlags::PRI)];
        while poll(&mut polled, Some(&wait)) == Err(Errno::INTR) {}
    }
}

/// Removes the cgroup and those below it if they are empty; returns whether it no longer exists.
fn remove(folder: &Path) -> bool {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Returns whether a process is in the cgroup or in one below it; `None` if the cgroup no longer exists.
fn is_populated(events: &mut File) -> Option<bool> {
    let mut text = String::new();
    events.rewind().ok()?;
    events.read_to_string(&mut text).ok()?;
    Some(text.lines().any(|line| line == "populated 1"))
}

/// Opens `cgroup.events`, which can be polled.
fn events(folder: &Path) -> io::Result<File> {
    File::open(folder.join("cgroup.events"))
}

/// Folder of our descriptors.
const OWN_DESCRIPTORS: &str = "/proc/self/fd";
/// Path of the parent folder in the guard.
const PARENT: &str = "/proc/self/fd/1";

const STARTING: &str = "start the process that removes the cgroup afterwards";

const RECHECK: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
const RETRY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
