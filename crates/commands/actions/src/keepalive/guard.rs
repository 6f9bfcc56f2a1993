//! A process that outlives us, and removes the cgroup of a command when nobody is left in it.

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

/// The way to the guard of a cgroup that is to be made. When this is gone (we have ended, or become another program), the
/// guard begins to look.
#[derive(Debug)]
pub(super) struct Guard(File);

impl Guard {
    /// Starts one for this folder.
    ///
    /// It is nobody's child in the end: the command, in whose place we are, may wait for any of its own.
    /// `parent` is the folder that it is to be in: where that is known by a descriptor of ours only, it gets that.
    pub(super) fn start(folder: &Path, parent: BorrowedFd<'_>) -> anyhow::Result<Self> {
        let mut way = None;
        let mut folder = folder.to_owned();
        if let Some(name) = folder.file_name().filter(|_| folder.starts_with(OURS)) {
            folder = Path::new(PARENT).join(name);
            way = Some(parent.try_clone_to_owned().context(STARTING)?);
        }
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut starter = itself("--start", &folder, way)
            .stdin(Stdio::from(reader))
            .spawn()
            .context(STARTING)?;
        match starter.wait() {
            Ok(status) if !status.success() => bail!("{STARTING}: {status}"),
            Ok(_) => {}
            // With SIGCHLD ignored, as we may have been started, nobody learns how a child has ended.
            Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {}
            Err(error) => return Err(error).context(STARTING),
        }
        Ok(Self(File::from(writer)))
    }

    /// There will be no such cgroup, or it is another's: hands off.
    pub(super) fn dismiss(mut self) {
        let _ = self.0.write_all(b"x");
    }
}

/// Remove a cgroup when nobody is left in it; stdin says when to begin
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Start another one that does it
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
    let mut told = Vec::new();
    io::stdin().read_to_end(&mut told).context("read stdin")?;
    if told.is_empty() {
        remove_when_empty(&args.folder);
    }
    Ok(())
}

/// Removes the cgroup of a guard that was killed, if nobody is left in it. Whose guard lives is left to that.
pub(super) fn remove_unguarded(folder: &Path) {
    let Ok(mut events) = events(folder) else {
        return;
    };
    let is_guarded = flock(&events, FlockOperation::NonBlockingLockExclusive).is_err();
    if !is_guarded && is_populated(&mut events) == Some(false) {
        remove(folder);
    }
}

fn start_another(folder: &Path) -> anyhow::Result<()> {
    // Away from the terminal, whose ^C and hanging up are for the command, and from whatever was open for it.
    let _ = rustix::process::setsid();
    sockeye_sys::descriptors::close_on_exec().context("read /proc/self/fd")?;
    let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let way = if folder.starts_with(PARENT) {
        Some(io::stdout().as_fd().try_clone_to_owned()?)
    } else {
        None
    };
    itself("--", folder, way).stdin(Stdio::from(stdin)).spawn()?;
    Ok(())
}

/// With the way to the folder in the place of standard output, where nothing is written.
fn itself(word: &str, folder: &Path, way: Option<OwnedFd>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("sockeye")
        .args([OsStr::new("keepalive"), OsStr::new("guard"), OsStr::new(word)])
        .arg(folder)
        .stdout(way.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        .current_dir("/");
    command
}

fn remove_when_empty(folder: &Path) {
    let Ok(mut events) = events(folder) else {
        return;
    };
    // By this others know that it is looked after.
    let _ = flock(&events, FlockOperation::LockShared);
    while let Some(is_populated) = is_populated(&mut events) {
        if !is_populated && remove(folder) {
            return;
        }
        // Told when somebody enters first or leaves last, but not when somebody else has removed the cgroup; and what
        // cannot be removed yet is tried again.
        let wait = if is_populated { LOOK } else { AGAIN };
        let mut polled = [PollFd::new(&events, PollFlags::PRI)];
        while poll(&mut polled, Some(&wait)) == Err(Errno::INTR) {}
    }
}

/// Removes the cgroup, with those below it that are as empty; whether it is gone.
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

/// Whether a process is in the cgroup or in one below it; `None` if it is gone.
fn is_populated(events: &mut File) -> Option<bool> {
    let mut text = String::new();
    events.rewind().ok()?;
    events.read_to_string(&mut text).ok()?;
    Some(text.lines().any(|line| line == "populated 1"))
}

/// The file that tells so, which can be polled.
fn events(folder: &Path) -> io::Result<File> {
    File::open(folder.join("cgroup.events"))
}

/// Where descriptors of ours are.
const OURS: &str = "/proc/self/fd";
/// Where the guard finds the way.
const PARENT: &str = "/proc/self/fd/1";

const STARTING: &str = "start the process that removes the cgroup afterwards";

const LOOK: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
