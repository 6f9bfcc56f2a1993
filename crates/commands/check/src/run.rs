//! Reads the host, judges it and prints findings, once or repeatedly. `sockeye::main` calls it. It applies no remedy.

use crate::args::CheckArgs;
use crate::output::{FindingsLayout, push_findings, push_rules};
use crate::selection;
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::envelope;
use sockeye_console::live::{self, Content, Live};
use sockeye_console::notes::say;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_output::{Format, Summary};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::{QueryContext, bpf_engine};
use sockeye_query::drops::DropObserver;
use sockeye_query::findings::{FindingOptions, FindingSample, FindingSampler, RemedyAccess, RuleSelection};
use sockeye_query::listing::{Listing, ListingReport, tests_netns};
use sockeye_query::refusals::RefusalObserver;
use sockeye_verdict::{Limits, Rule};
use std::io::Write as _;
use std::process::ExitCode;

/// Checks the host and prints findings. `configured` are thresholds with values that the command line replaces.
///
/// # Errors
/// If an option is wrong, the host could not be read, or output failed.
pub fn run(args: &CheckArgs, configured: &[(&str, &str)]) -> anyhow::Result<ExitCode> {
    let configured = configured
        .iter()
        .map(|(name, value)| selection::setting(&format!("{name}={value}")))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| UsageError(format!("sockeye: {error}\n")))?;
    // Those on the command line are the last, which count.
    let settings = [configured, args.settings.clone()].concat();
    let rules = RuleSelection::new(args.only.as_ref(), args.skip.as_ref(), &settings, args.severity);
    if args.list {
        return print_rules(&rules, &args.common).map(|()| ExitCode::SUCCESS);
    }
    let mut context = QueryContext::for_time(
        &args.common,
        false,
        tests_netns(&args.filter),
        args.past.at.is_some(),
    )?;
    context.look_back(&args.past)?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let check = Check {
        args,
        limits: rules.limits.clone(),
        listing: &listing,
    };
    let options = FindingOptions {
        is_repeated: args.watch.is_some(),
        is_filtered: !args.filter.is_empty(),
        second_look: args.second_look,
    };
    let drops = observe_drops(args)?;
    let refusals = match drops {
        Some(_) if REFUSED.iter().any(|rule| rules.has(*rule)) => observe_refusals(args)?,
        _ => None,
    };
    check.run(FindingSampler::new(&listing, rules, options, drops).with_refusals(refusals))
}

/// A check that can be run once or repeatedly.
struct Check<'a> {
    args: &'a CheckArgs,
    limits: Limits,
    listing: &'a Listing<'a>,
}

