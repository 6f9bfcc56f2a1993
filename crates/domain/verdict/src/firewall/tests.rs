//! Rules against packets, as far as these are known.

use super::evaluate::{Drop, Ruleset};
use super::{Content, DeviceKnown, Direction, End, Packet};
use sockeye_model::{
    Base, DeviceName, Element, Expression, Firewall, FirewallChain, FirewallFamily, FirewallRule,
    FirewallVerdict, Hook, InterfaceIndex, MetaKey, Operator,
};
use std::net::IpAddr;

fn chain(name: &str, hook: Option<u32>, drops: bool, rules: Vec<Vec<Expression>>) -> FirewallChain {
    FirewallChain {
        family: FirewallFamily::INET,
        table: "filter".into(),
        name: name.into(),
        hook: hook.map(|number| Hook {
            number,
            priority: 0,
            devices: Vec::new(),
        }),
        drops,
        policy_packets: None,
        rules: rules
            .into_iter()
            .zip(1..)
            .map(|(expressions, handle)| FirewallRule { handle, expressions })
            .collect(),
    }
}

fn ruleset(chains: Vec<FirewallChain>) -> Ruleset {
    Ruleset::new(Firewall {
        chains,
        ..Firewall::default()
    })
}

fn end(ip: [u8; 4], port: u16) -> End {
    End {
        ip: Some(IpAddr::from(ip)),
        port: Some(port),
    }
}

fn sent(content: Content) -> Packet {
    let device = DeviceKnown::Is(InterfaceIndex(2), DeviceName::new(b"eth0"));
    let (from, to) = (end([10, 1, 1, 1], 40_000), end([10, 1, 1, 2], 5000));
    Packet::new(content, false, from, to, Direction::Outgoing, device)
}

fn received(content: Content) -> Packet {
    let (from, to) = (end([10, 1, 1, 2], 5000), end([10, 1, 1, 1], 40_000));
    Packet::new(
        content,
        false,
        from,
        to,
        Direction::Incoming,
        DeviceKnown::NotLoopback,
    )
}

fn load(base: Base, offset: u32, len: u32) -> Expression {
    Expression::Payload {
        base,
        offset,
        len,
        register: 1,
    }
}

fn compare(operator: Operator, value: &[u8]) -> Expression {
    Expression::Compare {
        register: 1,
        operator,
        value: value.to_vec(),
    }
}

/// `tcp dport PORT`
fn to_port(port: u16) -> Vec<Expression> {
    vec![
        Expression::Meta {
            key: MetaKey::L4Protocol,
            register: 1,
        },
        compare(Operator::Equal, &[6]),
        load(Base::Transport, 2, 2),
        compare(Operator::Equal, &port.to_be_bytes()),
    ]
}

fn device(key: MetaKey, operator: Operator, name: &[u8]) -> Vec<Expression> {
    vec![Expression::Meta { key, register: 1 }, compare(operator, name)]
}

fn then(mut conditions: Vec<Expression>, verdict: FirewallVerdict) -> Vec<Expression> {
    conditions.push(Expression::Verdict(verdict));
    conditions
}

fn handle(drop: Option<Drop>) -> Option<Option<u64>> {
    drop.map(|drop| drop.name.handle)
}

const OUTPUT: Option<u32> = Some(3);
const INPUT: Option<u32> = Some(1);

#[test]
fn rule_that_matches_is_named() {
    let rules = ruleset(vec![chain(
        "out",
        OUTPUT,
        false,
        vec![
            then(to_port(443), FirewallVerdict::Accept),
            then(to_port(5000), FirewallVerdict::Drop),
        ],
    )]);
    let drop = rules.dropping(&sent(Content::Established)).unwrap();
    assert_eq!(drop.name.to_string(), "rule 2 of chain inet filter out");
    assert_eq!(
        rules.dropping(&received(Content::Established)),
        None,
        "another hook"
    );
}

