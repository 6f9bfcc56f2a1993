//! Repeats a transfer of `sockeye_load::stream` or of iperf3, shows its progress, and hands the figures to `output.rs`. `bench::run` calls
//! it. It opens no socket itself.

use super::args::{StreamArgs, usage};
use super::progress::ProgressLine;
use crate::output_args::noise_since;
use anyhow::Context;
use sockeye_console::stdout;
use sockeye_load::session::Stop;
use sockeye_load::stream::Outcome;
use sockeye_load::{ProtocolOptions, StreamProtocol};
use sockeye_measure::{Partial, Report};
use sockeye_output::Format;
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;

pub(crate) fn run(args: &StreamArgs, iperf3: &dyn StreamProtocol) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let chart = args.output.prepare()?;
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stop = Stop::on_signal(interrupts);
    let connector = args.connector(iperf3.port())?;
    let options = ProtocolOptions {
        blocks: args.blocks,
        mss: args.mss,
        no_delay: args.no_delay,
    };
    if args.iperf3 {
        iperf3
            .check(&plan)
            .map_err(|reason| usage(format!("--iperf3: {reason}")))?;
        // Scripts that read the output of `iperf3 -J` get the same.
        if args.output.json || Format::from(args.output.format) == Format::Json {
            if args.repeats > 1 || chart.is_some() {
                return Err(
                    usage("--iperf3 --json is one document of iperf3's: without --repeats and -o").into(),
                );
            }
            let mut line = ProgressLine::new(&plan, 1, 1);
            let document = iperf3.run_for_document(&connector, &plan, options, &stop, &mut |progress| {
                line.show(progress);
            });
            stdout::write(document.text.as_bytes())?;
            return match document.outcome {
                Ok(true) => Ok(ExitCode::SUCCESS),
                Ok(false) => Ok(ExitCode::FAILURE),
                Err(error) => Err(anyhow::Error::from_boxed(error)),
            };
        }
    }
    let noise = sockeye_load::noise();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut failure: Option<Partial> = None;
    for number in 0..args.repeats {
        let mut line = ProgressLine::new(&plan, number + 1, args.repeats);
        let made = if args.iperf3 {
            iperf3
                .run(&connector, &plan, options, &stop, &mut |progress| {
                    line.show(progress);
                })
                .map_err(|failed| (failed.code, anyhow::Error::from_boxed(failed.error)))
        } else {
            sockeye_load::stream::run(&connector, &plan, &stop, &mut |progress| line.show(progress))
                .map_err(|error| (error.code(), anyhow::Error::from(error)))
        };
        drop(line);
        match made {
            Ok(outcome) => {
                let is_partial = outcome.partial.is_some();
                outcomes.push(outcome);
                if is_partial {
                    break;
                }
            }
            // The report still shows the repeats before.
            Err((code, error)) if !outcomes.is_empty() => {
                failure = Some(Partial {
                    code,
                    text: format!("repeat {} of {}: {error}", number + 1, args.repeats),
                });
                break;
            }
            Err((_, error)) => return Err(error),
        }
    }
    let mut report = Report::new("stream");
    let command = args.typed_command();
    super::output::fill(
        &mut report,
        &plan,
        &connector,
        &command,
        &outcomes,
        args.output.is_for_eyes(),
    );
    report.noise = Some(noise_since(noise));
    report.partial = report.partial.or(failure);
    args.output.deliver(&report, chart)
}
