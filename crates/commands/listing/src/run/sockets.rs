//! `sockeye sockets`: lists sockets, one row each.

use super::no_rows;
use crate::args::SocketsArgs;
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::{Endpoint, ProtocolSet, WorkloadKind};
use sockeye_output::listing::{Column, columns_help, parse_columns};
use sockeye_output::{Details, Format, SocketLayout, SocketWriter, Sockets, SortKey};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing, QueryOptions, Scope};
use sockeye_source::Detail;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Lists sockets.
///
/// # Errors
/// If the filter or an option is wrong, nothing could be listed, or output failed.
pub fn run(args: &SocketsArgs) -> anyhow::Result<ExitCode> {
    if args.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Sockets>()).map(|()| ExitCode::SUCCESS);
    }
    let columns = args.columns.as_deref().map(columns).transpose()?;
    let sort = args
        .sort
        .as_deref()
        .map(SortKey::parse)
        .transpose()
        .map_err(|error| UsageError::unknown_column("--sort", "sockets", error))?;
    let context = QueryContext::new(&args.common, args.resolve, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    let named = columns
        .iter()
        .flatten()
        .copied()
        .chain(sort.map(|key| key.column));
    let needs = named.fold(Detail::NONE, |needs, column| needs | column.needs);
    if needs.contains(Detail::OWNERS) {
        listing.require_owners();
    }
    let kinds = WorkloadKind::ALL.into_iter().filter(|kind| {
        let shows = |column: &Column<Sockets>| match column.name {
            "workload_source" => matches!(kind, WorkloadKind::Container),
            name => column.needs.contains(Detail::WORKLOADS) && name == kind.name(),
        };
        columns
            .iter()
            .flatten()
            .copied()
            .chain(sort.map(|key| key.column))
            .any(shows)
    });
    listing.require_workloads(&kinds.collect::<Vec<_>>());
    let filter = listing.filter();
    let requested = protocols(args);
    // With a filter on ports, for example, protocols without ports need no dump.
    let protocols = requested.retain(|protocol| filter.may_match(protocol));
    let states = filter.states().unwrap_or(args.which.states());
    let options = QueryOptions {
        protocols,
        families: listing.families(),
        states,
        detail: needs | detail(args, context.namespaces.are_many()),
        scope: Scope::Matching,
    };
    let marks = args.extended || columns.iter().flatten().any(|column| column.name == "mark");
    if marks && !listing.sees_marks {
        notes::say(&format!(
            "sockeye: the kernel reports marks only with CAP_NET_ADMIN; {}\n",
            remedy("it", CheckedIn::OwnerOfNetns)
        ));
    }
    let mut report = listing.begin();

    // Owners first: a socket opened after this has none, one closed after this is not listed.
    let owners = listing.owners(&mut report)?;
    if args.resolve {
        // A first listing, so that names are known when rows are printed. Its losses occur in the second one too.
        let mut hosts: Vec<IpAddr> = Vec::new();
        listing.run(
            &options,
            owners.as_ref(),
            &mut listing.begin(),
            &mut |entry, _| {
                let ends = [&entry.socket.local, &entry.socket.peer];
                hosts.extend(ends.into_iter().filter_map(Endpoint::ip));
                ControlFlow::Continue(())
            },
        )?;
        context.hosts(hosts);
    }

    let layout = SocketLayout {
        format: Format::from(args.common.format),
        columns,
        details: Details {
            netid: !requested.is_single(),
            netns: context.namespaces.are_many(),
            owners: args.common.processes,
            timers: args.timers,
            extended: args.extended,
            memory: args.memory,
            info: args.info,
        },
        sort,
        style: stdout::style(args.common.color),
        width: stdout::width(),
        no_header: args.common.no_header,
        envelope: envelope::now(),
    };
    let mut writer = SocketWriter::new(stdout::open().context(stdout::WRITING)?, layout);
    let mut written = writer.begin();
    let (mut listed, mut rows) = (Ok(()), 0_u64);
    if written.is_ok() {
        listed = listing.run(&options, owners.as_ref(), &mut report, &mut |entry, _| {
            written = writer.row(entry, &context);
            rows += 1;
            if written.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    if listed.is_err() && rows == 0 {
        return listed.map(|()| ExitCode::SUCCESS);
    }
    // Also after a failure: a document that has begun needs its end.
    let sources = report.sources();
    written
        .and_then(|()| writer.finish(&report.summary(&sources)))
        .context(stdout::WRITING)?;
    listed?;
    listing.write_notes(&report, args.common.verbose);
    if rows == 0 && args.common.format == FormatArg::Table {
        let options = QueryOptions {
            protocols: requested,
            states: args.which.states(),
            ..options
        };
        let nothing = if args.which.all || args.which.listening {
            "there is no such socket"
        } else {
            "there is no connection (-l lists what listens, -a everything)"
        };
        no_rows::report(&args.common, &args.filter.join(" "), nothing, &options, &context)?;
    }
    // The rows are those of the other protocols.
    Ok(if report.lacks_protocols() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the protocols that the flags select; all if they select none.
fn protocols(args: &SocketsArgs) -> ProtocolSet {
    args.which
        .protocols()
        .unwrap_or(if args.common.ipv4 || args.common.ipv6 {
            ProtocolSet::INET
        } else {
            ProtocolSet::ALL
        })
}

/// Returns what has to be asked of the kernel because of the flags. Columns have their own needs.
fn detail(args: &SocketsArgs, has_many_namespaces: bool) -> Detail {
    let all = args.common.format != FormatArg::Table || args.columns.is_some();
    Detail::QUEUES
        | Detail::TIMER.when(all || args.timers)
        | Detail::INODE.when(all || args.extended || args.common.processes)
        | (Detail::USER | Detail::OPTIONS).when(all || args.extended)
        // No namespace is entered for cookies alone: of many namespaces, only existing cookies are shown.
        | Detail::COOKIE.when(args.extended && !has_many_namespaces)
        | (Detail::TCP_INFO | Detail::CONGESTION).when(args.info)
        | Detail::MEMORY.when(args.memory)
        | Detail::SERVICE_CLASS.when(args.extended)
}

fn columns(list: &str) -> anyhow::Result<Vec<&'static Column<Sockets>>> {
    parse_columns(list).map_err(|error| UsageError::unknown_column("--columns", "sockets", error).into())
}
