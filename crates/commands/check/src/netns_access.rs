//! How remedies can be run in the namespaces of findings.

use sockeye_model::NetnsInode;
use sockeye_query::context::QueryContext;
use sockeye_query::namespaces::NetnsAccess;
use sockeye_verdict::Finding;
use std::collections::{BTreeSet, HashMap};

/// Finds how a command can be run in each namespace of the findings.
pub(crate) fn find(findings: &[Finding], context: &QueryContext) -> HashMap<NetnsInode, NetnsAccess> {
    let inodes: BTreeSet<NetnsInode> = findings.iter().filter_map(|finding| finding.netns).collect();
    let access = |inode: NetnsInode| Some((inode, context.access_to(inode)?));
    inodes.into_iter().filter_map(access).collect()
}
