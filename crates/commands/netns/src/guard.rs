//! A process that outlives us if we are killed in the middle, and puts right what was half done.

use anyhow::Context;
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use sockeye_act::netns::{Journal, Slot};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The journal of what is being done, and who reads it if nobody else can.
#[derive(Debug)]
pub(super) struct Guard {
    journal: Option<Journal>,
}

impl Guard {
    /// Starts one. Without it all is done as well, only a `kill -9` may leave remains of a name.
    pub(super) fn start(verbose: bool) -> Self {
        let start = || -> anyhow::Result<Journal> {
            let journal = Journal::new()?;
            Command::new("/proc/self/exe")
                .arg0("sockeye")
                .args(["ns", "guard", &getpid().as_raw_nonzero().to_string()])
                .stdin(Stdio::from(journal.file().try_clone_to_owned()?))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .current_dir("/")
                // ^C is for us alone.
                .process_group(0)
                .spawn()?;
            Ok(journal)
        };
        let started = start();
        if let (Err(error), true) = (&started, verbose) {
            sockeye_console::notes::say(&format!(
                "sockeye: nobody watches over what is half done if this is killed: {error:#}\n"
            ));
        }
        Self {
            journal: started.ok(),
        }
    }

    /// Where the thread with this number writes what it does.
    pub(super) fn slot(&self, thread: usize) -> Slot<'_> {
        self.journal
            .as_ref()
            .map_or(Slot::NONE, |journal| journal.slot(thread))
    }
}

/// Watch over another sockeye, whose journal is stdin
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Its process
    #[arg(value_name = "PID")]
    pid: i32,
}

/// Waits for the end of the process that started us.
pub(super) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    let parent = Pid::from_raw(args.pid).context("no process has this number")?;
    let watched = match pidfd_open(parent, PidfdFlags::empty()) {
        Ok(fd) => Some(fd),
        Err(Errno::SRCH) => None,
        Err(errno) => return Err(errno).context("watch over the process that started us"),
    };
    // If it has ended already, its number may be another's.
    if let Some(fd) = watched.filter(|_| getppid() == Some(parent)) {
        let mut polled = [PollFd::new(&fd, PollFlags::IN)];
        while poll(&mut polled, None) == Err(Errno::INTR) {}
    }
    let journal = io::stdin().as_fd().try_clone_to_owned()?;
    Journal::from_file(journal)
        .recover()
        .context("put right what was half done")
}
