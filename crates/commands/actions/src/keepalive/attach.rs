//! `sockeye keepalive attach` and `detach`: a program of ours at a cgroup, and away again.

use super::spell;
use super::times::Times;
use anyhow::{Context, anyhow};
use clap::Args;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_act::{Keepalive, KeepaliveProgram};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_query::cgroup::Cgroup;
use sockeye_source::{BpfEngine, Unavailable};
use sockeye_sys::bpf::LoadError;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Give keepalive to every new connection of a container or service, until it is detached
///
/// A BPF program of the kind sock_ops is attached to the cgroup. It stays there when sockeye has ended, and goes with the
/// cgroup. Every TCP connection that is opened or accepted from then on by a socket made in the cgroup, or in one below,
/// gets keepalive, static binaries included. Times that the application sets itself, before or afterwards, are left as
/// they are, and so are connections from before, and the programs of others.
///
/// A listener counts where it was made: connections of a socket that systemd opened and passed on do not get it.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct AttachArgs {
    /// A path below the cgroup2 mount, a pid (its cgroup), or a container's name or id
    #[arg(value_name = "CGROUP", allow_negative_numbers = true)]
    cgroup: OsString,
    #[command(flatten)]
    times: Times,
    /// Attach nothing; print what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Take away what keepalive attach has attached: new connections are as they were before
