//! Filter expressions about network namespaces, for `sockeye ns list`.
//!
//! ```
//! use sockeye_filter::netns::parse;
//! use sockeye_model::{Namespace, NetnsInode, NetnsName};
//!
//! let filter = parse("name ~ web* and ( pids = 0 or sockets > 100 )").unwrap();
//! let mut namespace = Namespace::new(NetnsInode(4_026_532_177));
//! namespace.names.push(NetnsName::new("web1").unwrap());
//! assert!(!filter.matches(&namespace)); // its processes were not counted
//! namespace.processes = Some(0);
//! assert!(filter.matches(&namespace));
//! ```
//!
//! Conditions are joined as in filters about sockets, from left to right:
//!
//! | word | |
//! |---|---|
//! | `name` | any of its names; without a name its label in listings: its container, `1234/nginx` |
//! | `container` | its container |
//! | `inode` `id` | numbers; `id` is that of `ip netns set` |
//! | `pids` (or `processes`) `threads` `sockets` `interfaces` | counts |
//! | `age` | a time: `10m` `2h` `3d` |
//! | `leaked` | it has no process |
//! | `named` | it has a name |
//! | `own` | it is our own |
//!
//! Names allow `=` `!=` `~` `!~`, numbers all six comparisons. An absent value matches no condition, not even `!=`.

mod parse;

pub use parse::{parse, words};

use crate::eval::text_matches;
use crate::expr::Compare;
use sockeye_model::Namespace;

/// A parsed expression about namespaces. The default one matches everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    expr: Option<Expr>,
}

/// The details that a filter needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The containers of namespaces, including those with names.
    pub containers: bool,
}

/// An expression, evaluated from left to right.
#[derive(Debug, Clone, PartialEq)]
enum Expr {
    List(Box<Self>, Vec<(Connective, Self)>),
    Not(Box<Self>),
    Test(Test),
}

/// The connective between a condition and everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connective {
    And,
    Or,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Text {
        field: TextField,
        negated: bool,
        /// Whether the value is a pattern
        like: bool,
        value: Box<str>,
    },
    Number(NumberField, Compare, u64),
    Leaked,
    Named,
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextField {
    Name,
    Container,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberField {
    Inode,
    Id,
    Processes,
    Threads,
    Sockets,
    Interfaces,
    /// In microseconds
    Age,
}

impl Filter {
    /// Whether the namespace matches.
    #[must_use]
    pub fn matches(&self, namespace: &Namespace) -> bool {
        self.expr.as_ref().is_none_or(|expr| expr.matches(namespace))
    }

    /// Whether it matches everything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expr.is_none()
    }

    /// Returns the details that it needs.
    #[must_use]
    pub fn needs(&self) -> Needs {
        Needs {
            containers: self.expr.as_ref().is_some_and(Expr::names_containers),
        }
    }
}

impl Expr {
    fn matches(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Test(test) => test.matches(namespace),
            Self::Not(inner) => !inner.matches(namespace),
            Self::List(first, rest) => rest.iter().fold(
                first.matches(namespace),
                |so_far, (connective, next)| match connective {
                    Connective::And => so_far && next.matches(namespace),
                    Connective::Or => so_far || next.matches(namespace),
                },
            ),
        }
    }

    fn names_containers(&self) -> bool {
        match self {
            Self::Test(test) => matches!(
                test,
                Test::Text {
                    field: TextField::Container,
                    ..
                }
            ),
            Self::Not(inner) => inner.names_containers(),
            Self::List(first, rest) => {
                first.names_containers() || rest.iter().any(|(_, next)| next.names_containers())
            }
        }
    }
}

impl Test {
    fn matches(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Leaked => namespace.is_leaked() == Some(true),
            Self::Named => !namespace.names.is_empty(),
            Self::Own => namespace.is_own,
            Self::Number(field, compare, expected) => field
                .of(namespace)
                .is_some_and(|value| compare.holds(value, *expected)),
            Self::Text {
                field,
                negated,
                like,
                value,
            } => {
                let is_it = |text: &[u8]| text_matches(text, value.as_bytes(), *like, usize::MAX);
                let label_matches = |text: &Option<Box<str>>| {
                    text.as_ref()
                        .is_some_and(|text| is_it(text.as_bytes()) != *negated)
                };
                match field {
                    TextField::Container => label_matches(&namespace.container),
                    TextField::Name if namespace.names.is_empty() => label_matches(&namespace.label),
                    TextField::Name => {
                        let mut names = namespace.names.iter();
                        names.any(|name| is_it(name.as_os_str().as_encoded_bytes())) != *negated
                    }
                }
            }
        }
    }
}

impl NumberField {
    fn of(self, namespace: &Namespace) -> Option<u64> {
        match self {
            Self::Inode => Some(namespace.inode.0.into()),
            Self::Id => namespace.id.and_then(|id| u64::try_from(id).ok()),
            Self::Processes => namespace.processes.map(u64::from),
            Self::Threads => namespace.threads.map(u64::from),
            Self::Sockets => namespace.sockets,
            Self::Interfaces => namespace.interfaces.map(u64::from),
            Self::Age => namespace.age.map(|age| age.seconds.saturating_mul(1_000_000)),
        }
    }
}

#[cfg(test)]
mod tests;
