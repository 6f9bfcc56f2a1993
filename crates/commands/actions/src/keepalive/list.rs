//! `sockeye keepalive list`.

use super::reach::{self, Reached};
use super::system;
use crate::output::TargetLayout;
use crate::targets::{Target, Targets};
use anyhow::Context;
use clap::Args;
use sockeye_act::{BorrowedSocket, EffectiveKeepalive};
use sockeye_console::args::FormatArg;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{State, TimerKind};
use sockeye_output::SocketWriter;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Value};
use sockeye_output::socket::{Sockets, further_value};
use sockeye_output::unit::Unit;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing};
use std::io;
use std::process::ExitCode;

/// Which connections ask silent peers whether they are still there, and when
///
/// Times are those in effect: the socket's own, or else the system's, which are shown above. Of sockets of others they
/// are known to root only; whether keepalive is on at all can be told from timers. Connected sockets are listed, unless
/// the filter names states.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// How many connections of each program have it, and how many have not
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    common: ListingArgs,
    /// Which connections: an expression as ss takes it, for example: state established and idle > 1h
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// What is known of a socket's keepalive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) is_on: Option<bool>,
    effective: Option<EffectiveKeepalive>,
    next_probe_ms: Option<u32>,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let context = QueryContext::new(common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(common, &args.filter, None, &context)?;
    listing.require_owners();
    let ask = super::ask(&listing, true);
    let targets = Targets::find(&listing, &ask)?;
    let all: Vec<&Target> = targets.all.iter().collect();
    let reached = reach::each(&all, &targets.owners, BorrowedSocket::keepalive);
    let known: Vec<Known> = targets
        .all
        .iter()
        .zip(&reached)
        .map(|(target, reached)| Known::of(target, reached))
        .collect();
    let settings = system::of(&targets, &context);
    if args.summary {
        super::summary::write(common, &listing, &targets, &known, &settings)?;
    } else {
        write(common, &listing, &targets, &known, &settings)?;
    }
    tell_unasked(&targets, &reached);
    listing.write_notes(&targets.report, common.verbose);
    Ok(ExitCode::SUCCESS)
}

fn write(
    common: &ListingArgs,
    listing: &Listing<'_>,
    targets: &Targets,
    known: &[Known],
    settings: &system::Settings,
) -> anyhow::Result<()> {
    let layout = TargetLayout {
        format: common.format.into(),
        netid: false,
        netns: listing.context.namespaces.are_many(),
        more: COLUMNS,
        style: stdout::style(common.color),
        width: stdout::width(),
        no_header: common.no_header,
    };
    if common.format == FormatArg::Table && !common.no_header {
        stdout::write_lines(settings.lines(listing.context))?;
    }
    let mut writer = SocketWriter::with_columns(stdout::open()?, layout.listing());
    let sources = targets.report.sources();
    let mut write = || -> io::Result<()> {
        writer.begin()?;
        for (target, known) in targets.all.iter().zip(known) {
            let values = known.values(target);
            targets.with_entry(target, |entry| writer.row_with(entry, listing.context, &values))?;
        }
        writer.finish_with(&targets.report.summary(&sources), |object| {
            settings.push(object, listing.context);
        })
    };
    write().context(stdout::WRITING)
}

impl Known {
    fn of(target: &Target, reached: &Reached<EffectiveKeepalive>) -> Self {
        let effective = match reached {
            Reached::Done(effective) => Some(*effective),
            _ => None,
        };
        let is_on = effective
            .map(|effective| effective.is_on)
            .or_else(|| from_timer(target));
        let timer = target.timer.filter(|timer| timer.kind == TimerKind::Keepalive);
        let next_probe_ms = timer.filter(|_| is_on == Some(true)).map(|timer| {
            // The timer that runs was set when data came last or before: when it fires the kernel looks at how long it
            // really was silent, and sets it again for the rest.
            let rest = effective
                .zip(target.silence_ms)
                .map(|(effective, silence)| (effective.times.time_s * 1000).saturating_sub(silence));
            timer.expires_ms.max(rest.unwrap_or(0))
        });
        Self {
            is_on,
            effective,
            next_probe_ms,
        }
    }

