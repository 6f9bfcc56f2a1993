//! The views, as sources of rows.

use super::devices::DeviceView;
use super::drops::DropView;
use super::findings::FindingView;
use super::flows::FlowView;
use super::places::Places;
use super::processes::ProcessView;
use super::sink::Sink;
use super::sockets::SocketView;
use crate::state::Plan;
use crate::state::view::View;
use sockeye_model::{GroupBy, Names};
use sockeye_query::listing::{Listing, ListingReport};

/// What a view is read by, from sample to sample.
pub(crate) enum Source<'a> {
    Flows(FlowView<'a>),
    Processes(Box<ProcessView<'a>>),
    Sockets(SocketView<'a>),
    Drops(Box<DropView>),
    Findings(Box<FindingView<'a>>),
    Devices(DeviceView),
}

impl<'a> Source<'a> {
    pub(crate) fn new(listing: &'a Listing<'a>, plan: &Plan, places: &'a Places) -> Self {
        match plan.view {
            View::Flows | View::Groups => Self::Flows(FlowView::new(listing, plan, !places.is_empty())),
            View::Processes => Self::Processes(Box::new(ProcessView::new(listing, plan))),
            View::Sockets | View::Listeners => Self::Sockets(SocketView::new(listing, plan, Some(places))),
            View::Drops => Self::Drops(Box::new(DropView::new(listing))),
            View::Findings => Self::Findings(Box::new(FindingView::new(listing, plan))),
            View::Devices => Self::Devices(DeviceView::default()),
        }
    }

    /// Takes a sample. `names`: of hosts and all else in its rows.
    pub(crate) fn take(
        &mut self,
        listing: &Listing<'_>,
        plan: &Plan,
        names: &dyn Names,
        report: &mut ListingReport,
        sink: &mut impl Sink,
    ) -> anyhow::Result<()> {
        match self {
            Self::Flows(view) => {
                let mut rows = sink.begin(view.columns())?;
                let totals = view.take(names, &mut rows, report)?;
                sink.end(rows, totals, report)?;
            }
            Self::Processes(view) => {
                let columns = view.columns(sink.has_all_columns());
                let mut rows = sink.begin(columns)?;
                let totals = view.take(&mut rows, report)?;
                sink.end(rows, totals, report)?;
            }
            Self::Sockets(view) => {
                let mut rows = sink.begin(view.columns())?;
                let totals = view.take(listing, names, plan.watched, &mut rows, report)?;
                sink.end(rows, totals, report)?;
            }
            Self::Drops(view) => {
                let mut rows = sink.begin(DropView::columns(listing))?;
                let totals = view.take(listing, &mut rows, report)?;
                sink.end(rows, totals, report)?;
            }
            Self::Findings(view) => {
                let mut rows = sink.begin(FindingView::columns(listing))?;
                let totals = view.take(listing, &mut rows, report)?;
                sink.end(rows, totals, report)?;
            }
            Self::Devices(view) => {
                let mut rows = sink.begin(DeviceView::columns(listing))?;
                let totals = view.take(listing, &mut rows)?;
                sink.end(rows, totals, report)?;
            }
        }
        Ok(())
    }
}

/// Makes the listing look for what the view shows.
pub(crate) fn require(listing: &mut Listing<'_>, plan: &Plan) {
    match (plan.view, plan.group_by) {
        (View::Groups, GroupBy::Workload(kind)) => listing.require_workloads(&[kind]),
        (View::Groups | View::Devices, _) => {}
        _ => listing.require_owners(),
    }
}
