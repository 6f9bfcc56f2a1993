//! The rule that dropped a packet of which the headers are known.

use super::evaluate::{Decision, JUMPS_MAX, Match, Ruleset, name};
use super::packet::{DeviceKnown, Direction, Packet};
use sockeye_model::{
    DeviceName, Firewall, FirewallChain, FirewallFamily, FirewallRuleName, FirewallVerdict, InterfaceIndex,
};
use std::collections::BTreeSet;

/// The packet filter rules of a network namespace (nf_tables), to be asked which of them dropped a packet.
#[derive(Debug)]
pub struct PacketFilter {
    ruleset: Ruleset,
}

/// A packet that netfilter dropped.
#[derive(Debug, Clone, Copy)]
pub struct DroppedPacket<'a> {
    /// From the IP header on, as much as is known.
    pub headers: &'a [u8],
    /// The device that it came from or was sent to; `None` if unknown: what this host sends has none before it is routed.
    pub device: Option<(InterfaceIndex, DeviceName)>,
    /// Whether its source is an address of this host; `None` if unknown.
    pub is_sent: Option<bool>,
    /// Whether its destination is an address of this host, or a multicast address; `None` if unknown.
    pub is_for_us: Option<bool>,
    /// Whether its device is a bridge or a port of one, or may be one: rules of the family `bridge` see the packet.
    pub may_be_bridged: bool,
}

impl PacketFilter {
    /// Takes rules with their counters after the drops: a rule that has counted nothing has dropped nothing.
    #[must_use]
    pub fn new(firewall: Firewall) -> Self {
        Self {
            ruleset: Ruleset::new(firewall),
        }
    }

    /// Returns the rules that drop whatever they count, with the number of packets.
    pub fn counters(&self) -> impl Iterator<Item = (FirewallRuleName, u64)> + '_ {
        self.ruleset.exact_drop_counters()
    }

    /// Returns the rule, or the policy of a chain, that dropped a packet: the only one that can have. `None` if there are several, or if
    /// something that is not in the headers decides.
    #[must_use]
    pub fn dropping(&self, packet: &DroppedPacket<'_>) -> Option<FirewallRuleName> {
        let mut found = self.candidates(packet)?;
        let only = found.pop_first()?;
        found.is_empty().then_some(only)
    }

    /// Whether a rule or policy can have dropped a packet. Otherwise one has that is gone.
    #[must_use]
    pub fn may_have_dropped(&self, packet: &DroppedPacket<'_>) -> bool {
        self.candidates(packet).is_none_or(|found| !found.is_empty())
    }

    /// Returns all rules and policies that can have dropped a packet; `None` if that is not known of all rules.
    #[must_use]
    pub fn candidates(&self, packet: &DroppedPacket<'_>) -> Option<BTreeSet<FirewallRuleName>> {
        let device = packet
            .device
            .map_or(DeviceKnown::Unknown, |(index, name)| DeviceKnown::Is(index, name));
        let directions = [
            (Direction::Incoming, packet.is_for_us != Some(false)),
            (
                Direction::Forwarded,
                packet.is_for_us != Some(true) && packet.is_sent != Some(true),
            ),
            (Direction::Outgoing, packet.is_sent != Some(false)),
        ];
        let mut found = BTreeSet::new();
        for (direction, _) in directions.into_iter().filter(|(_, is_possible)| *is_possible) {
            let may_be_bridged = packet.may_be_bridged;
            let packet = Packet {
                may_be_bridged,
                ..Packet::captured(packet.headers, direction, device)?
            };
            let mut candidates = Candidates {
                ruleset: &self.ruleset,
                packet: &packet,
                in_bridge: &packet.in_bridge(),
                found: &mut found,
                are_all: true,
            };
            candidates.collect();
            if !candidates.are_all {
                return None;
            }
        }
        Some(found)
    }
}

/// The rules that can have dropped a packet, of which it is known that one has.
struct Candidates<'a> {
    ruleset: &'a Ruleset,
    packet: &'a Packet,
    /// The packet as rules of a bridge see it
    in_bridge: &'a Packet,
    found: &'a mut BTreeSet<FirewallRuleName>,
    /// Whether there is no rule of which it is unknown what it decides.
    are_all: bool,
}

/// What is certain after a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Accepted,
    Dropped,
    Undecided,
}

