//! The keywords of the language.

use super::qualifiers::Proto;
use crate::error::nearest;

/// Whether the word says what the name after it is.
pub(super) fn is_qualifier(word: &str) -> bool {
    ["src", "dst", "host", "net", "port", "portrange", "proto"].contains(&word)
}

/// Whether a term may begin with this word.
pub(super) fn is_beginning(word: &str) -> bool {
    word == "not" || is_qualifier(word) || Proto::of(word).is_some() || has(WITHOUT_NAME, word)
}

/// Whether it is no name of a host or service.
pub(super) fn is_keyword(word: &str) -> bool {
    has(KEYWORDS, word)
}

/// Returns what to write instead of an unknown word; `None` if no keyword is similar.
pub(super) fn hint(word: &str) -> Option<String> {
    match UNSUPPORTED.iter().find(|(words, _)| has(words, word)) {
        Some((_, instead)) => Some(format!("tcpdump knows '{word}', this does not: {instead}")),
        None => nearest(word, KEYWORDS.split(' ')),
    }
}

fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// What may stand at the beginning of a condition.
pub(super) const BEGINNINGS: &[&str] = &["host", "net", "port", "tcp", "udp", "ip", "another condition"];

/// Conditions without a name after them, separated by blanks.
const WITHOUT_NAME: &str =
    "broadcast multicast less greater inbound outbound ifindex vlan mpls pppoed pppoes";

/// All keywords, separated by blanks.
const KEYWORDS: &str = "and or not src dst host net port portrange proto mask ether link ip ip6 arp rarp tcp udp \
    sctp icmp icmp6 igmp igrp pim vrrp carp ah esp broadcast multicast less greater inbound outbound ifindex vlan mpls \
    pppoed pppoes len length";

/// Keywords of libpcap's language that are not supported, separated by blanks, and what to write instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "gateway",
        "write 'ether host' with its Ethernet address, and 'not host' with its IP address",
    ),
    (
        "protochain",
        "'ip6 proto N' looks at the first header, ip6[40] at what lies behind it",
    ),
    ("geneve", "'udp port 6081' finds it from outside"),
    ("vxlan", "'udp port 4789' finds it from outside"),
    (
        "iso clnp esis es-is isis is-is stp ipx netbeui llc",
        "such frames hold a length up to 1500 where others hold a protocol: ether[12:2] <= 1500 finds all of them",
    ),
    (
        "decnet atalk aarp lat sca moprc mopdl",
        "'ether proto' with its number finds it",
    ),
    (
        "type subtype dir direction radio addr1 addr2 addr3 addr4 ra ta",
        "it is about frames of Wi-Fi, which are not captured here",
    ),
    (
        "ifname on action reason rnr rulenum rset ruleset srnr subrulenum",
        "it is about pf's log; an interface is chosen by -i, or by 'ifindex N'",
    ),
    (
        "vpi vci lane oamf4s oamf4e oamf4 oam metac bcc connectmsg metaconnect sio opc dpc sls",
        "it is about ATM and SS7",
    ),
    ("byte", "proto[offset] does the same"),
];
