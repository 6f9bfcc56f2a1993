//! Names of cgroups that were known when the watch began: path, container and unit, found once for all events of a cgroup.

use foldhash::HashMap;
use sockeye_model::{CgroupId, Names, WorkloadKind};
use sockeye_query::context::QueryContext;
use sockeye_source::own_namespace;

/// What is known of a cgroup.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CgroupTexts<'a> {
    pub(crate) path: Option<&'a str>,
    pub(crate) container: Option<&'a str>,
    pub(crate) unit: Option<&'a str>,
}

impl<'a> CgroupTexts<'a> {
    /// Looks for the names of a cgroup.
    pub(crate) fn find(context: &'a QueryContext, cgroup: CgroupId) -> Self {
        Self {
            path: context.cgroup(cgroup),
            container: context.workload_of_cgroup(cgroup, WorkloadKind::Container),
            unit: context.workload_of_cgroup(cgroup, WorkloadKind::Unit),
        }
    }
}

/// Reads the names that the first row needs, which takes milliseconds: the list of cgroups, those of containers, and those of namespaces.
pub(crate) fn prepare(context: &QueryContext) {
    CgroupTexts::find(context, ROOT);
    if let Some(own) = own_namespace() {
        context.netns(own);
    }
}

/// The id of the first cgroup.
const ROOT: CgroupId = CgroupId(1);

/// The names that were found. Only cgroups that have a path are kept: others may get one later.
#[derive(Debug, Default)]
pub(crate) struct CgroupNames<'a> {
    found: HashMap<CgroupId, CgroupTexts<'a>>,
}

impl<'a> CgroupNames<'a> {
    /// Returns the names of a cgroup; `None` if it had none when the watch began.
    pub(crate) fn of(&mut self, first: &'a QueryContext, cgroup: CgroupId) -> Option<CgroupTexts<'a>> {
        if let Some(found) = self.found.get(&cgroup) {
            return Some(*found);
        }
        let found = CgroupTexts::find(first, cgroup);
        found.path?;
        self.found.insert(cgroup, found);
        Some(found)
    }
}
