//! Public face of a parsed expression: `query` and the drop-ins ask it what to request from the kernel,
//! and call `matches` for each socket. `matches` must not allocate; names are resolved before, in the parser.

use crate::expr::{Expr, Test, TextField};
use crate::field::Field;
use crate::needs::Needs;
use crate::program::{KernelFeatures, Program};
use crate::{Bounds, bounds, compile};
use sockeye_model::{Entry, Family, NetnsInode, Protocol, StateSet, WorkloadKind};

/// A parsed expression. The default one matches everything.
///
/// Its display form is an expression in a canonical form, which parses to an equal filter. It keeps control
/// characters in names: escape them before they reach a terminal.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    expr: Expr,
    /// The family that all host conditions with a family name: as in `ss`, the listing is restricted to
    /// it. If they name different ones (for which `ss` documents that results "will probably be unexpected"),
    /// each family applies to its own condition.
    pub(crate) confined_to: Option<Family>,
    states: Option<StateSet>,
    needs: Needs,
}

impl Filter {
    pub(crate) fn new(expr: Expr) -> Self {
        let mut families = Vec::new();
        let mut needs = Needs::default();
        let mut names_states = false;
        expr.visit(&mut |test| {
            names_states |= matches!(test, Test::State(_));
            needs = needs.or(test.needs());
            families.extend(test.named_family().filter(|family| !families.contains(family)));
        });
        Self {
            confined_to: match families[..] {
                [family] => Some(family),
                _ => None,
            },
            states: names_states.then(|| possible_states(&expr, true)),
            needs,
            expr,
        }
    }

    /// Whether the expression is empty, so that it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expr == Expr::All
    }

    /// Whether the socket matches. Does not allocate.
    ///
    /// See the [crate] for absent values (`None`).
    #[must_use]
    #[inline]
    pub fn matches(&self, entry: &Entry<'_>) -> bool {
        self.confined_to
            .is_none_or(|family| family == entry.socket.family)
            && self.expr.matches(entry)
    }

    /// Returns the states to request: all that a matching socket can be in. `None`: the expression names no state,
    /// so the default of the caller applies.
    #[must_use]
    pub const fn states(&self) -> Option<StateSet> {
        self.states
    }

    /// Returns the other details to request.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether addresses, ports, protocol, family and network namespace alone decide what matches: a packet shows these, and all else
    /// only a socket has.
    #[must_use]
    pub fn is_decided_by_packets(&self) -> bool {
        let mut is_decided = true;
        self.expr
            .visit(&mut |test| is_decided &= test.is_decided_by_packets());
        is_decided
    }

    /// Compiles the part that the kernel can evaluate.
    ///
    /// The program accepts every socket that [`Filter::matches`] accepts, with one exception: see
    /// [`Needs::kernel_only`]. It works for both address families at once.
    #[must_use]
    pub fn program(&self, kernel: KernelFeatures) -> Program {
        compile::compile(&self.expr, self.confined_to, kernel)
    }

    /// Returns bounds on families, ports, addresses and namespaces of matching IP sockets, for a source that
    /// can skip all others but cannot run [`Filter::program`].
    ///
    /// Every IP socket that [`Filter::matches`] accepts is within them, whatever its protocol. Conditions on
    /// anything else do not narrow them and make them inexact, except states that apply to the whole
    /// expression: requesting [`Filter::states`] tests those. `autobound` becomes its range of ports and is never
    /// exact, because only the kernel knows whether it chose a port.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        bounds::bounds(&self.expr, self.confined_to)
    }

    /// Whether a socket of this protocol can match; if not, the protocol need not be dumped.
    #[must_use]
    pub fn may_match(&self, protocol: Protocol) -> bool {
        let confined = self
            .confined_to
            .map_or(Some(true), |family| family_of(protocol, family));
        confined != Some(false) && evaluate(&self.expr, &|test| test.of_protocol(protocol)) != Some(false)
    }

    /// Whether a socket in this network namespace can match; if not, the namespace need not be entered.
    #[must_use]
    pub fn may_match_in(&self, netns: NetnsInode) -> bool {
        let of_netns = |test: &Test| match test {
            Test::Number(Field::Netns, compare, expected) => Some(compare.holds(netns.0.into(), *expected)),
            _ => None,
        };
        evaluate(&self.expr, &of_netns) != Some(false)
    }

    /// Returns a filter that matches what both match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.expr == Expr::All, other.expr == Expr::All) {
            (true, _) => return other,
            (_, true) => return self,
            _ => {}
        }
        let confinements = [self.confined_to, other.confined_to];
        let mut expr = self.expr.and(other.expr);
        let both = Self::new(expr.clone());
        // Each side keeps its restriction to a family, also if the other names another one.
        for family in confinements.into_iter().flatten() {
            if both.confined_to != Some(family) {
                expr = Expr::Test(Test::Family(family)).and(expr);
            }
        }
        Self::new(expr)
    }

    pub(crate) const fn expr(&self) -> &Expr {
        &self.expr
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::new(Expr::All)
    }
}

