//! Finds the rule that drops a packet, as the kernel would (`nft_do_chain()`), with what is known of the packet.
//!
//! A rule is only named if nothing that is unknown could have decided before it.

use super::packet::{Bits, DeviceKnown, Direction, Packet};
use sockeye_model::{
    Base, Element, Expression, Firewall, FirewallChain, FirewallFamily, FirewallRule, FirewallRuleName,
    FirewallVerdict, MetaKey, Operator,
};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

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

/// What is taken for a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// A rule decides only if all that it compares is known.
    Certain,
    /// A rule that drops may do so if something that it compares is not known, but none that lets pass: the rule with this
    /// number of them is what drops it.
    Perhaps(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.firewall.chains.is_empty()
    }

    /// Returns what drops a packet; `None` if nothing does, or that is not certain.
    pub(crate) fn dropping(&self, packet: &Packet) -> Option<Drop> {
        self.first_drop(packet, &Cell::new(Certainty::Certain))
    }

    /// Returns the only rule that may drop a packet: it matches with what is known of its addresses and ports, but compares
    /// something else, too. `None` if there are several.
    pub(crate) fn perhaps_dropping(&self, packet: &Packet) -> Option<Drop> {
        let only = self.first_drop(packet, &Cell::new(Certainty::Perhaps(0)))?;
        let second = self.first_drop(packet, &Cell::new(Certainty::Perhaps(1)));
        second.is_none().then_some(only)
    }

    /// Returns the chains that see a packet, in order.
    pub(super) fn base_chains(&self, packet: &Packet) -> Vec<&FirewallChain> {
        let stages: &[Stage] = match packet.direction {
            Direction::Incoming => &[Stage::Ingress, Stage::Hook(PRE_ROUTING), Stage::Hook(LOCAL_IN)],
            Direction::Outgoing => &[Stage::Hook(LOCAL_OUT), Stage::Hook(POST_ROUTING), Stage::Egress],
            Direction::Forwarded => &[
                Stage::Ingress,
                Stage::Hook(PRE_ROUTING),
                Stage::Hook(FORWARD),
                Stage::Hook(POST_ROUTING),
                Stage::Egress,
            ],
        };
        let mut found = Vec::new();
        for &stage in stages {
            let chains = self.firewall.chains.iter();
            let mut chains: Vec<_> = chains
                .filter_map(|chain| Some((stage.priority(chain, packet)?, chain)))
                .collect();
            chains.sort_by_key(|(priority, _)| *priority);
            found.extend(chains.into_iter().map(|(_, chain)| chain));
        }
        found
    }

    /// Returns the chain of the same table that a rule jumps to.
    pub(super) fn target(&self, from: &FirewallChain, to: &str) -> Option<&FirewallChain> {
        let key = (from.family, from.table.clone(), to.to_owned());
        self.chains.get(&key).and_then(|&at| self.firewall.chains.get(at))
    }

    fn first_drop(&self, packet: &Packet, certainty: &Cell<Certainty>) -> Option<Drop> {
        for chain in self.base_chains(packet) {
            let outcome = match self.walk(chain, packet, 0, certainty) {
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
        None
    }

    fn walk(
        &self,
        chain: &FirewallChain,
        packet: &Packet,
        depth: usize,
        certainty: &Cell<Certainty>,
    ) -> Outcome {
        if depth > JUMPS_MAX {
            return Outcome::Unknown;
        }
        for rule in &chain.rules {
            let (found, decision, is_specific) = self.rule(chain, rule, packet);
            let Some(decision) = decision.filter(|_| found != Match::No) else {
                continue;
            };
            if found == Match::Maybe {
                let drops = matches!(decision, Decision::Drop);
                match certainty.get() {
                    Certainty::Certain => return Outcome::Unknown,
                    Certainty::Perhaps(0) if drops && is_specific => {}
                    Certainty::Perhaps(before) if drops && is_specific => {
                        certainty.set(Certainty::Perhaps(before - 1));
                        continue;
                    }
                    // A common one: counters of it would show that it drops other packets.
                    Certainty::Perhaps(_) if drops => continue,
                    Certainty::Perhaps(_) => return Outcome::Unknown,
                }
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
            let Some(next) = self.target(chain, to) else {
                return Outcome::Unknown;
            };
            let outcome = self.walk(next, packet, depth + 1, certainty);
            let is_goto = matches!(decision, Decision::Verdict(FirewallVerdict::Goto(_)));
            if is_goto || !matches!(outcome, Outcome::Undecided) {
                return outcome;
            }
        }
        Outcome::Undecided
    }

    /// Returns whether a rule matches, what it decides (`None` if nothing), and whether it compares an address or a port
    /// that is known.
    pub(super) fn rule<'a>(
        &'a self,
        chain: &FirewallChain,
        rule: &'a FirewallRule,
        packet: &Packet,
    ) -> (Match, Option<Decision<'a>>, bool) {
        let mut registers = Registers::default();
        let mut all = Match::Yes;
        let mut is_specific = false;
        let mut is_of_packet = false;
        for expression in &rule.expressions {
            let compares = matches!(
                expression,
                Expression::Compare { .. }
                    | Expression::Range { .. }
                    | Expression::Lookup { .. }
                    | Expression::Ports { .. }
            );
            let found = match expression {
                Expression::Verdict(FirewallVerdict::Drop) | Expression::Reject => {
                    return (all, Some(Decision::Drop), is_specific);
                }
                Expression::Verdict(FirewallVerdict::Continue) => return (all, None, is_specific),
                Expression::Verdict(verdict) => {
                    return (all, Some(Decision::Verdict(verdict)), is_specific);
                }
                // Packets of a connection that stands still are sent again and again: it would have counted them.
                Expression::Counter { packets: 0 } => Match::No,
                Expression::Counter { .. } | Expression::Effect => Match::Yes,
                // They compare what is not known, and decide nothing.
                Expression::Other(name) if ONLY_COMPARE.contains(&&**name) => Match::Maybe,
                Expression::Lookup {
                    is_map: true,
                    decides: false,
                    ..
                }
                | Expression::Other(_) => return (Match::Maybe, Some(Decision::Unknown), is_specific),
                Expression::Lookup {
                    register,
                    set,
                    is_inverted,
                    decides,
                    ..
                } => {
                    let key = (chain.family, chain.table.clone(), set.clone());
                    let elements = self.firewall.sets.get(&key);
                    let (found, element) = elements.map_or((Match::Maybe, None), |elements| {
                        element(elements, &registers, *register)
                    });
                    if *decides {
                        let decision = match element.and_then(|element| element.verdict.as_ref()) {
                            Some(FirewallVerdict::Drop) => Decision::Drop,
                            Some(FirewallVerdict::Continue) => return (all, None, is_specific),
                            Some(verdict) => Decision::Verdict(verdict),
                            None if found == Match::No => return (Match::No, None, is_specific),
                            None => return (Match::Maybe, Some(Decision::Unknown), is_specific),
                        };
                        let all = if found == Match::Yes { all } else { Match::Maybe };
                        return (
                            all,
                            Some(decision),
                            is_specific || (is_of_packet && found == Match::Yes),
                        );
                    }
                    if *is_inverted { found.inverted() } else { found }
                }
                _ => registers.step(expression, packet),
            };
            match expression {
                Expression::Payload { base, .. } => is_of_packet = *base != Base::Other,
                Expression::Ports { .. } => is_of_packet = true,
                Expression::Meta { .. } | Expression::ConnectionState { .. } => is_of_packet = false,
                _ => {}
            }
            match found {
                Match::Yes => is_specific |= compares && is_of_packet,
                Match::No => return (Match::No, None, is_specific),
                Match::Maybe => all = Match::Maybe,
            }
        }
        (all, None, is_specific)
    }

    /// Rules that drop and count, with what they counted.
    pub(crate) fn counting_drops(&self) -> impl Iterator<Item = (FirewallRuleName, u64)> + '_ {
        self.firewall.chains.iter().flat_map(|chain| {
            let drops = |rule: &&FirewallRule| {
                let mut all = rule.expressions.iter();
                all.any(|one| {
                    matches!(
                        one,
                        Expression::Reject | Expression::Verdict(FirewallVerdict::Drop)
                    )
                })
            };
            let rules = chain.rules.iter().filter(drops);
            rules.filter_map(move |rule| Some((name(chain, Some(rule.handle)), rule.packets()?)))
        })
    }

    /// Rules that drop all that they count, and policies that drop, with what they counted: between counter and verdict the rule compares
    /// nothing.
    pub(crate) fn exact_drop_counters(&self) -> impl Iterator<Item = (FirewallRuleName, u64)> + '_ {
        self.firewall.chains.iter().flat_map(|chain| {
            let exact = |rule: &FirewallRule| {
                let mut counted = None;
                for expression in &rule.expressions {
                    match expression {
                        Expression::Counter { packets } => counted = Some(*packets),
                        Expression::Effect => {}
                        Expression::Reject | Expression::Verdict(FirewallVerdict::Drop) => return counted,
                        _ => counted = None,
                    }
                }
                None
            };
            let rules = chain
                .rules
                .iter()
                .filter_map(move |rule| Some((name(chain, Some(rule.handle)), exact(rule)?)));
            let policy = chain
                .policy_packets
                .filter(|_| chain.drops)
                .map(|packets| (name(chain, None), packets));
            rules.chain(policy)
        })
    }

    /// Rules through which what this host sends may be dropped, and their counters.
    pub(crate) fn drops_of_output(&self) -> Vec<Drop> {
        let mut names: Vec<Drop> = Vec::new();
        let mut chains: Vec<&FirewallChain> = self.firewall.chains.iter().collect();
        chains.retain(|chain| {
            let is_of_ip = matches!(
                chain.family,
                FirewallFamily::INET | FirewallFamily::IP | FirewallFamily::IP6
            );
            let number = chain.hook.as_ref().map(|hook| hook.number);
            is_of_ip && matches!(number, Some(LOCAL_OUT | POST_ROUTING))
        });
        let mut seen: HashSet<(FirewallFamily, &str, &str)> = HashSet::new();
        while let Some(chain) = chains.pop() {
            if !seen.insert((chain.family, &*chain.table, &*chain.name)) {
                continue;
            }
            if chain.drops && chain.hook.is_some() {
                names.push(Drop {
                    name: name(chain, None),
                    packets: chain.policy_packets,
                });
            }
            for rule in &chain.rules {
                for expression in &rule.expressions {
                    match expression {
                        Expression::Reject | Expression::Verdict(FirewallVerdict::Drop) => names.push(Drop {
                            name: name(chain, Some(rule.handle)),
                            packets: rule.packets(),
                        }),
                        Expression::Verdict(FirewallVerdict::Jump(to) | FirewallVerdict::Goto(to)) => {
                            let key = (chain.family, chain.table.clone(), to.clone());
                            let next = self.chains.get(&key).and_then(|&at| self.firewall.chains.get(at));
                            chains.extend(next);
                        }
                        _ => {}
                    }
                }
            }
        }
        names
    }
}

