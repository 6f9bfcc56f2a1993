//! An action on many sockets: it is previewed, confirmed, executed, and reported with every failure.

use crate::outcome::{Outcome, group, indices};
use crate::output::TargetLayout;
use crate::targets::Targets;
use anyhow::Context;
use clap::Args;
use sockeye_console::args::FormatArg;
use sockeye_console::confirm;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{Protocol, counted};
use sockeye_output::listing::{Align, Column, Value};
use sockeye_output::socket::{Sockets, further_value};
use sockeye_output::{Format, SocketWriter, Style};
use sockeye_query::args::ListingArgs;
use sockeye_query::listing::Listing;
use std::io::{self, Write};
use std::process::ExitCode;

/// Flags of every action.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Change nothing; list the sockets that would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Texts of an action.
#[derive(Debug)]
pub(crate) struct Action {
    /// The command: `keepalive set`.
    pub(crate) command: &'static str,
    /// Participle for its success: `closed`.
    pub(crate) done: &'static str,
    /// Begin of the question: `Close`.
    pub(crate) question: String,
    /// Text after the number of sockets in the result; may be empty.
    pub(crate) remark: String,
}

impl Action {
    /// Previews and confirms the action, lets `act` do it to the targets that are [`Outcome::Untried`], and reports.
    /// `act` gets their indices and returns their outcomes.
    pub(crate) fn run(
        &self,
        args: &ConfirmArgs,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        mut outcomes: Vec<Outcome>,
        act: impl FnOnce(&Targets, &[usize]) -> anyhow::Result<Vec<Outcome>>,
    ) -> anyhow::Result<ExitCode> {
        let selected: Vec<usize> = (0..targets.all.len())
            .filter(|&index| outcomes[index] == Outcome::Untried)
            .collect();
        if args.dry_run {
            self.show_all(common, listing, targets, &outcomes, true)?;
        } else if !selected.is_empty() {
            let is_table = common.format == FormatArg::Table;
            if args.yes {
                if is_table {
                    // The action is confirmed: it is done even if nothing reads the output.
                    let style = stdout::style(common.color);
                    let _ = stdout::open()
                        .and_then(|out| self.preview(common, listing, targets, &selected, out, style));
                }
            } else {
                // A preview that cannot be written does not prevent the action.
                let _ = self.preview(common, listing, targets, &selected, io::stderr(), Style::Plain);
                let question = format!("{} {}?", self.question, count(targets, &selected));
                let usage = || {
                    format!(
                        "sockeye: {}: {} would be {}; --yes confirms it, --dry-run lists them all\n",
                        self.command,
                        count(targets, &selected),
                        self.done
                    )
                };
                if !confirm::confirm(&question, usage)? {
                    notes::say(&format!("sockeye: {}: nothing was changed\n", self.command));
                    return Ok(ExitCode::FAILURE);
                }
            }
            for (&index, outcome) in selected.iter().zip(act(targets, &selected)?) {
                outcomes[index] = outcome;
            }
        }
        let written = if args.dry_run {
            Ok(())
        } else if common.format == FormatArg::Table {
            self.write_result(targets, &outcomes, &selected)
        } else {
            self.show_all(common, listing, targets, &outcomes, false)
        };
        // The action is done: if stdout cannot be written, report it on stderr, unless its reader ended.
        let write_error = written.err().filter(|error| !stdout::is_closed_pipe(error));
        if write_error.is_some() && !selected.is_empty() {
            let how_many = |test: fn(&Outcome) -> bool| indices(&outcomes, test).len();
            notes::say(&format!(
                "sockeye: {}: {} {}{}; {} had gone, {} failed\n",
                self.command,
                counted(how_many(|one| *one == Outcome::Done), noun(targets, &selected)),
                self.done,
                self.remark,
                how_many(|one| *one == Outcome::Gone),
                how_many(|one| matches!(one, Outcome::Failed(_))),
            ));
        }
        self.note_exceptions(targets, &outcomes, &selected, args.dry_run);
        listing.write_notes(&targets.report, common.verbose);
        if let Some(error) = write_error {
            return Err(error);
        }
        let has_failed = outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Failed(_)));
        Ok(if has_failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    /// Writes the first of the selected targets.
    fn preview(
        &self,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        selected: &[usize],
        mut out: impl Write,
        style: Style,
    ) -> io::Result<()> {
        let layout = TargetLayout {
            format: Format::Table,
            style,
            ..layout(common, listing, targets)
        };
        let mut writer = SocketWriter::with_columns(&mut out, layout.listing());
        writer.begin()?;
        for &index in selected.iter().take(SHOWN_MAX) {
            targets.with_entry(&targets.all[index], |entry| writer.row(entry, listing.context))?;
        }
        writer.finish(&sockeye_output::Summary::default())?;
        let more = selected.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            writeln!(out, "... and {more} more")?;
        }
        Ok(())
    }

    /// Writes every target with its outcome.
    fn show_all(
        &self,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        outcomes: &[Outcome],
        dry_run: bool,
    ) -> anyhow::Result<()> {
        let is_plain_list = dry_run && common.format == FormatArg::Table;
        let layout = TargetLayout {
            more: if is_plain_list { &[] } else { COLUMNS },
            style: stdout::style(common.color),
            ..layout(common, listing, targets)
        };
        let mut writer =
            SocketWriter::with_columns(stdout::open().context(stdout::WRITING)?, layout.listing());
        let sources = targets.report.sources();
        let mut write = || -> io::Result<()> {
            writer.begin()?;
            for (target, outcome) in targets.all.iter().zip(outcomes) {
                if is_plain_list && *outcome != Outcome::Untried {
                    continue;
                }
                let values = [Value::Word(outcome.name(self.done)), outcome.reason()];

                targets.with_entry(target, |entry| writer.row_with(entry, listing.context, &values))?;
            }
            writer.finish_with(&targets.report.summary(&sources), |object| {
                object.boolean("dry_run", Some(dry_run));
                let how_many =
                    |test: fn(&Outcome) -> bool| outcomes.iter().filter(|one| test(one)).count() as u64;
                object.number(self.done, Some(how_many(|one| *one == Outcome::Done)));
                object.number("gone", Some(how_many(|one| *one == Outcome::Gone)));
                object.number(
                    "left_out",
                    Some(how_many(|one| matches!(one, Outcome::LeftOut(_)))),
                );
                object.number("failed", Some(how_many(|one| matches!(one, Outcome::Failed(_)))));
            })
        };
        write().context(stdout::WRITING)
    }

    /// Writes the number of sockets that were changed.
    fn write_result(
        &self,
        targets: &Targets,
        outcomes: &[Outcome],
        selected: &[usize],
    ) -> anyhow::Result<()> {
        if selected.is_empty() {
            // Targets that are left out are noted later.
            if targets.all.is_empty() {
                notes::say(&format!(
                    "sockeye: {}: {NOTHING_MATCHES}; nothing was changed\n",
                    self.command
                ));
            }
            return Ok(());
        }
        let done: Vec<usize> = selected
            .iter()
            .copied()
            .filter(|&index| outcomes[index] == Outcome::Done)
            .collect();
        let text = format!(
            "{} {}{}",
            counted(done.len(), noun(targets, selected)),
            self.done,
            self.remark
        );
        stdout::write_lines([text])
    }

    /// Notes on stderr the targets that were not changed, grouped by reason.
    fn note_exceptions(&self, targets: &Targets, outcomes: &[Outcome], selected: &[usize], dry_run: bool) {
        let command = self.command;
        if dry_run {
            let what = if targets.all.is_empty() {
                NOTHING_MATCHES.to_owned()
            } else {
                format!("{} would be {}", count(targets, selected), self.done)
            };
            notes::say(&format!("sockeye: {command}: {what}; nothing was changed\n"));
        }
        let gone: Vec<usize> = indices(outcomes, |outcome| *outcome == Outcome::Gone);
        if !gone.is_empty() {
            let what = count(targets, &gone);
            notes::say(&format!("sockeye: {command}: {what} had gone meanwhile\n"));
        }
        let left_out = group(targets, outcomes, |outcome| match outcome {
            Outcome::LeftOut(reason) => Some(reason),
            _ => None,
        });
        let failed = group(targets, outcomes, |outcome| match outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        });
        let not = format!("not {}", self.done);
        for (verb, groups) in [("left out", left_out), (not.as_str(), failed)] {
            let more = groups.len().saturating_sub(REASONS_MAX);
            for (reason, group) in groups.iter().take(REASONS_MAX) {
                let what = count(targets, &group.indices);
                notes::say(&format!(
                    "sockeye: {command}: {what}{} {verb}: {reason}\n",
                    group.owners()
                ));
            }
            if more > 0 {
                let rest: usize = groups
                    .iter()
                    .skip(REASONS_MAX)
                    .map(|(_, group)| group.indices.len())
                    .sum();
                notes::say(&format!(
                    "sockeye: {command}: {rest} more of {more} more owners {verb}; --format json lists each\n"
                ));
            }
        }
    }
}

