//! One pass over the sockets of all places that are looked into.

use crate::listing::{Everywhere, Listing, QueryOptions, Scope, Told};
use crate::rooms::{Meaning, Room};
use sockeye_console::notes::say;
use sockeye_console::progress::Progress;
use sockeye_filter::Filter;
use sockeye_model::{Entry, Inode, NetnsInode, ProtocolSet, Socket};
use sockeye_source::owners::Owners;
use sockeye_source::{
    Choice, Detail, Ends, Error, KernelVerdict, NetnsScope, Query, QueryOutcome, Reason, SourceKind, list,
};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// What is asked, of whom, and who takes the answers.
pub(crate) struct Run<'a> {
    pub listing: &'a Listing<'a>,
    pub ask: &'a QueryOptions,
    pub owners: Option<&'a Owners>,
    pub told: &'a mut Told,
    pub take: &'a mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    pub stopped: bool,
    /// Sockets that were handed out already, of those that a process holds; kept only for who wants the others too.
    pub held: HashSet<(NetnsInode, Inode)>,
}

/// Whether a socket is handed out, and whether it matches.
enum Verdict {
    PassOver,
    Take { matches: bool },
}

/// What another thread tells of a room.
enum News {
    Sockets(Vec<(Socket, bool)>),
    Over(usize, anyhow::Result<Option<QueryOutcome>>),
    /// There was no descriptor left for it: others hold too many at the moment.
    Later(usize),
}

