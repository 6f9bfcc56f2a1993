//! What `flows` and `sockets` have in common: the filter, the question, the owners, the summary.

use crate::args::Common;
use crate::lookup::Lookup;
use crate::notes;
use crate::rooms::Rooms;
use crate::run::Run;
use sockeye_console::notes::say;
use sockeye_filter::{Filter, Kernel};
use sockeye_model::{Entry, Losses, NetnsInode, ProtocolSet, StateSet};
use sockeye_output::{Coverage, Summary};
use sockeye_source::owners::{OwnerLookup, Owners};
use sockeye_source::{Detail, Families, ProtocolSource, Reason, SourceKind};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// A listing as it was asked for, ready to be taken once or again and again.
#[derive(Debug)]
pub struct Listing<'a> {
    /// Names, and the namespaces to look into.
    pub lookup: &'a Lookup,
    /// The namespaces, each with the meaning of the filter in it.
    pub rooms: Rooms<'a>,
    /// With `--netns all`: also what no process holds.
    pub complete: bool,
    families: Families,
    owners_wanted: bool,
    /// Whether the kernel tells us marks, and runs programs for us that look at them.
    pub sees_marks: bool,
}

/// One pass over the sockets.
#[derive(Debug, Clone, Copy)]
pub struct QueryOptions {
    /// Protocols to list.
    pub protocols: ProtocolSet,
    /// Address families to list.
    pub families: Families,
    /// States to list.
    pub states: StateSet,
    /// Details to ask for, beyond addresses.
    pub detail: Detail,
    /// Whether sockets that do not match are handed out too.
    pub scope: Scope,
}

/// Which sockets are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that match the filter.
    Matching,
    /// All, each with whether it matches.
    All,
}

/// What was said beside the sockets.
#[derive(Debug, Default)]
pub struct Told {
    /// Counters of what was lost.
    pub losses: Losses,
    /// Sources that answered, one for each protocol.
    pub used: Vec<ProtocolSource>,
    /// Chains of hash tables that were walked again.
    pub rewalked_chains: u64,
    /// `/proc` is mounted so that it hides the processes of others.
    processes_hidden: bool,
    /// Namespaces that could not be entered.
    pub closed: BTreeSet<NetnsInode>,
    /// Of a listing of every namespace: by what it was, if it was one.
    pub everywhere: Option<Everywhere>,
    /// If owners were looked for, by which way.
    owners: Option<OwnerLookup>,
}

/// How every namespace was listed.
#[derive(Debug)]
pub struct Everywhere {
    /// Why some protocols, or all, were asked for in each namespace by itself.
    pub each: Option<Reason>,
    /// Of some protocols only what a process holds was told.
    pub held: bool,
}

impl Told {
    /// Takes note of where sockets came from; of many places most say the same.
    pub fn note(&mut self, used: ProtocolSource) {
        if !self.used.contains(&used) {
            self.used.push(used);
        }
    }
}

impl<'a> Listing<'a> {
    /// Parses the filter in `words`, and `also` holds beside it.
    pub fn new(
        common: &Common,
        words: &[String],
        also: Option<&str>,
        lookup: &'a Lookup,
    ) -> anyhow::Result<Self> {
        let sees_marks = may_see_marks();
        let kernel = if sees_marks {
            Kernel::FULL
        } else {
            Kernel::UNPRIVILEGED
        };
        let rooms = Rooms::new(lookup, words, also, kernel)?;
        let owners_wanted = common.processes || rooms.filter().needs().owners;
        Ok(Self {
            lookup,
            rooms,
            complete: common.complete,
            families: match (common.ipv4, common.ipv6) {
                (true, false) => Families { v4: true, v6: false },
                (false, true) => Families { v4: false, v6: true },
                _ => Families::BOTH,
            },
            owners_wanted,
            sees_marks,
        })
    }

    /// The filter. It differs between namespaces by numbers of interfaces only.
    pub fn filter(&self) -> &Filter {
        self.rooms.filter()
    }

    /// Of which families sockets are wanted.
    pub const fn families(&self) -> Families {
        self.families
    }

    /// Looks for owners though nobody asked to see them.
    pub const fn want_owners(&mut self) {
        self.owners_wanted = true;
    }

