//! Writes a capture of generated TCP transfers, for the benchmarks of `analyze` and its peers.

use anyhow::{Context, Result};
use sockeye_compare::arguments::PacketsArguments;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match PacketsArguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("bench-packets: {usage}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-packets: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &PacketsArguments) -> Result<()> {
    let PacketsArguments::Make { plan, output } = arguments else {
        println!("{}", PacketsArguments::HELP);
        return Ok(());
    };
    let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    plan.write(&mut out)
        .and_then(|()| out.flush())
        .with_context(|| format!("writing {}", output.display()))
}
