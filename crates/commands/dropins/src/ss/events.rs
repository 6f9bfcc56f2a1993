//! `ss -E`: shows sockets when they are closed.

use super::listing::Listing;
use super::options::EXIT_USAGE;
use super::tables::Table;
use crate::output::{SsOwners, SsRow, SsWriter};
use anyhow::Context;
use sockeye_console::stdout;
use sockeye_model::{DiagDetails, Family, Protocol};
use sockeye_source::destroy_events::{DestroyEvents, Group};
use std::process::ExitCode;

/// Shows each closed socket that matches the filter, whatever states are selected; ends when stdout is closed.
pub(super) fn follow(listing: &Listing<'_>) -> anyhow::Result<ExitCode> {
    let selection = &listing.options.selection;
    let groups: Vec<Group> = [
        (Table::Tcp, Family::Inet, Group::Tcp4),
        (Table::Udp, Family::Inet, Group::Udp4),
        (Table::Tcp, Family::Inet6, Group::Tcp6),
        (Table::Udp, Family::Inet6, Group::Udp6),
    ]
    .into_iter()
    .filter(|(table, family, _)| selection.has(*table) && selection.has_family(*family))
    .map(|(.., group)| group)
    .collect();
    if groups.is_empty() {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let mut destroy_events = DestroyEvents::open(&groups).context("listen to sock_diag")?;
    let mut writer = SsWriter::new(stdout::open().context(stdout::WRITING)?, listing.layout);
    if !listing.options.no_header {
        writer.header();
    }
    loop {
        let mut written = Ok(());
        let received = destroy_events.next(&mut |socket, message| {
            let is_selected = selection.has_family(socket.family) && listing.filter.accepts(socket);
            if written.is_err() || !is_selected {
                return;
            }
            let diag_details = match socket.protocol {
                Protocol::Tcp => DiagDetails::read(socket.protocol, message),
                _ => DiagDetails::default(),
            };
            let row = SsRow {
                socket,
                diag_details: &diag_details,
                owners: SsOwners::None,
                is_brief: false,
            };
            written = writer.row(&row, listing.resolver).and_then(|()| writer.finish());
        });
        written.context(stdout::WRITING)?;
        let lost = received.context("listen to sock_diag")?;
        if lost > 0 {
            sockeye_console::notes::say(
                "sockeye ss: sockets were closed faster than they could be shown: some are missing\n",
            );
        }
    }
}
