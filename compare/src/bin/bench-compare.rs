//! Runs Sockeye and its peers interleaved on a host full of sockets, and prints ratios and verdicts.

use anyhow::{Context, Result, ensure};
use sockeye_compare::arguments::CompareArguments;
use sockeye_compare::comparison::{Comparison, progress};
use sockeye_compare::document;
use sockeye_compare::known_work::{KNOWN_WORK, run_known_work};
use sockeye_compare::machine::Machine;
use sockeye_compare::measure::{SUPERVISE, supervise};
use sockeye_compare::netns;
use sockeye_compare::programs::{is_executable, on_path, sibling_or_on_path};
use sockeye_compare::report::Report;
use sockeye_compare::run::Installed;
use sockeye_compare::wrapped_program::{HOLD_NETNS, WRAPPER, hold_namespace, run_wrapper};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    // Before anything else: this process must stay small.
    if words.next_if(|word| word == SUPERVISE).is_some() {
        return exit(supervise(words).map(|()| true));
    }
    if words.next_if(|word| word == WRAPPER).is_some() {
        return exit(run_wrapper(words).map(|()| true));
    }
    if words.next_if(|word| word == HOLD_NETNS).is_some() {
        return exit(hold_namespace().map(|()| true));
    }
    if words.next_if(|word| word == KNOWN_WORK).is_some() {
        return exit(run_known_work(words).map(|()| true));
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

/// Runs all phases; true if all targets are met, or not required.
fn compare(arguments: &CompareArguments) -> Result<bool> {
    if let Some(sockeye) = &arguments.sockeye {
        ensure!(
            is_executable(sockeye),
            "--sockeye {}: no such program",
            sockeye.display()
        );
    }
    // Check now that the document can take the report.
    let document = arguments.markdown.as_deref().map(read_document).transpose()?;
    let installed = Installed {
        floor: sibling_or_on_path("bench-floor"),
        // An absolute path: some commands run in another folder.
        sockeye: arguments
            .sockeye
            .as_ref()
            .map(|sockeye| sockeye.canonicalize())
            .transpose()
            .context("finding sockeye")?
            .or_else(|| sibling_or_on_path("sockeye")),
        peer: on_path,
    };
    let bench_load = sibling_or_on_path("bench-load")
        .context("bench-load is not in the folder of this program: build it too")?;

    let mut method = vec![format!("rounds: {}, interleaved, medians", arguments.rounds)];
    method.push(if arguments.host_netns {
        "measured in the network namespace of the host; its other sockets are counted, too".to_owned()
    } else if netns::enter_private()? {
        "measured in a private network namespace".to_owned()
    } else {
        eprintln!("bench-compare: no rights to make a network namespace: the host's own sockets are measured too");
        "measured on the host itself (no rights to make a network namespace); its other sockets are counted, too".to_owned()
    });
    let mut machine = Machine::this();
    machine.ask_version("sockeye", installed.sockeye.as_deref(), "--version");
    for (peer, argument) in PEERS {
        machine.ask_version(peer, on_path(peer).as_deref(), argument);
    }

    let mut comparison = Comparison::new(installed, bench_load);
    let is_whole = !arguments.only_network && !arguments.only_profiles && !arguments.only_distinct_clients;
    if is_whole {
        comparison.measure_empty_host(4 * arguments.rounds)?;
        comparison.measure_full_host(arguments)?;
    }
    if is_whole || arguments.only_distinct_clients {
        comparison.measure_distinct_clients(arguments)?;
    }
    if is_whole {
        comparison.measure_socket_changes(arguments)?;
        comparison.measure_namespaces(arguments)?;
        comparison.measure_namespace_lists(arguments)?;
        comparison.measure_capture_analysis(arguments)?;
        comparison.measure_capturing(arguments)?;
        comparison.measure_log_explanation(arguments)?;
    }
    if is_whole || arguments.only_network {
        comparison.measure_network(arguments)?;
    }
    if is_whole || arguments.only_profiles {
        comparison.measure_profilers(arguments)?;
    }
    if is_whole {
        comparison.measure_operations(arguments)?;
    }
    let report = Report {
        machine,
        method,
        tables: comparison.into_tables(),
    };

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

fn read_document(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    document::replace(&text, "").with_context(|| path.display().to_string())?;
    Ok(text)
}

/// Peers whose versions the report names, with the argument that prints them.
const PEERS: [(&str, &str); 10] = [
    ("ss", "-V"),
    ("netstat", "-V"),
    ("lsof", "-v"),
    ("ip", "-V"),
    ("tshark", "--version"),
    ("tcptrace", "-version"),
    ("iperf3", "--version"),
    ("sockperf", "--version"),
    ("strace", "--version"),
    ("lstf", "--version"),
];
