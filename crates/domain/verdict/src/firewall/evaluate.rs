//! Finds the rule that drops a packet, as the kernel would (`nft_do_chain()`), with what is known of the packet.
//!
//! A rule is only named if nothing that is unknown could have decided before it.

use super::packet::{Bits, DeviceKnown, Direction, Packet};
use sockeye_model::{
    Base, Element, Expression, Firewall, FirewallChain, FirewallFamily, FirewallRule, FirewallRuleName,
    FirewallVerdict, MetaKey, Operator,
};
use std::collections::HashMap;

/// The rules of a network namespace.
#[derive(Debug)]
pub(crate) struct Ruleset {
    firewall: Firewall,
    chains: HashMap<(FirewallFamily, String, String), usize>,
}

/// What drops a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drop {
    pub(crate) name: FirewallRuleName,
    /// Packets that it counted; `None` without a counter
    pub(crate) packets: Option<u64>,
}

/// What a chain does with a packet.
enum Outcome {
    Accepted,
    Dropped(Drop),
    Undecided,
    /// It depends on what is not known.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Maybe,
}

impl Ruleset {
    pub(crate) fn new(firewall: Firewall) -> Self {
        let chains = firewall.chains.iter().zip(0..).map(|(chain, index)| {
            let name = (chain.family, chain.table.clone(), chain.name.clone());
            (name, index)
        });
        Self {
            chains: chains.collect(),
            firewall,
        }
    }

    /// Returns what drops a packet; `None` if nothing does, or that is not certain.
    pub(crate) fn dropping(&self, packet: &Packet) -> Option<Drop> {
        let hooks = match packet.direction {
            Direction::Incoming => [PRE_ROUTING, LOCAL_IN],
            Direction::Outgoing => [LOCAL_OUT, POST_ROUTING],
        };
        let of_packet = |chain: &&FirewallChain| match chain.family {
            FirewallFamily::INET => true,
            FirewallFamily::IP => !packet.is_ipv6,
            FirewallFamily::IP6 => packet.is_ipv6,
            _ => false,
        };
        for number in hooks {
            let chains = self.firewall.chains.iter().filter(of_packet);
            let mut chains: Vec<_> = chains
                .filter_map(|chain| Some((chain.hook.filter(|hook| hook.number == number)?.priority, chain)))
                .collect();
            chains.sort_by_key(|(priority, _)| *priority);
            for (_, chain) in chains {
                let outcome = match self.walk(chain, packet, 0) {
                    Outcome::Undecided if chain.drops && chain.policy_packets != Some(0) => {
                        Outcome::Dropped(Drop {
                            name: name(chain, None),
                            packets: chain.policy_packets,
                        })
                    }
                    outcome => outcome,
                };
                if let Outcome::Dropped(drop) = outcome {
                    return Some(drop);
                }
            }
        }
        None
    }

    fn walk(&self, chain: &FirewallChain, packet: &Packet, depth: usize) -> Outcome {
        if depth > JUMPS_MAX {
            return Outcome::Unknown;
        }
        for rule in &chain.rules {
            let (found, decision) = self.rule(chain, rule, packet);
            let Some(decision) = decision.filter(|_| found != Match::No) else {
                continue;
            };
            if found == Match::Maybe {
                return Outcome::Unknown;
            }
            let to = match decision {
                Decision::Drop => {
                    return Outcome::Dropped(Drop {
                        name: name(chain, Some(rule.handle)),
                        packets: rule.packets(),
                    });
                }
                Decision::Verdict(FirewallVerdict::Accept) => return Outcome::Accepted,
                Decision::Verdict(FirewallVerdict::Return) => return Outcome::Undecided,
                Decision::Verdict(FirewallVerdict::Jump(to) | FirewallVerdict::Goto(to)) => to,
                Decision::Verdict(_) | Decision::Unknown => return Outcome::Unknown,
            };
            let key = (chain.family, chain.table.clone(), to.clone());
            let Some(next) = self.chains.get(&key).and_then(|&at| self.firewall.chains.get(at)) else {
                return Outcome::Unknown;
            };
            let outcome = self.walk(next, packet, depth + 1);
            let is_goto = matches!(decision, Decision::Verdict(FirewallVerdict::Goto(_)));
            if is_goto || !matches!(outcome, Outcome::Undecided) {
                return outcome;
            }
        }
        Outcome::Undecided
    }