#[test]
fn accepting_rule_before_it_decides() {
    let rules = |first: Vec<Expression>| {
        ruleset(vec![chain(
            "out",
            OUTPUT,
            true,
            vec![first, then(to_port(5000), FirewallVerdict::Drop)],
        )])
    };
    let accepted = rules(then(to_port(5000), FirewallVerdict::Accept));
    assert_eq!(accepted.dropping(&sent(Content::Syn)), None);
    // Whether this one matches is not known: nothing is said.
    let unknown = vec![
        Expression::Other("limit".into()),
        Expression::Verdict(FirewallVerdict::Accept),
    ];
    assert_eq!(rules(unknown).dropping(&sent(Content::Syn)), None);
    let sequence = vec![load(Base::Transport, 4, 4), compare(Operator::Equal, &[0; 4])];
    let unknown = rules(then(sequence, FirewallVerdict::Accept));
    assert_eq!(unknown.dropping(&sent(Content::Syn)), None);
    // One that decides nothing changes nothing.
    let counted = rules(vec![Expression::Other("limit".into())]);
    assert_eq!(handle(counted.dropping(&sent(Content::Syn))), Some(Some(2)));
    let queued = rules(vec![Expression::Other("queue".into())]);
    assert_eq!(handle(queued.dropping(&sent(Content::Syn))), None);
    let logged = rules(vec![Expression::Effect]);
    assert_eq!(handle(logged.dropping(&sent(Content::Syn))), Some(Some(2)));
}

#[test]
fn policy_drops_what_no_rule_accepts() {
    let mut output = chain(
        "out",
        OUTPUT,
        true,
        vec![then(to_port(443), FirewallVerdict::Accept)],
    );
    let rules = ruleset(vec![output.clone()]);
    let drop = rules.dropping(&sent(Content::Syn)).unwrap();
    assert_eq!(drop.name.to_string(), "the policy of chain inet filter out");
    output.policy_packets = Some(0);
    assert_eq!(
        ruleset(vec![output]).dropping(&sent(Content::Syn)),
        None,
        "it never dropped"
    );
}

#[test]
fn counter_of_zero_excludes_a_rule() {
    let rule = |packets| {
        let mut rule = to_port(5000);
        rule.push(Expression::Counter { packets });
        ruleset(vec![chain(
            "out",
            OUTPUT,
            false,
            vec![then(rule, FirewallVerdict::Drop)],
        )])
    };
    assert_eq!(rule(0).dropping(&sent(Content::Syn)), None);
    assert_eq!(rule(3).dropping(&sent(Content::Syn)).unwrap().packets, Some(3));
}

#[test]
fn jumps_return_and_goto_does_not() {
    let rules = |jump: FirewallVerdict, inner: Vec<Vec<Expression>>| {
        ruleset(vec![
            chain(
                "out",
                OUTPUT,
                false,
                vec![then(vec![], jump), then(to_port(5000), FirewallVerdict::Drop)],
            ),
            chain("inner", None, false, inner),
        ])
    };
    let jump = || FirewallVerdict::Jump("inner".into());
    let goto = || FirewallVerdict::Goto("inner".into());
    let packet = sent(Content::Syn);
    assert_eq!(handle(rules(jump(), vec![]).dropping(&packet)), Some(Some(2)));
    assert_eq!(rules(goto(), vec![]).dropping(&packet), None);
    let returns = vec![
        then(vec![], FirewallVerdict::Return),
        then(vec![], FirewallVerdict::Drop),
    ];
    assert_eq!(handle(rules(jump(), returns).dropping(&packet)), Some(Some(2)));
    let accepts = vec![then(vec![], FirewallVerdict::Accept)];
    assert_eq!(rules(jump(), accepts).dropping(&packet), None);
    let drops = vec![then(vec![], FirewallVerdict::Drop)];
    let drop = rules(goto(), drops).dropping(&packet).unwrap();
    assert_eq!(drop.name.chain, "inner");
    let endless = vec![then(vec![], jump())];
    assert_eq!(rules(jump(), endless).dropping(&packet), None);
    let missing = FirewallVerdict::Jump("none".into());
    assert_eq!(rules(missing, vec![]).dropping(&packet), None);
}

