//! The words of the language, for documents and completion.

use crate::field::Field;
use crate::states;
use crate::units::Quantity;

/// A word of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The word as it is typed.
    pub name: &'static str,
    /// What it compares, or what its value is.
    pub about: &'static str,
    /// The JSON key and CSV field with the same quantity, which is accepted too; `None` if there is none.
    pub key: Option<&'static str>,
    /// Further names.
    pub aliases: &'static [&'static str],
}

/// Returns the words that begin a condition: those of `ss`, then ours.
pub fn conditions() -> impl Iterator<Item = Word> {
    let of_ss = OF_SS.iter().map(|&(name, aliases, about)| Word {
        name,
        about,
        key: None,
        aliases,
    });
    let fields = Field::ALL.iter().map(|&(name, aliases, field)| Word {
        name,
        key: Some(field.key()),
        aliases,
        about: match field.kind() {
            Quantity::Time => "a time: us, ms, s, m (minutes), h, d",
            Quantity::Bytes => "bytes: no unit, k, M, G (1000) or Ki, Mi, Gi (1024)",
            Quantity::Rate => "a rate: kbit, Mbit, Gbit or kB/s, MB/s",
            Quantity::Count => "a count",
            Quantity::Id => "a number; uid and netns also by name",
        },
    });
    of_ss.chain(fields)
}

/// Returns the names of states and of groups of states.
pub fn states() -> impl Iterator<Item = &'static str> {
    states::NAMES.iter().map(|&(name, _)| name)
}

/// Returns the words that join conditions.
#[must_use]
pub const fn operators() -> &'static [&'static str] {
    &["and", "or", "not"]
}

const OF_SS: &[(&str, &[&str], &str)] = &[
    ("state", &[], "a state or a group of states"),
    ("exclude", &["excl"], "a state or a group of states"),
    ("src", &["local"], "our address: [FAMILY:]ADDRESS[/PREFIX][:PORT]"),
    (
        "dst",
        &["peer"],
        "the peer's address: [FAMILY:]ADDRESS[/PREFIX][:PORT]",
    ),
    (
        "sport",
        &["local_port"],
        "our port: a number, a service, or a range 8000-8999",
    ),
    (
        "dport",
        &["peer_port"],
        "the peer's port: a number, a service, or a range 8000-8999",
    ),
    (
        "dev",
        &["interface"],
        "the interface that the socket is bound to, by name or index",
    ),
    ("fwmark", &[], "a firewall mark: MARK[/MASK]"),
    ("cgroup", &[], "the path of a cgroup (v2)"),
    ("autobound", &[], "no value: the kernel chose the port"),
    (
        "owner",
        &["owners"],
        "the name of an owner process; ~ and !~ take a pattern",
    ),
    (
        "congestion",
        &["cong"],
        "the name of a congestion control; ~ and !~ take a pattern",
    ),
    ("timer", &[], "on, keepalive, timewait, persist or off"),
    (
        "proto",
        &["protocol", "netid"],
        "a protocol: tcp, udp, raw, unix, packet, ...",
    ),
    ("family", &[], "an address family: inet, inet6, unix, ..."),
    ("peers", &[], "public, private, loopback, all or none"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoResolve, parse};

    #[test]
    fn every_condition_is_known_to_the_parser() {
        for word in conditions() {
            let is_known = [
                "= 1",
                "= 1s",
                "= 1k",
                "= 1Mbit",
                "established",
                "127.0.0.1",
                ":80",
                "= off",
                "= tcp",
                "= inet",
                "= all",
                "= a",
                "",
            ]
            .iter()
            .any(|value| parse(&format!("{} {value}", word.name), &NoResolve).is_ok());
            let needs_host = ["dev", "cgroup"].contains(&word.name);
            assert!(is_known || needs_host, "{}", word.name);
        }
        for state in states() {
            assert!(parse(&format!("state {state}"), &NoResolve).is_ok(), "{state}");
        }
    }
}
