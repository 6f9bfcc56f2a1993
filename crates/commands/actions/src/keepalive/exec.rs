//! `sockeye keepalive run`: a command whose connections all have keepalive.

use super::attach;
use super::guard::{self, Guard};
use super::spell;
use super::times::Times;
use anyhow::{Context, anyhow};
use clap::Args;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use sockeye_act::program::Program;
use sockeye_console::notes;
use sockeye_console::usage::UsageError;
use sockeye_query::cgroup::Cgroup;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a command whose TCP connections all have keepalive, and those of its children
///
/// The command takes the place of sockeye: the same process, terminal, signals and exit status. It runs in a cgroup of its
/// own, below the one that sockeye was in, to which a BPF program of the kind sock_ops is attached: no preload, so that
/// static binaries have it too. Times that the application sets itself, before or afterwards, are left as they are. The
/// cgroup is removed when the last process has left it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "sockeye keepalive run [OPTIONS] [--] COMMAND...")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    times: Times,
    /// Say on stderr what is set, where, and what the system has
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Only returns if that fails.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let program = Program::new(&args.words).ok_or_else(|| {
        UsageError(
            "sockeye: keepalive run: no command, as in: sockeye keepalive run -- curl example.com\n"
                .to_owned(),
        )
    })?;
    let times = args.times.keepalive();
    // 1. All that can fail without a trace.
    let keeper = attach::load(times)?;
    let own = Cgroup::own()?;
    sweep(own.folder());
    // 2. Whoever removes the cgroup is there before it is, so that no kill at any moment leaves one behind.
    let folder = free_name(own.folder());
    let guard = Guard::start(&folder, own.as_fd())?;
    if let Err(error) = fs::create_dir(&folder) {
        guard.dismiss();
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::ROFS) => {
                "cgroups are mounted read-only here, as in most containers: on the host, `sockeye keepalive attach` takes \
                 the container's name"
            }
            Some(Errno::AGAIN) => "cgroup.max.descendants or cgroup.max.depth above it is reached",
            _ => "run as root, or where the cgroup is yours (systemd: Delegate=yes)",
        };
        return Err(anyhow!(
            "cannot make cgroup {}: {error}; {remedy}",
            folder.display()
        ));
    }
    // 3. What can connect then does so with keepalive.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let cgroup = rustix::fs::open(&folder, flags, Mode::empty())
        .with_context(|| format!("open cgroup {}", folder.display()))?;
    keeper
        .attach(cgroup.as_fd())
        .with_context(|| format!("cgroup {}", folder.display()))?;
    // 4. In. The guard begins to look when its pipe is closed, by exec or by our end.
    fs::write(folder.join("cgroup.procs"), "0").map_err(|error| {
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::OPNOTSUPP) => {
                "; the cgroup above is threaded, which takes no new domain: start it elsewhere"
            }
            Some(Errno::PERM | Errno::ACCESS) => "; run as root",
            _ => "",
        };
        anyhow!("cannot enter cgroup {}: {error}{remedy}", folder.display())
    })?;
    if args.verbose {
        let system = spell::of_system().map_or_else(String::new, |line| format!("sockeye: {line}\n"));
        notes::say(&format!(
            "sockeye: keepalive for every connection: {}; a peer that is gone is noticed after {}; cgroup {}\n{system}",
            spell::times(&times),
            spell::noticed_after(&times),
            folder.display()
        ));
    }
    let failure = program.become_it();
    notes::say(&format!("sockeye: {failure}\n"));
    Ok(ExitCode::from(if failure.is_absent() {
        ABSENT
    } else {
        NOT_STARTED
    }))
}

/// A name of a cgroup that there is not yet.
fn free_name(parent: &Path) -> PathBuf {
    let first = parent.join(format!("{PREFIX}{}", std::process::id()));
    // Of an earlier process with our number children may be left.
    let others = (2..).map(|serial| parent.join(format!("{PREFIX}{}-{serial}", std::process::id())));
    std::iter::once(first.clone())
        .chain(others.take(NAMES_MAX))
        .find(|folder| !folder.exists())
        .unwrap_or(first)
}

/// Removes what guards could not, since they were killed themselves.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|number| number.split('-').next()?.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // Whoever has this number may be about to enter.
        if test_kill_process(pid) == Err(Errno::SRCH) {
            guard::remove_unguarded(&entry.path());
        }
    }
}

const PREFIX: &str = "sockeye-keepalive-";

/// So many names are tried.
const NAMES_MAX: usize = 100;

/// As env(1) and timeout(1) end when the command cannot be started, or there is none.
const NOT_STARTED: u8 = 126;
const ABSENT: u8 = 127;

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive run -- ./client --server db.example.com
  sockeye keepalive run --time 2m --interval 15s --probes 4 -- java -jar app.jar
  sockeye keepalive run --user-timeout 90s -- setpriv --reuid=app --init-groups ./server

It takes Linux 5.9 and cgroup version 2, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.

Exit status: that of the command; 127 if there is no such command, 126 if it cannot be
started, 1 if keepalive cannot be had, 2 for a mistake on the command line.";
