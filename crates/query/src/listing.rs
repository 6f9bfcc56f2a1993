//! A listing: the filter, the namespaces, the search for owners, and the notes at its end.

use crate::args::ListingArgs;
use crate::context::QueryContext;
pub use crate::entry_threads::{EntryThreads, TakeEntry};
use crate::netns_targets::NetnsTargets;
use crate::notes;
pub use crate::report::ListingReport;
use crate::workloads::SampledProcesses;
use sockeye_console::notes::say;
use sockeye_filter::{Filter, KernelFeatures};
use sockeye_model::{ProtocolSet, StateSet, WorkloadKind, counted_were};
use sockeye_source::names::{Cgroups, WorkloadNames};
use sockeye_source::owners::{OwnerLookup, Owners};
use sockeye_source::{Choice, Detail, Families, SourceKind};
use sockeye_sys::rights::{self, CheckedIn};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A listing that can be run once or repeatedly.
#[derive(Debug)]
pub struct Listing<'a> {
    /// Selected namespaces, sources and names.
    pub context: &'a QueryContext,
    /// The namespaces, each with the filter as resolved in it.
    pub targets: NetnsTargets<'a>,
    /// Whether `--netns all` also lists sockets without a file descriptor.
    pub complete: bool,
    families: Families,
    needs_owners: bool,
    /// Kinds of workloads that entries have.
    pub(crate) workload_kinds: Vec<WorkloadKind>,
    /// What was read of processes since [`Self::begin`].
    processes: Mutex<Arc<SampledProcesses>>,
    /// Whether the kernel reports socket marks to us and accepts filter programs that test them.
    pub sees_marks: bool,
}

/// What one pass over the sockets lists.
#[derive(Debug, Clone, Copy)]
pub struct QueryOptions {
    /// Protocols to list.
    pub protocols: ProtocolSet,
    /// Address families to list.
    pub families: Families,
    /// States to list.
    pub states: StateSet,
    /// Details to read in addition to addresses.
    pub detail: Detail,
    /// Whether sockets that do not match are included.
    pub scope: Scope,
}

/// Which sockets a pass emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that match the filter.
    Matching,
    /// All sockets, each with whether it matches.
    All,
}

impl<'a> Listing<'a> {
    /// Prepares a listing by the filter in `words`, combined with the filter `and`.
    pub fn new(
        common: &ListingArgs,
        words: &[String],
        and: Option<&str>,
        context: &'a QueryContext,
    ) -> anyhow::Result<Self> {
        let sees_marks = may_see_marks();
        let kernel = if sees_marks {
            KernelFeatures::FULL
        } else {
            KernelFeatures::UNPRIVILEGED
        };
        let targets = NetnsTargets::new(context, words, and, kernel)?;
        let needs = targets.filter().needs();
        let needs_owners = common.processes || needs.owners;
        let mut listing = Self {
            context,
            targets,
            complete: common.complete,
            families: match (common.ipv4, common.ipv6) {
                (true, false) => Families { v4: true, v6: false },
                (false, true) => Families { v4: false, v6: true },
                _ => Families::BOTH,
            },
            needs_owners,
            workload_kinds: Vec::new(),
            processes: Mutex::default(),
            sees_marks,
        };
        if needs.workloads {
            listing.require_workloads(&[WorkloadKind::Container, WorkloadKind::Unit]);
        }
        if needs.workloads && needs.owners {
            listing.require_workloads(&[WorkloadKind::Exe]);
        }
        Ok(listing)
    }

    /// Returns the filter. Only interface numbers in it differ between namespaces.
    pub fn filter(&self) -> &Filter {
        self.targets.filter()
    }

    /// Returns the address families to list.
    pub const fn families(&self) -> Families {
        self.families
    }

    /// Makes [`Self::owners`] look for owners, even without `--processes`.
    pub const fn require_owners(&mut self) {
        self.needs_owners = true;
    }

    /// Makes entries have their workloads of these kinds, and [`Self::owners`] look for owners if all of them need owners.
    pub fn require_workloads(&mut self, kinds: &[WorkloadKind]) {
        self.workload_kinds.extend_from_slice(kinds);
        let by_owners = |kind: &WorkloadKind| {
            *kind == WorkloadKind::Exe || !self.context.names().workloads().uses_only_cgroup2()
        };
        // /proc/net has no cgroups.
        let has_none = self.context.choice == Choice::Procfs;
        self.needs_owners |= !kinds.is_empty() && (has_none || kinds.iter().any(by_owners));
    }