/// Where chains see a packet.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// At the device where it comes in
    Ingress,
    /// At a hook of IP
    Hook(u32),
    /// At the device where it leaves
    Egress,
}

impl Stage {
    /// The place of a chain among those of this stage; `None` if it does not see the packet here, or that is not known.
    fn priority(self, chain: &FirewallChain, packet: &Packet) -> Option<i32> {
        let hook = chain.hook.as_ref()?;
        let is_here = match (self, chain.family) {
            (Self::Ingress, FirewallFamily::NETDEV) => hook.number == 0,
            (Self::Egress, FirewallFamily::NETDEV) => hook.number == 1,
            (Self::Ingress, FirewallFamily::INET) => !packet.is_arp && hook.number == INET_INGRESS,
            // ARP has one hook for each direction.
            (Self::Hook(number), FirewallFamily::ARP) if packet.is_arp => match number {
                LOCAL_IN => hook.number == 0,
                LOCAL_OUT => hook.number == 1,
                _ => false,
            },
            (Self::Hook(number), FirewallFamily::INET) => !packet.is_arp && hook.number == number,
            (Self::Hook(number), FirewallFamily::IP) => {
                !packet.is_arp && !packet.is_ipv6 && hook.number == number
            }
            (Self::Hook(number), FirewallFamily::IP6) => packet.is_ipv6 && hook.number == number,
            // Hooks of a bridge have the numbers of those of IP.
            (Self::Hook(number), FirewallFamily::BRIDGE) => {
                packet.may_be_bridged && !packet.is_arp && hook.number == number
            }
            _ => false,
        };
        let is_of_device = match self {
            Self::Hook(_) => true,
            Self::Ingress | Self::Egress => packet.link_device.is_some_and(|device| {
                let mut devices = hook.devices.iter();
                devices.any(|name| name.as_bytes() == device.as_bytes())
            }),
        };
        (is_here && is_of_device).then_some(hook.priority)
    }
}

