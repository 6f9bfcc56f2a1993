//! The namespaces to look into, and what the filter means in each.

use crate::lookup::Lookup;
use crate::places::Namespace;
use sockeye_console::usage::Usage;
use sockeye_filter::{Bounds, Filter, KernelFeatures, Prefix128, Program, join_words, parse_words};
use sockeye_model::NetnsInode;
use sockeye_source::{End, Ends};
use std::ops::RangeInclusive;

/// At least one room.
#[derive(Debug)]
pub struct Rooms<'a> {
    /// What the filter means: one thing, unless it names interfaces.
    meanings: Vec<Meaning>,
    /// Whether it may mean another thing in a place that is not among the rooms.
    differs: bool,
    /// Whether something may match in each room, so that none need be looked up.
    all_may_match: bool,
    rooms: Vec<Room<'a>>,
}

/// One namespace.
#[derive(Debug)]
pub struct Room<'a> {
    /// The namespace; `None`: our own.
    pub netns: Option<&'a Namespace>,
    meaning: usize,
    /// Whether the filter lets anything through here: `netns = web1` does in few.
    pub may_match: bool,
}

/// The filter as it is meant in one place: `dev eth0` is another number in each.
#[derive(Debug)]
pub struct Meaning {
    /// The filter, with names resolved in this namespace.
    pub filter: Filter,
    /// The part of the filter that the kernel decides.
    pub program: Program,
    /// Where the ends of those that match are, at the least.
    pub ends: Ends,
}

impl<'a> Rooms<'a> {
    /// Parses the filter in `words`, and `also` holds beside it; once for all places, or if it has to be, once for each.
    pub fn new(
        lookup: &'a Lookup,
        words: &[String],
        also: Option<&str>,
        kernel: KernelFeatures,
    ) -> anyhow::Result<Self> {
        let (mut all, mut mistake) = (
            Self {
                meanings: Vec::new(),
                differs: false,
                all_may_match: false,
                rooms: Vec::new(),
            },
            None,
        );
        for netns in lookup.places.iter() {
            if all.meanings.is_empty() || all.differs {
                let resolver = lookup.inside(netns);
                let parsed = parse_words(words, &resolver).and_then(|filter| match also {
                    Some(also) => Ok(filter.and(sockeye_filter::parse(also, &resolver)?)),
                    None => Ok(filter),
                });
                all.differs |= resolver.looked_around();
                match parsed {
                    Ok(filter) => all.meanings.push(Meaning {
                        program: filter.program(kernel),
                        ends: ends(&filter.bounds()),
                        filter,
                    }),
                    Err(error) => {
                        mistake = mistake.or(Some(error));
                        continue;
                    }
                }
            }
            let meaning = all.meanings.len() - 1;
            let filter = &all.meanings[meaning].filter;
            let may_match = netns.is_none_or(|netns| filter.may_match_in(netns.inode()));
            all.rooms.push(Room {
                netns,
                meaning,
                may_match,
            });
        }
        // An interface that only some namespaces have is no mistake.
        if let (true, Some(mistake)) = (all.rooms.is_empty(), mistake) {
            return Err(Usage(mistake.render(&join_words(words))).into());
        }
        // Also of nothing it has to be told who says so.
        if let [first, rest @ ..] = &mut all.rooms[..]
            && !rest.iter().any(|room| room.may_match)
        {
            first.may_match = true;
        }
        all.all_may_match = all.rooms.iter().all(|room| room.may_match);
        Ok(all)
    }

    /// The filter. It differs between namespaces by numbers of interfaces only.
    pub fn filter(&self) -> &Filter {
        &self.meanings[0].filter
    }

    /// What it means everywhere, if that is one thing.
    pub fn common_meaning(&self) -> Option<&Meaning> {
        match &self.meanings[..] {
            [only] if !self.differs => Some(only),
            _ => None,
        }
    }

    /// Returns the meaning of the filter in a namespace.
    pub fn meaning(&self, room: &Room<'_>) -> &Meaning {
        &self.meanings[room.meaning]
    }

    /// The rooms where anything can match.
    pub fn worth_a_look(&self) -> Vec<&Room<'a>> {
        self.rooms.iter().filter(|room| room.may_match).collect()
    }

    /// How many rooms there are.
    pub fn count(&self) -> usize {
        self.rooms.len()
    }

    /// What the filter means for a socket of this namespace; `None`: nothing that is there is wanted. A namespace that
    /// nobody knew of when the listing began has no interfaces that could have been named.
    pub fn meaning_in(&self, netns: NetnsInode) -> Option<&Meaning> {
        if self.all_may_match && !self.differs {
            return self.common_meaning();
        }
        let inode = |room: &Room<'_>| room.netns.map(Namespace::inode);
        match self.rooms.binary_search_by_key(&Some(netns), inode) {
            Ok(place) => Some(&self.rooms[place])
                .filter(|room| room.may_match)
                .map(|room| self.meaning(room)),
            Err(_) => self.common_meaning(),
        }
    }
}

/// As a source takes it.
pub fn ends(bounds: &Bounds) -> Ends {
    let end = |ports: &RangeInclusive<u16>, prefix: &Prefix128| End {
        port_min: *ports.start(),
        port_max: *ports.end(),
        prefix: prefix.bits.to_be_bytes(),
        mask: prefix.mask.to_be_bytes(),
    };
    Ends {
        local: end(&bounds.local_port, &bounds.local),
        peer: end(&bounds.peer_port, &bounds.peer),
    }
}