    /// Looks for the owners of all sockets, if anybody asked.
    pub fn owners(&self, told: &mut Told) -> anyhow::Result<Option<Owners>> {
        if !self.owners_wanted {
            return Ok(None);
        }
        let (owners, taken) = Owners::find(&self.lookup.engine, self.lookup.choice)?;
        told.owners = Some(taken);
        let mut losses = owners.losses();
        // The search for namespaces came upon the same processes.
        losses.unreadable_processes = losses
            .unreadable_processes
            .saturating_sub(told.losses.unreadable_processes);
        told.losses += losses;
        told.processes_hidden |= owners.hides_processes();
        Ok(Some(owners))
    }

    /// Hands sockets of every place to `take`, with whether they match the filter; it may break off.
    pub fn run(
        &self,
        ask: &QueryOptions,
        owners: Option<&Owners>,
        told: &mut Told,
        take: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let mut run = Run {
            listing: self,
            ask,
            owners,
            told,
            take,
            stopped: false,
            held: HashSet::new(),
        };
        let places = &self.lookup.places;
        let left = if places.are_many() {
            run.everywhere()
        } else {
            ask.protocols
        };
        if left.is_empty() || run.stopped {
            return Ok(());
        }
        let rooms = self.rooms.worth_a_look();
        if rooms.len() < WORTH_THREADS {
            run.one_by_one(left, &rooms)
        } else {
            run.side_by_side(left, &rooms)
        }
    }

    /// What was said, with what was lost before the listing began.
    pub fn begin(&self) -> Told {
        Told {
            losses: self.lookup.found_losses,
            ..Told::default()
        }
    }

    /// Says on stderr what has to be said.
    pub fn report(&self, told: &Told, verbose: bool) {
        notes::sources(&told.used, verbose);
        if verbose && told.rewalked_chains > 0 {
            say(&format!(
                "sockeye: {} chains of hash tables were walked again, since sockets moved meanwhile\n",
                told.rewalked_chains
            ));
        }
        if let Some(everywhere) = &told.everywhere {
            notes::everywhere(everywhere, self.rooms.count());
        }
        if let (true, Some(taken)) = (verbose, &told.owners) {
            notes::owners(taken);
        }
        notes::losses(&told.losses, self.owners_wanted, self.lookup.places.are_many());
        let needs = self.filter().needs();
        if needs.mark && !self.sees_marks {
            say(
                "sockeye: marks are told to CAP_NET_ADMIN only, so that a test of them is false: run as root, or grant it\n",
            );
        }
        let by_procfs = told
            .used
            .iter()
            .any(|used| used.source == Some(SourceKind::Procfs));
        if by_procfs && (needs.tcp_info || needs.memory || needs.congestion || needs.cgroup || needs.mark) {
            say(
                "sockeye: /proc/net does not tell all that the filter asks for: tests of what is not known are false\n",
            );
        }
        if told.processes_hidden {
            say(
                "sockeye: /proc hides the processes of others (hidepid): owners may be missing; run as root\n",
            );
        }
    }
}

/// Fewer namespaces are listed by one thread, as their sockets come.
const WORTH_THREADS: usize = 8;

/// Whether a filter asks where sockets are.
pub fn names_netns(filter: &[String]) -> bool {
    filter.iter().any(|word| word.contains("netns"))
}

/// Whether we have CAP_NET_ADMIN.
pub fn may_see_marks() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_ADMIN))
}

/// What ends a JSON document.
pub fn sources(told: &Told) -> Vec<(&'static str, &'static str)> {
    told.used
        .iter()
        .map(|used| (used.what, used.source.map_or("none", |source| source.name())))
        .collect()
}

/// A summary over `sources`, as renderers take it.
pub fn summary<'a>(told: &Told, sources: &'a [(&'static str, &'static str)]) -> Summary<'a> {
    Summary {
        losses: told.losses,
        sources,
        coverage: told.everywhere.as_ref().map(|everywhere| {
            match (everywhere.each.is_some(), everywhere.held) {
                (_, true) => Coverage::Owned,
                (true, false) => Coverage::Reachable,
                (false, false) => Coverage::Complete,
            }
        }),
        ..Summary::default()
    }
}
