//! Filters for records that have less of a socket than a listing: events and dropped packets. Which conditions they cannot decide, and
//! which result is open because something is not known of one record.

use crate::Filter;
use crate::expr::{Expr, Test, TextField};
use crate::field::Field;
use crate::filter::evaluate;
use sockeye_model::Entry;

/// A condition of a filter that a source of records cannot decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecidable {
    /// Its word, as [`crate::words::conditions`] has it; of an address of another family than IP the family.
    pub word: &'static str,
    /// The condition in its canonical form.
    pub text: String,
}

impl Filter {
    /// Returns the first condition whose word a source of records does not know, wherever it stands in the expression.
    #[must_use]
    pub fn first_unknown(&self, knows: &dyn Fn(&str) -> bool) -> Option<Undecidable> {
        let mut found = None;
        self.expr().visit(&mut |test| {
            let word = test.word();
            if found.is_none() && !knows(word) {
                let text = test.to_string();
                found = Some(Undecidable { word, text });
            }
        });
        found
    }

    /// Whether the expression has a condition with a word for which `is_it` holds.
    #[must_use]
    pub fn has_word(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        let mut has = false;
        self.expr().visit(&mut |test| has |= is_it(test.word()));
        has
    }

    /// As [`Filter::matches`], but `None` if it depends on a word that the source does not know, or on a process of which something is unknown:
    /// that no process, no process group or no workload is there means that it could not be read.
    #[must_use]
    pub fn decide(&self, entry: &Entry<'_>, knows: &dyn Fn(&str) -> bool) -> Option<bool> {
        if self
            .confined_to
            .is_some_and(|family| family != entry.socket.family)
        {
            return Some(false);
        }
        evaluate(self.expr(), &|test| {
            knows(test.word()).then(|| test.decide(entry))?
        })
    }

    /// Returns which conditions hold for a listed socket, for [`Self::matches_packet`]. At most [`Self::CONDITIONS_MAX`] are kept apart.
    #[must_use]
    pub fn conditions_of(&self, entry: &Entry<'_>) -> SocketConditions {
        let mut conditions = SocketConditions { holds: 0, count: 0 };
        self.expr().visit(&mut |test| {
            if conditions.count < Self::CONDITIONS_MAX {
                conditions.holds |= u64::from(test.matches(entry)) << conditions.count;
                conditions.count += 1;
            }
        });
        conditions
    }

    /// Whether a packet matches with either of its ends as the source, as by [`Self::matches_either_way`]; `None` if that is unknown.
    ///
    /// `there` and `back` are what the packet itself shows, which decides the conditions with a word for which `is_of_packet` holds. All
    /// others are those of its `socket`, as a listing had it; `Err(false)`: the packet has none, so that they are absent; `Err(true)`: it
    /// has one, of which nothing else is known than `there` and `back` have.
    #[must_use]
    pub fn matches_packet(
        &self,
        there: &Entry<'_>,
        back: &Entry<'_>,
        socket: Result<SocketConditions, bool>,
        is_of_packet: &dyn Fn(&str) -> bool,
    ) -> Option<bool> {
        if self
            .confined_to
            .is_some_and(|family| family != there.socket.family)
        {
            return Some(false);
        }
        let mut number = 0;
        let numbered = Numbered::of(self.expr(), &mut number);
        let one_way = |there: &Entry<'_>, back: &Entry<'_>| {
            numbered.holds(there, back, &|test, number, entry| {
                if is_of_packet(test.word()) {
                    return Some(test.matches(entry));
                }
                match socket {
                    Ok(conditions) => conditions.of(number),
                    Err(false) => Some(test.matches(entry)),
                    Err(true) => test.decide_by_owner(entry),
                }
            })
        };
        match (one_way(there, back), one_way(back, there)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    /// The most conditions that [`Self::conditions_of`] keeps apart.
    pub const CONDITIONS_MAX: usize = 64;

    /// Returns the number of conditions.
    #[must_use]
    pub fn conditions(&self) -> usize {
        let mut count = 0;
        self.expr().visit(&mut |_| count += 1);
        count
    }
}

/// Which conditions of a filter hold for a socket, in the order of the expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketConditions {
    holds: u64,
    count: usize,
}

impl SocketConditions {
    fn of(self, number: usize) -> Option<bool> {
        (number < self.count).then(|| self.holds >> number & 1 == 1)
    }
}

/// An expression whose conditions have their numbers.
enum Numbered<'a> {
    All,
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Test(&'a Test, usize),
}

impl<'a> Numbered<'a> {
    fn of(expr: &'a Expr, next: &mut usize) -> Self {
        let mut each = |all: &'a [Expr]| all.iter().map(|one| Self::of(one, next)).collect();
        match expr {
            Expr::All => Self::All,
            Expr::And(all) => Self::And(each(all)),
            Expr::Or(any) => Self::Or(each(any)),
            Expr::Not(inner) => Self::Not(Box::new(Self::of(inner, next))),
            Expr::Test(test) => {
                *next += 1;
                Self::Test(test, *next - 1)
            }
        }
    }

