//! What `flows` and `sockets` have in common: the filter, the question, the owners, the summary.

use crate::args::{Common, FormatArg, SourceArg};
use crate::lookup::Lookup;
use crate::notes;
use crate::places::Places;
use sockeye_filter::{Filter, Kernel, Program, join_words, parse_words};
use sockeye_model::{Entry, Losses, Socket, StateSet};
use sockeye_render::{Format, Summary, UnknownColumn};
use sockeye_source::owners::{Owners, ScanOptions};
use sockeye_source::{Choice, Detail, Families, Place, ProtocolSet, Question, Used, list};
use std::fmt;
use std::ops::ControlFlow;

/// A mistake on the command line, with the text that explains it.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for Usage {}

/// There are far too many columns to list them where one was mistyped.
pub(crate) fn unknown_column(option: &str, command: &str, error: UnknownColumn) -> Usage {
    let UnknownColumn { name, nearest, .. } = error;
    let guess = nearest.map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"));
    Usage(format!(
        "sockeye: {option}: unknown column '{name}'{guess}\n`sockeye {command} --columns help` lists all columns.\n"
    ))
}

/// A listing as it was asked for, ready to be taken once or again and again.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) filter: Filter,
    program: Program,
    places: Places,
    families: Families,
    choice: Choice,
    owners_wanted: bool,
    /// What was lost while the places were sought.
    found_losses: Losses,
}

/// What was said beside the sockets.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) losses: Losses,
    pub(crate) used: Vec<Used>,
}

impl Listing {
    pub(crate) fn new(common: &Common, filter: Filter) -> anyhow::Result<Self> {
        let mut found_losses = Losses::default();
        let places = Places::find(common.netns.as_deref(), &mut found_losses)?;
        let families = match (common.ipv4, common.ipv6) {
            (true, false) => Families { v4: true, v6: false },
            (false, true) => Families { v4: false, v6: true },
            _ => Families::BOTH,
        };
        let choice = match common.source {
            SourceArg::Auto => Choice::Auto,
            SourceArg::Diag => Choice::Diag,
            SourceArg::DiagV2 => Choice::DiagV2,
            SourceArg::Procfs => Choice::Procfs,
        };
        let program = filter.program(if may_see_marks() {
            Kernel::FULL
        } else {
            Kernel::UNPRIVILEGED
        });
        let owners_wanted = common.processes || filter.needs().owners;
        Ok(Self {
            filter,
            program,
            places,
            families,
            choice,
            owners_wanted,
            found_losses,
        })
    }

    /// Where it looks.
    pub(crate) const fn places(&self) -> &Places {
        &self.places
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
        told.losses += owners.losses();
        Ok(Some(owners))
    }

    /// Hands every matching socket of every place to `take`, which may break off.
    pub(crate) fn run(
        &self,
        protocols: ProtocolSet,
        states: StateSet,
        detail: Detail,
        owners: Option<&Owners>,
        told: &mut Told,
        take: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let needs = self.filter.needs();
        let detail = detail.or(Detail {
            tcp_info: needs.tcp_info,
            memory: needs.memory,
            congestion: needs.congestion,
            service_class: false,
        });
        let matches_all = self.filter.is_empty();
        let question = |netns| Question {
            protocols,
            families: self.families,
            states,
            detail,
            program: &self.program.bytecode,
            choice: self.choice,
            netns,
        };
        self.each_place(question, told, &mut |socket| {
            let owners = owners.map(|owners| socket.inode.map_or(&[][..], |inode| owners.of(inode)));
            let entry = Entry { socket, owners };
            if matches_all || self.filter.matches(&entry) {
                take(&entry)
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Hands every socket of every place to `take`, whether it matches the filter or not, with nothing but
    /// what every source tells.
    pub(crate) fn run_unfiltered(
        &self,
        protocols: ProtocolSet,
        states: StateSet,
        told: &mut Told,
        take: &mut dyn FnMut(&Socket),
    ) -> anyhow::Result<()> {
        let question = |netns| Question {
            protocols,
            families: Families::BOTH,
            states,
            detail: Detail::default(),
            program: &[],
            choice: self.choice,
            netns,
        };
        self.each_place(question, told, &mut |socket| {
            take(socket);
            ControlFlow::Continue(())
        })
    }

    /// Asks in every place.
    fn each_place<'a>(
        &'a self,
        question: impl Fn(Option<Place<'a>>) -> Question<'a>,
        told: &mut Told,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        for netns in self.places.iter() {
            let answer = match list(&question(netns), take) {
                Ok(answer) => answer,
                // One namespace of many that cannot be entered is a gap, not the end.
                Err(sockeye_source::Error::Namespace(..)) if self.places.are_many() => {
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
            losses: self.found_losses,
            used: Vec::new(),
        }
    }

    /// Says on stderr what has to be said.
    pub(crate) fn report(&self, told: &Told, verbose: bool) {
        notes::sources(&told.used, verbose);
        notes::losses(&told.losses, self.owners_wanted, self.places.are_many());
    }
}

/// Whether the kernel runs programs for us that look at marks.
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

/// The filter in `words`.
pub(crate) fn filter(words: &[String], names: &Lookup) -> anyhow::Result<Filter> {
    parse_words(words, names).map_err(|error| Usage(error.render(&join_words(words))).into())
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
