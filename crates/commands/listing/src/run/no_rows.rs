//! The note of a listing without rows: what the filter left out, and how many sockets there are.

use sockeye_console::notes;
use sockeye_output::text::harmless_start;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::Detail;
use std::ops::ControlFlow;

/// Reports that nothing matched `filter`, compared with all sockets of the selected protocols and states. `without_filter` is what
/// to say if there is no filter.
pub(super) fn report(
    common: &ListingArgs,
    filter: &str,
    without_filter: &str,
    options: &QueryOptions,
    context: &QueryContext,
) -> anyhow::Result<()> {
    if filter.trim().is_empty() {
        notes::say(&format!("sockeye: {without_filter}\n"));
        return Ok(());
    }
    let options = QueryOptions {
        detail: Detail::NONE,
        scope: Scope::Matching,
        ..*options
    };
    let all = Listing::new(common, &[], None, context)?;
    let mut count = 0_u64;
    all.run(&options, None, &mut all.begin(), &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    let filter = harmless_start(filter.as_bytes(), FILTER_CHARS_MAX);
    notes::say(&match count {
        0 => format!("sockeye: {without_filter}, so none matches the filter: {filter}\n"),
        1 => format!("sockeye: the only socket does not match the filter: {filter}\n"),
        _ => format!("sockeye: none of {count} sockets matches the filter: {filter}\n"),
    });
    Ok(())
}

/// Longer filters are cut in the note.
const FILTER_CHARS_MAX: usize = 120;
