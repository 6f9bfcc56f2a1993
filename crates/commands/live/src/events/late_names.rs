//! Names of cgroups that were made after the names were read: of containers that start while events are watched.

use sockeye_model::{CgroupId, Names};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use std::time::{Duration, Instant};

/// The names as they were read last, if those of the begin lack one.
#[derive(Debug, Default)]
pub(crate) struct LateNames {
    context: Option<QueryContext>,
    read: Option<Instant>,
}

impl LateNames {
    /// Returns where a cgroup has a name. Names are read again for a cgroup without one, at most once a second.
    pub(crate) fn of<'a>(
        &'a mut self,
        first: &'a QueryContext,
        args: impl FnOnce() -> ListingArgs,
        cgroup: CgroupId,
    ) -> &'a QueryContext {
        let is_known = |context: &QueryContext| context.cgroup(cgroup).is_some();
        if is_known(first) {
            return first;
        }
        let is_recent = self.read.is_some_and(|read| read.elapsed() < INTERVAL);
        if !is_recent && !self.context.as_ref().is_some_and(is_known) {
            self.read = Some(Instant::now());
            self.context = QueryContext::new(&args(), false, true).ok();
        }
        self.context
            .as_ref()
            .filter(|late| is_known(late))
            .unwrap_or(first)
    }
}

/// How often names are read again.
const INTERVAL: Duration = Duration::from_secs(1);