    /// Returns whether a rule matches, and what it decides; `None` if it decides nothing.
    fn rule<'a>(
        &self,
        chain: &FirewallChain,
        rule: &'a FirewallRule,
        packet: &Packet,
    ) -> (Match, Option<Decision<'a>>) {
        let mut registers = Registers::default();
        let mut all = Match::Yes;
        for expression in &rule.expressions {
            let found = match expression {
                Expression::Verdict(FirewallVerdict::Drop) | Expression::Reject => {
                    return (all, Some(Decision::Drop));
                }
                Expression::Verdict(FirewallVerdict::Continue) => return (all, None),
                Expression::Verdict(verdict) => return (all, Some(Decision::Verdict(verdict))),
                // Packets of a connection that stands still are sent again and again: it would have counted them.
                Expression::Counter { packets: 0 } => Match::No,
                Expression::Counter { .. } | Expression::Effect => Match::Yes,
                Expression::Lookup { is_map: true, .. } | Expression::Other(_) => {
                    return (Match::Maybe, Some(Decision::Unknown));
                }
                Expression::Lookup {
                    register,
                    set,
                    is_inverted,
                    ..
                } => {
                    let key = (chain.family, chain.table.clone(), set.clone());
                    let elements = self.firewall.sets.get(&key);
                    let found =
                        elements.map_or(Match::Maybe, |elements| contains(elements, &registers, *register));
                    if *is_inverted { found.inverted() } else { found }
                }
                _ => registers.step(expression, packet),
            };
            match found {
                Match::Yes => {}
                Match::No => return (Match::No, None),
                Match::Maybe => all = Match::Maybe,
            }
        }
        (all, None)
    }
}

/// What a rule decides.
enum Decision<'a> {
    Drop,
    Verdict(&'a FirewallVerdict),
    Unknown,
}

impl Match {
    const fn inverted(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
        }
    }

    const fn is(found: bool) -> Self {
        if found { Self::Yes } else { Self::No }
    }
}

fn name(chain: &FirewallChain, handle: Option<u64>) -> FirewallRuleName {
    FirewallRuleName {
        family: chain.family,
        table: chain.table.clone(),
        chain: chain.name.clone(),
        handle,
    }
}

/// Memory through which the expressions of a rule exchange values.
struct Registers {
    bytes: [Bits; REGISTERS_LEN],
    /// A register with the name or index of a device that is not loopback
    not_loopback: Option<u32>,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            bytes: [Bits::default(); REGISTERS_LEN],
            not_loopback: None,
        }
    }
}

