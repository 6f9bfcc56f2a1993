//! Runs Sockeye and its peers interleaved on a host full of sockets, and prints ratios and verdicts.

use anyhow::{Context, Result, ensure};
use sockeye_bench::arguments::CompareArguments;
use sockeye_bench::document;
use sockeye_bench::floor;
use sockeye_bench::judgement::judge;
use sockeye_bench::load::Load;
use sockeye_bench::machine::Machine;
use sockeye_bench::measure::{SUPERVISE, supervise};
use sockeye_bench::neighbours;
use sockeye_bench::netns;
use sockeye_bench::programs::{beside_or_on_path, is_executable, on_path};
use sockeye_bench::report::{Report, Table};
use sockeye_bench::run::{Installed, interleaved};
use sockeye_bench::suite::{Phase, entries};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    // First of all and with nothing done before: this process must stay small.
    if words.next_if(|word| word == SUPERVISE).is_some() {
        return exit(supervise(words).map(|()| true));
    }
    let arguments = match CompareArguments::parse(words) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("bench-compare: {usage}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        println!("{}", CompareArguments::HELP);
        return ExitCode::SUCCESS;
    }
    exit(compare(&arguments))
}

fn exit(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if all went well, or well enough.
fn compare(arguments: &CompareArguments) -> Result<bool> {
    if let Some(sockeye) = &arguments.sockeye {
        ensure!(
            is_executable(sockeye),
            "--sockeye {}: no such program",
            sockeye.display()
        );
    }
    // A document that cannot take the report should be known before the work, not after.
    let document = arguments.markdown.as_deref().map(read_document).transpose()?;
    let installed = Installed {
        floor: beside_or_on_path("bench-floor"),
        sockeye: arguments.sockeye.clone().or_else(|| beside_or_on_path("sockeye")),
        peer: on_path,
    };
    let bench_load =
        beside_or_on_path("bench-load").context("bench-load is not beside this program: build it too")?;

    let mut method = vec![format!("rounds: {}, interleaved, medians", arguments.rounds)];
    method.push(if arguments.host_netns {
        "measured in the network namespace of the host, whose own sockets are counted too".to_owned()
    } else if netns::enter_private()? {
        "measured in a network namespace of its own".to_owned()
    } else {
        eprintln!("bench-compare: no rights to make a network namespace: the host's own sockets are measured too");
        "measured on the host itself (no rights to make a network namespace), whose own sockets are counted too".to_owned()
    });
    let mut machine = Machine::this();
    machine.ask_version("sockeye", installed.sockeye.as_deref(), "--version");
    machine.ask_version("ss", on_path("ss").as_deref(), "-V");
    machine.ask_version("netstat", on_path("netstat").as_deref(), "-V");

    let mut report = Report {
        machine,
        method,
        tables: Vec::new(),
    };
    // Runs of a millisecond scatter more, and cost little.
    let rounds_empty = 4 * arguments.rounds;
    report
        .tables
        .push(measure(Phase::Empty, None, &installed, rounds_empty)?);

    let load = start(&bench_load, arguments.sockets)?;
    report
        .tables
        .push(measure(Phase::Speed, Some(&load), &installed, arguments.rounds)?);
    // Peaks hardly scatter: a few rounds are enough.
    let rounds_memory = arguments.rounds.min(3);
    let load = if arguments.memory_sockets == arguments.sockets {
        load
    } else {
        load.stop()?;
        start(&bench_load, arguments.memory_sockets)?
    };
    report
        .tables
        .push(measure(Phase::Memory, Some(&load), &installed, rounds_memory)?);
    load.stop()?;

    progress("");
    let mut stdout = std::io::stdout();
    write!(stdout, "{}", report.text())
        .and_then(|()| stdout.flush())
        .context("stdout")?;
    if let (Some(path), Some(document)) = (&arguments.markdown, document) {
        let document = document::replace(&document, &report.markdown())
            .context("putting the report into the document")?;
        std::fs::write(path, document).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(!arguments.strict || report.tally().is_clean())
}

fn start(bench_load: &Path, sockets: usize) -> Result<Load> {
    progress(&format!("making {sockets} sockets"));
    let load = Load::start_program(bench_load, sockets)?;
    let seen = floor::dump(floor::Request::default())
        .context("counting the load")?
        .records;
    ensure!(
        seen >= load.sockets() as u64,
        "the load says {} sockets, the kernel {seen}",
        load.sockets()
    );
    Ok(load)
}

fn measure(phase: Phase, load: Option<&Load>, installed: &Installed, rounds: usize) -> Result<Table> {
    let sockets = load.map_or(0, Load::sockets);
    let title = match phase {
        Phase::Empty => "Nearly empty host".to_owned(),
        Phase::Speed => format!("Speed, {sockets} sockets"),
        Phase::Memory => format!("Memory, {sockets} sockets"),
    };
    let own = load.map_or(0, |load| load.sockets() as u64);
    let others_before = neighbours::allocated()?.saturating_sub(own);
    let mut tell = |text: &str| progress(&format!("{title}: {text}"));
    let figures = interleaved(entries(phase), installed, sockets, WARM_UPS, rounds, &mut tell)?;
    let others = others_before.max(neighbours::allocated()?.saturating_sub(own));
    let warning = (others > neighbours::DISTURBING).then(|| {
        format!("DISTURBED: {others} TCP sockets of others on this kernel; every dump walks past them too")
    });
    Ok(Table {
        rows: judge(&figures, sockets),
        title,
        warning,
    })
}

/// Long work shows itself on a terminal, on one line; nothing anywhere else.
fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }
}

fn read_document(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    document::replace(&text, "").with_context(|| path.display().to_string())?;
    Ok(text)
}

const WARM_UPS: usize = 1;