#[test]
fn devices_are_known_as_far_as_they_are() {
    let accepts = |key, operator, name: &[u8]| {
        vec![
            then(device(key, operator, name), FirewallVerdict::Accept),
            then(vec![], FirewallVerdict::Drop),
        ]
    };
    let input = |operator, name| {
        ruleset(vec![chain(
            "in",
            INPUT,
            false,
            accepts(MetaKey::InputName, operator, name),
        )])
    };
    let packet = received(Content::Established);
    assert_eq!(
        handle(input(Operator::Equal, b"lo\0").dropping(&packet)),
        Some(Some(2))
    );
    assert_eq!(input(Operator::NotEqual, b"lo\0").dropping(&packet), None);
    assert_eq!(
        input(Operator::Equal, b"eth0\0").dropping(&packet),
        None,
        "it may be"
    );
    let output = |key, name: &[u8]| {
        ruleset(vec![chain(
            "out",
            OUTPUT,
            false,
            accepts(key, Operator::Equal, name),
        )])
    };
    let packet = sent(Content::Established);
    assert_eq!(output(MetaKey::OutputName, b"eth0\0").dropping(&packet), None);
    assert_eq!(
        handle(output(MetaKey::OutputName, b"eth1\0").dropping(&packet)),
        Some(Some(2))
    );
    assert_eq!(
        handle(output(MetaKey::OutputIndex, &2_u32.to_ne_bytes()).dropping(&packet)),
        None
    );
    // What goes out came from no device.
    assert_eq!(
        handle(output(MetaKey::InputName, b"lo\0").dropping(&packet)),
        Some(Some(2))
    );
}

#[test]
fn flags_and_networks_are_compared_by_mask() {
    let masked = |base, offset, mask: &[u8], value: &[u8]| {
        let len = u32::try_from(mask.len()).unwrap();
        let rule = vec![
            load(base, offset, len),
            Expression::Bitwise {
                source: 1,
                register: 1,
                mask: mask.to_vec(),
                xor: vec![0; mask.len()],
            },
            compare(Operator::Equal, value),
        ];
        ruleset(vec![chain(
            "out",
            OUTPUT,
            false,
            vec![then(rule, FirewallVerdict::Drop)],
        )])
    };
    // tcp flags & (fin | syn | rst | ack) == syn
    let syn = masked(Base::Transport, 13, &[0x17], &[0x02]);
    assert!(syn.dropping(&sent(Content::Syn)).is_some());
    assert!(syn.dropping(&sent(Content::Established)).is_none());
    // PSH may be set or not.
    let psh = masked(Base::Transport, 13, &[0x08], &[0x08]);
    assert!(psh.dropping(&sent(Content::Established)).is_none());
    let network = masked(Base::Network, 16, &[255, 255, 0, 0], &[10, 1, 0, 0]);
    assert!(network.dropping(&sent(Content::Established)).is_some());
    let other = masked(Base::Network, 16, &[255, 255, 0, 0], &[10, 2, 0, 0]);
    assert!(other.dropping(&sent(Content::Established)).is_none());
}

/// A chain of another family or hook.
fn placed(family: FirewallFamily, number: u32, devices: &[&str], rule: Vec<Expression>) -> FirewallChain {
    let mut chain = chain("c", Some(number), false, vec![then(rule, FirewallVerdict::Drop)]);
    chain.family = family;
    if let Some(hook) = &mut chain.hook {
        hook.devices = devices.iter().map(|name| (*name).to_owned()).collect();
    }
    chain
}

#[test]
fn chains_of_devices_see_their_packets() {
    let at = |number, device: &str| {
        ruleset(vec![placed(
            FirewallFamily::NETDEV,
            number,
            &[device],
            Vec::new(),
        )])
    };
    let out = sent(Content::Established);
    assert!(at(1, "eth0").dropping(&out).is_some());
    assert!(at(1, "eth1").dropping(&out).is_none());
    assert!(at(0, "eth0").dropping(&out).is_none());
    let answer = received(Content::Established);
    assert!(at(0, "eth0").dropping(&answer).is_none());
    let answer = answer.through(Some(DeviceName::new(b"eth0")));
    assert!(at(0, "eth0").dropping(&answer).is_some());
    assert!(at(1, "eth0").dropping(&answer).is_none());
}