impl Test {
    fn needs(&self) -> Needs {
        let none = Needs::default();
        match self {
            Self::Number(field, ..) => field.needs(),
            Self::Text { field, .. } => match field {
                TextField::Owner => Needs { owners: true, ..none },
                TextField::Congestion => Needs {
                    congestion: true,
                    ..none
                },
                TextField::Ulp => Needs {
                    tcp_info: true,
                    ..none
                },
                // Only a process has an executable; the others may be known by the socket.
                TextField::Workload(kind) => Needs {
                    workloads: true,
                    owners: *kind == WorkloadKind::Exe,
                    ..none
                },
            },
            Self::Fwmark { .. } => Needs { mark: true, ..none },
            Self::Cgroup { .. } => Needs { cgroup: true, ..none },
            Self::Autobound(_) => Needs {
                kernel_only: true,
                ..none
            },
            _ => none,
        }
    }

    /// Whether a packet shows what it tests.
    const fn is_decided_by_packets(&self) -> bool {
        matches!(
            self,
            Self::Port(..)
                | Self::Host(_)
                | Self::Peers(_)
                | Self::Protocol(_)
                | Self::Family(_)
                | Self::Number(Field::Netns, ..)
        )
    }

    /// Returns the result if the protocol alone determines it.
    fn of_protocol(&self, protocol: Protocol) -> Option<bool> {
        let only_if = |possible: bool| if possible { None } else { Some(false) };
        match self {
            Self::Port(..) | Self::Host(_) | Self::Peers(_) => only_if(protocol.is_inet()),
            Self::Unix { .. } => only_if(protocol.is_unix()),
            Self::Netlink { .. } => only_if(protocol == Protocol::Netlink),
            Self::Packet { .. } => only_if(matches!(protocol, Protocol::PacketRaw | Protocol::PacketDgram)),
            Self::Vsock { .. } => Some(false),
            Self::Protocol(protocols) => Some(protocols.contains(protocol)),
            Self::Family(family) => family_of(protocol, *family),
            _ => None,
        }
    }

    /// Returns the family prefix of a host condition.
    fn named_family(&self) -> Option<Family> {
        match self {
            Self::Host(host) => host.family.map(Family::from),
            Self::Unix { .. } => Some(Family::Unix),
            Self::Netlink { .. } => Some(Family::Netlink),
            Self::Packet { .. } => Some(Family::Packet),
            Self::Vsock { .. } => Some(Family::Unknown(AF_VSOCK)),
            _ => None,
        }
    }
}

/// Returns the states in which a socket can match `expr` (or, if not `positive`, its negation).
fn possible_states(expr: &Expr, positive: bool) -> StateSet {
    let inner = |inner: &[Expr], all: bool| {
        let sets = inner.iter().map(|inner| possible_states(inner, positive));
        if all {
            sets.fold(StateSet::ALL_AND_BOUND, StateSet::and)
        } else {
            sets.fold(StateSet::EMPTY, StateSet::or)
        }
    };
    match expr {
        Expr::All if !positive => StateSet::EMPTY,
        Expr::Not(inner) => possible_states(inner, !positive),
        Expr::And(parts) => inner(parts, positive),
        Expr::Or(parts) => inner(parts, !positive),
        Expr::Test(Test::State(set)) => {
            if positive {
                *set
            } else {
                set.complement()
            }
        }
        Expr::All | Expr::Test(_) => StateSet::ALL_AND_BOUND,
    }
}

/// Evaluates an expression with three-valued conditions; `None` if the result is unknown.
pub(crate) fn evaluate(expr: &Expr, known: &impl Fn(&Test) -> Option<bool>) -> Option<bool> {
    let any = |inner: &[Expr], decisive: bool| {
        let mut answer = Some(!decisive);
        for inner in inner {
            match evaluate(inner, known) {
                Some(value) if value == decisive => return Some(decisive),
                Some(_) => {}
                None => answer = None,
            }
        }
        answer
    };
    match expr {
        Expr::All => Some(true),
        Expr::Not(inner) => evaluate(inner, known).map(|value| !value),
        Expr::And(parts) => any(parts, false),
        Expr::Or(parts) => any(parts, true),
        Expr::Test(test) => known(test),
    }
}

/// Whether sockets of this protocol belong to that family; `None` if only some do.
fn family_of(protocol: Protocol, family: Family) -> Option<bool> {
    match protocol {
        Protocol::Unknown(_) => None,
        Protocol::Netlink => Some(family == Family::Netlink),
        Protocol::PacketRaw | Protocol::PacketDgram => Some(family == Family::Packet),
        protocol if protocol.is_unix() => Some(family == Family::Unix),
        _ if matches!(family, Family::Inet | Family::Inet6) => None,
        _ => Some(false),
    }
}

const AF_VSOCK: u8 = 40;
