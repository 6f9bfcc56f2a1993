//! `sockeye keepalive attach` and `detach`: attach our BPF program to a cgroup, and detach it.

use super::text;
use super::times::Times;
use anyhow::{Context, anyhow};
use clap::Args;
use rustix::io::Errno;
use sockeye_act::{Keepalive, KeepaliveProgram};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_query::cgroup::Cgroup;
use sockeye_source::{BpfEngine, Unavailable};
use sockeye_sys::bpf::LoadError;
use sockeye_sys::rights::{self, CheckedIn};
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Give keepalive to every new connection of a container or service, until it is detached
///
/// A BPF program of the type sock_ops is attached to the cgroup. It stays attached when sockeye has ended, until the cgroup
/// is removed. Every TCP connection that is then opened or accepted by a socket created in the cgroup, or in one below,
/// gets keepalive, static binaries included. Times that the application sets itself, before or afterwards, are left as
/// they are, and so are existing connections, and other programs attached to the cgroup.
///
/// A listener belongs to the cgroup that created it: connections of a socket that systemd opened and passed on do not get
/// keepalive.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct AttachArgs {
    /// A path below the cgroup2 mount, a pid (its cgroup), or a container's name or id
    #[arg(value_name = "CGROUP", allow_negative_numbers = true)]
    cgroup: OsString,
    #[command(flatten)]
    times: Times,
    /// Attach nothing; show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Detach what keepalive attach has attached: new connections no longer get keepalive
///
/// Connections that have got keepalive keep it. Other programs stay attached.
#[derive(Debug, Args)]
#[command(after_help = DETACH_EXAMPLES)]
pub(crate) struct DetachArgs {
    /// A path below the cgroup2 mount, a pid (its cgroup), or a container's name or id
    #[arg(value_name = "CGROUP", allow_negative_numbers = true)]
    cgroup: OsString,
    /// Detach nothing; show what would be done
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
        let program = load(times)?;
        let before = program
            .attach(cgroup.as_fd())
            .with_context(|| format!("cgroup {path}"))?;
        ("attached to", before)
    };
    let mut lines = vec![format!(
        "{verb} {path}: new connections {} keepalive: {}; a lost peer is detected after {}",
        if args.dry_run { "would get" } else { "get" },
        text::times(&times),
        text::detection_time(&times)
    )];
    lines.extend(before.map(|before| format!("Before: {}", text::times(&before))));
    lines.extend(text::system_line());
    write_result(&lines, args.dry_run)?;
    if !args.dry_run {
        notes::say(&format!(
            "sockeye: existing connections stay as they are{}\n",
            remedy(
                &cgroup,
                &format!("set {}", text::options(&times)),
                "changes those too"
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
            attached_to_ancestor(&cgroup)
        ));
        return Ok(ExitCode::FAILURE);
    }
    let mut given = Some(0);
    for program in &ours {
        if !args.dry_run {
            program
                .detach(cgroup.as_fd())
                .with_context(|| format!("cgroup {path}"))?;
        }
        // A program of another version may have other counters.
        let counts = program.counts().ok();
        given = given.zip(counts).map(|(sum, counts)| sum + counts.given);
    }
    let result = given.map_or_else(
        || "connections that have got keepalive keep it".to_owned(),
        |given| match given {
            0 => "none has got keepalive".to_owned(),
            given => format!(
                "{} got keepalive, and those that still exist {} it",
                text::connections(given),
                if args.dry_run { "would keep" } else { "keep" }
            ),
        },
    );
    let line = format!(
        "{} {path}: new connections {} get keepalive; {result}",
        if args.dry_run {
            "would detach from"
        } else {
            "detached from"
        },
        if args.dry_run {
            "would no longer"
        } else {
            "no longer"
        },
    );
    write_result(&[line], args.dry_run)?;
    if !args.dry_run && given != Some(0) {
        let hint = remedy(&cgroup, "unset", "removes it from those");
        if let Some(hint) = hint.strip_prefix("; ") {
            notes::say(&format!("sockeye: {hint}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what was done; on stderr if stdout cannot be written, since it is done already.
fn write_result(lines: &[String], dry_run: bool) -> anyhow::Result<()> {
    let result = stdout::write_lines(lines);
    match (&result, lines.first()) {
        (Err(error), Some(line)) if !dry_run && !stdout::is_closed_pipe(error) => {
            notes::say(&format!("sockeye: {line}\n"));
        }
        _ => {}
    }
    result
}

/// Loads a program that gives these settings, without attaching it.
pub(super) fn load(times: Keepalive) -> anyhow::Result<KeepaliveProgram> {
    let loaded = BpfEngine::default().keepalive_program();
    let (program, maps) = loaded.map_err(|obstacle| explained(&obstacle))?;
    Ok(KeepaliveProgram::new(program, maps, times)?)
}

fn explained(obstacle: &Unavailable) -> anyhow::Error {
    let (what, remedy) = match obstacle {
        Unavailable::Load(LoadError::System(what, errno @ (Errno::PERM | Errno::ACCESS)), _) => (
            format!("{what}: {errno}"),
            format!(
                "it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: {}",
                rights::remedy("them", CheckedIn::Initial)
            ),
        ),
        Unavailable::Types(..) | Unavailable::Lacks(_) | Unavailable::Load(LoadError::Rejected(..), _) => (
            obstacle.to_string(),
            "it needs Linux 5.9 or later, with CONFIG_DEBUG_INFO_BTF; `sockeye keepalive set` works without, on existing \
             connections"
                .to_owned(),
        ),
        _ => return anyhow!("no keepalive for new connections: {obstacle}"),
    };
    anyhow!("no keepalive for new connections: {what}; {remedy}")
}

/// Returns a hint at the command that changes existing connections, which may be in any network namespace.
fn remedy(cgroup: &Cgroup, command: &str, does: &str) -> String {
    let Some(filter) = cgroup.filter() else {
        return String::new();
    };
    let below = if has_children(cgroup) {
        ", in this cgroup, not in those below"
    } else {
        ""
    };
    format!("; `sockeye keepalive {command} -N all '{filter}'` {does}{below}")
}

/// Returns a hint at the ancestor with an attached program.
fn attached_to_ancestor(cgroup: &Cgroup) -> String {
    let ancestors = cgroup.ancestors().unwrap_or_default();
    let attached = ancestors
        .iter()
        .find(|ancestor| KeepaliveProgram::attached(ancestor.as_fd()).is_ok_and(|ours| !ours.is_empty()));
    attached.map_or_else(
        || "; `sockeye keepalive attached` lists where it is".to_owned(),
        |ancestor| format!(" itself; its ancestor {} has it", ancestor.path()),
    )
}

fn has_children(cgroup: &Cgroup) -> bool {
    let files = fs::read_dir(cgroup.folder()).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.file_type().ok())
        .any(|kind| kind.is_dir())
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  sockeye keepalive attach system.slice/nginx.service --time 2m
  sockeye keepalive attach 3f2a9c1d77e0             a container, by its id
  sockeye keepalive attach 4711 --user-timeout 90s  a process's cgroup
  sockeye keepalive attach --dry-run user.slice

It needs Linux 5.9, cgroup version 2, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; also CAP_SYS_ADMIN if other \
programs are attached to the cgroup.";

const DETACH_EXAMPLES: &str = "\
Examples:
  sockeye keepalive detach system.slice/nginx.service
  sockeye keepalive attached  list the cgroups with a program

Exit status: 1 if nothing was attached there.";
