//! A process that repairs what this one leaves unfinished if it is killed.

use crate::args::GuardArgs;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use sockeye_act::netns::{Journal, Slot};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The journal of unfinished changes, which the guard process reads after our end.
#[derive(Debug)]
pub(crate) struct Guard {
    journal: Option<Journal>,
}

impl Guard {
    /// Starts the guard process. Without it a `kill -9` may leave a file without a namespace; nothing else changes.
    pub(crate) fn start(verbose: bool) -> Self {
        let start = || -> anyhow::Result<Journal> {
            let journal = Journal::new()?;
            Command::new("/proc/self/exe")
                .arg0("sockeye")
                .args(["ns", "guard", &getpid().as_raw_nonzero().to_string()])
                .stdin(Stdio::from(journal.file().try_clone_to_owned()?))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .current_dir("/")
                // ^C is for the parent alone.
                .process_group(0)
                .spawn()?;
            Ok(journal)
        };
        let started = start();
        if let (Err(error), true) = (&started, verbose) {
            sockeye_console::notes::say(&format!(
                "sockeye: if this is killed, its unfinished change is not repaired: {error:#}\n"
            ));
        }
        Self {
            journal: started.ok(),
        }
    }

    /// Returns where this thread records its unfinished change.
    pub(crate) fn slot(&self, thread: usize) -> Slot<'_> {
        self.journal
            .as_ref()
            .map_or(Slot::NONE, |journal| journal.slot(thread))
    }
}

/// Waits until the parent process has ended, and repairs what it left unfinished.
pub(crate) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    let parent = Pid::from_raw(args.pid).context("not a process id")?;
    let watched = match pidfd_open(parent, PidfdFlags::empty()) {
        Ok(fd) => Some(fd),
        Err(Errno::SRCH) => None,
        Err(errno) => return Err(errno).context("watch the parent process"),
    };
    // If it has ended already, its pid may be another's.
    if let Some(fd) = watched.filter(|_| getppid() == Some(parent)) {
        let mut polled = [PollFd::new(&fd, PollFlags::IN)];
        while poll(&mut polled, None) == Err(Errno::INTR) {}
    }
    let journal = io::stdin().as_fd().try_clone_to_owned()?;
    Journal::from_file(journal)
        .recover()
        .context("repair an unfinished change")
}