fn layout(common: &ListingArgs, listing: &Listing<'_>, targets: &Targets) -> TargetLayout {
    let first = targets.all.first().map(|target| target.protocol);
    TargetLayout {
        format: common.format.into(),
        netid: targets.all.iter().any(|target| Some(target.protocol) != first),
        netns: listing.context.namespaces.are_many(),
        width: stdout::width(),
        no_header: common.no_header,
        envelope: targets.envelope,
        document_type: "actions",
        row_type: "action",
        ..TargetLayout::default()
    }
}

fn count(targets: &Targets, indices: &[usize]) -> String {
    counted(indices.len(), noun(targets, indices))
}

fn noun(targets: &Targets, indices: &[usize]) -> &'static str {
    let are_connections = indices.iter().all(|&index| {
        let target = &targets.all[index];
        target.protocol == Protocol::Tcp && target.peer.port().is_some_and(|port| port.0 != 0)
    });
    if are_connections { "connection" } else { "socket" }
}

const NOTHING_MATCHES: &str = "nothing matches the filter";
/// The columns after those of the sockets.
static COLUMNS: &[Column<Sockets>] = &[
    Column::<Sockets>::value("outcome", "Outcome", Align::Left, "What was done", further_value),
    Column::<Sockets>::value(
        "reason",
        "Reason",
        Align::Left,
        "Why it was not done",
        further_value,
    )
    .index(1),
];
/// Number of sockets in a preview.
const SHOWN_MAX: usize = 20;
/// Number of reasons that are noted, one per line.
const REASONS_MAX: usize = 10;