#[test]
fn neighbour_discovery_is_followed() {
    let device = DeviceKnown::Is(InterfaceIndex(2), DeviceName::new(b"eth0"));
    let answer = |is_ipv6| {
        let ip = |text: &str| End {
            ip: text.parse().ok(),
            port: None,
        };
        let (from, to) = if is_ipv6 {
            (ip("fd00::2"), ip("fd00::1"))
        } else {
            (ip("10.1.1.2"), ip("10.1.1.1"))
        };
        Packet::new(
            Content::NeighbourAnswer,
            is_ipv6,
            from,
            to,
            Direction::Incoming,
            device,
        )
    };
    let icmp = vec![
        Expression::Meta {
            key: MetaKey::L4Protocol,
            register: 1,
        },
        compare(Operator::Equal, &[58]),
    ];
    let input = |family| ruleset(vec![placed(family, 1, &[], icmp.clone())]);
    assert!(input(FirewallFamily::IP6).dropping(&answer(true)).is_some());
    assert!(input(FirewallFamily::INET).dropping(&answer(false)).is_none());
    // `arp operation reply`
    let reply = vec![load(Base::Network, 6, 2), compare(Operator::Equal, &[0, 2])];
    let arp = ruleset(vec![placed(FirewallFamily::ARP, 0, &[], reply)]);
    assert!(arp.dropping(&answer(false)).is_some());
    assert!(arp.dropping(&answer(true)).is_none());
    assert!(arp.dropping(&received(Content::Established)).is_none());
}

#[test]
fn only_rule_that_may_drop_is_probable() {
    let unknown = || {
        let mut rule = vec![
            Expression::ConnectionState { register: 1 },
            compare(Operator::NotEqual, &2_u32.to_ne_bytes()),
        ];
        rule.extend(to_port(5000));
        rule
    };
    let limited = || {
        let mut rule = to_port(5000);
        rule.push(Expression::Other("limit".into()));
        rule
    };
    let drop = |rule| then(rule, FirewallVerdict::Drop);
    let packet = sent(Content::Established);
    for rule in [unknown(), limited()] {
        let one = ruleset(vec![chain("out", OUTPUT, false, vec![drop(rule.clone())])]);
        assert!(one.dropping(&packet).is_none());
        assert!(one.perhaps_dropping(&packet).is_some());
        let two = vec![drop(rule.clone()), drop(rule)];
        let two = ruleset(vec![chain("out", OUTPUT, false, two)]);
        assert!(two.perhaps_dropping(&packet).is_none());
    }
    // A rule that names no address or port is in every ruleset.
    let any = vec![
        Expression::ConnectionState { register: 1 },
        compare(Operator::Equal, &1_u32.to_ne_bytes()),
    ];
    let any = ruleset(vec![chain("out", OUTPUT, false, vec![drop(any)])]);
    assert!(any.perhaps_dropping(&packet).is_none());
    // What may be let pass before is not accused.
    let passes = then(
        vec![
            Expression::ConnectionState { register: 1 },
            compare(Operator::Equal, &2_u32.to_ne_bytes()),
        ],
        FirewallVerdict::Accept,
    );
    let policy = ruleset(vec![chain("out", OUTPUT, true, vec![passes])]);
    assert!(policy.perhaps_dropping(&packet).is_none());
}

#[test]
fn map_to_verdicts_decides() {
    let element = |key: u16, verdict| Element {
        key: key.to_be_bytes().to_vec(),
        key_end: None,
        ends_range: false,
        is_catch_all: false,
        verdict: Some(verdict),
    };
    let rule = vec![
        load(Base::Transport, 2, 2),
        Expression::Lookup {
            register: 1,
            set: "ports".into(),
            is_inverted: false,
            is_map: true,
            decides: true,
        },
    ];
    let of = |elements: Vec<Element>| {
        let chains = vec![
            chain("out", OUTPUT, false, vec![rule.clone()]),
            chain("deny", None, false, vec![then(Vec::new(), FirewallVerdict::Drop)]),
        ];
        let key = (FirewallFamily::INET, "filter".to_owned(), "ports".to_owned());
        Ruleset::new(Firewall {
            chains,
            sets: [(key, elements)].into(),
            ..Firewall::default()
        })
        .dropping(&sent(Content::Established))
    };
    let deny = || FirewallVerdict::Jump("deny".into());
    let drop = of(vec![element(22, FirewallVerdict::Accept), element(5000, deny())]);
    assert_eq!(drop.map(|drop| drop.name.chain), Some("deny".to_owned()));
    assert!(of(vec![element(5000, FirewallVerdict::Accept)]).is_none());
    assert!(of(vec![element(22, deny())]).is_none());
}

