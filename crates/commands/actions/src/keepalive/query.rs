//! The sockets whose keepalive is listed or changed.

use sockeye_model::{Protocol, ProtocolSet, StateSet};
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::Detail;

/// Returns the query for TCP sockets that match the filter, connected ones unless it names states; with `idle` also for
/// their idle times.
pub(super) fn options(listing: &Listing<'_>, idle: bool) -> QueryOptions {
    let filter = listing.filter();
    QueryOptions {
        protocols: ProtocolSet::of(&[Protocol::Tcp]).retain(|protocol| filter.may_match(protocol)),
        families: listing.families(),
        states: filter.states().unwrap_or(StateSet::SS_DEFAULT),
        detail: Detail::TIMER | Detail::INODE | Detail::TCP_INFO.when(idle),
        scope: Scope::Matching,
    }
}