    /// A negated part must hold in neither direction.
    fn holds(
        &self,
        there: &Entry<'_>,
        back: &Entry<'_>,
        decide: &dyn Fn(&Test, usize, &Entry<'_>) -> Option<bool>,
    ) -> Option<bool> {
        let any = |inner: &[Self], decisive: bool| {
            let mut answer = Some(!decisive);
            for inner in inner {
                match inner.holds(there, back, decide) {
                    Some(value) if value == decisive => return Some(decisive),
                    Some(_) => {}
                    None => answer = None,
                }
            }
            answer
        };
        match self {
            Self::All => Some(true),
            Self::And(all) => any(all, false),
            Self::Or(several) => any(several, true),
            Self::Not(inner) => match (inner.holds(there, back, decide), inner.holds(back, there, decide)) {
                (Some(true), _) | (_, Some(true)) => Some(false),
                (Some(false), Some(false)) => Some(true),
                _ => None,
            },
            Self::Test(test, number) => decide(test, *number, there),
        }
    }
}

impl Test {
    /// Returns the word that begins it, without aliases.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Port(side, _) => side.port_word(),
            Self::Host(host) => host.side.host_word(),
            Self::Unix { .. } => "unix",
            Self::Netlink { .. } => "netlink",
            Self::Packet { .. } => "link",
            Self::Vsock { .. } => "vsock",
            Self::Autobound(_) => "autobound",
            Self::Device(_) => "dev",
            Self::Fwmark { .. } => "fwmark",
            Self::Cgroup { .. } => "cgroup",
            Self::Number(field, ..) => field.name(),
            Self::Text { field, .. } => match field {
                TextField::Owner => "owner",
                TextField::Congestion => "congestion",
                TextField::Ulp => "ulp",
                TextField::Workload(kind) => kind.name(),
            },
            Self::Timer(_) => "timer",
            Self::Protocol(_) => "proto",
            Self::Family(_) => "family",
            Self::Peers(_) => "peers",
        }
    }

    /// Whether it holds; `None` if what it tests of processes is not there.
    fn decide(&self, entry: &Entry<'_>) -> Option<bool> {
        if let Self::Text {
            field: TextField::Workload(kind),
            ..
        } = self
        {
            let mut is_known = false;
            entry.visit_workloads(*kind, &mut |_| is_known = true);
            return is_known.then(|| self.matches(entry));
        }
        match self {
            Self::Number(Field::Pid | Field::Pgid, ..)
            | Self::Text {
                field: TextField::Owner,
                ..
            } => self.decide_by_owner(entry),
            _ => Some(self.matches(entry)),
        }
    }

    /// Whether it holds, if it is about owners that are known, or about what else is known of a socket that no listing has.
    fn decide_by_owner(&self, entry: &Entry<'_>) -> Option<bool> {
        let owners = entry.owners.unwrap_or_default();
        let is_known = match self {
            Self::Number(Field::Pid, ..)
            | Self::Text {
                field: TextField::Owner,
                ..
            } => !owners.is_empty(),
            Self::Number(Field::Pgid, ..) => {
                !owners.is_empty() && owners.iter().all(|owner| owner.process.pgid.is_some())
            }
            Self::Number(Field::Uid, ..) => entry.socket.uid.is_some(),
            Self::Number(Field::Inode, ..) => entry.socket.inode.is_some(),
            Self::State(_) => true,
            _ => false,
        };
        is_known.then(|| self.matches(entry))
    }
}