impl Run<'_> {
    /// Lists all places at once, by BPF, and tells which protocols are left to be asked for place by place.
    pub(crate) fn everywhere(&mut self) -> ProtocolSet {
        let (listing, ask, owners) = (self.listing, self.ask, self.owners);
        if !matches!(listing.lookup.choice, Choice::Auto | Choice::Bpf) {
            self.told.everywhere = Some(Everywhere {
                each: Some(Reason::NotSelected),
                held: false,
            });
            return ask.protocols;
        }
        let meaning = listing.rooms.common_meaning();
        let mut query = query(ask, needs(listing.rooms.filter()), ask.protocols, meaning);
        query.choice = listing.lookup.choice;
        query.scope = NetnsScope::All;
        // Only a bytecode program goes by place, and here none runs.
        query.program = &[];
        // Who named a source wants no other.
        let complete = listing.complete && listing.lookup.choice == Choice::Auto;
        let (take, held) = (&mut *self.take, &mut self.held);
        let outcome = list(&listing.lookup.engine, &query, &mut |socket, kernel_verdict| {
            if complete && let (Some(netns), Some(inode)) = (socket.netns, socket.inode) {
                held.insert((netns, inode));
            }
            let Some(meaning) = socket.netns.and_then(|netns| listing.rooms.meaning_in(netns)) else {
                return ControlFlow::Continue(());
            };
            let entry = entry(socket, owners);
            match judge(ask, meaning, &entry, kernel_verdict) {
                Verdict::Take { matches } => take(&entry, matches),
                Verdict::PassOver => ControlFlow::Continue(()),
            }
        });
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                say(&format!("sockeye: not every namespace at once: {error}\n"));
                return ask.protocols;
            }
        };
        let mut left = ProtocolSet::EMPTY;
        let by = |source| outcome.used.iter().any(|used| used.source == Some(source));
        let reason = outcome.used.iter().find_map(|used| used.not_used.first());
        self.told.everywhere = Some(Everywhere {
            each: reason.map(|(_, reason)| reason.clone()),
            held: by(SourceKind::Descriptors) && !complete,
        });
        for used in &outcome.used {
            // What only its descriptor gave away may have others like it that have none.
            let others = complete && used.source == Some(SourceKind::Descriptors);
            if used.source.is_none() || others {
                let protocols = ProtocolSet::from_name(used.what).unwrap_or(ProtocolSet::EMPTY);
                left = left.or(ask.protocols.retain(|one| protocols.contains(one)));
            }
        }
        // Whoever goes from place to place will say what came of the others.
        outcome.used.retain(|used| used.source.is_some());
        self.note(outcome);
        left
    }

    /// One place after the other; sockets are handed out as they come.
    pub(crate) fn one_by_one(&mut self, protocols: ProtocolSet, rooms: &[&Room<'_>]) -> anyhow::Result<()> {
        let (listing, ask, owners) = (self.listing, self.ask, self.owners);
        for room in rooms {
            let (take, held) = (&mut *self.take, &self.held);
            let outcome = list_room(listing, ask, protocols, room, &mut |socket, kernel_verdict| {
                let entry = entry(socket, owners);
                match judge(ask, listing.rooms.meaning(room), &entry, kernel_verdict) {
                    Verdict::Take { matches } if !was_held(held, socket) => take(&entry, matches),
                    _ => ControlFlow::Continue(()),
                }
            })?;
            self.over(room, outcome);
            if self.stopped {
                break;
            }
        }
        Ok(())
    }

    /// Many places at once, by as many threads as there are cores; their sockets are handed out by this one.
    pub(crate) fn side_by_side(&mut self, protocols: ProtocolSet, rooms: &[&Room<'_>]) -> anyhow::Result<()> {
        let (listing, ask, owners) = (self.listing, self.ask, self.owners);
        let held = std::mem::take(&mut self.held);
        let next = AtomicUsize::new(0);
        let over = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut progress = Progress::new("network namespaces", rooms.len());
        thread::scope(|scope| {
            let (tell, news) = mpsc::sync_channel(cores * 4);
            for _ in 0..cores {
                let (tell, next, over, held) = (tell.clone(), &next, &over, &held);
                let work = move || {
                    while !over.load(Ordering::Relaxed) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(room) = rooms.get(place) else { return };
                        let (mut batch, mut told_some) = (Vec::new(), false);
                        let outcome =
                            list_room(listing, ask, protocols, room, &mut |socket, kernel_verdict| {
                                let found = entry(socket, owners);
                                let verdict = judge(ask, listing.rooms.meaning(room), &found, kernel_verdict);
                                if let Verdict::Take { matches } = verdict
                                    && !was_held(held, socket)
                                {
                                    batch.push((socket.clone(), matches));
                                }
                                if batch.len() >= BATCH {
                                    told_some = true;
                                    let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                                    if tell.send(News::Sockets(full)).is_err() {
                                        return ControlFlow::Break(());
                                    }
                                }
                                ControlFlow::Continue(())
                            });
                        let untold = !told_some && batch.is_empty();
                        let news = match outcome {
                            Err(error) if untold && is_for_want_of_descriptors(&error) => News::Later(place),
                            Ok(None) if untold => News::Later(place),
                            outcome => News::Over(place, outcome),
                        };
                        if tell.send(News::Sockets(batch)).is_err() || tell.send(news).is_err() {
                            return;
                        }
                    }
                };
                // Without another thread the first takes all; without any we do what is left ourselves, below.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            drop(tell);
            let mut failure = Ok(());
            let mut later = Vec::new();
            for news in news {
                match news {
                    News::Sockets(batch) => {
                        for (socket, matches) in &batch {
                            if self.stopped || (self.take)(&entry(socket, owners), *matches).is_break() {
                                self.stopped = true;
                                over.store(true, Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                    News::Over(place, Ok(outcome)) => {
                        progress.step();
                        self.over(rooms[place], outcome);
                    }
                    News::Over(_, Err(error)) => {
                        failure = Err(error);
                        over.store(true, Ordering::Relaxed);
                    }
                    News::Later(place) => later.push(place),
                }
            }
            // Whatever nobody took: no thread could be started.
            later.extend(next.load(Ordering::Relaxed).min(rooms.len())..rooms.len());
            if self.stopped {
                later.clear(); // whoever reads has had enough
            }
            failure.map(|()| later)
        })
        .and_then(|later| {
            self.held = held;
            let rooms: Vec<_> = later
                .into_iter()
                .filter_map(|place| rooms.get(place).copied())
                .collect();
            self.one_by_one(protocols, &rooms)
        })
    }

    /// A room is done with; without an outcome it could not be entered.
    fn over(&mut self, room: &Room<'_>, outcome: Option<QueryOutcome>) {
        match (outcome, room.netns) {
            (Some(outcome), _) => self.note(outcome),
            // One listing may go through the rooms twice.
            (None, Some(netns)) => {
                let is_new = self.told.closed.insert(netns.inode());
                self.told.losses.unreadable_namespaces += u64::from(is_new);
            }
            (None, None) => self.told.losses.unreadable_namespaces += 1,
        }
    }

    fn note(&mut self, outcome: QueryOutcome) {
        self.told.losses += outcome.losses;
        self.told.rewalked_chains += outcome.rewalked_chains;
        for used in outcome.used {
            self.told.note(used);
        }
        self.stopped |= outcome.stopped;
    }
}

/// Lists one room. `None`: it is one of many, and cannot be entered.
fn list_room(
    listing: &Listing<'_>,
    ask: &QueryOptions,
    protocols: ProtocolSet,
    room: &Room<'_>,
    take: &mut dyn FnMut(&Socket, KernelVerdict) -> ControlFlow<()>,
) -> anyhow::Result<Option<QueryOutcome>> {
    let lookup = listing.lookup;
    let meaning = listing.rooms.meaning(room);
    let mut query = query(ask, needs(&meaning.filter), protocols, Some(meaning));
    query.choice = lookup.choice;
    let outcome = match room.netns {
        None => list(&lookup.engine, &query, take),
        Some(namespace) => {
            let listed = lookup.places.open(namespace, |place| {
                let query = Query {
                    scope: NetnsScope::One(place),
                    ..query.clone()
                };
                list(&lookup.engine, &query, take)
            });
            match listed {
                Ok(outcome) => outcome,
                // Nobody is in it any more, and nothing can be missing.
                Err(error) if lookup.places.are_many() && error.kind() == ErrorKind::NotFound => {
                    return Ok(Some(QueryOutcome::default()));
                }
                Err(_) if lookup.places.are_many() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    };
    match outcome {
        Ok(outcome) => Ok(Some(outcome)),
        // One namespace of many that cannot be entered is a gap, not the end.
        Err(Error::Namespace(..)) if listing.rooms.count() > 1 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_for_want_of_descriptors(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Error>()
        .is_some_and(Error::lacks_descriptors)
}

fn query<'a>(
    ask: &QueryOptions,
    needs: Detail,
    protocols: ProtocolSet,
    meaning: Option<&'a Meaning>,
) -> Query<'a> {
    let everything = ask.scope == Scope::All;
    let meaning = meaning.filter(|_| !everything);
    Query {
        protocols,
        families: ask.families,
        states: ask.states,
        detail: ask.detail | needs,
        program: meaning.map_or(&[], |meaning| &meaning.program.bytecode),
        ends: meaning.map_or(Ends::ANYWHERE, |meaning| meaning.ends),
        choice: Choice::Auto,
        scope: NetnsScope::Own,
    }
}

/// What has to be known before the filter can be evaluated.
fn needs(filter: &Filter) -> Detail {
    let needs = filter.needs();
    // It may look at anything that costs little.
    let some = !filter.is_empty();
    let cheap = Detail::QUEUES | Detail::TIMER | Detail::INODE | Detail::USER | Detail::OPTIONS;
    cheap.when(some)
        | Detail::AUTOBOUND.when(needs.kernel_only)
        | Detail::TCP_INFO.when(needs.tcp_info)
        | Detail::MEMORY.when(needs.memory)
        | Detail::CONGESTION.when(needs.congestion)
}

fn entry<'a>(socket: &'a Socket, owners: Option<&'a Owners>) -> Entry<'a> {
    let owners = owners.map(|owners| socket.inode.map_or(&[][..], |inode| owners.of(inode)));
    Entry { socket, owners }
}

fn was_held(held: &HashSet<(NetnsInode, Inode)>, socket: &Socket) -> bool {
    let name = socket.netns.zip(socket.inode);
    !held.is_empty() && name.is_some_and(|name| held.contains(&name))
}

fn judge(ask: &QueryOptions, meaning: &Meaning, entry: &Entry<'_>, kernel_verdict: KernelVerdict) -> Verdict {
    // The kernel knows better than we do (which port was chosen by it, for one).
    let decided = kernel_verdict == KernelVerdict::Passed && meaning.program.exact;
    let matches = decided || meaning.filter.is_empty() || meaning.filter.matches(entry);
    if matches || ask.scope == Scope::All {
        Verdict::Take { matches }
    } else {
        Verdict::PassOver
    }
}

/// Sockets that a thread hands over at a time.
const BATCH: usize = 64;
