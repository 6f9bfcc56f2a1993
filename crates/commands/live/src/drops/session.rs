//! What all reports of a run have in common.

use super::args::DropsArgs;
use super::output::{DropCounters, DropPackets, Drops};
use sockeye_console::usage::UsageError;
use sockeye_drops::Reasons;
use sockeye_model::{Names as _, NetnsInode};
use sockeye_observe::KernelFunctions;
use sockeye_output::listing::{Column, SortKey, UnknownColumn, parse_columns};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::Namespace;
use sockeye_sys::interrupts::Interrupts;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// A run, from its arguments to its end.
pub(super) struct Session<'a> {
    pub(super) args: &'a DropsArgs,
    pub(super) reasons: Reasons,
    pub(super) listing: &'a Listing<'a>,
    pub(super) functions: OnceCell<KernelFunctions>,
    pub(super) interrupts: Interrupts,
    pub(super) shown: Shown,
    /// Namespaces that were made since the begin, with their names.
    pub(super) later: RefCell<BTreeMap<NetnsInode, Option<String>>>,
}

impl Session<'_> {
    /// Finds the namespaces again, and keeps the names of new ones; `None` if all that are selected are known.
    pub(super) fn renewed(&self) -> Option<QueryContext> {
        let context = self
            .listing
            .context
            .renewed(&self.args.listing(Some("all".to_owned())))?;
        let known = &self.listing.context.namespaces;
        let all = context.namespaces.iter().flatten().map(Namespace::inode);
        let new = all.filter(|inode| known.with_inode(*inode).is_none());
        let named = new.map(|inode| (inode, context.netns(inode).map(str::to_owned)));
        self.later.borrow_mut().extend(named);
        Some(context)
    }

    /// Prepares a listing of the namespaces that were found again.
    pub(super) fn listing_of<'b>(&self, context: &'b QueryContext) -> anyhow::Result<Listing<'b>> {
        let common = self.args.listing(Some("all".to_owned()));
        let mut listing = Listing::new(&common, &self.args.filter, None, context)?;
        listing.require_owners();
        Ok(listing)
    }

    /// Returns the name of a namespace, which one that has ended also had.
    pub(super) fn netns_name(&self, listing: &Listing<'_>, inode: NetnsInode) -> Option<String> {
        let now = listing.context.netns(inode).map(str::to_owned);
        now.or_else(|| self.later.borrow().get(&inode).cloned().flatten())
            .or_else(|| self.listing.context.netns(inode).map(str::to_owned))
    }

    /// Whether a namespace was made since the namespaces were found.
    pub(super) fn is_new(&self, netns: NetnsInode) -> bool {
        let known = &self.listing.context.namespaces;
        known.are_many() && known.with_inode(netns).is_none() && !self.later.borrow().contains_key(&netns)
    }

    /// Whether a network namespace is one of those that the user selected.
    pub(super) fn is_selected(&self, netns: Option<NetnsInode>) -> bool {
        match self.args.netns.as_deref() {
            None | Some("all") => true,
            Some(_) => netns.is_some_and(|netns| self.listing.context.namespaces.with_inode(netns).is_some()),
        }
    }
}

/// Columns and order of what is printed; `None`: those without options.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) drops: Option<Vec<&'static Column<Drops>>>,
    pub(super) counters: Option<Vec<&'static Column<DropCounters>>>,
    pub(super) packets: Option<Vec<&'static Column<DropPackets>>>,
    pub(super) drops_by: Option<SortKey<Drops>>,
    pub(super) counters_by: Option<SortKey<DropCounters>>,
}

impl Shown {
    /// Reads `--columns` and `--sort`: of counters and packets where these are what is printed.
    pub(super) fn parse(args: &DropsArgs) -> anyhow::Result<Self> {
        let mut shown = Self::default();
        let columns_error = |error: UnknownColumn| UsageError::unknown_column("--columns", "drops", &error);
        if let Some(list) = &args.common.columns {
            if args.packets {
                shown.packets = Some(parse_columns(list).map_err(columns_error)?);
            } else if args.counters {
                shown.counters = Some(parse_columns(list).map_err(columns_error)?);
            } else {
                shown.drops = Some(parse_columns(list).map_err(columns_error)?);
            }
        }
        let sort_error = |error: UnknownColumn| UsageError::unknown_column("--sort", "drops", &error);
        if let Some(text) = &args.sort {
            if args.counters {
                shown.counters_by = Some(SortKey::parse(text).map_err(sort_error)?);
            } else {
                shown.drops_by = Some(SortKey::parse(text).map_err(sort_error)?);
            }
        }
        Ok(shown)
    }
}
