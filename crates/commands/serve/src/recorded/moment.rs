//! A recorded moment as flows, with rates since the sample before it.

use crate::moments::Moment;
use crate::sampler::SAMPLING;
use sockeye_history::Identity;
use sockeye_model::{Names as _, Pid, WorkloadKind};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::past::{self, Previous};
use sockeye_query::sampling::recorded_flows;
use sockeye_store::StoreReader;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads the moment that answers for a time, in milliseconds since 1970.
pub(super) fn read(
    store: &StoreReader,
    listing: &ListingArgs,
    context: &mut QueryContext,
    at_ms: u64,
) -> anyhow::Result<Moment> {
    let moment = past::moment(store, at_ms)?;
    let previous = past::previous(store, moment.at_ms)?.filter(Previous::is_comparable);
    let before = previous
        .map(|previous| past::moment(store, previous.at_ms))
        .transpose()?;
    let containers = containers(moment.sockets.sockets().map(|(identity, _)| identity));
    let netns_names = moment.netns_names.clone();
    let mut recorded = recorded_flows(listing, context, SAMPLING, before, moment)?;
    context.check_netns()?;
    recorded.sample.flows.sort(|id| context.workload(id));
    Ok(Moment::new(recorded.sample, None, containers, &recorded.report).with_netns_names(netns_names))
}

/// Finds the containers of the owners that were in one.
fn containers<'a>(all: impl Iterator<Item = &'a Identity>) -> HashMap<Pid, Arc<str>> {
    let mut names: HashMap<&str, Arc<str>> = HashMap::new();
    let mut containers = HashMap::new();
    for identity in all {
        let Some(name) = identity.workload(WorkloadKind::Container) else {
            continue;
        };
        let shared = names.entry(name).or_insert_with(|| name.into());
        for owner in identity.owners.iter().flatten() {
            containers
                .entry(owner.process.pid)
                .or_insert_with(|| Arc::clone(shared));
        }
    }
    containers
}
