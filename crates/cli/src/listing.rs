//! What `flows` and `sockets` have in common: the filter, the question, the owners, the summary.

use crate::args::{Common, FormatArg, SourceArg};
use crate::lookup::Lookup;
use crate::notes;
use crate::usage::Usage;
use sockeye_filter::{Filter, Kernel, Program, join_words, parse_words};
use sockeye_model::{Entry, Losses, ProtocolSet, StateSet};
use sockeye_render::{Format, Summary};
use sockeye_source::owners::{Owners, ScanOptions};
use sockeye_source::{Choice, Detail, Families, Judged, Place, Question, Rung, Used, list};
use std::ops::ControlFlow;

/// A listing as it was asked for, ready to be taken once or again and again.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    pub(crate) lookup: &'a Lookup,
    /// Where to look; at least one.
    rooms: Vec<Room<'a>>,
    families: Families,
    choice: Choice,
    owners_wanted: bool,
    /// Whether the kernel tells us marks, and runs programs for us that look at them.
    pub(crate) sees_marks: bool,
}

/// One namespace, and the filter as it is meant there: `dev eth0` is another number in each.
#[derive(Debug)]
struct Room<'a> {
    netns: Option<Place<'a>>,
    filter: Filter,
    program: Program,
}

/// One pass over the sockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) protocols: ProtocolSet,
    pub(crate) families: Families,
    pub(crate) states: StateSet,
    pub(crate) detail: Detail,
    pub(crate) scope: Scope,
}

/// Which sockets are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that match the filter.
    Matching,
    /// All, each with whether it matches.
    All,
}

/// What was said beside the sockets.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) losses: Losses,
    pub(crate) used: Vec<Used>,
    /// `/proc` is mounted so that it hides the processes of others.
    processes_hidden: bool,
}

impl<'a> Listing<'a> {
    /// Parses the filter in `words`, and `also` holds beside it.
    pub(crate) fn new(
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
        let (mut rooms, mut mistake) = (Vec::new(), None);
        for netns in lookup.places.iter() {
            let resolver = lookup.inside(netns);
            let parsed = parse_words(words, &resolver).and_then(|filter| match also {
                Some(also) => Ok(filter.and(sockeye_filter::parse(also, &resolver)?)),
                None => Ok(filter),
            });
            match parsed {
                Ok(filter) => rooms.push(Room {
                    netns,
                    program: filter.program(kernel),
                    filter,
                }),
                Err(error) => mistake = mistake.or(Some(error)),
            }
        }
        // An interface that only some namespaces have is no mistake.
        if let (true, Some(mistake)) = (rooms.is_empty(), mistake) {
            return Err(Usage(mistake.render(&join_words(words))).into());
        }
        let owners_wanted = common.processes || rooms.iter().any(|room| room.filter.needs().owners);
        Ok(Self {
            lookup,
            rooms,
            families: match (common.ipv4, common.ipv6) {
                (true, false) => Families { v4: true, v6: false },
                (false, true) => Families { v4: false, v6: true },
                _ => Families::BOTH,
            },
            choice: match common.source {
                SourceArg::Auto => Choice::Auto,
                SourceArg::Diag => Choice::Diag,
                SourceArg::DiagV2 => Choice::DiagV2,
                SourceArg::Procfs => Choice::Procfs,
            },
            owners_wanted,
            sees_marks,
        })
    }

    /// The filter. It differs between namespaces by numbers of interfaces only.
    pub(crate) fn filter(&self) -> &Filter {
        &self.rooms[0].filter
    }

    /// Of which families sockets are wanted.
    pub(crate) const fn families(&self) -> Families {
        self.families
    }

    /// Looks for owners though nobody asked to see them.
    pub(crate) const fn want_owners(&mut self) {
        self.owners_wanted = true;
    }

