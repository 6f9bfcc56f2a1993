//! What the network namespaces of samples are called, noted when it changes.

use sockeye_history::NetnsName;
use sockeye_model::{Names as _, NetnsInode};
use sockeye_source::names::{NameKinds, NamedNamespace, Namespaces, SystemNames};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The names that were noted last.
#[derive(Debug, Default)]
pub(super) struct NetnsNames {
    names: Option<SystemNames>,
    /// Those that `names` knows by `ip netns`.
    named: Vec<NamedNamespace>,
    noted: Option<(Vec<NetnsName>, Instant)>,
    inodes: BTreeSet<NetnsInode>,
}

impl NetnsNames {
    /// Returns the names of these namespaces, if they have changed or were noted long ago. `again`: names of containers and processes are
    /// looked for again, which reads all processes; those of `ip netns` always are.
    pub(super) fn look(&mut self, inodes: BTreeSet<NetnsInode>, again: bool) -> Option<Vec<NetnsName>> {
        let named = Namespaces::read().all().to_vec();
        if again || named != self.named || !inodes.is_subset(&self.inodes) {
            self.names = None;
        }
        (self.named, self.inodes) = (named, inodes);
        let kinds = NameKinds {
            namespaces: true,
            ..NameKinds::NONE
        };
        let names = self.names.get_or_insert_with(|| SystemNames::new(kinds));
        let with_name = |netns: &NetnsInode| {
            let name = names.netns(*netns)?.to_owned();
            Some(NetnsName { netns: *netns, name })
        };
        let found: Vec<NetnsName> = self.inodes.iter().filter_map(with_name).collect();
        let now = Instant::now();
        let is_noted = |(noted, at): &(Vec<NetnsName>, Instant)| {
            *noted == found && now.saturating_duration_since(*at) < NOTED_FOR
        };
        if self.noted.as_ref().is_some_and(is_noted) {
            return None;
        }
        self.noted = Some((found.clone(), now));
        Some(found)
    }
}

/// Time after which names are noted again, so that the oldest groups can go with theirs. A reader looks as far back as twice this time.
const NOTED_FOR: Duration = Duration::from_secs(600);
