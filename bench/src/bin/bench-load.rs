//! Makes a host full of sockets, says so, and holds them until its stdin closes or it is ended.

use anyhow::{Context, Result, ensure};
use sockeye_bench::arguments::LoadArguments;
use sockeye_bench::{holder, load::Load, netns};
use std::io::{Read, Write};
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
    let (sockets, private_netns) = match *arguments {
        LoadArguments::Help => {
            println!("{}", LoadArguments::HELP);
            return Ok(());
        }
        LoadArguments::Hold { number, connections } => return holder::hold(number, connections),
        LoadArguments::Make {
            sockets,
            private_netns,
        } => (sockets, private_netns),
    };
    if private_netns {
        ensure!(
            netns::enter_private()?,
            "--private-netns needs CAP_SYS_ADMIN (root)"
        );
    }
    let program = std::env::current_exe().context("finding this program")?;
    let load = Load::start_holders(&program, sockets)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready {} sockets", load.sockets())
        .and_then(|()| stdout.flush())
        .context("stdout")?;
    // No handler for SIGTERM or SIGINT is needed: the holders are killed when this process dies, however it dies.
    let mut ignored = [0; 4096];
    while std::io::stdin().read(&mut ignored).context("stdin")? > 0 {}
    load.stop()
}
