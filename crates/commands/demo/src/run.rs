//! Runs `sockeye demo`.

use crate::args::DemoArgs;
use crate::command;
use crate::output::{Scene, push_scene};
use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_act::program::Program;
use sockeye_console::progress::Progress;
use sockeye_console::{notes, stdout};
use sockeye_load::world::{Role, World};
use sockeye_sys::interrupts::Interrupts;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Builds the world, and waits for a signal or the end of the command.
///
/// # Errors
/// If the world cannot be built, a program of it ends, or the command cannot be started.
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if let Some(role) = args.role {
        role.run();
        return Ok(ExitCode::FAILURE);
    }
    let interrupts = Interrupts::catch().context("handle SIGINT, SIGTERM and SIGHUP")?;
    let program = Program::new(&args.command);
    let mut world = World::build(role_command)?;
    if let Some(errno) = world.tun_error() {
        let remedy = match errno {
            Errno::ACCESS | Errno::PERM => "root may open it",
            _ => "`modprobe tun` loads the driver, a container needs `--device /dev/net/tun`",
        };
        notes::say(&format!(
            "sockeye: without the tunnel and the lossy link: /dev/net/tun: {errno}; {remedy}\n"
        ));
    }
    if let Some(program) = program {
        if !settle(&world, &interrupts)? {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let code = command::run(&program, &interrupts)?;
        return Ok(ExitCode::from(code));
    }
    let scene = Scene {
        program: typed_name(),
        pid: std::process::id(),
        is_in_user_namespace: world.is_in_user_namespace(),
        // Another terminal of a user who typed sudo has no root.
        needs_sudo: std::env::var_os("SUDO_UID").is_some(),
        has_tunnels: world.tun_error().is_none(),
    };
    let mut text = Vec::new();
    push_scene(&mut text, &scene, stdout::width());
    stdout::write(&text)?;
    stay(&mut world, &interrupts)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line of a program of the world: this binary again.
fn role_command(role: Role) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(role.name()).args(["demo", "--role", role.name()]);
    command
}

/// Returns how this program was called, if by a path: then it may not be in PATH.
fn typed_name() -> String {
    let name = std::env::args().next().filter(|name| name.contains('/'));
    name.unwrap_or_else(|| "sockeye".to_owned())
}

/// Waits until `check` finds all faults; returns whether that was not interrupted.
fn settle(world: &World, interrupts: &Interrupts) -> anyhow::Result<bool> {
    let mut progress = Progress::without_total("");
    loop {
        let left = world.settled().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(true);
        }
        progress.update(|| format!("the host gets its faults: {} s", left.as_secs() + 1));
        let timeout = Timespec::try_from(left.min(PROGRESS_INTERVAL)).ok();
        match poll(&mut [PollFd::new(interrupts, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(false),
            Err(errno) => return Err(errno).context("wait"),
        }
    }
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
fn stay(world: &mut World, interrupts: &Interrupts) -> anyhow::Result<()> {
    loop {
        if interrupts.caught().is_some() {
            return Ok(());
        }
        if let Some(role) = world.ended() {
            bail!("the program {role} of the demonstration has ended");
        }
        let mut polled = vec![PollFd::new(interrupts, PollFlags::IN)];
        polled.extend(
            world
                .ends()
                .map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)),
        );
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("wait for a signal"),
        }
    }
}

/// As after SIGINT in a shell.
const INTERRUPTED: u8 = 130;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
