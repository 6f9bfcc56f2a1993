//! Compiles the part of an expression that the kernel can evaluate to `inet_diag` bytecode.
//!
//! 1. [`lower`](Lowering::lower): negations are pushed down to the conditions; a condition that the kernel cannot evaluate
//!    becomes true, also under a negation, so that the program accepts at least what the expression does.
//! 2. [`Formula::simplify`]: constants are eliminated, which drops the branches that cannot be evaluated.
//! 3. [`emit`]: short-circuit code with forward jumps.
//!
//! Equality of ports is tested by `S_COND` without an address, not by `S_EQ` (Linux 4.16):
//! every kernel has the former, and it is a single operation too.

use crate::expr::{Expr, Host, Net, Ports, Side, Test};
use crate::peers::{
    LOOPBACK_V4, LOOPBACK_V6, PRIVATE_V4, PRIVATE_V6, PeerClass, UNSPECIFIED_V4, UNSPECIFIED_V6,
};
use crate::program::{KernelFeatures, Program};
use sockeye_model::{Family, ProtocolSet};
use sockeye_wire::bytecode::{Assembler, Condition, End, LEN_MAX, Label, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Compiles an expression. `confined_to` is that of [`crate::Filter`].
pub(crate) fn compile(expr: &Expr, confined_to: Option<Family>, kernel: KernelFeatures) -> Program {
    let mut lowering = Lowering { kernel, exact: true };
    let mut all = vec![lowering.family(confined_to)];
    // States that apply to the whole expression are tested by the requested states.
    match expr {
        Expr::Test(Test::State(_)) => {}
        Expr::And(parts) => all.extend(
            parts
                .iter()
                .filter(|part| !matches!(part, Expr::Test(Test::State(_))))
                .map(|part| lowering.lower(part, true)),
        ),
        other => all.push(lowering.lower(other, true)),
    }
    let formula = Formula::And(all).simplify();
    if formula == Formula::Const(true) {
        return Program {
            bytecode: Vec::new(),
            exact: lowering.exact,
        };
    }
    let mut assembler = Assembler::default();
    emit(
        &mut assembler,
        &formula,
        Target::Next,
        Target::Label(Assembler::REJECT),
    );
    match assembler.finish() {
        Some(bytecode) => Program {
            bytecode,
            exact: lowering.exact,
        },
        None => Program::default(), // too long: evaluated by us
    }
}

/// A lowered expression: negations only at conditions.
#[derive(Debug, Clone, PartialEq)]
enum Formula {
    Const(bool),
    /// A condition, and whether it has to hold or not.
    Leaf(Condition, bool),
    And(Vec<Self>),
    Or(Vec<Self>),
}

struct Lowering {
    kernel: KernelFeatures,
    /// Whether no condition was dropped so far.
    exact: bool,
}

impl Lowering {
    fn lower(&mut self, expr: &Expr, positive: bool) -> Formula {
        match (expr, positive) {
            (Expr::All, _) => Formula::Const(positive),
            (Expr::Not(inner), _) => self.lower(inner, !positive),
            (Expr::And(inner), true) | (Expr::Or(inner), false) => {
                Formula::And(inner.iter().map(|inner| self.lower(inner, positive)).collect())
            }
            (Expr::Or(inner), true) | (Expr::And(inner), false) => {
                Formula::Or(inner.iter().map(|inner| self.lower(inner, positive)).collect())
            }
            (Expr::Test(test), _) => match self.test(test) {
                Some(formula) if positive => formula,
                Some(formula) => formula.negate(),
                None => {
                    self.exact = false;
                    Formula::Const(true)
                }
            },
        }
    }

    /// Lowers a condition for TCP, UDP or RAW sockets; `None` if the kernel cannot evaluate it.
    fn test(&self, test: &Test) -> Option<Formula> {
        let leaf = |condition| Some(Formula::Leaf(condition, true));
        match test {
            Test::Port(side, ports) => Some(port(side.end(), *ports)),
            Test::Host(host) => Some(self.host(host)),
            Test::Autobound(ports) => Some(Formula::And(vec![
                port(End::Source, *ports),
                Formula::Leaf(Condition::Auto, true),
            ])),
            Test::Device(index) if self.kernel.device_condition => leaf(Condition::Device(*index)),
            Test::Fwmark { mark, mask } if self.kernel.net_admin => leaf(Condition::Mark {
                mark: *mark,
                mask: *mask,
            }),
            Test::Cgroup { id, .. } if self.kernel.cgroup_condition => leaf(Condition::Cgroup(id.0)),
            Test::Family(family) => Some(self.family(Some(*family))),
            Test::Peers(classes) => Some(peers(*classes)),
            Test::Unix { .. } | Test::Netlink { .. } | Test::Packet { .. } | Test::Vsock { .. } => {
                Some(Formula::Const(false))
            }
            // The protocol of the dump is not known here.
            Test::Protocol(protocols) => {
                (!protocols.intersects(ProtocolSet::INET)).then_some(Formula::Const(false))
            }
            Test::Device(_) | Test::Fwmark { .. } | Test::Cgroup { .. } => None,
            Test::State(_) | Test::Number(..) | Test::Text { .. } | Test::Timer(_) => None,
        }
    }

    fn host(&self, host: &Host) -> Formula {
        let end = host.side.end();
        let family = self.family(host.family.map(Family::from));
        let prefix = match host.net {
            None => {
                return Formula::And(vec![
                    family,
                    host.ports.map_or(Formula::Const(true), |ports| port(end, ports)),
                ]);
            }
            Some(Net::V4 { address, len }) => Prefix::Inet(address.to_be_bytes(), len),
            Some(Net::V6 { address, len }) => Prefix::Inet6(address.to_be_bytes(), len),
        };
        // A single port fits into the same operation.
        let (one, others) = match host.ports {
            None => (None, Formula::Const(true)),
            Some(Ports { low, high }) if low == high => (Some(low), Formula::Const(true)),
            Some(ports) => (None, port(end, ports)),
        };
        let host = Condition::Host {
            end,
            prefix,
            port: one,
        };
        Formula::And(vec![family, others, Formula::Leaf(host, true)])
    }

    /// Lowers a family. An empty IPv6 prefix matches exactly the IPv6 sockets; an empty IPv4 prefix would also match v4-mapped
    /// addresses.
    #[allow(clippy::unused_self)] // same form as its siblings
    fn family(&self, family: Option<Family>) -> Formula {
        let is_v6 = Condition::Host {
            end: End::Source,
            prefix: Prefix::Inet6([0; 16], 0),
            port: None,
        };
        match family {
            None => Formula::Const(true),
            Some(Family::Inet) => Formula::Leaf(is_v6, false),
            Some(Family::Inet6) => Formula::Leaf(is_v6, true),
            Some(_) => Formula::Const(false),
        }
    }
}

fn port(end: End, Ports { low, high }: Ports) -> Formula {
    let leaf = |condition| Formula::Leaf(condition, true);
    let prefix = Prefix::Any;
    match (low, high) {
        (low, high) if low > high => Formula::Const(false),
        (0, u16::MAX) => Formula::Const(true),
        (low, high) if low == high => leaf(Condition::Host {
            end,
            prefix,
            port: Some(low),
        }),
        (low, u16::MAX) => leaf(Condition::PortAtLeast(end, low)),
        (0, high) => leaf(Condition::PortAtMost(end, high)),
        (low, high) => Formula::And(vec![
            leaf(Condition::PortAtLeast(end, low)),
            leaf(Condition::PortAtMost(end, high)),
        ]),
    }
}

fn peers(classes: u8) -> Formula {
    let selects = |class: PeerClass| classes & class.bit() != 0;
    // "Public" is everything that is in no other class.
    let invert = selects(PeerClass::Public);
    let mut any = Vec::new();
    let mut add = |v4: &[(Ipv4Addr, u8)], v6: &[(Ipv6Addr, u8)]| {
        let v4 = v4.iter().map(|&(net, len)| Prefix::Inet(net.octets(), len));
        let v6 = v6.iter().map(|&(net, len)| Prefix::Inet6(net.octets(), len));
        any.extend(v4.chain(v6).map(|prefix| {
            let (end, port) = (End::Destination, None);
            Formula::Leaf(Condition::Host { end, prefix, port }, true)
        }));
    };
    if selects(PeerClass::Loopback) != invert {
        add(LOOPBACK_V4, LOOPBACK_V6);
    }
    if selects(PeerClass::Private) != invert {
        add(PRIVATE_V4, PRIVATE_V6);
    }
    if invert {
        add(UNSPECIFIED_V4, UNSPECIFIED_V6);
        Formula::Or(any).negate()
    } else {
        Formula::Or(any)
    }
}

impl Side {
    const fn end(self) -> End {
        match self {
            Self::Source => End::Source,
            Self::Destination => End::Destination,
        }
    }
}

impl Formula {
    fn negate(self) -> Self {
        let each = |inner: Vec<Self>| inner.into_iter().map(Self::negate).collect();
        match self {
            Self::Const(value) => Self::Const(!value),
            Self::Leaf(condition, holds) => Self::Leaf(condition, !holds),
            Self::And(inner) => Self::Or(each(inner)),
            Self::Or(inner) => Self::And(each(inner)),
        }
    }

    /// Eliminates constants, unless the whole is one.
    fn simplify(self) -> Self {
        let (inner, is_and) = match self {
            Self::And(inner) => (inner, true),
            Self::Or(inner) => (inner, false),
            simple => return simple,
        };
        let mut left = Vec::with_capacity(inner.len());
        for formula in inner {
            match formula.simplify() {
                Self::Const(value) if value == is_and => {}
                Self::Const(value) => return Self::Const(value),
                other => left.push(other),
            }
        }
        match left.len() {
            0 => Self::Const(is_and),
            1 => left.remove(0),
            _ if is_and => Self::And(left),
            _ => Self::Or(left),
        }
    }
}

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    /// The next instruction
    Next,
    Label(Label),
}

