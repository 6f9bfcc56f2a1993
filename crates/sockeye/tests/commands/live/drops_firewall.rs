//! `sockeye drops`: firewalls with several rules that drop on one device.

use super::drops::{Watching, alone, rows, send, sum};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

/// Loads a ruleset, in the format of `nft list ruleset`.
fn load(here: &Namespace, lab: &Lab, rules: &str) {
    let file = lab.directory().join("rules");
    std::fs::write(&file, rules).unwrap();
    here.output("nft", &["-f", file.to_str().unwrap()]);
}

/// The number of packets of each rule that is named, by family, chain and the text of the rule.
fn by_rule(rows: &[&Value], here: &Namespace) -> BTreeMap<String, u64> {
    let listed = here.output("nft", &["-a", "list", "ruleset"]);
    let mut sums = BTreeMap::new();
    for row in rows {
        let rule = &row["firewall_rule"];
        let text = match rule["handle"].as_u64() {
            Some(handle) => {
                let (family, chain) = (rule["family"].as_str().unwrap(), rule["chain"].as_str().unwrap());
                let table = listed
                    .split("table ")
                    .find(|table| table.starts_with(&format!("{family} ")));
                let chain = table
                    .unwrap()
                    .split("chain ")
                    .find(|text| text.starts_with(&format!("{chain} ")));
                let end = format!("# handle {handle}");
                let line = chain.unwrap().lines().find(|line| line.ends_with(&end)).unwrap();
                line.trim().split(" counter").next().unwrap().to_owned()
            }
            None => "none".to_owned(),
        };
        *sums.entry(text).or_default() += row["count"].as_u64().unwrap();
    }
    sums
}

/// The counters of rules of this namespace that do not explain all.
fn left<'a>(document: &'a Value, here: &Namespace) -> Vec<&'a Value> {
    let all = document["counters"].as_array().unwrap().iter();
    let of_rules = all.filter(|line| line["netns_inode"] == here.inode() && line["counter"] == "nft packets");
    of_rules.filter(|line| line["remainder"] != 0).collect()
}

const RULES: &str = "
table inet fw {
	set bad {
		type ipv4_addr . inet_service
		elements = { 127.0.0.1 . 7006 }
	}
	chain j {
		udp length 18 counter drop
	}
	chain i {
		type filter hook input priority 0; policy accept;
		ct state invalid counter drop
		udp dport 7001 counter drop
		udp dport 7002 counter drop
		udp dport 7003 drop
		ip saddr . udp dport @bad counter drop
		udp dport vmap { 7007 : jump j, 7008 : drop }
		meta l4proto tcp counter drop
	}
}
table netdev nd {
	chain e {
		type filter hook egress device \"lo\" priority 0;
		udp dport 7011 counter drop
	}
	chain n {
		type filter hook ingress device \"lo\" priority 0;
		udp dport 7010 counter drop
	}
}
";

#[test]
fn each_rule_that_drops_has_a_row_and_its_counter_is_explained() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-each-rule"));
    load(&here, &lab, RULES);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    let sent = [
        (7001, 40),
        (7002, 25),
        (7003, 11),
        (7006, 9),
        (7007, 13),
        (7008, 7),
        (7010, 6),
    ];
    for (port, count) in sent {
        send(&sender, SocketAddr::from(([127, 0, 0, 1], port)), 10, count);
    }
    for _ in 0..5 {
        // The sender has no error without IP_RECVERR.
        let _ = sender.send_to(b"x", "127.0.0.1:7011");
    }
    let document = watching.end();
    let found = by_rule(&rows(&document, &here, "NETFILTER_DROP"), &here);
    let expected = [
        ("udp dport 7001", 40),
        ("udp dport 7002", 25),
        ("udp dport 7003 drop # handle 9", 11),
        ("ip saddr . udp dport @bad", 9),
        ("udp length 18", 13),
        ("udp dport vmap { 7007 : jump j, 7008 : drop }", 7),
        ("udp dport 7010", 6),
        ("udp dport 7011", 5),
    ];
    for (text, count) in expected {
        let text = text.split(" drop #").next().unwrap();
        let of_rule = found.iter().filter(|(found, _)| found.starts_with(text));
        assert_eq!(
            of_rule.map(|(_, count)| count).sum::<u64>(),
            count,
            "{text}: {found:#?}"
        );
    }
    assert!(left(&document, &here).is_empty(), "{document:#}");
    // The error of `egress` is that of a full queue.
    for name in ["UdpSndbufErrors", "IpOutDiscards"] {
        let line = super::drops::counter(&document, &here, name);
        assert_eq!(
            (&line["moved"], &line["remainder"]),
            (&5.into(), &0.into()),
            "{line:#}"
        );
    }
}

