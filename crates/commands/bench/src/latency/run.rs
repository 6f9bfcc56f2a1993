//! Runs `sockeye bench rr` and `sockeye bench crr`: repeats the measurement of `sockeye_load::latency`, shows its progress, and
//! hands the figures to `output.rs`. It opens no socket itself.

use super::args::{CrrArgs, RrArgs};
use super::output::Figures;
use crate::output_args::{OutputArgs, noise_since};
use sockeye_console::notes;
use sockeye_console::progress::Progress;
use sockeye_load::Transport;
use sockeye_load::latency::{Plan, run};
use sockeye_load::session::{Kind, Stop};
use sockeye_measure::TypedCommand;
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;

pub(crate) fn rr(args: &RrArgs) -> anyhow::Result<ExitCode> {
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let plan = Plan {
        busy_poll: args.busy_poll,
        ..args.options.plan(Kind::Rr, transport)?
    };
    let command = args.options.typed_command("sockeye bench rr");
    let command = command.flag("-u", args.udp).flag("--busy-poll", args.busy_poll);
    measure(&plan, command, args.options.repeats, &args.output)
}

pub(crate) fn crr(args: &CrrArgs) -> anyhow::Result<ExitCode> {
    let plan = args.options.plan(Kind::Crr, Transport::Tcp)?;
    let command = args.options.typed_command("sockeye bench crr");
    measure(&plan, command, args.options.repeats, &args.output)
}

fn measure(
    plan: &Plan,
    command: TypedCommand,
    repeats: u32,
    output: &OutputArgs,
) -> anyhow::Result<ExitCode> {
    let chart = output.prepare()?;
    let stop = Stop::on_signal(Interrupts::catch()?);
    let before = sockeye_load::noise();
    let mut figures = Figures::new(plan, command);
    for _ in 0..repeats {
        let outcome = {
            let mut progress = match plan.count {
                Some(count) => Progress::new("answers", usize::try_from(count).unwrap_or(usize::MAX)),
                None => Progress::without_total("answers"),
            };
            run(plan, &stop, &mut |answered| progress.reach(answered as usize))
        };
        match outcome {
            Ok(outcome) => figures.take(outcome),
            // There is nothing to report.
            Err(error) if figures.is_empty() => return Err(error.into()),
            Err(error) => figures.fail(&error),
        }
        if figures.is_partial() {
            break;
        }
    }
    let mut report = figures.report();
    report.noise = Some(noise_since(before));
    if let Some(partial) = report.partial.as_ref().filter(|_| !output.is_for_eyes()) {
        notes::say(&format!("sockeye: {}\n", partial.text));
    }
    output.deliver(&report, chart)
}
