//! `sockeye flows`: who talks to whom.

use crate::args::{FlowOptions, Peers};
use crate::listing::{self, Listing, Told};
use crate::lookup::Lookup;
use crate::stdout;
use anyhow::Context;
use sockeye_flow::{Fold, Listeners, Sample, SortKey, sort};
use sockeye_model::{Flow, GroupBy, Protocol, State, StateSet};
use sockeye_render::{FlowColumn, FlowDetails, FlowLayout, FlowWriter, Format};
use sockeye_source::{Detail, ProtocolSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub(crate) fn run(options: &FlowOptions, words: &[String]) -> anyhow::Result<()> {
    if options.columns.as_deref() == Some("help") {
        return print_columns();
    }
    let names = Lookup::new(
        options.common.numeric,
        !options.common.numeric,
        options.common.names_timeout,
    );
    let mut filter = listing::filter(words, &names)?;
    let peers = match options.filter_peers {
        Peers::All => None,
        Peers::Public => Some("peers = public"),
        Peers::Private => Some("not peers = public"),
    };
    if let Some(peers) = peers {
        filter = filter.and(listing::filter(&[peers.to_owned()], &names)?);
    }
    let columns = options.columns.as_deref().map(columns).transpose()?;
    let mut listing = Listing::new(&options.common, filter)?;
    if options.group_by == GroupBy::Process {
        listing.want_owners();
    }
    names.visit(listing.places());
    let (protocol, protocols) = if options.udp {
        (Protocol::Udp, ProtocolSet::UDP)
    } else {
        (Protocol::Tcp, ProtocolSet::TCP)
    };
    let states = listing
        .filter
        .states()
        .unwrap_or(StateSet::FLOWS)
        .and(StateSet::FLOWS);
    let watch = Watch {
        options,
        listing: &listing,
        names: &names,
        layout: FlowLayout {
            format: Format::from(options.common.format),
            columns,
            group_by: options.group_by,
            details: FlowDetails {
                netns: listing.places().are_many(),
                states: options.states,
                owners: options.common.processes,
                info: options.info,
                rates: false,
            },
            protocol,
            style: stdout::style(options.common.color),
            width: stdout::width(),
            no_header: options.common.no_header,
        },
        protocols,
        states,
    };
    watch.run()
}

/// A listing of flows, once or again and again.
struct Watch<'a> {
    options: &'a FlowOptions,
    listing: &'a Listing,
    names: &'a Lookup,
    layout: FlowLayout,
    protocols: ProtocolSet,
    states: StateSet,
}

impl Watch<'_> {
    fn run(&self) -> anyhow::Result<()> {
        let mut before: Option<(Sample, Instant)> = None;
        let mut samples: u64 = 0;
        loop {
            let started = Instant::now();
            let mut told = self.listing.begin();
            let last = before
                .as_ref()
                .map(|(sample, at)| (sample, started.duration_since(*at)));
            let (flows, sample) = self.fold(last, &mut told)?;
            if samples > 0 && self.layout.format == Format::Table {
                stdout::write(b"\n")?;
            }
            self.print(&flows, before.is_some(), &told)?;
            samples += 1;
            let Some(interval) = self.options.watch else {
                return Ok(());
            };
            if self.options.count.is_some_and(|count| samples >= count) {
                return Ok(());
            }
            before = Some((sample, started));
            if !stdout::pause(interval.saturating_sub(started.elapsed())) {
                return Ok(());
            }
        }
    }

    /// Listeners first, since they decide the direction; then the connections.
    fn fold(
        &self,
        before: Option<(&Sample, Duration)>,
        told: &mut Told,
    ) -> anyhow::Result<(Vec<Flow>, Sample)> {
        let owners = self.listing.owners(told)?;
        let mut listeners = Listeners::default();
        let listening = if self.options.udp {
            State::Close
        } else {
            State::Listen
        };
        self.listing.run_unfiltered(
            self.protocols,
            StateSet::EMPTY.with(listening),
            told,
            &mut |socket| {
                listeners.add(socket);
            },
        )?;
        let mut fold = Fold::new(self.options.group_by, &listeners);
        if self.options.info {
            fold = fold.with_totals();
        }
        if self.options.watch.is_some() {
            fold = fold.with_rates(before);
        }
        let detail = Detail {
            tcp_info: self.options.info || self.options.watch.is_some(),
            ..Detail::default()
        };
        self.listing.run(
            self.protocols,
            self.states,
            detail,
            owners.as_ref(),
            told,
            &mut |entry| {
                fold.add(entry);
                ControlFlow::Continue(())
            },
        )?;
        let folded = fold.finish();
        let mut flows = folded.flows;
        let Sorting { key, descending } = self.options.sort;
        sort(&mut flows, key, descending);
        flows.truncate(self.options.top.unwrap_or(usize::MAX));
        Ok((flows, folded.sample))
    }

    fn print(&self, flows: &[Flow], has_rates: bool, told: &Told) -> anyhow::Result<()> {
        if !self.options.common.numeric {
            let hosts = flows.iter().flat_map(|flow| {
                // A prefix is no host.
                [
                    flow.key.local,
                    flow.key.peer.filter(|_| flow.key.peer_prefix.is_none()),
                ]
            });
            self.names.hosts(hosts.flatten());
        }
        let mut layout = self.layout.clone();
        layout.details.rates = has_rates;
        let mut writer = FlowWriter::new(stdout::open()?, layout);
        let sources = listing::sources(told);
        writer
            .begin()
            .and_then(|()| {
                flows
                    .iter()
                    .try_for_each(|flow| writer.row(flow, &self.names.names))
            })
            .and_then(|()| writer.finish(&listing::summary(told, &sources)))
            .context(stdout::WRITING)?;
        self.listing.report(told, self.options.common.verbose);
        Ok(())
    }
}

