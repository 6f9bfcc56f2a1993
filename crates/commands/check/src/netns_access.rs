//! How to get into the namespaces that findings are about, for the commands that mend them.

use sockeye_model::NetnsInode;
use sockeye_query::context::QueryContext;
use sockeye_query::namespaces::NetnsAccess;
use sockeye_verdict::Finding;
use std::collections::{BTreeSet, HashMap};

/// The ways into all that findings are about.
pub(super) fn ways(findings: &[Finding], context: &QueryContext) -> HashMap<NetnsInode, NetnsAccess> {
    let inodes: BTreeSet<NetnsInode> = findings.iter().filter_map(|finding| finding.netns).collect();
    let way = |inode: NetnsInode| Some((inode, context.access_to(inode)?));
    inodes.into_iter().filter_map(way).collect()
}
