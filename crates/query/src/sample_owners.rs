//! Owners of sockets from one sample to the next. A pass over the descriptors of all processes costs as much as they are; most of them
//! are as they were.

use crate::listing::{Listing, ListingReport, report_owners};
use sockeye_model::{Inode, Owner};
use sockeye_source::Announce;
use sockeye_source::owners::{OwnerLookup, Owners, ScanError};
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What entries get their owners from.
pub(crate) trait FindOwners: Announce {
    /// Returns the owners of a socket, sorted by pid and descriptor.
    fn of(&self, inode: Inode) -> &[Owner];
}

impl FindOwners for Owners {
    fn of(&self, inode: Inode) -> &[Owner] {
        Self::of(self, inode)
    }
}

/// Owners that are remembered from the samples before. They are searched for again once a minute, when every socket is read, and when a
/// socket appears of which none is known. So a descriptor that is passed on, inherited or closed while others stay, and a process that
/// takes another name, are seen a minute late at most.
#[derive(Debug)]
pub struct RememberedOwners {
    /// Time after which they are searched for again.
    interval: Duration,
    last: Option<Pass>,
    /// Sockets of which the last pass found no owner.
    without: Mutex<HashSet<Inode>>,
    /// Sockets whose owners are others than in the sample before.
    changed: HashSet<Inode>,
    /// Those that this sample may have with the owners from before its pass, since they were read earlier.
    changed_later: HashSet<Inode>,
}

#[derive(Debug)]
struct Pass {
    owners: Owners,
    lookup: OwnerLookup,
    at: Instant,
}

/// The owners of the sockets of one sample.
#[derive(Debug)]
pub struct SampleOwners<'a> {
    listing: &'a Listing<'a>,
    last: &'a Owners,
    without: &'a Mutex<HashSet<Inode>>,
    /// Of a pass during the sample.
    found: OnceLock<Result<(Owners, OwnerLookup), ScanError>>,
}

impl Default for RememberedOwners {
    fn default() -> Self {
        Self::searched_every(PASS_INTERVAL)
    }
}

impl RememberedOwners {
    /// Remembers owners for another time than a minute.
    #[must_use]
    pub fn searched_every(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            without: Mutex::default(),
            changed: HashSet::new(),
            changed_later: HashSet::new(),
        }
    }

    /// Begins a sample. Searches for owners if that is due, or if `all` sockets will be read. Returns whether owners are known.
    ///
    /// # Errors
    /// As [`Listing::owners`].
    pub fn begin(
        &mut self,
        listing: &Listing<'_>,
        all: bool,
        report: &mut ListingReport,
    ) -> anyhow::Result<bool> {
        self.changed = std::mem::take(&mut self.changed_later);
        let last = self.last.as_ref();
        let Some(Pass { owners, lookup, .. }) = last.filter(|last| !all && last.at.elapsed() < self.interval)
        else {
            let found = listing.owners(report)?.zip(report.owners.clone());
            let Some(found) = found else {
                *self = Self::searched_every(self.interval);
                return Ok(false);
            };
            self.replace(found);
            if all {
                let without = self.without.get_mut();
                without.unwrap_or_else(PoisonError::into_inner).clear();
            }
            return Ok(true);
        };
        report_owners(owners, lookup.clone(), report);
        // They ended during that pass, and were reported with its sample.
        report.losses.vanished_processes -= owners.losses().vanished_processes;
        Ok(true)
    }

    /// Returns the owners for the sample that was begun; `None` if none are known.
    #[must_use]
    pub fn of_sample<'a>(&'a self, listing: &'a Listing<'a>) -> Option<SampleOwners<'a>> {
        Some(SampleOwners {
            listing,
            last: &self.last.as_ref()?.owners,
            without: &self.without,
            found: OnceLock::new(),
        })
    }

    /// Takes over what was found while the sockets were read.
    pub fn take_found(&mut self, found: FoundOwners, report: &mut ListingReport) {
        report.losses.vanished_processes += found.0.0.losses().vanished_processes;
        let before = std::mem::take(&mut self.changed);
        self.replace(found.0);
        self.changed_later.clone_from(&self.changed);
        self.changed.extend(before);
    }

    /// Whether the owners of a socket are those of the sample before.
    #[must_use]
    pub fn is_same(&self, inode: Inode) -> bool {
        !self.changed.contains(&inode)
    }

    /// Returns the owners; `None` if none are known.
    #[must_use]
    pub fn owners(&self) -> Option<&Owners> {
        Some(&self.last.as_ref()?.owners)
    }

    fn replace(&mut self, (owners, lookup): (Owners, OwnerLookup)) {
        if let Some(Pass { owners: before, .. }) = &self.last {
            changes(before, &owners, &mut |inode| {
                self.changed.insert(inode);
            });
        }
        let without = self.without.get_mut().unwrap_or_else(PoisonError::into_inner);
        without.retain(|inode| owners.of(*inode).is_empty());
        self.last = Some(Pass {
            owners,
            lookup,
            at: Instant::now(),
        });
    }
}

/// Owners that were found while the sockets of a sample were read.
#[derive(Debug)]
pub struct FoundOwners((Owners, OwnerLookup));

impl SampleOwners<'_> {
    /// Returns what was found while the sockets were read; `None` if nothing was searched for, or that failed.
    #[must_use]
    pub fn into_found(self) -> Option<FoundOwners> {
        self.found.into_inner()?.ok().map(FoundOwners)
    }
}

impl FindOwners for SampleOwners<'_> {
    fn of(&self, inode: Inode) -> &[Owner] {
        if let Some(Ok((owners, _))) = self.found.get() {
            return self.noted(inode, owners.of(inode));
        }
        let known = self.last.of(inode);
        // One without a file has no owner.
        if !known.is_empty() || inode.0 == 0 || self.lock().contains(&inode) {
            return known;
        }
        let context = self.listing.context;
        let found = self
            .found
            .get_or_init(|| Owners::find(&context.engine, context.choice));
        let owners = found.as_ref().map_or(&[][..], |(owners, _)| owners.of(inode));
        self.noted(inode, owners)
    }
}

impl Announce for SampleOwners<'_> {
    fn announce(&self, inodes: &[u32]) {
        self.last.announce(inodes);
    }
}

impl SampleOwners<'_> {
    /// Notes a socket without an owner: it is not searched for again.
    fn noted<'a>(&self, inode: Inode, owners: &'a [Owner]) -> &'a [Owner] {
        if owners.is_empty() && inode.0 != 0 {
            self.lock().insert(inode);
        }
        owners
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Inode>> {
        self.without.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `visit` with each socket that has other owners than before, or is only in one of them.
fn changes(before: &Owners, now: &Owners, visit: &mut dyn FnMut(Inode)) {
    for (inode, owners) in now.iter() {
        if before.of(inode) != owners {
            visit(inode);
        }
    }
    for (inode, _) in before.iter() {
        if now.of(inode).is_empty() {
            visit(inode);
        }
    }
}

/// Owners are searched for again after this time.
const PASS_INTERVAL: Duration = Duration::from_secs(60);
