//! What is done to many sockets: shown first, asked for, done, and told, with every failure.

use crate::output::TargetLayout;
use crate::targets::Targets;
use anyhow::Context;
use clap::Args;
use sockeye_console::args::FormatArg;
use sockeye_console::confirm;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{Pid, Protocol};
use sockeye_output::listing::{Align, Column, Value};
use sockeye_output::socket::{Sockets, further_value};
use sockeye_output::{Format, SocketWriter, Style, harmless};
use sockeye_query::args::ListingArgs;
use sockeye_query::listing::Listing;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

/// Flags of every deed.
#[derive(Debug, Args)]
pub(crate) struct Manner {
    /// Do not ask whether these sockets are really meant
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Change nothing; list what would be
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A deed, in words.
#[derive(Debug)]
pub(crate) struct Deed {
    /// `keepalive set`
    pub(crate) command: &'static str,
    /// What it is to the sockets that it is done to: `closed`.
    pub(crate) done: &'static str,
    /// How the question begins: `Close`.
    pub(crate) question: String,
    /// What is said of it beside the number of sockets; may be empty.
    pub(crate) remark: String,
}

/// What became of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nobody tried.
    Untried,
    /// It is done.
    Done,
    /// It had gone meanwhile.
    Gone,
    /// It is not meant, for this reason.
    LeftOut(Cow<'static, str>),
    /// It could not be done, for this reason.
    Failed(Cow<'static, str>),
}

impl Deed {
    /// Does it to all that are [`Outcome::Untried`], and tells. `act` gets these.
    pub(crate) fn run(
        &self,
        manner: &Manner,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        mut outcomes: Vec<Outcome>,
        act: impl FnOnce(&Targets, &[usize]) -> anyhow::Result<Vec<Outcome>>,
    ) -> anyhow::Result<ExitCode> {
        let meant: Vec<usize> = (0..targets.all.len())
            .filter(|&place| outcomes[place] == Outcome::Untried)
            .collect();
        if manner.dry_run {
            self.show_all(common, listing, targets, &outcomes, true)?;
        } else if !meant.is_empty() {
            let is_table = common.format == FormatArg::Table;
            if manner.yes {
                if is_table {
                    // Whoever reads us may have had enough, but what was agreed to is done.
                    let style = stdout::style(common.color);
                    let _ = stdout::open()
                        .and_then(|out| self.preview(common, listing, targets, &meant, out, style));
                }
            } else {
                // That nobody sees it is no reason to fail.
                let _ = self.preview(common, listing, targets, &meant, io::stderr(), Style::Plain);
                let question = format!("{} {}?", self.question, count(targets, &meant));
                let mistake = || {
                    format!(
                        "sockeye: {}: {} would be {}; --yes says that they are meant, --dry-run lists them all\n",
                        self.command,
                        count(targets, &meant),
                        self.done
                    )
                };
                if !confirm::confirm(&question, mistake)? {
                    notes::say(&format!("sockeye: {}: nothing was changed\n", self.command));
                    return Ok(ExitCode::FAILURE);
                }
            }
            for (&place, outcome) in meant.iter().zip(act(targets, &meant)?) {
                outcomes[place] = outcome;
            }
        }
        let told = if manner.dry_run {
            Ok(())
        } else if common.format == FormatArg::Table {
            self.tell_done(targets, &outcomes, &meant)
        } else {
            self.show_all(common, listing, targets, &outcomes, false)
        };
        // It is done all the same: who cannot read it there is told here. Who has had enough of reading is not.
        let unwritten = told.err().filter(|error| !stdout::is_closed_pipe(error));
        if unwritten.is_some() && !meant.is_empty() {
            let how_many = |is_it: fn(&Outcome) -> bool| places(&outcomes, is_it).len();
            notes::say(&format!(
                "sockeye: {}: {} {}{}; {} had gone, {} failed\n",
                self.command,
                number(how_many(|one| *one == Outcome::Done), noun(targets, &meant)),
                self.done,
                self.remark,
                how_many(|one| *one == Outcome::Gone),
                how_many(|one| matches!(one, Outcome::Failed(_))),
            ));
        }
        self.tell_rest(targets, &outcomes, &meant, manner.dry_run);
        listing.write_notes(&targets.report, common.verbose);
        if let Some(error) = unwritten {
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

    /// The first of those that are meant.
    fn preview(
        &self,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        meant: &[usize],
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
        for &place in meant.iter().take(SHOWN_MAX) {
            targets.with_entry(&targets.all[place], |entry| writer.row(entry, listing.context))?;
        }
        writer.finish(&sockeye_output::Summary::default())?;
        let more = meant.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            writeln!(out, "... and {more} more")?;
        }
        Ok(())
    }

    /// Every socket, with what became of it.
    fn show_all(
        &self,
        common: &ListingArgs,
        listing: &Listing<'_>,
        targets: &Targets,
        outcomes: &[Outcome],
        dry_run: bool,
    ) -> anyhow::Result<()> {
        let is_bare = dry_run && common.format == FormatArg::Table;
        let layout = TargetLayout {
            more: if is_bare { &[] } else { COLUMNS },
            style: stdout::style(common.color),
            ..layout(common, listing, targets)
        };
        let mut writer = SocketWriter::with_columns(stdout::open()?, layout.listing());
        let sources = targets.report.sources();
        let mut write = || -> io::Result<()> {
            writer.begin()?;
            for (target, outcome) in targets.all.iter().zip(outcomes) {
                if is_bare && *outcome != Outcome::Untried {
                    continue;
                }
                let values = [Value::Word(outcome.name(self.done)), outcome.reason()];

                targets.with_entry(target, |entry| writer.row_with(entry, listing.context, &values))?;
            }
            writer.finish_with(&targets.report.summary(&sources), |object| {
                object.boolean("dry_run", Some(dry_run));
                let how_many =
                    |is_it: fn(&Outcome) -> bool| outcomes.iter().filter(|one| is_it(one)).count() as u64;
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

    /// What was done, as a sentence on stdout.
    fn tell_done(&self, targets: &Targets, outcomes: &[Outcome], meant: &[usize]) -> anyhow::Result<()> {
        if meant.is_empty() {
            // Whatever matched and is not meant is told below.
            if targets.all.is_empty() {
                notes::say(&format!(
                    "sockeye: {}: {NOTHING_MATCHES}; nothing was changed\n",
                    self.command
                ));
            }
            return Ok(());
        }
        let done: Vec<usize> = meant
            .iter()
            .copied()
            .filter(|&place| outcomes[place] == Outcome::Done)
            .collect();
        let text = format!(
            "{} {}{}",
            number(done.len(), noun(targets, meant)),
            self.done,
            self.remark
        );
        stdout::write_lines([text])
    }

    /// What was not done, and why: on stderr, the same reasons together.
    fn tell_rest(&self, targets: &Targets, outcomes: &[Outcome], meant: &[usize], dry_run: bool) {
        let command = self.command;
        if dry_run {
            let what = if targets.all.is_empty() {
                NOTHING_MATCHES.to_owned()
            } else {
                format!("{} would be {}", count(targets, meant), self.done)
            };
            notes::say(&format!("sockeye: {command}: {what}; nothing was changed\n"));
        }
        let gone: Vec<usize> = places(outcomes, |outcome| *outcome == Outcome::Gone);
        if !gone.is_empty() {
            let what = count(targets, &gone);
            notes::say(&format!("sockeye: {command}: {what} had gone meanwhile\n"));
        }
        let left_out = fold(targets, outcomes, |outcome| match outcome {
            Outcome::LeftOut(reason) => Some(reason),
            _ => None,
        });
        let failed = fold(targets, outcomes, |outcome| match outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        });
        let not = format!("not {}", self.done);
        for (verb, folded) in [("left out", left_out), (not.as_str(), failed)] {
            let more = folded.len().saturating_sub(REASONS_MAX);
            for (reason, group) in folded.iter().take(REASONS_MAX) {
                let what = count(targets, &group.places);
                notes::say(&format!(
                    "sockeye: {command}: {what}{} {verb}: {reason}\n",
                    group.owners()
                ));
            }
            if more > 0 {
                let rest: usize = folded
                    .iter()
                    .skip(REASONS_MAX)
                    .map(|(_, group)| group.places.len())
                    .sum();
                notes::say(&format!(
                    "sockeye: {command}: {rest} more of {more} more owners {verb}; --format json tells of each\n"
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
        ..TargetLayout::default()
    }
}

fn count(targets: &Targets, places: &[usize]) -> String {
    number(places.len(), noun(targets, places))
}

impl Outcome {
    const fn name(&self, done: &'static str) -> &'static str {
        match self {
            Self::Untried => "untried",
            Self::Done => done,
            Self::Gone => "gone",
            Self::LeftOut(_) => "left_out",
            Self::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> Value<'_> {
        match self {
            Self::LeftOut(reason) | Self::Failed(reason) => Value::Text(reason.as_bytes()),
            _ => Value::Absent,
        }
    }
}

/// Sockets with the same fate, of owners with the same name.
#[derive(Debug, Default)]
struct Group {
    places: Vec<usize>,
    name: Option<String>,
    pids: BTreeSet<Pid>,
}

impl Group {
    /// ` of nginx (812, 813 and 4 more processes)`
    fn owners(&self) -> String {
        let Some(name) = &self.name else {
            return String::new();
        };
        let some: Vec<String> = self.pids.iter().take(PIDS_MAX).map(ToString::to_string).collect();
        let more = self.pids.len().saturating_sub(PIDS_MAX);
        let more = if more > 0 {
            format!(" and {more} more processes")
        } else {
            String::new()
        };
        format!(" of {name} ({}{more})", some.join(", "))
    }
}

/// The same reasons together, for each name of an owner; those with the most sockets first.
fn fold<'a>(
    targets: &Targets,
    outcomes: &'a [Outcome],
    reason: impl Fn(&'a Outcome) -> Option<&'a Cow<'static, str>>,
) -> Vec<(&'a str, Group)> {
    let mut groups: BTreeMap<(&str, Option<Vec<u8>>), Group> = BTreeMap::new();
    for (place, outcome) in outcomes.iter().enumerate() {
        let Some(reason) = reason(outcome) else { continue };
        let owner = targets.owners_of(&targets.all[place]).first();
        let comm = owner.map(|owner| owner.process.comm.as_bytes().to_vec());
        let group = groups.entry((reason, comm)).or_default();
        group.places.push(place);
        if let Some(owner) = owner {
            group.pids.insert(owner.process.pid);
            if group.name.is_none() {
                group.name = Some(harmless(owner.process.comm.as_bytes()));
            }
        }
    }
    let mut folded: Vec<_> = groups
        .into_iter()
        .map(|((reason, _), group)| (reason, group))
        .collect();
    folded.sort_by_key(|(_, group)| Reverse(group.places.len()));
    folded
}

fn noun(targets: &Targets, places: &[usize]) -> &'static str {
    let are_connections = places.iter().all(|&place| {
        let target = &targets.all[place];
        target.protocol == Protocol::Tcp && target.peer.port().is_some_and(|port| port.0 != 0)
    });
    if are_connections { "connection" } else { "socket" }
}

/// `3 connections`, `1 socket`
fn number(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

fn places(outcomes: &[Outcome], is_it: impl Fn(&Outcome) -> bool) -> Vec<usize> {
    (0..outcomes.len())
        .filter(|&place| is_it(&outcomes[place]))
        .collect()
}

const NOTHING_MATCHES: &str = "nothing matches the filter";
/// The columns besides those of all sockets: what was done.
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
/// So many sockets are shown before the question.
const SHOWN_MAX: usize = 20;
/// So many reasons are told, one a line.
const REASONS_MAX: usize = 10;
/// So many processes with the same name are told apart.
const PIDS_MAX: usize = 3;