impl Registers {
    /// Runs an expression that loads or compares.
    fn step(&mut self, expression: &Expression, packet: &Packet) -> Match {
        match expression {
            Expression::Payload {
                base,
                offset,
                len,
                register,
            } => {
                let header = match base {
                    Base::Network => &*packet.network,
                    Base::Transport => &*packet.transport,
                    Base::Other => &[],
                };
                let (begin, len) = (*offset as usize, *len as usize);
                let bytes = (begin..begin.saturating_add(len.min(REGISTERS_LEN)))
                    .map(|at| header.get(at).copied().unwrap_or_default());
                self.put(*register, &bytes.collect::<Vec<_>>());
                Match::Yes
            }
            Expression::Meta { key, register } => self.meta(*key, *register, packet),
            Expression::ConnectionState { register } => {
                self.put_number(*register, packet.connection_state);
                Match::Yes
            }
            Expression::Bitwise {
                source,
                register,
                mask,
                xor,
            } => {
                let bytes = self.get(*source, mask.len()).to_vec();
                let masked = bytes.iter().zip(mask).zip(xor);
                let result = masked.map(|((bits, mask), xor)| Bits {
                    value: (bits.value & mask) ^ xor,
                    known: bits.known | !mask,
                });
                self.put(*register, &result.collect::<Vec<_>>());
                Match::Yes
            }
            Expression::Compare {
                register,
                operator,
                value,
            } => self.compare(*register, *operator, value),
            Expression::Range {
                register,
                is_inverted,
                from,
                to,
            } => {
                let from = self.compare(*register, Operator::GreaterOrEqual, from);
                let to = self.compare(*register, Operator::LessOrEqual, to);
                let within = match (from, to) {
                    (Match::No, _) | (_, Match::No) => Match::No,
                    (Match::Yes, Match::Yes) => Match::Yes,
                    _ => Match::Maybe,
                };
                if *is_inverted { within.inverted() } else { within }
            }
            _ => Match::Maybe,
        }
    }

    fn meta(&mut self, key: MetaKey, register: u32, packet: &Packet) -> Match {
        let is_input = packet.direction == Direction::Incoming;
        match key {
            MetaKey::Protocol => {
                let ethertype: u16 = if packet.is_ipv6 { 0x86dd } else { 0x0800 };
                self.put_bytes(register, &ethertype.to_be_bytes());
            }
            MetaKey::Family => self.put_bytes(register, &[if packet.is_ipv6 { 10 } else { 2 }]),
            MetaKey::L4Protocol => self.put_bytes(register, &[packet.protocol]),
            MetaKey::Mark => self.put_number(register, packet.mark),
            MetaKey::User => self.put_number(register, packet.user),
            // Without such a device the rule ends.
            MetaKey::InputIndex | MetaKey::InputName if !is_input => return Match::No,
            MetaKey::OutputIndex | MetaKey::OutputName if is_input => return Match::No,
            MetaKey::InputIndex | MetaKey::OutputIndex => match packet.device {
                DeviceKnown::Is(index, _) => self.put_number(register, Some(index.0)),
                DeviceKnown::NotLoopback => self.put_device_unknown(register, 4),
            },
            MetaKey::InputName | MetaKey::OutputName => match packet.device {
                DeviceKnown::Is(_, name) => {
                    let mut bytes = [0; 16];
                    let text = name.as_bytes();
                    bytes[..text.len()].copy_from_slice(text);
                    self.put_bytes(register, &bytes);
                }
                DeviceKnown::NotLoopback => self.put_device_unknown(register, 16),
            },
            MetaKey::Other => self.put(register, &[Bits::default(); 16]),
        }
        Match::Yes
    }

    fn compare(&self, register: u32, operator: Operator, value: &[u8]) -> Match {
        if self.not_loopback == Some(register) {
            let is_loopback = value.starts_with(b"lo\0") || value == 1_u32.to_ne_bytes();
            match operator {
                Operator::Equal if is_loopback => return Match::No,
                Operator::NotEqual if is_loopback => return Match::Yes,
                _ => {}
            }
        }
        let bytes = self.get(register, value.len());
        let equal = equal(bytes, value);
        match operator {
            Operator::Equal => return equal,
            Operator::NotEqual => return equal.inverted(),
            _ => {}
        }
        if value.is_empty() || bytes.len() < value.len() || bytes.iter().any(|bits| bits.known != 0xff) {
            return Match::Maybe;
        }
        let order = bytes.iter().map(|bits| &bits.value).cmp(value);
        Match::is(match operator {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            _ => order.is_ge(),
        })
    }