/// What a rule decides.
pub(super) enum Decision<'a> {
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

    const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::No, Self::No) => Self::No,
            _ => Self::Maybe,
        }
    }
}

pub(super) fn name(chain: &FirewallChain, handle: Option<u64>) -> FirewallRuleName {
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
                // Without such a header the rule ends.
                if *base == Base::Transport && packet.transport.is_empty() {
                    return Match::No;
                }
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
            Expression::Ports {
                source,
                destination,
                ranges,
                is_inverted,
            } => {
                let wanted = [(*source, 0), (*destination, 2)]
                    .into_iter()
                    .filter(|(is_compared, _)| *is_compared);
                let found = wanted.map(|(_, at)| port_in(ranges, packet.transport.get(at..at + 2)));
                let found = found.fold(Match::No, Match::or);
                if *is_inverted { found.inverted() } else { found }
            }
            _ => Match::Maybe,
        }
    }

    fn meta(&mut self, key: MetaKey, register: u32, packet: &Packet) -> Match {
        let is_input = packet.direction != Direction::Outgoing;
        let is_output = packet.direction != Direction::Incoming;
        match key {
            MetaKey::L4Protocol if packet.is_arp => return Match::No,
            MetaKey::Family if packet.is_arp => self.put_bytes(register, &[3]),
            MetaKey::Protocol => {
                let ethertype: u16 = match (packet.is_arp, packet.is_ipv6) {
                    (true, _) => 0x0806,
                    (_, true) => 0x86dd,
                    _ => 0x0800,
                };
                self.put_bytes(register, &ethertype.to_be_bytes());
            }
            MetaKey::Family => self.put_bytes(register, &[if packet.is_ipv6 { 10 } else { 2 }]),
            MetaKey::L4Protocol => self.put_bytes(register, &[packet.protocol]),
            MetaKey::Mark => self.put_number(register, packet.mark),
            MetaKey::User => self.put_number(register, packet.user),
            // Without such a device the rule ends.
            MetaKey::InputIndex | MetaKey::InputName if !is_input => return Match::No,
            MetaKey::OutputIndex | MetaKey::OutputName if !is_output => return Match::No,
            // The packet has the device that it came from.
            MetaKey::OutputIndex | MetaKey::OutputName if is_input => {
                self.put(register, &[Bits::default(); 16]);
            }
            MetaKey::InputIndex | MetaKey::OutputIndex => match packet.device {
                DeviceKnown::Is(index, _) => self.put_number(register, Some(index.0)),
                DeviceKnown::NotLoopback => self.put_device_unknown(register, 4),
                DeviceKnown::Unknown => self.put(register, &[Bits::default(); 4]),
            },
            MetaKey::InputName | MetaKey::OutputName => match packet.device {
                DeviceKnown::Is(_, name) => {
                    let mut bytes = [0; 16];
                    let text = name.as_bytes();
                    bytes[..text.len()].copy_from_slice(text);
                    self.put_bytes(register, &bytes);
                }
                DeviceKnown::NotLoopback => self.put_device_unknown(register, 16),
                DeviceKnown::Unknown => self.put(register, &[Bits::default(); 16]),
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

/// Whether a port is in one of the ranges.
fn port_in(ranges: &[(u16, u16)], port: Option<&[Bits]>) -> Match {
    match port {
        Some([high, low]) if high.known & low.known == 0xff => {
            let port = u16::from_be_bytes([high.value, low.value]);
            Match::is(ranges.iter().any(|(first, last)| (first..=last).contains(&&port)))
        }
        _ => Match::Maybe,
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

/// Whether a set contains the value of a register, and the element if that is certain.
fn element<'a>(
    elements: &'a [Element],
    registers: &Registers,
    register: u32,
) -> (Match, Option<&'a Element>) {
    let Some(len) = elements.iter().map(|element| element.key.len()).max() else {
        return (Match::No, None);
    };
    if elements
        .iter()
        .any(|element| element.is_catch_all || element.key_end.is_some() || element.key.len() != len)
    {
        return (Match::Maybe, None);
    }
    let bytes = registers.get(register, len);
    if !elements.iter().any(|element| element.ends_range) {
        let mut found = Match::No;
        for element in elements {
            match equal(bytes, &element.key) {
                Match::Yes => return (Match::Yes, Some(element)),
                Match::Maybe => found = Match::Maybe,
                Match::No => {}
            }
        }
        return (found, None);
    }
    if bytes.len() < len || bytes.iter().any(|bits| bits.known != 0xff) {
        return (Match::Maybe, None);
    }
    // The last limit that is not above the value: within a range it is the beginning of it. Where one range ends and the
    // next begins, the beginning counts.
    let value: Vec<u8> = bytes.iter().map(|bits| bits.value).collect();
    let below = elements.iter().filter(|element| element.key <= value);
    let last = below.max_by(|one, other| (&one.key, !one.ends_range).cmp(&(&other.key, !other.ends_range)));
    let last = last.filter(|element| !element.ends_range);
    (Match::is(last.is_some()), last)
}

/// Expressions that compare, and neither decide nor set a register that others compare.
const ONLY_COMPARE: [&str; 6] = ["limit", "quota", "connlimit", "match", "dynset", "last"];
const INET_INGRESS: u32 = 5;
const PRE_ROUTING: u32 = 0;
const LOCAL_IN: u32 = 1;
const FORWARD: u32 = 2;
const LOCAL_OUT: u32 = 3;
const POST_ROUTING: u32 = 4;
/// `NFT_JUMP_STACK_SIZE`
pub(super) const JUMPS_MAX: usize = 16;
const REGISTERS_LEN: usize = 64;
