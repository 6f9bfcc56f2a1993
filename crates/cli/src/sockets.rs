//! `sockeye sockets`: every socket, one row each.

use crate::args::SocketsArgs;
use crate::listing::{self, Listing};
use crate::lookup::Lookup;
use crate::stdout;
use anyhow::Context;
use sockeye_model::StateSet;
use sockeye_render::{Details, Format, SocketColumn, SocketLayout, SocketWriter, SortKey};
use sockeye_source::{Detail, ProtocolSet};
use std::net::IpAddr;
use std::ops::ControlFlow;

pub(crate) fn run(args: &SocketsArgs) -> anyhow::Result<()> {
    if args.columns.as_deref() == Some("help") {
        return print_columns();
    }
    let names = Lookup::new(args.common.numeric, args.resolve, args.common.names_timeout);
    let filter = listing::filter(&args.filter, &names)?;
    let columns = args.columns.as_deref().map(columns).transpose()?;
    let sort = args
        .sort
        .as_deref()
        .map(SortKey::parse)
        .transpose()
        .map_err(|error| listing::unknown_column("--sort", "sockets", error))?;
    let asked = protocols(args);
    // A filter on ports, say, spares the dumps of all that has none.
    let protocols = asked.retain(|protocol| filter.may_match(protocol));
    let states = filter.states().unwrap_or(if args.all {
        StateSet::ALL
    } else if args.listening {
        StateSet::LISTENING
    } else {
        StateSet::CONNECTED
    });
    let detail = detail(args, columns.as_deref(), sort);
    let listing = Listing::new(&args.common, filter)?;
    names.visit(listing.places());
    let mut told = listing.begin();

    // Owners first: a socket opened after this has none, one closed after this is not listed.
    let owners = listing.owners(&mut told)?;
    if args.resolve {
        let mut hosts: Vec<IpAddr> = Vec::new();
        listing.run(
            protocols,
            states,
            Detail::default(),
            owners.as_ref(),
            &mut listing.begin(),
            &mut |entry| {
                hosts.extend(
                    [&entry.socket.local, &entry.socket.peer]
                        .into_iter()
                        .filter_map(sockeye_model::Endpoint::ip),
                );
                ControlFlow::Continue(())
            },
        )?;
        names.hosts(hosts);
    }

    let layout = SocketLayout {
        format: Format::from(args.common.format),
        columns,
        details: Details {
            netid: !asked.is_single(),
            netns: listing.places().are_many(),
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
    };
    let mut writer = SocketWriter::new(stdout::open()?, layout);
    let mut written = writer.begin();
    if written.is_ok() {
        listing.run(
            protocols,
            states,
            detail,
            owners.as_ref(),
            &mut told,
            &mut |entry| {
                written = writer.row(entry, &names.names);
                if written.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        )?;
    }
    let sources = listing::sources(&told);
    written
        .and_then(|()| writer.finish(&listing::summary(&told, &sources)))
        .context(stdout::WRITING)?;
    listing.report(&told, args.common.verbose);
    Ok(())
}

/// What was asked for by flags; all of it if nothing was.
fn protocols(args: &SocketsArgs) -> ProtocolSet {
    let flags = [
        (args.tcp, ProtocolSet::TCP),
        (args.udp, ProtocolSet::UDP),
        (args.raw, ProtocolSet::RAW),
        (args.unix, ProtocolSet::UNIX),
        (args.packet, ProtocolSet::PACKET),
        (args.mptcp, ProtocolSet::MPTCP),
    ];
    let listed = args.protocols.unwrap_or(ProtocolSet::EMPTY);
    let asked = flags
        .iter()
        .filter(|(flag, _)| *flag)
        .fold(listed, |all, (_, one)| all.or(*one));
    if !asked.is_empty() {
        asked
    } else if args.common.ipv4 || args.common.ipv6 {
        INET
    } else {
        ProtocolSet::ALL
    }
}

/// What the kernel has to be asked for beyond the addresses.
fn detail(args: &SocketsArgs, columns: Option<&[SocketColumn]>, sort: Option<SortKey>) -> Detail {
    let shown = columns
        .unwrap_or_default()
        .iter()
        .copied()
        .chain(sort.map(|key| key.column));
    let flags = Detail {
        tcp_info: args.info,
        memory: args.memory,
        congestion: args.info,
        service_class: args.extended,
    };
    shown.fold(flags, |detail, column| {
        detail.or(Detail {
            tcp_info: matches!(
                column,
                SocketColumn::Tcp(_) | SocketColumn::Mptcp(_) | SocketColumn::Ulp
            ),
            memory: matches!(column, SocketColumn::Memory | SocketColumn::Drops),
            congestion: matches!(column, SocketColumn::Congestion | SocketColumn::CongestionInfo),
            service_class: matches!(
                column,
                SocketColumn::ClassId | SocketColumn::Tos | SocketColumn::Tclass
            ),
        })
    })
}

fn columns(list: &str) -> anyhow::Result<Vec<SocketColumn>> {
    SocketColumn::parse_list(list)
        .map_err(|error| listing::unknown_column("--columns", "sockets", error).into())
}

fn print_columns() -> anyhow::Result<()> {
    let mut text = String::new();
    for column in SocketColumn::all() {
        text.push_str(&column.name());
        text.push('\n');
    }
    stdout::write(text.as_bytes())
}

/// A list of protocols, as `-A` takes it.
pub(crate) fn parse_protocols(list: &str) -> Result<ProtocolSet, String> {
    list.split(',').try_fold(ProtocolSet::EMPTY, |all, name| {
        let found = PROTOCOLS.iter().find(|(known, _)| *known == name.trim());
        let (_, one) = found.ok_or_else(|| {
            let known: Vec<_> = PROTOCOLS.iter().map(|(known, _)| *known).collect();
            format!("no protocol {name:?}; there are {}", known.join(", "))
        })?;
        Ok(all.or(*one))
    })
}

const INET: ProtocolSet = ProtocolSet::TCP
    .or(ProtocolSet::UDP)
    .or(ProtocolSet::UDPLITE)
    .or(ProtocolSet::RAW)
    .or(ProtocolSet::MPTCP);

const PROTOCOLS: [(&str, ProtocolSet); 13] = [
    ("all", ProtocolSet::ALL),
    ("inet", INET),
    ("tcp", ProtocolSet::TCP),
    ("udp", ProtocolSet::UDP),
    ("udplite", ProtocolSet::UDPLITE),
    ("raw", ProtocolSet::RAW),
    ("mptcp", ProtocolSet::MPTCP),
    ("unix", ProtocolSet::UNIX),
    ("unix_stream", ProtocolSet::UNIX_STREAM),
    ("unix_dgram", ProtocolSet::UNIX_DGRAM),
    ("unix_seqpacket", ProtocolSet::UNIX_SEQPACKET),
    ("packet", ProtocolSet::PACKET),
    ("netlink", ProtocolSet::NETLINK),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_lists() {
        assert_eq!(
            parse_protocols("tcp,udp"),
            Ok(ProtocolSet::TCP.or(ProtocolSet::UDP))
        );
        assert!(parse_protocols("tcp,sctp").unwrap_err().contains("\"sctp\""));
        assert!(parse_protocols("").is_err());
    }
}