    fn values(&self, target: &Target) -> [Value<'static>; 7] {
        let times = self.effective.map(|effective| effective.times);
        [
            self.is_on.map_or(Value::Absent, Value::Switch),
            Value::number(times.map(|times| times.time_s)),
            Value::number(times.map(|times| times.interval_s)),
            Value::number(times.map(|times| times.probes)),
            Value::number(times.and_then(|times| times.user_timeout_ms)),
            Value::number(target.idle_ms),
            Value::number(self.next_probe_ms),
        ]
    }
}

/// Whether it is on, as far as its timer tells: where it is, that one runs as long as the connection lives, but there may
/// be another that is told instead.
fn from_timer(target: &Target) -> Option<bool> {
    match (target.state, target.timer.map(|timer| timer.kind)) {
        // Of a FIN_WAIT2 that nobody holds it is the wait for a FIN.
        (State::FinWait2, _) => None,
        (_, Some(TimerKind::Keepalive)) => Some(true),
        (State::Established | State::CloseWait, None) => Some(false),
        _ => None,
    }
}

/// How many could not be asked, and what would help.
fn tell_unasked(targets: &Targets, reached: &[Reached<EffectiveKeepalive>]) {
    let (mut refused, mut unknown) = (None, 0_usize);
    let (mut refusals, mut others) = (0_usize, 0_usize);
    let is_blind = !targets.see_every_owner();
    for (target, reached) in targets.all.iter().zip(reached) {
        match reached {
            Reached::Refused(errno) => {
                refused = Some(*errno);
                refusals += 1;
            }
            Reached::Ownerless if target.inode.is_some() && is_blind => unknown += 1,
            Reached::Failed(_) => others += 1,
            _ => {}
        }
    }
    let sockets = |count: usize| {
        if count == 1 {
            "1 connection".to_owned()
        } else {
            format!("{count} connections")
        }
    };
    if let Some(errno) = refused {
        notes::say(&format!(
            "sockeye: keepalive list: the times of {} are not known: {}\n",
            sockets(refusals),
            super::change::refusal(errno)
        ));
    }
    if unknown > 0 {
        notes::say(&format!(
            "sockeye: keepalive list: the times of {} are not known, for want of their owners; {}\n",
            sockets(unknown),
            notes::remedy(super::change::RIGHTS)
        ));
    }
    if others > 0 {
        notes::say(&format!(
            "sockeye: keepalive list: {} would not tell\n",
            sockets(others)
        ));
    }
}

/// The columns besides those of all sockets, in the order of [`Known::values`].
static COLUMNS: &[Column<Sockets>] = &[
    Column::<Sockets>::value(
        "keepalive",
        "Keepalive",
        Left,
        "Whether keepalive is on",
        further_value,
    ),
    Column::<Sockets>::value(
        "time_s",
        "Time",
        Right,
        "Idle time before the first probe",
        further_value,
    )
    .index(1)
    .unit(Unit::Seconds),
    Column::<Sockets>::value(
        "interval_s",
        "Interval",
        Right,
        "Time between two probes",
        further_value,
    )
    .index(2)
    .unit(Unit::Seconds),
    Column::<Sockets>::value(
        "probes",
        "Probes",
        Right,
        "Probes before the connection is given up",
        further_value,
    )
    .index(3),
    Column::<Sockets>::value(
        "user_timeout_ms",
        "UserTimeout",
        Right,
        "TCP_USER_TIMEOUT",
        further_value,
    )
    .index(4)
    .unit(Unit::Ms),
    Column::<Sockets>::value(
        "idle_ms",
        "Idle",
        Right,
        "Time since data came or went last",
        further_value,
    )
    .index(5)
    .unit(Unit::Ms),
    Column::<Sockets>::value(
        "next_probe_ms",
        "NextProbe",
        Right,
        "Time until the next probe",
        further_value,
    )
    .index(6)
    .unit(Unit::Ms),
];

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive list                               every connection
  sockeye keepalive list timer = off and idle '>' 1h   quiet for long, nobody asks
  sockeye keepalive list --summary -N all              how many of each program";
