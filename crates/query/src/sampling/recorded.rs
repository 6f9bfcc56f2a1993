//! The flows of a recorded moment, with rates since the sample before it.

use super::{FlowSample, FlowSampler, SamplingOptions};
use crate::args::ListingArgs;
use crate::context::QueryContext;
use crate::listing::{Listing, ListingReport};
use sockeye_store::Moment;

/// The flows of a recorded moment.
#[derive(Debug)]
pub struct RecordedFlows {
    /// The sample.
    pub sample: FlowSample,
    /// What was lost when it was recorded.
    pub report: ListingReport,
}

/// Folds the sockets of a recorded moment. `before`: the sample before it, without a gap between them; without one there are no
/// rates. The context lists `moment` afterwards.
///
/// # Errors
/// If the sockets cannot be listed.
pub fn recorded_flows(
    common: &ListingArgs,
    context: &mut QueryContext,
    options: SamplingOptions,
    before: Option<Moment>,
    moment: Moment,
) -> anyhow::Result<RecordedFlows> {
    let previous = match before {
        None => None,
        Some(before) => {
            context.set_moment(before);
            let listing = Listing::new(common, &[], None, context)?;
            let mut sampler = FlowSampler::new(&listing, options);
            sampler.sample(&mut listing.begin())?;
            sampler.into_previous()
        }
    };
    context.set_moment(moment);
    let mut listing = Listing::new(common, &[], None, context)?;
    listing.require_owners();
    let mut sampler = FlowSampler::new(&listing, options).after(previous);
    let mut report = listing.begin();
    let sample = sampler.sample(&mut report)?;
    Ok(RecordedFlows { sample, report })
}
