//! Creates a host full of sockets, reports them, and holds them until its stdin closes or it is ended.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sockeye_compare::arguments::LoadArguments;
use sockeye_compare::namespaces::{self, Names};
use sockeye_compare::{holder, load::Load, netns};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match LoadArguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("bench-load: {usage}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &LoadArguments) -> Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    // Dropped last: the names are removed when no process needs them any more.
    let _names;
    let load = match *arguments {
        LoadArguments::Help => {
            println!("{}", LoadArguments::HELP);
            return Ok(());
        }
        LoadArguments::Hold {
            number,
            connections,
            clients,
        } => return holder::hold(number, connections, clients),
        LoadArguments::HoldNamespaces(share) => return namespaces::hold(share),
        LoadArguments::Make {
            sockets,
            private_netns,
            distinct_clients,
        } => {
            if private_netns {
                ensure!(
                    netns::enter_private()?,
                    "--private-netns needs CAP_SYS_ADMIN (root)"
                );
            }
            Load::start_holders(&program, sockets, distinct_clients)?
        }
        LoadArguments::MakeNamespaces { namespaces, sets } => {
            _names = Names::isolate().context("--namespaces needs CAP_SYS_ADMIN (root)")?;
            Load::start_namespaces(&program, namespaces, sets, 0)?
        }
    };
    // Before reporting readiness: the reader may send a signal at once.
    let signals = block_signals()?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready {} sockets", load.sockets())
        .and_then(|()| stdout.flush())
        .context("stdout")?;
    wait_for_the_end(&signals)?;
    load.stop()
}

/// Blocks SIGTERM and SIGINT so that they can be read. Before, and by SIGKILL at any time, the process ends
/// at once; the holders then end too, but are not waited for.
fn block_signals() -> Result<SignalFd> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block().context("blocking signals")?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")
}

/// Returns when stdin closes, or by a signal.
fn wait_for_the_end(signals: &SignalFd) -> Result<()> {
    let mut stdin = std::io::stdin();
    loop {
        let mut awaited = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut awaited, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno).context("poll"),
        }
        let [input, signal] = awaited.map(|awaited| awaited.any().unwrap_or(true));
        if signal || (input && stdin.read(&mut [0; 4096]).context("stdin")? == 0) {
            return Ok(());
        }
    }
}
