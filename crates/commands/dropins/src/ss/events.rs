//! `ss -E`: sockets as they are closed.

use super::listing::Listing;
use super::options::WRONG;
use super::tables::Table;
use crate::output::{SsHolders, SsRow, SsWriter};
use anyhow::Context;
use sockeye_console::stdout;
use sockeye_model::{DiagDetails, Family, Protocol};
use sockeye_source::destroy_events::{DestroyEvents, Group};
use std::process::ExitCode;

/// Shows each until nobody wants more. ss's filter decides, but not its states.
pub(super) fn follow(listing: &Listing<'_>) -> anyhow::Result<ExitCode> {
    let selection = &listing.asked.selection;
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
        return Ok(ExitCode::from(WRONG));
    }
    let mut destroy_events = DestroyEvents::open(&groups).context("listen to sock_diag")?;
    let mut writer = SsWriter::new(stdout::open()?, listing.layout);
    if !listing.asked.no_header {
        writer.header();
    }
    loop {
        let mut written = Ok(());
        let told = destroy_events.next(&mut |socket, message| {
            let is_wanted = selection.has_family(socket.family) && listing.filter.accepts(socket);
            if written.is_err() || !is_wanted {
                return;
            }
            let diag_details = match socket.protocol {
                Protocol::Tcp => DiagDetails::read(socket.protocol, message),
                _ => DiagDetails::default(),
            };
            let row = SsRow {
                socket,
                diag_details: &diag_details,
                holders: SsHolders::None,
                is_brief: false,
            };
            written = writer.row(&row, listing.book).and_then(|()| writer.finish());
        });
        written.context(stdout::WRITING)?;
        let lost = told.context("listen to sock_diag")?;
        if lost > 0 {
            sockeye_console::notes::say(
                "sockeye ss: sockets were closed faster than they could be shown: some are missing\n",
            );
        }
    }
}
