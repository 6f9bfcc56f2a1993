//! `sockeye keepalive list`.

use super::borrow::{self, Borrowed};
use super::state::KeepaliveState;
use super::system;
use crate::output::TargetLayout;
use crate::targets::{Target, Targets};
use anyhow::Context;
use clap::Args;
use sockeye_act::{BorrowedSocket, EffectiveKeepalive};
use sockeye_console::args::FormatArg;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_output::SocketWriter;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::Column;
use sockeye_output::socket::{Sockets, further_value};
use sockeye_output::unit::Unit;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing};
use sockeye_sys::proc_mount;
use std::io;
use std::process::ExitCode;

/// List connections with their keepalive and its times
///
/// Times are those in effect: the socket's own, or else the system's, which are shown above the table. Only root can read
/// those of other users' sockets; whether keepalive is on is then known from timers. Connected sockets are listed, unless
/// the filter names states.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Count the connections of each program with and without keepalive
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    common: ListingArgs,
    /// Filter in ss's language, for example: state established and idle > 1h
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let context = QueryContext::new(common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(common, &args.filter, None, &context)?;
    listing.require_owners();
    let options = super::query::options(&listing, true);
    let targets = Targets::find(&listing, &options)?;
    let all: Vec<&Target> = targets.all.iter().collect();
    let borrowed = borrow::each(&all, &targets.owners, BorrowedSocket::keepalive);
    let states: Vec<KeepaliveState> = targets
        .all
        .iter()
        .zip(&borrowed)
        .map(|(target, borrowed)| KeepaliveState::of(target, borrowed))
        .collect();
    let settings = system::of(&targets, &context);
    if args.summary {
        super::summary::write(common, &listing, &targets, &states, &settings)?;
    } else {
        write(common, &listing, &targets, &states, &settings)?;
    }
    note_unknown(&targets, &borrowed);
    if let Some(problem) = proc_mount::problem().filter(|_| settings.is_empty()) {
        notes::say(&format!(
            "sockeye: keepalive list: the system's times are not known: {problem}\n"
        ));
    }
    listing.write_notes(&targets.report, common.verbose);
    Ok(ExitCode::SUCCESS)
}

fn write(
    common: &ListingArgs,
    listing: &Listing<'_>,
    targets: &Targets,
    states: &[KeepaliveState],
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
        envelope: targets.envelope,
        document_type: "keepalive",
        row_type: "keepalive_socket",
    };
    if common.format == FormatArg::Table && !common.no_header {
        stdout::write_lines(settings.lines(listing.context))?;
    }
    let mut writer = SocketWriter::with_columns(stdout::open().context(stdout::WRITING)?, layout.listing());
    let sources = targets.report.sources();
    let mut write = || -> io::Result<()> {
        writer.begin()?;
        for (target, state) in targets.all.iter().zip(states) {
            let values = state.values(target);
            targets.with_entry(target, |entry| writer.row_with(entry, listing.context, &values))?;
        }
        writer.finish_with(&targets.report.summary(&sources), |object| {
            settings.push(object, listing.context);
        })
    };
    write().context(stdout::WRITING)
}

/// Notes on stderr how many sockets could not be read, with the remedy.
fn note_unknown(targets: &Targets, borrowed: &[Borrowed<EffectiveKeepalive>]) {
    let (mut refused, mut unknown) = (None, 0_usize);
    let (mut refusals, mut others) = (0_usize, 0_usize);
    let some_owners_hidden = !targets.see_every_owner();
    for (target, borrowed) in targets.all.iter().zip(borrowed) {
        match borrowed {
            Borrowed::Refused(errno) => {
                refused = Some(*errno);
                refusals += 1;
            }
            Borrowed::Ownerless if target.inode.is_some() && some_owners_hidden => unknown += 1,
            Borrowed::Failed(_) => others += 1,
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
            "sockeye: keepalive list: the times of {} are not known, since their owners are not; {}\n",
            sockets(unknown),
            targets.owners_remedy()
        ));
    }
    if others > 0 {
        notes::say(&format!(
            "sockeye: keepalive list: the options of {} could not be read\n",
            sockets(others)
        ));
    }
}

/// The columns after those of the sockets, in the order of [`KeepaliveState::values`].
static COLUMNS: &[Column<Sockets>] = &[
    Column::<Sockets>::value(
        "keepalive",
        "Keepalive",
        Left,
        "Whether keepalive is on",
        further_value,
    ),
    column(1, "time_s", "Time", "Idle time before the first probe").unit(Unit::Seconds),
    column(2, "interval_s", "Interval", "Time between two probes").unit(Unit::Seconds),
    column(3, "probes", "Probes", "Probes before the connection is given up"),
    column(4, "user_timeout_ms", "UserTimeout", "TCP_USER_TIMEOUT").unit(Unit::Ms),
    column(5, "idle_ms", "Idle", "Time since data was last sent or received").unit(Unit::Ms),
    column(6, "next_probe_ms", "NextProbe", "Time until the next probe").unit(Unit::Ms),
];

const fn column(
    index: u8,
    name: &'static str,
    heading: &'static str,
    about: &'static str,
) -> Column<Sockets> {
    Column::<Sockets>::value(name, heading, Right, about, further_value).index(index)
}

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive list                              every connection
  sockeye keepalive list timer = off and idle '>' 1h  idle, no keepalive
  sockeye keepalive list --summary -N all             counts per program";
