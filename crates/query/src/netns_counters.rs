//! The kernel's counters of network namespaces, without anything else of them.

use crate::namespaces::{Namespace, NetnsSelection};
use sockeye_model::{Counters, Losses, NetnsInode};
use sockeye_source::names::{NameKinds, SystemNames};
use sockeye_source::{OpenNetns, own_namespace, vitals};
use std::collections::BTreeMap;
use std::io;

/// Reads the counters of what `--netns` selects, as far as it can be found and entered; `None` if there are more than
/// [`NAMESPACES_MAX`] namespaces.
#[must_use]
pub fn netns_counters(netns: &str) -> Option<BTreeMap<NetnsInode, Counters>> {
    let names = SystemNames::new(NameKinds::ALL);
    let selection = NetnsSelection::find(Some(netns), &names, None, &mut Losses::default()).ok()?;
    let own = own_namespace();
    let is_here = |namespace: &&Namespace| Some(namespace.inode()) == own;
    let mut all = BTreeMap::new();
    // Our own needs no right to be entered.
    if let Some(own) = own.filter(|own| selection.with_inode(*own).is_some()) {
        all.insert(own, vitals::counters());
    }
    let namespaces: Vec<&Namespace> = selection.iter().flatten().filter(|one| !is_here(one)).collect();
    if namespaces.len() > NAMESPACES_MAX {
        return None;
    }
    let open = |number: usize, act: &mut dyn FnMut(OpenNetns<'_>)| {
        let namespace = namespaces.get(number).ok_or(io::ErrorKind::NotFound)?;
        selection.open(namespace, act)
    };
    let found = vitals::counters_of_namespaces(namespaces.len(), &open);
    let entered = namespaces.iter().zip(found);
    all.extend(entered.filter_map(|(namespace, found)| Some((namespace.inode(), found.ok()?))));
    Some(all)
}

/// Most namespaces whose counters are read: 20 ms of a processor.
pub const NAMESPACES_MAX: usize = 256;