#[test]
fn ranges_and_sets_contain_values() {
    let element = |key: u16, ends_range| Element {
        key: key.to_be_bytes().to_vec(),
        key_end: None,
        ends_range,
        is_catch_all: false,
        verdict: None,
    };
    let lookup = |elements: Vec<Element>, is_inverted| {
        let rule = vec![
            load(Base::Transport, 2, 2),
            Expression::Lookup {
                register: 1,
                set: "ports".into(),
                is_inverted,
                is_map: false,
                decides: false,
            },
        ];
        let chains = vec![chain(
            "out",
            OUTPUT,
            false,
            vec![then(rule, FirewallVerdict::Drop)],
        )];
        let key = (FirewallFamily::INET, "filter".to_owned(), "ports".to_owned());
        Ruleset::new(Firewall {
            chains,
            sets: [(key, elements)].into(),
            ..Firewall::default()
        })
        .dropping(&sent(Content::Syn))
        .is_some()
    };
    let single = || vec![element(80, false), element(5000, false)];
    assert!(lookup(single(), false));
    assert!(!lookup(single(), true));
    assert!(!lookup(vec![element(80, false)], false));
    assert!(lookup(vec![element(80, false)], true));
    let ranges = |from, behind| vec![element(0, true), element(from, false), element(behind, true)];
    assert!(lookup(ranges(4000, 5001), false));
    assert!(!lookup(ranges(4000, 5000), false));
    assert!(lookup(ranges(5000, 5001), false));
    // Two ranges that touch: one ends where the next begins.
    let touching = [
        ranges(4000, 5000),
        vec![element(5000, false), element(6000, true)],
    ]
    .concat();
    assert!(lookup(touching, false));
    let in_range = |from: u16, to: u16| {
        let rule = vec![
            load(Base::Transport, 2, 2),
            Expression::Range {
                register: 1,
                is_inverted: false,
                from: from.to_be_bytes().to_vec(),
                to: to.to_be_bytes().to_vec(),
            },
        ];
        let rules = ruleset(vec![chain(
            "out",
            OUTPUT,
            false,
            vec![then(rule, FirewallVerdict::Drop)],
        )]);
        rules.dropping(&sent(Content::Syn)).is_some()
    };
    assert!(in_range(5000, 5000) && in_range(1, 5000) && !in_range(5001, 9000));
}

#[test]
fn icmp_errors_are_followed() {
    let packet = |is_ipv6| {
        let unknown = End { ip: None, port: None };
        Packet::new(
            Content::TooBig,
            is_ipv6,
            unknown,
            unknown,
            Direction::Incoming,
            DeviceKnown::NotLoopback,
        )
    };
    let protocol = |number: u8| {
        let rule = vec![
            Expression::Meta {
                key: MetaKey::L4Protocol,
                register: 1,
            },
            compare(Operator::Equal, &[number]),
        ];
        ruleset(vec![chain(
            "in",
            INPUT,
            false,
            vec![then(rule, FirewallVerdict::Drop)],
        )])
    };
    assert!(protocol(1).dropping(&packet(false)).is_some());
    assert!(protocol(58).dropping(&packet(true)).is_some());
    assert!(protocol(6).dropping(&packet(false)).is_none());
}

#[test]
fn foreign_registers_and_lengths_do_no_harm() {
    for register in [0, 4, 5, 7, 8, 23, 24, u32::MAX] {
        for len in [0, 1, 3, 16, 64, 1000, u32::MAX] {
            let rule = vec![
                Expression::Payload {
                    base: Base::Network,
                    offset: u32::MAX,
                    len,
                    register,
                },
                Expression::Compare {
                    register,
                    operator: Operator::Less,
                    value: vec![0; len.min(2000) as usize],
                },
            ];
            let rules = ruleset(vec![chain(
                "out",
                OUTPUT,
                false,
                vec![then(rule, FirewallVerdict::Drop)],
            )]);
            assert_eq!(rules.dropping(&sent(Content::Syn)), None);
        }
    }
}