/// `--sort`, understood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorting {
    key: SortKey,
    descending: bool,
}

/// A key, with `-` before it the other way round.
pub(crate) fn parse_sort(text: &str) -> Result<Sorting, String> {
    let (name, reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let found = SortKey::NAMES.iter().find(|(known, _)| *known == name);
    let (_, key) = found.ok_or_else(|| {
        let known: Vec<_> = SortKey::NAMES.iter().map(|(known, _)| *known).collect();
        format!("no such key; there are {}", known.join(", "))
    })?;
    Ok(Sorting {
        key: *key,
        descending: key.largest_first() != reversed,
    })
}

/// `host`, `port`, `process`, `uid`, `netns`, `prefix/N` or `prefix/N,M`.
pub(crate) fn parse_group_by(text: &str) -> Result<GroupBy, String> {
    match text {
        "host" => return Ok(GroupBy::Host),
        "port" => return Ok(GroupBy::Port),
        "process" => return Ok(GroupBy::Process),
        "uid" => return Ok(GroupBy::Uid),
        "netns" => return Ok(GroupBy::Netns),
        _ => {}
    }
    let known = "expected host, port, process, uid, netns, prefix/N or prefix/N,M";
    let lengths = text.strip_prefix("prefix/").ok_or(known)?;
    let (v4, v6) = lengths.split_once(',').unwrap_or((lengths, "64"));
    let length = |text: &str, most: u8| {
        text.parse::<u8>()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("expected a length of 0 to {most} bits, found {text:?}"))
    };
    Ok(GroupBy::Prefix {
        v4: length(v4, 32)?,
        v6: length(v6, 128)?,
    })
}

fn columns(list: &str) -> anyhow::Result<Vec<FlowColumn>> {
    FlowColumn::parse_list(list).map_err(|error| listing::unknown_column("--columns", "flows", error).into())
}

fn print_columns() -> anyhow::Result<()> {
    let mut text = String::new();
    for column in FlowColumn::ALL {
        text.push_str(column.name());
        text.push('\n');
    }
    stdout::write(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        assert_eq!(
            parse_group_by("prefix/24"),
            Ok(GroupBy::Prefix { v4: 24, v6: 64 })
        );
        assert_eq!(
            parse_group_by("prefix/0,128"),
            Ok(GroupBy::Prefix { v4: 0, v6: 128 })
        );
        for bad in [
            "",
            "hosts",
            "prefix",
            "prefix/",
            "prefix/33",
            "prefix/24,129",
            "prefix/-1",
        ] {
            assert!(parse_group_by(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_sort_largest_first_and_names_do_not() {
        assert!(parse_sort("connections").unwrap().descending);
        assert!(!parse_sort("-connections").unwrap().descending);
        assert!(!parse_sort("peer").unwrap().descending);
        assert!(parse_sort("-peer").unwrap().descending);
        assert!(parse_sort("size").is_err());
    }
}
