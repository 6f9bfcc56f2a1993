//! `sockeye keepalive run`: runs a command whose connections all have keepalive.

use super::attach;
use super::guard::{self, Guard};
use super::text;
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
use sockeye_sys::rights::{CheckedIn, remedy};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a command with keepalive on all its TCP connections, and on those of its children
///
/// The command replaces sockeye: the same process, terminal, signals and exit status. It runs in a new cgroup below that
/// of sockeye, to which a BPF program of the type sock_ops is attached: it needs no preload and works for static binaries.
/// Times that the application sets itself, before or afterwards, are left as they are. The cgroup is removed when the last
/// process has left it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "sockeye keepalive run [OPTIONS] [--] COMMAND...")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    times: Times,
    /// Print the settings, the cgroup and the system's settings to stderr
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Runs the command in place of this process; returns only if that fails.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let program = Program::new(&args.words).ok_or_else(|| {
        UsageError(
            "sockeye: keepalive run: no command, as in: sockeye keepalive run -- curl example.com\n"
                .to_owned(),
        )
    })?;
    let times = args.times.keepalive();
    // 1. First what can fail and leaves nothing behind.
    let keepalive = attach::load(times)?;
    let own = Cgroup::own()?;
    remove_leftovers(own.folder());
    // 2. The guard is started before the cgroup is created, so that the cgroup is removed even if we are killed.
    let folder = free_name(own.folder());
    let guard = Guard::start(&folder, own.as_fd())?;
    if let Err(error) = fs::create_dir(&folder) {
        guard.cancel();
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::ROFS) => {
                "cgroups are mounted read-only here, as in most containers: on the host, `sockeye keepalive attach` takes \
                 the container's name"
            }
            Some(Errno::AGAIN) => "cgroup.max.descendants or cgroup.max.depth of an ancestor is reached",
            _ => &format!(
                "{}; or run in a cgroup that you own (systemd: Delegate=yes)",
                remedy("CAP_DAC_OVERRIDE", CheckedIn::Initial)
            ),
        };
        return Err(anyhow!(
            "cannot create cgroup {}: {error}; {remedy}",
            folder.display()
        ));
    }
    // 3. Attach the program before the command can connect.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let cgroup = rustix::fs::open(&folder, flags, Mode::empty())
        .with_context(|| format!("open cgroup {}", folder.display()))?;
    keepalive
        .attach(cgroup.as_fd())
        .with_context(|| format!("cgroup {}", folder.display()))?;
    // 4. Enter the cgroup. The guard begins to watch it when its pipe is closed, by exec or by our end.
    fs::write(folder.join("cgroup.procs"), "0").map_err(|error| {
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::OPNOTSUPP) => {
                "; the parent cgroup is threaded and accepts no domain cgroup: start the command in another cgroup"
            }
            Some(Errno::PERM | Errno::ACCESS) => {
                &format!("; {}", remedy("CAP_DAC_OVERRIDE", CheckedIn::Initial))
            }
            _ => "",
        };
        anyhow!("cannot enter cgroup {}: {error}{remedy}", folder.display())
    })?;
    if args.verbose {
        let system = text::system_line().map_or_else(String::new, |line| format!("sockeye: {line}\n"));
        notes::say(&format!(
            "sockeye: keepalive for every connection: {}; a peer that is gone is noticed after {}; cgroup {}\n{system}",
            text::times(&times),
            text::detection_time(&times),
            folder.display()
        ));
    }
    let failure = program.exec();
    notes::say(&format!("sockeye: {failure}\n"));
    Ok(ExitCode::from(if failure.is_absent() {
        ABSENT
    } else {
        NOT_STARTED
    }))
}

/// Returns the path of a cgroup that does not exist yet.
fn free_name(parent: &Path) -> PathBuf {
    let first = parent.join(format!("{PREFIX}{}", std::process::id()));
    // A cgroup of an earlier process with our pid may still have processes in it.
    let others = (2..).map(|serial| parent.join(format!("{PREFIX}{}-{serial}", std::process::id())));
    std::iter::once(first.clone())
        .chain(others.take(NAMES_MAX))
        .find(|folder| !folder.exists())
        .unwrap_or(first)
}

/// Removes the empty cgroups of guards that were killed.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|number| number.split('-').next()?.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // If the process exists, it may be about to enter.
        if test_kill_process(pid) == Err(Errno::SRCH) {
            guard::remove_unguarded(&entry.path());
        }
    }
}

const PREFIX: &str = "sockeye-keepalive-";

/// Number of names that are tried.
const NAMES_MAX: usize = 100;

/// Exit statuses of env(1) and timeout(1) for a command that cannot be started or does not exist.
const NOT_STARTED: u8 = 126;
const ABSENT: u8 = 127;

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive run -- ./client --server db.example.com
  sockeye keepalive run --time 2m --interval 15s --probes 4 -- ./server
  sockeye keepalive run --user-timeout 90s -- setpriv --reuid=app ./server

It needs Linux 5.9, cgroup version 2, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.

Exit status: that of the command; 127 if there is no such command, 126 if it cannot be \
started, 1 if keepalive cannot be set up, 2 for a usage error.";