impl Candidates<'_> {
    fn collect(&mut self) {
        let (bridge, host): (Vec<_>, Vec<_>) = self
            .ruleset
            .base_chains(self.packet)
            .into_iter()
            .partition(|chain| chain.family == FirewallFamily::BRIDGE);
        // Whether a bridge sees the packet is not certain.
        self.collect_from(&bridge);
        self.collect_from(&host);
    }

    fn collect_from(&mut self, chains: &[&FirewallChain]) {
        for &chain in chains {
            match self.walk(chain, 0) {
                After::Dropped => return,
                After::Undecided if chain.drops && chain.policy_packets != Some(0) => {
                    self.found.insert(name(chain, None));
                    return;
                }
                After::Accepted | After::Undecided => {}
            }
        }
    }

    fn walk(&mut self, chain: &FirewallChain, depth: usize) -> After {
        if depth > JUMPS_MAX {
            self.are_all = false;
            return After::Undecided;
        }
        for rule in &chain.rules {
            let packet = match chain.family {
                FirewallFamily::BRIDGE => self.in_bridge,
                _ => self.packet,
            };
            let (found, decision, _) = self.ruleset.rule(chain, rule, packet);
            let is_certain = found == Match::Yes;
            let Some(decision) = decision.filter(|_| found != Match::No) else {
                continue;
            };
            let (to, is_goto) = match decision {
                Decision::Drop => {
                    self.found.insert(name(chain, Some(rule.handle)));
                    if is_certain {
                        return After::Dropped;
                    }
                    continue;
                }
                Decision::Verdict(FirewallVerdict::Accept) if is_certain => return After::Accepted,
                Decision::Verdict(FirewallVerdict::Return) if is_certain => return After::Undecided,
                Decision::Verdict(FirewallVerdict::Accept | FirewallVerdict::Return) => continue,
                Decision::Verdict(FirewallVerdict::Jump(to)) => (to, false),
                Decision::Verdict(FirewallVerdict::Goto(to)) => (to, true),
                Decision::Verdict(_) | Decision::Unknown => {
                    self.are_all = false;
                    continue;
                }
            };
            let Some(next) = self.ruleset.target(chain, to) else {
                self.are_all = false;
                continue;
            };
            let after = self.walk(next, depth + 1);
            if is_certain && (is_goto || after != After::Undecided) {
                return after;
            }
        }
        After::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Base, Expression, FirewallFamily, FirewallRule, Hook, Operator};

    /// A chain of the hook `input` whose policy drops, with these rules.
    fn filter(rules: Vec<Vec<Expression>>, drops: bool) -> PacketFilter {
        let mut chain = chain(FirewallFamily::INET, 1, rules);
        chain.drops = drops;
        PacketFilter::new(Firewall {
            chains: vec![chain],
            ..Firewall::default()
        })
    }

    fn chain(family: FirewallFamily, hook: u32, rules: Vec<Vec<Expression>>) -> FirewallChain {
        FirewallChain {
            family,
            table: "filter".into(),
            name: "input".into(),
            hook: Some(Hook {
                number: hook,
                priority: 0,
                devices: Vec::new(),
            }),
            drops: false,
            policy_packets: None,
            rules: rules
                .into_iter()
                .zip(1..)
                .map(|(expressions, handle)| FirewallRule { handle, expressions })
                .collect(),
        }
    }

    fn to_port(port: u16, mut then: Vec<Expression>) -> Vec<Expression> {
        let mut rule = vec![
            Expression::Payload {
                base: Base::Transport,
                offset: 2,
                len: 2,
                register: 1,
            },
            Expression::Compare {
                register: 1,
                operator: Operator::Equal,
                value: port.to_be_bytes().to_vec(),
            },
        ];
        rule.append(&mut then);
        rule
    }

    /// `ct state established accept`
    fn established() -> Vec<Expression> {
        vec![
            Expression::ConnectionState { register: 1 },
            Expression::Bitwise {
                source: 1,
                register: 1,
                mask: vec![6, 0, 0, 0],
                xor: vec![0; 4],
            },
            Expression::Compare {
                register: 1,
                operator: Operator::NotEqual,
                value: vec![0; 4],
            },
            Expression::Verdict(FirewallVerdict::Accept),
        ]
    }

    /// A datagram to 10.0.0.2, port 5353.
    const DATAGRAM: [u8; 28] = [
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0x14, 0xe9, 0, 8, 0,
        0,
    ];

    #[track_caller]
    fn check(filter: &PacketFilter, headers: &[u8], expected: Option<Option<u64>>) {
        let dropped = filter.dropping(&DroppedPacket {
            headers,
            device: None,
            is_sent: Some(false),
            is_for_us: Some(true),
            may_be_bridged: false,
        });
        assert_eq!(dropped.map(|name| name.handle), expected);
    }

    #[test]
    fn packet_that_no_rule_drops_was_dropped_by_one_that_is_gone() {
        let packet = DroppedPacket {
            headers: &DATAGRAM,
            device: None,
            is_sent: Some(false),
            is_for_us: Some(true),
            may_be_bridged: true,
        };
        assert!(!PacketFilter::new(Firewall::default()).may_have_dropped(&packet));
        assert!(!filter(vec![to_port(53, vec![DROP])], false).may_have_dropped(&packet));
        let both = vec![to_port(5353, vec![DROP]), vec![DROP]];
        assert!(filter(both, false).may_have_dropped(&packet));
        let unknown = vec![vec![Expression::Other("socket".into()), DROP]];
        assert!(filter(unknown, true).may_have_dropped(&packet));
    }

    const DROP: Expression = Expression::Verdict(FirewallVerdict::Drop);
    const ACCEPT: Expression = Expression::Verdict(FirewallVerdict::Accept);

    #[test]
    fn only_rule_that_can_have_dropped_is_named() {
        let rules = vec![
            established(),
            to_port(22, vec![ACCEPT]),
            to_port(5353, vec![DROP]),
            to_port(53, vec![DROP]),
        ];
        check(&filter(rules.clone(), false), &DATAGRAM, Some(Some(3)));
        // A rule that has counted nothing has dropped nothing.
        let counted = vec![
            to_port(5353, vec![Expression::Counter { packets: 0 }, DROP]),
            to_port(5353, vec![Expression::Counter { packets: 1 }, DROP]),
        ];
        check(&filter(counted, false), &DATAGRAM, Some(Some(2)));
        // Without its ports each of both rules may match.
        check(&filter(rules, false), &DATAGRAM[..20], None);
    }

    #[test]
    fn rules_of_iptables_differ_by_their_ports() {
        let among = |ports: &[u16]| Expression::Ports {
            source: false,
            destination: true,
            ranges: ports.iter().map(|port| (*port, *port)).collect(),
            is_inverted: false,
        };
        let string = || Expression::Other("match".into());
        let rules = vec![
            vec![among(&[4015, 4016]), DROP],
            to_port(53, vec![Expression::Reject]),
            to_port(5353, vec![string(), DROP]),
        ];
        check(&filter(rules, false), &DATAGRAM, Some(Some(3)));
        let rules = vec![
            vec![among(&[80, 5353]), DROP],
            to_port(5353, vec![string(), DROP]),
        ];
        check(&filter(rules, false), &DATAGRAM, Some(Some(1)));
        let rules = vec![to_port(5353, vec![Expression::Effect, Expression::Reject])];
        check(&filter(rules, false), &DATAGRAM, Some(Some(1)));
        // Both may have.
        let rules = vec![vec![string(), DROP], to_port(5353, vec![DROP])];
        check(&filter(rules, false), &DATAGRAM, None);
    }

    #[test]
    fn policy_drops_what_no_rule_lets_pass() {
        let rules = vec![established(), to_port(22, vec![ACCEPT])];
        check(&filter(rules, true), &DATAGRAM, Some(None));
        let rules = vec![to_port(5353, vec![ACCEPT])];
        check(&filter(rules, true), &DATAGRAM, None);
        let unknown = vec![vec![Expression::Other("socket".into()), DROP]];
        check(&filter(unknown, true), &DATAGRAM, None);
    }

    #[test]
    fn counter_that_is_compared_behind_is_no_counter_of_drops() {
        let count = |packets| Expression::Counter { packets };
        let mut late = vec![count(9)];
        late.extend(to_port(53, vec![DROP]));
        let all = filter(
            vec![
                to_port(5353, vec![count(7), DROP]),
                late,
                to_port(22, vec![count(3), ACCEPT]),
            ],
            false,
        );
        let counted: Vec<_> = all
            .counters()
            .map(|(name, packets)| (name.handle, packets))
            .collect();
        assert_eq!(counted, [(Some(1), 7)]);
    }

    #[test]
    fn rule_of_a_bridge_drops_what_it_passes_on_only() {
        let filter = |host: Vec<Vec<Expression>>| {
            PacketFilter::new(Firewall {
                chains: vec![
                    chain(FirewallFamily::BRIDGE, 2, vec![to_port(5353, vec![DROP])]),
                    chain(FirewallFamily::INET, 2, host),
                ],
                ..Firewall::default()
            })
        };
        let dropping = |filter: &PacketFilter, may_be_bridged| {
            let packet = DroppedPacket {
                headers: &DATAGRAM,
                device: None,
                is_sent: Some(false),
                is_for_us: Some(false),
                may_be_bridged,
            };
            filter.dropping(&packet).map(|name| name.family)
        };
        assert_eq!(dropping(&filter(vec![]), true), Some(FirewallFamily::BRIDGE));
        assert_eq!(dropping(&filter(vec![]), false), None);
        let both = filter(vec![to_port(5353, vec![DROP])]);
        assert_eq!(dropping(&both, false), Some(FirewallFamily::INET));
        // The bridge comes first: whether it sees the packet is unknown.
        assert_eq!(dropping(&both, true), None);
    }

    #[test]
    fn headers_that_are_cut_or_odd_name_nothing() {
        let all = filter(vec![vec![DROP]], false);
        check(&all, &DATAGRAM, Some(Some(1)));
        // IPv6 with options.
        let mut options = [0; 40];
        options[0] = 0x60;
        let bad: [&[u8]; 4] = [&[], &DATAGRAM[..19], &[0x42; 20], &options];
        for headers in bad {
            check(&all, headers, None);
        }
    }
}