#[test]
fn packets_that_several_rules_can_have_dropped_list_these() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-one-of"));
    let rules = "table ip f {
	chain i {
		type filter hook input priority 0; policy accept;
		udp dport 7021 limit rate over 5/minute counter drop
		udp dport 7021 counter drop
		udp dport 7022 limit rate over 5/minute counter accept
		udp dport 7022 fib daddr type local counter drop
		udp dport 7023 counter drop
		udp dport 7024 limit rate over 5/minute counter drop
		udp dport 7024 counter drop
	}
}
";
    load(&here, &lab, rules);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    for port in [7021, 7022, 7023] {
        send(&sender, SocketAddr::from(([127, 0, 0, 1], port)), 10, 20);
    }
    let document = watching.end();
    let all = rows(&document, &here, "NETFILTER_DROP");
    let to = |port: u16| {
        let is_to = |row: &&Value| row["seen_packets"][0]["destination"]["port"] == port;
        all.iter().copied().filter(is_to).collect::<Vec<_>>()
    };
    let [row] = &to(7021)[..] else {
        panic!("{document:#}")
    };
    assert_eq!(row["count"], 20, "{row:#}");
    assert!(row.get("firewall_rule").is_none(), "{row:#}");
    assert_eq!(row["firewall_rules"].as_array().unwrap().len(), 2, "{row:#}");
    // What decides cannot be evaluated: no rule that drops nothing is named.
    for row in to(7022) {
        assert!(
            row.get("firewall_rule").is_none_or(|rule| rule["chain"] == "i")
                && row.get("firewall_rules").is_none(),
            "{row:#}"
        );
    }
    assert_eq!(sum(&to(7023)), 20, "{document:#}");
    assert_eq!(by_rule(&to(7023), &here).keys().next().unwrap(), "udp dport 7023");
    let outcome = Watching::start(&lab, &here, &format!("-N {}", here.name()));
    send(&sender, SocketAddr::from(([127, 0, 0, 1], 7024)), 10, 20);
    let table = outcome.end_by(rustix::process::Signal::INT).ok().to_owned();
    assert!(table.contains("one of 2 rules"), "{table}");
}

#[test]
fn rule_that_had_counted_nothing_at_the_beginning_is_named() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-zero-rule"));
    let rules = "table ip f {
	chain i {
		type filter hook input priority 0; policy drop;
		udp dport 7031 counter drop
		udp dport 7032 accept
	}
}
";
    load(&here, &lab, rules);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    for port in [7031, 7033] {
        send(&sender, SocketAddr::from(([127, 0, 0, 1], port)), 10, 8);
    }
    let document = watching.end();
    let found = by_rule(&rows(&document, &here, "NETFILTER_DROP"), &here);
    // The other is the policy, which has no number.
    assert_eq!(
        found,
        BTreeMap::from([("udp dport 7031".to_owned(), 8), ("none".to_owned(), 8)]),
        "{document:#}"
    );
}

#[test]
fn more_ports_than_are_counted_apart_are_counted_together() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-scan"));
    let rules = "table ip f {
	chain i {
		type filter hook input priority 0; policy accept;
		udp dport 10000-20000 counter drop
	}
}
";
    load(&here, &lab, rules);
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--keys 64 --format json");
    for port in 10_000..10_400 {
        send(&sender, SocketAddr::from(([127, 0, 0, 1], port)), 10, 1);
    }
    let document = watching.end();
    let all = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&all), 400, "{document:#}");
    assert_eq!(all.len(), 1, "{document:#}");
    assert_eq!(by_rule(&all, &here).values().next(), Some(&400), "{document:#}");
}
