//! What a listing reports in addition to the sockets: sources, losses, coverage.

use sockeye_model::{Losses, NetnsInode};
use sockeye_output::{Coverage, Summary};
use sockeye_source::owners::{OwnerLookup, ScanError};
use sockeye_source::{ProtocolSource, Reason};
use std::collections::BTreeSet;

/// Sources, losses and coverage of a listing.
#[derive(Debug, Default)]
pub struct ListingReport {
    /// Counters of what was lost.
    pub losses: Losses,
    /// Sources that were used, without duplicates.
    pub used: Vec<ProtocolSource>,
    /// Chains of hash tables that were walked again.
    pub rewalked_chains: u64,
    /// Whether `/proc` is mounted with `hidepid`, so that processes of other users are invisible.
    pub(crate) processes_hidden: bool,
    /// Namespaces that could not be entered.
    pub unreadable_netns: BTreeSet<NetnsInode>,
    /// How every namespace was listed; `None` for a listing of one namespace.
    pub all_netns: Option<AllNetnsReport>,
    /// How owners were found; `None` if they were not looked for.
    pub(crate) owners: Option<OwnerLookup>,
    /// Why no owner is known, although owners were looked for; `None` if they were found or not looked for.
    pub owners_error: Option<ScanError>,
    /// Why owners, by which workloads would be known, are not known.
    pub(crate) workloads_error: Option<String>,
}

/// How every namespace was listed.
#[derive(Debug)]
pub struct AllNetnsReport {
    /// Why some or all protocols were listed in one namespace after the other; `None` if none was.
    pub one_by_one: Option<Reason>,
    /// Whether of some protocols only sockets with a file descriptor were listed.
    pub descriptors_only: bool,
}

impl ListingReport {
    /// Returns why no owners are known, or those of no container; `None` if they are, or were not looked for.
    #[must_use]
    pub fn unknown_owners(&self) -> Option<String> {
        let of_processes = self.owners_error.as_ref().map(ToString::to_string);
        of_processes.or_else(|| self.workloads_error.clone())
    }

    /// Adds the source of a protocol, unless another namespace reported the same.
    pub fn add_source(&mut self, used: ProtocolSource) {
        if !self.used.contains(&used) {
            self.used.push(used);
        }
    }

    /// Returns whether a protocol that every kernel has could not be listed.
    pub fn lacks_protocols(&self) -> bool {
        self.used
            .iter()
            .any(|used| used.source.is_none() && !used.optional)
    }

    /// Returns each protocol with the name of its source, or `none`; each pair once.
    pub fn sources(&self) -> Vec<(&'static str, &'static str)> {
        let of_protocols = self
            .used
            .iter()
            .map(|used| (used.what, used.source.map_or("none", |source| source.name())));
        let mut sources = Vec::new();
        for source in of_protocols.chain(self.owners_error.as_ref().map(|_| ("owners", "none"))) {
            // The same source of two namespaces may have different reasons.
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }

    /// Returns the summary at the end of a listing, with `sources` from [`Self::sources`].
    pub fn summary<'a>(&self, sources: &'a [(&'static str, &'static str)]) -> Summary<'a> {
        Summary {
            losses: self.losses,
            sources,
            coverage: self.all_netns.as_ref().map(|all| {
                match (all.one_by_one.is_some(), all.descriptors_only) {
                    (_, true) => Coverage::Owned,
                    (true, false) => Coverage::Reachable,
                    (false, false) => Coverage::Complete,
                }
            }),
            ..Summary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use sockeye_source::SourceKind;

    #[test]
    fn pair_of_protocol_and_source_is_there_once() {
        let mut report = ListingReport::default();
        // Two namespaces, in one of which a better source was refused.
        let refused = vec![(SourceKind::Walk, Reason::Refused(Errno::PERM, None))];
        for (source, not_used) in [
            (SourceKind::DiagV2, Vec::new()),
            (SourceKind::DiagV2, refused),
            (SourceKind::Procfs, Vec::new()),
        ] {
            report.add_source(ProtocolSource {
                what: "tcp",
                optional: false,
                source: Some(source),
                not_used,
                ended_early: None,
            });
        }
        assert_eq!(report.used.len(), 3);
        assert_eq!(report.sources(), [("tcp", "diag-v2"), ("tcp", "procfs")]);
    }
}