///
/// Connections that have got keepalive keep it. The programs of others stay.
#[derive(Debug, Args)]
#[command(after_help = DETACH_EXAMPLES)]
pub(crate) struct DetachArgs {
    /// A path below the cgroup2 mount, a pid (its cgroup), or a container's name or id
    #[arg(value_name = "CGROUP", allow_negative_numbers = true)]
    cgroup: OsString,
    /// Detach nothing; print what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let cgroup = Cgroup::from_text(&args.cgroup)?;
    let times = args.times.keepalive();
    let path = cgroup.path();
    let (verb, before) = if args.dry_run {
        let before = KeepaliveProgram::attached(cgroup.as_fd()).with_context(|| format!("cgroup {path}"))?;
        (
            "would attach to",
            before.last().map(KeepaliveProgram::keepalive).transpose()?,
        )
    } else {
        let keeper = load(times)?;
        let before = keeper
            .attach(cgroup.as_fd())
            .with_context(|| format!("cgroup {path}"))?;
        ("attached to", before)
    };
    let mut lines = vec![format!(
        "{verb} {path}: new connections {} keepalive: {}; a peer that is gone is noticed after {}",
        if args.dry_run { "would get" } else { "get" },
        spell::times(&times),
        spell::noticed_after(&times)
    )];
    lines.extend(before.map(|before| format!("Before: {}", spell::times(&before))));
    lines.extend(spell::of_system());
    tell(&lines, args.dry_run)?;
    if !args.dry_run {
        notes::say(&format!(
            "sockeye: connections that are there already stay as they are{}\n",
            remedy(
                &cgroup,
                &format!("set {}", spell::options(&times)),
                "gives it to those too"
            )
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn detach(args: &DetachArgs) -> anyhow::Result<ExitCode> {
    let cgroup = Cgroup::from_text(&args.cgroup)?;
    let path = cgroup.path();
    let ours = KeepaliveProgram::attached(cgroup.as_fd()).with_context(|| format!("cgroup {path}"))?;
    if ours.is_empty() {
        notes::say(&format!(
            "sockeye: keepalive detach: nothing of sockeye's is attached to {path}{}\n",
            attached_above(&cgroup)
        ));
        return Ok(ExitCode::FAILURE);
    }
    let mut given = Some(0);
    for keeper in &ours {
        if !args.dry_run {
            keeper
                .detach(cgroup.as_fd())
                .with_context(|| format!("cgroup {path}"))?;
        }
        // Another version may count otherwise.
        let counts = keeper.counts().ok();
        given = given.zip(counts).map(|(sum, counts)| sum + counts.given);
    }
    let told = given.map_or_else(
        || "those that have got keepalive keep it".to_owned(),
        |given| match given {
            0 => "none has got keepalive".to_owned(),
            given => format!(
                "{} got keepalive, and what is left of them {} it",
                spell::connections(given),
                if args.dry_run { "would keep" } else { "keeps" }
            ),
        },
    );
    let line = format!(
        "{} {path}: new connections {} as they were before; {told}",
        if args.dry_run {
            "would detach from"
        } else {
            "detached from"
        },
        if args.dry_run { "would be" } else { "are" },
    );
    tell(&[line], args.dry_run)?;
    if !args.dry_run && given != Some(0) {
        let hint = remedy(&cgroup, "unset", "takes it from those");
        if let Some(hint) = hint.strip_prefix("; ") {
            notes::say(&format!("sockeye: {hint}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what was done: on stderr if it cannot be written, for it is done all the same.
fn tell(lines: &[String], dry_run: bool) -> anyhow::Result<()> {
    let told = stdout::write_lines(lines);
    match (&told, lines.first()) {
        (Err(error), Some(line)) if !dry_run && !stdout::is_closed_pipe(error) => {
            notes::say(&format!("sockeye: {line}\n"));
        }
        _ => {}
    }
    told
}

/// A program that gives these settings, attached to nothing yet.
pub(super) fn load(times: Keepalive) -> anyhow::Result<KeepaliveProgram> {
    // Before Linux 5.11 what BPF takes of memory counts as locked, of which a user may have 64 KiB.
    let limit = getrlimit(Resource::Memlock);
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let is_raised = setrlimit(Resource::Memlock, unlimited).is_ok();
    let loaded = BpfEngine::default().keepalive_program();
    if is_raised {
        // The command of `run` is to have what it would have had.
        setrlimit(Resource::Memlock, limit).context("set RLIMIT_MEMLOCK back")?;
    }
    let (program, maps) = loaded.map_err(|obstacle| explained(&obstacle))?;
    Ok(KeepaliveProgram::new(program, maps, times)?)
}

fn explained(obstacle: &Unavailable) -> anyhow::Error {
    let (what, remedy) = match obstacle {
        Unavailable::Load(LoadError::System(what, errno @ (Errno::PERM | Errno::ACCESS)), _) => (
            format!("{what}: {errno}"),
            "it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: run as root of the host",
        ),
        Unavailable::Types(..) | Unavailable::Lacks(_) | Unavailable::Load(LoadError::Rejected(..), _) => (
            obstacle.to_string(),
            "it takes Linux 5.9 or later, with CONFIG_DEBUG_INFO_BTF; `sockeye keepalive set` works without, on \
             connections that are there",
        ),
        _ => return anyhow!("no keepalive for new connections: {obstacle}"),
    };
    anyhow!("no keepalive for new connections: {what}; {remedy}")
}

/// How to change connections that are there, which are in whatever network namespace.
fn remedy(cgroup: &Cgroup, command: &str, does: &str) -> String {
    let Some(filter) = cgroup.filter() else {
        return String::new();
    };
    let below = if has_cgroups_below(cgroup) {
        ", in this cgroup, not in those below"
    } else {
        ""
    };
    format!("; `sockeye keepalive {command} -N all '{filter}'` {does}{below}")
}

/// `; it is to /system.slice, above it`
fn attached_above(cgroup: &Cgroup) -> String {
    let above = cgroup.ancestors().unwrap_or_default();
    let holder = above
        .iter()
        .find(|above| KeepaliveProgram::attached(above.as_fd()).is_ok_and(|ours| !ours.is_empty()));
    holder.map_or_else(
        || "; `sockeye keepalive attached` tells where".to_owned(),
        |holder| format!(" itself; it is to {}, above it", holder.path()),
    )
}

fn has_cgroups_below(cgroup: &Cgroup) -> bool {
    let files = fs::read_dir(cgroup.folder()).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.file_type().ok())
        .any(|kind| kind.is_dir())
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  sockeye keepalive attach system.slice/nginx.service --time 2m
  sockeye keepalive attach 3f2a9c1d77e0                    a container, by its id
  sockeye keepalive attach 4711 --user-timeout 90s         the cgroup that a process is in
  sockeye keepalive attach --dry-run user.slice

It takes Linux 5.9 and cgroup version 2, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; beside programs of
others CAP_SYS_ADMIN.";

const DETACH_EXAMPLES: &str = "\
Examples:
  sockeye keepalive detach system.slice/nginx.service
  sockeye keepalive attached                               to which cgroups something is attached

Exit status: 1 if nothing was attached there.";