/// Emits code that ends at `yes` or `no`, of which at most one is `Next`.
fn emit(assembler: &mut Assembler, formula: &Formula, yes: Target, no: Target) {
    if assembler.len() > LEN_MAX {
        return; // too long anyway
    }
    match formula {
        Formula::Leaf(condition, true) => emit_condition(assembler, condition, yes, no),
        Formula::Leaf(condition, false) => emit_condition(assembler, condition, no, yes),
        Formula::Const(value) => {
            if let Target::Label(label) = if *value { yes } else { no } {
                assembler.jump(label);
            }
        }
        Formula::And(inner) | Formula::Or(inner) => {
            let is_and = matches!(formula, Formula::And(_));
            // All but the last jump to `out` as soon as they determine the result.
            let out = if is_and { no } else { yes };
            let (out, end) = match out {
                Target::Label(label) => (label, None),
                Target::Next => {
                    let end = assembler.label();
                    (end, Some(end))
                }
            };
            let out = Target::Label(out);
            let Some((last, others)) = inner.split_last() else {
                return;
            };
            for other in others {
                let (yes, no) = if is_and {
                    (Target::Next, out)
                } else {
                    (out, Target::Next)
                };
                emit(assembler, other, yes, no);
            }
            emit(assembler, last, yes, no);
            if let Some(end) = end {
                assembler.place(end);
            }
        }
    }
}

fn emit_condition(assembler: &mut Assembler, condition: &Condition, yes: Target, no: Target) {
    match (yes, no) {
        (Target::Next, Target::Label(no)) => assembler.condition(condition, no),
        (Target::Label(yes), Target::Label(no)) => {
            assembler.condition(condition, no);
            assembler.jump(yes);
        }
        (yes, Target::Next) => {
            let skip = assembler.label();
            assembler.condition(condition, skip);
            if let Target::Label(yes) = yes {
                assembler.jump(yes);
            }
            assembler.place(skip);
        }
    }
}