    /// Looks for the owners of all sockets, if anybody asked.
    pub(crate) fn owners(&self, told: &mut Told) -> anyhow::Result<Option<Owners>> {
        if !self.owners_wanted {
            return Ok(None);
        }
        let owners = Owners::scan(&ScanOptions::default())?;
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
    pub(crate) fn run(
        &self,
        ask: &Ask,
        owners: Option<&Owners>,
        told: &mut Told,
        take: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        for room in &self.rooms {
            let needs = room.filter.needs();
            let everything = ask.scope == Scope::All;
            let question = Question {
                protocols: ask.protocols,
                families: ask.families,
                states: ask.states,
                detail: ask.detail.or(Detail {
                    tcp_info: needs.tcp_info,
                    memory: needs.memory,
                    congestion: needs.congestion,
                    service_class: false,
                }),
                program: if everything { &[] } else { &room.program.bytecode },
                choice: self.choice,
                netns: room.netns,
            };
            let matches_all = room.filter.is_empty();
            let answer = list(&question, &mut |socket, judged| {
                let owners = owners.map(|owners| socket.inode.map_or(&[][..], |inode| owners.of(inode)));
                let entry = Entry { socket, owners };
                // The kernel knows better than we do (which port was chosen by it, for one).
                let decided = judged == Judged::ByKernel && room.program.exact;
                let matches = matches_all || decided || room.filter.matches(&entry);
                if matches || everything {
                    take(&entry, matches)
                } else {
                    ControlFlow::Continue(())
                }
            });
            let answer = match answer {
                Ok(answer) => answer,
                // One namespace of many that cannot be entered is a gap, not the end.
                Err(sockeye_source::Error::Namespace(..)) if self.rooms.len() > 1 => {
                    told.losses.unreadable_namespaces += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            told.losses += answer.losses;
            for used in answer.used {
                if !told.used.contains(&used) {
                    told.used.push(used);
                }
            }
            if answer.stopped {
                break;
            }
        }
        Ok(())
    }

    /// What was said, with what was lost before the listing began.
    pub(crate) fn begin(&self) -> Told {
        Told {
            losses: self.lookup.found_losses,
            ..Told::default()
        }
    }

    /// Says on stderr what has to be said.
    pub(crate) fn report(&self, told: &Told, verbose: bool) {
        notes::sources(&told.used, verbose);
        notes::losses(&told.losses, self.owners_wanted, self.lookup.places.are_many());
        let needs = self.filter().needs();
        if needs.mark && !self.sees_marks {
            notes::say(
                "sockeye: marks are told to CAP_NET_ADMIN only, so that a test of them is false: run as root, or grant it\n",
            );
        }
        let by_procfs = told.used.iter().any(|used| used.rung == Some(Rung::Procfs));
        if by_procfs && (needs.tcp_info || needs.memory || needs.congestion || needs.cgroup || needs.mark) {
            notes::say(
                "sockeye: /proc/net does not tell all that the filter asks for: tests of what is not known are false\n",
            );
        }
        if told.processes_hidden {
            notes::say(
                "sockeye: /proc hides the processes of others (hidepid): owners may be missing; run as root\n",
            );
        }
    }
}

/// Whether a filter asks where sockets are.
pub(crate) fn names_netns(filter: &[String]) -> bool {
    filter.iter().any(|word| word.contains("netns"))
}

/// Whether we have CAP_NET_ADMIN.
fn may_see_marks() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_ADMIN))
}

/// What ends a JSON document.
pub(crate) fn sources(told: &Told) -> Vec<(&'static str, &'static str)> {
    told.used
        .iter()
        .map(|used| (used.what, used.rung.map_or("none", |rung| rung.name())))
        .collect()
}

/// A summary over `sources`, as renderers take it.
pub(crate) fn summary<'a>(told: &Told, sources: &'a [(&'static str, &'static str)]) -> Summary<'a> {
    Summary {
        losses: told.losses,
        sources,
        ..Summary::default()
    }
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Table => Self::Table,
            FormatArg::Json => Self::Json,
            FormatArg::Jsonl => Self::Jsonl,
            FormatArg::Csv => Self::Csv,
        }
    }
}
