//! How to get into the namespaces that findings are about, for the commands that mend them.

use crate::lookup::Lookup;
use sockeye_model::NetnsInode;
use sockeye_render::WayIn;
use sockeye_verdict::Finding;
use std::collections::{BTreeSet, HashMap};

/// The ways into all that findings are about.
pub(super) fn ways(findings: &[Finding], lookup: &Lookup) -> HashMap<NetnsInode, WayIn> {
    let inodes: BTreeSet<NetnsInode> = findings.iter().filter_map(|finding| finding.netns).collect();
    let way = |inode: NetnsInode| Some((inode, lookup.way_in(inode)?));
    inodes.into_iter().filter_map(way).collect()
}