    /// The memory of a register from its beginning; shorter if it is not that long.
    fn get(&self, register: u32, len: usize) -> &[Bits] {
        let begin = place(register);
        let end = begin.saturating_add(len).min(REGISTERS_LEN);
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// Writes a register, and zeros up to the next multiple of four bytes, as the kernel does.
    fn put(&mut self, register: u32, bytes: &[Bits]) {
        let len = bytes.len().next_multiple_of(4);
        let padded = bytes.iter().copied().chain(std::iter::repeat(Bits::new(0)));
        let begin = place(register);
        let free = self.bytes.iter_mut().skip(begin);
        for (place, bits) in free.zip(padded.take(len)) {
            *place = bits;
        }
        if self.not_loopback == Some(register) {
            self.not_loopback = None;
        }
    }

    fn put_bytes(&mut self, register: u32, bytes: &[u8]) {
        let bytes: Vec<Bits> = bytes.iter().map(|&byte| Bits::new(byte)).collect();
        self.put(register, &bytes);
    }

    fn put_number(&mut self, register: u32, number: Option<u32>) {
        match number {
            Some(number) => self.put_bytes(register, &number.to_ne_bytes()),
            None => self.put(register, &[Bits::default(); 4]),
        }
    }

    fn put_device_unknown(&mut self, register: u32, len: usize) {
        self.put(register, &[Bits::default(); 16][..len]);
        self.not_loopback = Some(register);
    }
}

/// Where a register begins: `NFT_REG_1` to 4 have 16 bytes each, `NFT_REG32_00` to 15 are 4 bytes of the same memory.
const fn place(register: u32) -> usize {
    match register {
        1..=4 => (register as usize - 1) * 16,
        8..=23 => (register as usize - 8) * 4,
        _ => REGISTERS_LEN,
    }
}

/// Compares what is known of a value.
fn equal(bytes: &[Bits], value: &[u8]) -> Match {
    if bytes.len() < value.len() || value.is_empty() {
        return Match::Maybe;
    }
    let mut found = Match::Yes;
    for (bits, byte) in bytes.iter().zip(value) {
        if (bits.value ^ byte) & bits.known != 0 {
            return Match::No;
        }
        if bits.known != 0xff {
            found = Match::Maybe;
        }
    }
    found
}

/// Whether a set contains the value of a register.
fn contains(elements: &[Element], registers: &Registers, register: u32) -> Match {
    let Some(len) = elements.iter().map(|element| element.key.len()).max() else {
        return Match::No;
    };
    if elements
        .iter()
        .any(|element| element.is_catch_all || element.key_end.is_some() || element.key.len() != len)
    {
        return Match::Maybe;
    }
    let bytes = registers.get(register, len);
    if !elements.iter().any(|element| element.ends_range) {
        let mut all = elements.iter().map(|element| equal(bytes, &element.key));
        return all
            .try_fold(Match::No, |found, equal| match equal {
                Match::Yes => Err(Match::Yes),
                Match::Maybe => Ok(Match::Maybe),
                Match::No => Ok(found),
            })
            .unwrap_or_else(|found| found);
    }
    if bytes.len() < len || bytes.iter().any(|bits| bits.known != 0xff) {
        return Match::Maybe;
    }
    // The last limit that is not above the value: within a range it is the beginning of it. Where one range ends and the
    // next begins, the beginning counts.
    let value: Vec<u8> = bytes.iter().map(|bits| bits.value).collect();
    let below = elements.iter().filter(|element| element.key <= value);
    let last = below.max_by(|one, other| (&one.key, !one.ends_range).cmp(&(&other.key, !other.ends_range)));
    Match::is(last.is_some_and(|element| !element.ends_range))
}

const PRE_ROUTING: u32 = 0;
const LOCAL_IN: u32 = 1;
const LOCAL_OUT: u32 = 3;
const POST_ROUTING: u32 = 4;
/// `NFT_JUMP_STACK_SIZE`
const JUMPS_MAX: usize = 16;
const REGISTERS_LEN: usize = 64;