impl Check<'_> {
    fn run(&self, mut sampler: FindingSampler<'_>) -> anyhow::Result<ExitCode> {
        // The first of several has nothing to compare with, and no result.
        let is_repeated = self.args.watch.is_some();
        // A single result is not redrawn: it may be longer than the screen.
        let is_redrawn =
            is_repeated && self.args.count != Some(1) && self.args.common.format == FormatArg::Table;
        let mut live = if is_redrawn {
            Live::begin().context(live::BEGINNING)?
        } else {
            None
        };
        let mut worst = None;
        let mut has_gaps = false;
        // What is counted, and numbered, are results.
        for number in u64::from(!is_repeated).. {
            let mut report = self.listing.begin();
            let result = sampler.sample(&mut report)?;
            let is_result = number > 0;
            let is_last = self.args.count == Some(number);
            if is_result {
                worst = worst.max(result.worst);
                has_gaps |= !result.checked.not_judged.is_empty();
            }
            if let (Some(live), Some(interval)) = (&mut live, self.args.watch) {
                let body = if is_result {
                    self.text(&result, &report, Some(number), Some(live.width()))
                } else {
                    b"The first result comes with the next sample.\n".to_vec()
                };
                self.listing.write_notes(&report, self.args.common.verbose);
                let title = live::title(&result.envelope, interval, "check");
                let content = Content {
                    title: &title,
                    body: &body,
                    unit: "lines",
                    remedy: "--severity, or a larger terminal",
                    ..Content::default()
                };
                live.draw(&content)?;
                if is_last || !live.pause(interval, &mut |live| live.draw(&content))? {
                    break;
                }
                continue;
            }
            if is_result {
                match self.print(&result, &report, is_repeated.then_some(number)) {
                    // The reader ended; the exit status still has the result.
                    Err(error) if stdout::is_closed_pipe(&error) => break,
                    printed => printed?,
                }
                self.listing.write_notes(&report, self.args.common.verbose);
            }
            match self.args.watch {
                Some(interval) if !is_last && stdout::pause(interval) => {}
                _ => break,
            }
        }
        Ok(match self.args.fail_on {
            Some(least) if worst.is_some_and(|worst| worst >= least) => ExitCode::FAILURE,
            // What was not looked at may be worse.
            Some(_) if has_gaps => ExitCode::from(EXIT_NOT_JUDGED),
            _ => ExitCode::SUCCESS,
        })
    }

    fn print(
        &self,
        result: &FindingSample,
        report: &ListingReport,
        number: Option<u64>,
    ) -> anyhow::Result<()> {
        let out = self.text(result, report, number, stdout::width());
        stdout::open()
            .and_then(|mut stdout| stdout.write_all(&out))
            .context(stdout::WRITING)
    }

    /// Returns the findings as text for a terminal of this width.
    fn text(
        &self,
        result: &FindingSample,
        report: &ListingReport,
        number: Option<u64>,
        width: Option<usize>,
    ) -> Vec<u8> {
        let common = &self.args.common;
        let layout = FindingsLayout {
            format: Format::from(common.format),
            style: stdout::style(common.color),
            width,
            // One header is enough for a file of many samples.
            no_header: common.no_header || number.is_some_and(|number| number > 1),
            sample: number,
            envelope: result.envelope,
            limits: self.limits.clone(),
            remedy_access: RemedyAccess::find(&result.findings, self.listing.context),
        };
        let sources = report.sources();
        let summary: Summary<'_> = report.summary(&sources);
        let mut out = Vec::new();
        push_findings(
            &mut out,
            &result.findings,
            &result.checked,
            &summary,
            &layout,
            self.listing.context,
        );
        out
    }
}

/// Begins to count drops, if there are several samples. Without rights a note says what is missing.
fn observe_drops(args: &CheckArgs) -> anyhow::Result<Option<DropObserver>> {
    if args.watch.is_none() {
        return Ok(None);
    }
    let begun = DropObserver::begin(&bpf_engine(&args.common.btf)?);
    if let Err(error) = &begun {
        say(&format!(
            "sockeye: check: findings about drops do not name whose packets they were: {error}\n"
        ));
    }
    Ok(begun.ok())
}

/// Begins to see whom listeners turn away. Without rights a note says what is missing.
fn observe_refusals(args: &CheckArgs) -> anyhow::Result<Option<RefusalObserver>> {
    let begun = RefusalObserver::begin(&bpf_engine(&args.common.btf)?);
    if let Err(error) = &begun {
        say(&format!(
            "sockeye: check: findings about full queues of listeners do not name the clients: {error}\n"
        ));
    }
    Ok(begun.ok())
}

/// Rules about what listeners turn away.
const REFUSED: [Rule; 5] = [
    Rule::AcceptQueue,
    Rule::ListenerDrops,
    Rule::BacklogCapped,
    Rule::SynQueue,
    Rule::Counters,
];

/// Writes the rules with their thresholds.
fn print_rules(rules: &RuleSelection, common: &ListingArgs) -> anyhow::Result<()> {
    let mut out = Vec::new();
    push_rules(
        &mut out,
        rules,
        common.format.into(),
        common.no_header,
        stdout::width(),
        &envelope::now(),
    );
    stdout::write(&out)
}

/// Exit status of `--fail-on` without a finding, if something could not be judged.
const EXIT_NOT_JUDGED: u8 = 3;
