//! The namespaces to list, and the filter as resolved in each.

use crate::context::QueryContext;
use crate::namespaces::Namespace;
use sockeye_console::usage::UsageError;
use sockeye_filter::{Bounds, Filter, KernelFeatures, Prefix128, Program, join_words, parse_words};
use sockeye_model::{NetnsInode, Socket};
use sockeye_source::{End, Ends};
use sockeye_sys::proc_mount;
use std::ops::RangeInclusive;

/// Namespaces to list, at least one, in the order of their inodes.
#[derive(Debug)]
pub struct NetnsTargets<'a> {
    /// The resolved filters: one, unless the filter names interfaces or ephemeral ports.
    filters: Vec<ResolvedFilter>,
    /// Whether the filter differs between namespaces.
    differs: bool,
    /// Whether sockets of every target may match, so that the target of a socket need not be found.
    all_may_match: bool,
    targets: Vec<NetnsTarget<'a>>,
}

/// A namespace to list.
#[derive(Debug)]
pub struct NetnsTarget<'a> {
    /// The namespace; `None`: our own.
    pub netns: Option<&'a Namespace>,
    /// Index of its resolved filter.
    filter: usize,
    /// Whether its sockets may match: with `netns = web1`, those of few namespaces do.
    pub may_match: bool,
}

/// The filter as resolved in a namespace: `dev eth0` has another number in each.
#[derive(Debug)]
pub struct ResolvedFilter {
    /// The filter, with names resolved.
    pub filter: Filter,
    /// The part of the filter that the kernel decides.
    pub program: Program,
    /// Bounds of the addresses and ports of sockets that match.
    pub ends: Ends,
}

impl<'a> NetnsTargets<'a> {
    /// Parses the filter in `words`, combined with the filter `and`: once, or for each namespace if it differs.
    pub fn new(
        context: &'a QueryContext,
        words: &[String],
        and: Option<&str>,
        kernel: KernelFeatures,
    ) -> anyhow::Result<Self> {
        let (mut all, mut parse_error) = (
            Self {
                filters: Vec::new(),
                differs: false,
                all_may_match: false,
                targets: Vec::new(),
            },
            None,
        );
        for netns in context.namespaces.iter() {
            if all.filters.is_empty() || all.differs {
                let resolver = context.resolver(netns);
                let parsed = parse_words(words, &resolver).and_then(|filter| match and {
                    Some(and) => Ok(filter.and(sockeye_filter::parse(and, &resolver)?)),
                    None => Ok(filter),
                });
                all.differs |= resolver.depends_on_netns();
                match parsed {
                    Ok(filter) => all.filters.push(ResolvedFilter {
                        program: filter.program(kernel),
                        ends: ends(&filter.bounds()),
                        filter,
                    }),
                    Err(error) => {
                        parse_error = parse_error.or(Some(error));
                        continue;
                    }
                }
            }
            let last = all.filters.len() - 1;
            let filter = &all.filters[last].filter;
            let may_match = netns.is_none_or(|netns| filter.may_match_in(netns.inode()));
            all.targets.push(NetnsTarget {
                netns,
                filter: last,
                may_match,
            });
        }
        // A name that can be resolved in some namespaces only is no error.
        if let (true, Some(error)) = (all.targets.is_empty(), parse_error) {
            let mut text = error.render(&join_words(words));
            let needs_proc = |word: &String| word.contains("cgroup") || word.contains("netns");
            if let Some(problem) = proc_mount::problem().filter(|_| words.iter().any(needs_proc)) {
                text.push_str(&format!(
                    "sockeye: cgroups and namespaces are not known: {problem}\n"
                ));
            }
            return Err(UsageError(text).into());
        }
        // At least one is listed: an empty listing also reports its sources.
        if let [first, rest @ ..] = &mut all.targets[..]
            && !rest.iter().any(|target| target.may_match)
        {
            first.may_match = true;
        }
        all.all_may_match = all.targets.iter().all(|target| target.may_match);
        Ok(all)
    }

    /// Returns the filter. Only interface numbers in it differ between namespaces.
    pub fn filter(&self) -> &Filter {
        &self.filters[0].filter
    }

    /// Returns the filter if it is the same in all namespaces.
    pub fn common_filter(&self) -> Option<&ResolvedFilter> {
        match &self.filters[..] {
            [only] if !self.differs => Some(only),
            _ => None,
        }
    }

    /// Returns the filter of a target.
    pub fn filter_of(&self, target: &NetnsTarget<'_>) -> &ResolvedFilter {
        &self.filters[target.filter]
    }

    /// Returns the targets with sockets that may match.
    pub fn candidates(&self) -> Vec<&NetnsTarget<'a>> {
        self.targets.iter().filter(|target| target.may_match).collect()
    }

    /// Returns the number of targets.
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// Returns the filter for a socket that no dump of a namespace has listed; `None` if none of its namespace matches.
    pub fn resolved_for(&self, socket: &Socket) -> Option<&ResolvedFilter> {
        match socket.netns {
            Some(netns) => self.filter_in(netns),
            None => self.candidates().first().map(|target| self.filter_of(target)),
        }
    }

    /// Returns the filter for sockets of a namespace; `None` if none of them matches. A namespace that was created after
    /// the listing began has no interface that the filter names.
    pub fn filter_in(&self, netns: NetnsInode) -> Option<&ResolvedFilter> {
        if self.all_may_match && !self.differs {
            return self.common_filter();
        }
        let inode = |target: &NetnsTarget<'_>| target.netns.map(Namespace::inode);
        match self.targets.binary_search_by_key(&Some(netns), inode) {
            Ok(index) => Some(&self.targets[index])
                .filter(|target| target.may_match)
                .map(|target| self.filter_of(target)),
            Err(_) => self.common_filter(),
        }
    }
}

/// Converts the bounds of a filter to those that a source takes.
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