    /// Returns what was read of processes since [`Self::begin`].
    pub(crate) fn sampled(&self) -> Arc<SampledProcesses> {
        Arc::clone(&self.processes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Finds the owners of all sockets; `None` if no option and no filter needs them, or if they are not known, which the
    /// report then says.
    ///
    /// # Errors
    /// If they are not known and the filter tests them.
    pub fn owners(&self, report: &mut ListingReport) -> anyhow::Result<Option<Owners>> {
        if !self.needs_owners {
            return Ok(None);
        }
        // Recorded sockets carry theirs.
        if self.context.past.is_some() {
            return Ok(Some(Owners::default()));
        }
        let (owners, lookup) = match Owners::find(&self.context.engine, self.context.choice) {
            Ok(found) => found,
            // A filter that tests owners would select the wrong sockets, and an action would change them.
            Err(error) if self.filter().needs().owners => {
                return Err(
                    anyhow::Error::from(error).context("the filter tests owners, and they are not known")
                );
            }
            Err(error) => {
                report.owners_error = Some(error);
                return Ok(None);
            }
        };
        report_owners(&owners, lookup, report);
        Ok(Some(owners))
    }

    /// Finds the owners as [`Self::owners`] does, for a listing with these options, whose BPF programs are loaded on another core meanwhile.
    ///
    /// # Errors
    /// As [`Self::owners`].
    pub fn owners_before(
        &self,
        options: &QueryOptions,
        report: &mut ListingReport,
    ) -> anyhow::Result<Option<Owners>> {
        let has_cores = || thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        if !self.needs_owners || !has_cores() {
            return self.owners(report);
        }
        let Some(preparation) = self.preparation(options) else {
            return self.owners(report);
        };
        thread::scope(|scope| {
            // If there is no thread, this one loads them afterwards.
            let _ = thread::Builder::new().spawn_scoped(scope, || preparation.run());
            let owners = self.owners(report);
            preparation.run();
            owners
        })
    }

    /// Begins a report with what was lost in the search for namespaces. What is known of processes is forgotten: they change.
    pub fn begin(&self) -> ListingReport {
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        ListingReport {
            losses: self.context.discovery_losses,
            ..ListingReport::default()
        }
    }

    /// Writes sources, losses and missing rights to stderr; with `verbose` also details.
    pub fn write_notes(&self, report: &ListingReport, verbose: bool) {
        notes::sources(&report.used, verbose);
        if verbose && report.rewalked_chains > 0 {
            say(&format!(
                "sockeye: {} walked again, since sockets moved meanwhile\n",
                counted_were(report.rewalked_chains, "hash chain")
            ));
        }
        if let Some(all) = &report.all_netns {
            notes::all_netns(all, self.targets.count());
        }
        if let (true, Some(lookup)) = (verbose, &report.owners) {
            notes::owners(lookup);
        }
        notes::losses(
            &report.losses,
            notes::LossScope {
                needs_owners: self.needs_owners || !self.workload_kinds.is_empty(),
                all_netns: self.context.namespaces.are_many(),
                is_recorded: self.context.looks_back(),
            },
        );
        let needs = self.filter().needs();
        if needs.mark && !self.sees_marks {
            say(&format!(
                "sockeye: the kernel reports marks to CAP_NET_ADMIN only, tests of them are false; {}\n",
                rights::remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns)
            ));
        }
        let by_procfs = report
            .used
            .iter()
            .any(|used| used.source == Some(SourceKind::Procfs));
        let needs_details = needs.tcp_info || needs.memory || needs.congestion || needs.service_class;
        if by_procfs && (needs_details || needs.cgroup || needs.mark) {
            say(
                "sockeye: /proc/net does not have all values that the filter tests: tests of missing values are false\n",
            );
        }
        if self.context.cgroups_are_incomplete() {
            say(&format!(
                "sockeye: the host has more than {} cgroups: the deepest have no names here, and filters by name do not match \
                 them\n",
                Cgroups::FOLDERS_MAX
            ));
        }
        if let Some(error) = &report.owners_error {
            say(&format!("sockeye: owners are not known: {error}\n"));
        }
        if let Some(error) = &report.workloads_error {
            say(&format!(
                "sockeye: owners are not known, and some sockets have no cgroup that names what they belong to: {error}\n"
            ));
        }
        if self.context.names().workloads_are_incomplete() {
            say(&format!(
                "sockeye: more than {} containers, cgroups, units and executables were seen: further ones have no names\n",
                WorkloadNames::NAMES_MAX
            ));
        }
        if self.context.past.is_some()
            && (needs.memory || needs.congestion || needs.service_class || needs.mark)
        {
            say(
                "sockeye: not all values that the filter tests are recorded: tests of missing values are false\n",
            );
        }
        if report.processes_hidden {
            say(&format!(
                "sockeye: /proc hides the processes of other users (hidepid): owners may be missing; {}\n",
                rights::remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
            ));
        }
    }
}

/// Adds to a report how owners were found, and what was lost.
pub(crate) fn report_owners(owners: &Owners, lookup: OwnerLookup, report: &mut ListingReport) {
    report.owners = Some(lookup);
    let mut losses = owners.losses();
    // The search for namespaces already counted the same processes.
    losses.unreadable_processes = losses
        .unreadable_processes
        .saturating_sub(report.losses.unreadable_processes);
    report.losses += losses;
    report.processes_hidden |= owners.hides_processes();
}

/// Returns whether a filter tests the namespace of sockets.
pub fn tests_netns(filter: &[String]) -> bool {
    filter.iter().any(|word| word.contains("netns"))
}

/// Returns whether we have `CAP_NET_ADMIN` in our network namespace, without which the kernel does not report socket marks.
pub fn may_see_marks() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_ADMIN))
        && sockeye_sys::netns::capabilities_count()
}
