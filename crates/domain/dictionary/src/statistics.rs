//! Counters in the output of tools: `ethtool -S`, `nstat`, `conntrack -S`, `tc -s qdisc`, `ip -s -s link`, `rdma statistic`, and the
//! files of `/proc/net`. Which ones are not zero, and what they mean.

use crate::lookup::counter;
use crate::{Entry, Kind, Severity};
use std::cmp::Reverse;

/// Counters that are not zero, with their entry; those of several queues or CPUs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterGroup {
    /// The entry; `None`: there is none, but the name looks like loss
    pub entry: Option<&'static Entry<'static>>,
    /// The counters, in the order of the text
    pub values: Vec<CounterValue>,
    /// Counters beyond the limit
    pub values_left_out: u64,
    /// Sum of all; 0 where a value is no number
    pub total: u64,
}

/// A counter as a tool printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterValue {
    /// The name, as printed
    pub name: String,
    /// Interface, queue, CPU or slave, where the text has it outside of the name
    pub place: Option<String>,
    /// The value, as printed
    pub value: String,
}

impl CounterGroup {
    /// How bad it is that the counter is not zero.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.entry {
            // Without an entry it is not clear that it is loss.
            None => Severity::Notice,
            Some(entry) if entry.kind == Kind::Column && is_loss(&self.values[0].name) => Severity::Warning,
            Some(entry) => entry.severity.unwrap_or(Severity::Info),
        }
    }
}

/// Reads the output of tools line by line.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    section: Section,
    groups: Vec<CounterGroup>,
    zero: u64,
    other: u64,
}

/// What the lines belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Section {
    None,
    /// `ethtool -S`
    Ethtool,
    /// Names of columns with their prefix; rows of numbers follow.
    Columns {
        prefix: &'static str,
        names: Vec<String>,
        row: u64,
    },
    /// `Tcp: RtoAlgorithm ...`; a line of numbers follows.
    Pairs {
        prefix: String,
        names: Vec<String>,
    },
    /// `ip -s link` of this interface; the direction and names of the line before
    Link {
        interface: String,
        direction: &'static str,
        names: Vec<String>,
    },
    /// `tc -s qdisc`
    Qdisc(String),
    /// `/proc/net/bonding`; the slave
    Bonding(Option<String>),
    /// `/proc/net/softnet_stat`; the row
    Softnet(u64),
}

impl Statistics {
    pub(crate) fn new() -> Self {
        Self {
            section: Section::None,
            groups: Vec::new(),
            zero: 0,
            other: 0,
        }
    }

    /// Counters that are zero.
    pub(crate) fn zero(&self) -> u64 {
        self.zero
    }

    /// Counters that are not zero, have no entry and do not look like loss.
    pub(crate) fn other(&self) -> u64 {
        self.other
    }

    /// Counters that are not zero: the worst first, of these the largest.
    pub(crate) fn sorted(&self) -> Vec<&CounterGroup> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|group| {
            (
                Reverse(group.severity()),
                group.entry.is_none(),
                Reverse(group.total),
                group.values[0].name.as_str(),
            )
        });
        groups
    }

    /// Whether no line before is one of counters.
    pub(crate) fn is_idle(&self) -> bool {
        self.section == Section::None
    }

    /// Takes a line; `false`: it is no counter.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let text = line.trim();
        // Most lines of a log have none of these forms.
        if self.section == Section::None && !may_begin(text) {
            return false;
        }
        if self.header(text) {
            return true;
        }
        let taken = match self.section.clone() {
            Section::None => self.alone(text),
            Section::Ethtool => self.ethtool(text),
            Section::Columns { prefix, names, row } => self.columns(text, prefix, &names, row),
            Section::Pairs { prefix, names } => self.pairs(text, &prefix, &names),
            Section::Link {
                interface,
                direction,
                names,
            } => self.link(text, &interface, direction, &names),
            Section::Qdisc(place) => self.qdisc(line, &place),
            Section::Bonding(slave) => self.bonding(text, slave.as_deref()),
            Section::Softnet(row) => self.softnet(text, row),
        };
        if !taken && self.section != Section::None && !text.is_empty() {
            self.section = Section::None;
            return may_begin(text) && self.alone(text);
        }
        taken
    }

    /// A line that begins a section.
    fn header(&mut self, text: &str) -> bool {
        let words = || text.split_whitespace();
        if text.ends_with("statistics:") && text.len() < HEADER_LEN_MAX {
            self.section = Section::Ethtool;
        } else if text.starts_with("Ethernet Channel Bonding Driver") {
            self.section = Section::Bonding(None);
        } else if text.starts_with("qdisc ") || text.starts_with("class ") {
            let place: Vec<&str> = words()
                .take_while(|word| !matches!(*word, "root" | "refcnt" | "limit"))
                .collect();
            self.section = Section::Qdisc(place.join(" "));
        } else if let Some((number, rest)) = text.split_once(": ")
            && all_digits(number)
            && let Some((interface, rest)) = rest.split_once(": <")
            && rest.contains(" mtu ")
        {
            self.section = Section::Link {
                interface: interface.to_owned(),
                direction: "",
                names: Vec::new(),
            };
        } else if matches!(words().next(), Some("entries")) && words().count() > 4 {
            let is = |name| words().any(|word| word == name);
            let prefix = if is("insert_failed") {
                "nf_conntrack."
            } else if is("table_fulls") {
                "neigh."
            } else {
                ""
            };
            self.section = Section::Columns {
                prefix,
                names: words().map(str::to_owned).collect(),
                row: 0,
            };
        } else if let Some((prefix, rest)) = text.split_once(": ")
            && PAIR_PREFIXES.contains(&prefix)
            && rest.starts_with(|first: char| first.is_ascii_alphabetic())
            && !rest.contains(':')
        {
            self.section = Section::Pairs {
                prefix: prefix.to_owned(),
                names: rest.split_whitespace().map(str::to_owned).collect(),
            };
        } else if text.starts_with('#') && (text == "#kernel" || text.contains("sampling")) {
            self.section = Section::None;
        } else {
            return false;
        }
        true
    }

    /// A line that says by itself what it is.
    fn alone(&mut self, text: &str) -> bool {
        if text.starts_with("cpu=") {
            return self.conntrack(text);
        }
        if text.starts_with("link ") {
            return self.rdma(text);
        }
        // `name: 12` of `ethtool -S | grep`
        if text.contains(':') {
            return self.name_and_number(text, true);
        }
        let words: Vec<&str> = text.split_whitespace().take(17).collect();
        if words.len() >= 10 && words.len() < 17 && words.iter().all(|word| is_hex_8(word)) {
            return self.softnet(text, 0);
        }
        // `TcpExtListenOverflows  12  0.0`, `TlsDecryptError  3`
        if let [name, value, rest @ ..] = &words[..]
            && rest.len() <= 1
            && all_digits(value)
            && rest.first().is_none_or(|rate| rate.parse::<f64>().is_ok())
            && counter(name).is_some()
        {
            self.add(name, None, value);
            return true;
        }
        false
    }

    fn ethtool(&mut self, text: &str) -> bool {
        text.is_empty() || self.name_and_number(text, false)
    }

    fn name_and_number(&mut self, text: &str, must_be_known: bool) -> bool {
        let Some((name, value)) = text.rsplit_once(':') else {
            return false;
        };
        let value = value.trim();
        let name = name.trim();
        if !all_digits(value) || value.is_empty() || name.is_empty() || name.len() > HEADER_LEN_MAX {
            return false;
        }
        // Those of page pools have names that nothing else has; most of them are no loss and have no entry.
        if must_be_known && counter(name).is_none() && !name.starts_with("rx_pp_") {
            return false;
        }
        self.add(name, None, value);
        true
    }

    /// `cpu=0  found=1 invalid=2 ...`
    fn conntrack(&mut self, text: &str) -> bool {
        let mut place = None;
        for word in text.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else {
                return place.is_some();
            };
            if name == "cpu" {
                place = Some(format!("CPU {value}"));
            } else {
                self.add_as(&format!("nf_conntrack.{name}"), name, place.as_deref(), value);
            }
        }
        true
    }

    /// `link mlx5_0/1 rx_write_requests 0 ...`
    fn rdma(&mut self, text: &str) -> bool {
        let mut words = text.split_whitespace().skip(1);
        let Some(place) = words.next().filter(|place| place.contains('/')) else {
            return false;
        };
        let mut any = false;
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            if !all_digits(value) {
                return any;
            }
            self.add(name, Some(place), value);
            any = true;
        }
        any
    }

    fn columns(&mut self, text: &str, prefix: &str, names: &[String], row: u64) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != names.len() || !words.iter().all(|word| is_hex_8(word)) {
            return false;
        }
        let place = format!("CPU {row}");
        // The first is the number of entries: a state, which every row repeats.
        for (name, value) in names.iter().zip(&words).skip(1) {
            let value = u64::from_str_radix(value, 16).unwrap_or(0);
            self.add_as(&format!("{prefix}{name}"), name, Some(&place), &value.to_string());
        }
        if let Section::Columns { row, .. } = &mut self.section {
            *row += 1;
        }
        true
    }

    fn pairs(&mut self, text: &str, prefix: &str, names: &[String]) -> bool {
        let Some(values) = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(": ")) else {
            return false;
        };
        for (name, value) in names.iter().zip(values.split_whitespace()) {
            self.add(&format!("{prefix}{name}"), None, value);
        }
        true
    }

    fn link(&mut self, text: &str, interface: &str, direction: &'static str, names: &[String]) -> bool {
        let mut words = text.split_whitespace();
        let numbers: Vec<&str> = words.clone().collect();
        if !names.is_empty() && numbers.iter().all(|word| all_digits(word)) && !numbers.is_empty() {
            for (name, value) in names.iter().zip(&numbers) {
                let entry = match name.as_str() {
                    "errors" | "dropped" | "packets" => format!("ip link: {direction} {name}"),
                    name => format!("ip link: {name}"),
                };
                let shown = format!("{direction} {name}");
                self.add_as(&entry, &shown, Some(interface), value);
            }
            self.set_link_names("", Vec::new());
            return true;
        }
        let direction = match words.next() {
            Some("RX:" | "RX") => "RX",
            Some("TX:" | "TX") => "TX",
            // Addresses, properties, alternative names.
            _ => return !text.contains(": <") && LINK_WORDS.iter().any(|word| text.starts_with(word)),
        };
        let names = words
            .filter(|word| *word != "errors:")
            .map(str::to_owned)
            .collect();
        self.set_link_names(direction, names);
        true
    }

    fn set_link_names(&mut self, new_direction: &'static str, new_names: Vec<String>) {
        if let Section::Link { direction, names, .. } = &mut self.section {
            *direction = new_direction;
            *names = new_names;
        }
    }

    fn qdisc(&mut self, line: &str, place: &str) -> bool {
        // Lines of a queue begin with a blank.
        if !line.starts_with([' ', '\t']) {
            return false;
        }
        let words: Vec<&str> = line
            .split([' ', '\t', '(', ')', ','])
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            if QDISC_COUNTERS.contains(&pair[0]) && all_digits(pair[1]) {
                self.add_as(&format!("tc qdisc: {}", pair[0]), pair[0], Some(place), pair[1]);
            }
        }
        true
    }

    fn bonding(&mut self, text: &str, slave: Option<&str>) -> bool {
        if text.is_empty() {
            return true;
        }
        let Some((name, value)) = text.split_once(':') else {
            return false;
        };
        let value = value.trim();
        if name == "Slave Interface" {
            self.section = Section::Bonding(Some(value.to_owned()));
            return true;
        }
        if !BONDING_KEYS.iter().any(|key| name.trim_start().starts_with(key)) {
            return false;
        }
        let is_good = matches!(value, "up" | "none" | "monitoring" | "0");
        match name.trim() {
            "MII Status"
            | "Link Failure Count"
            | "Actor Churn State"
            | "Partner Churn State"
            | "Actor Churned Count"
            | "Partner Churned Count" => {
                let shown = if is_good { "0" } else { value };
                self.add(name.trim(), slave, shown);
            }
            _ => {}
        }
        true
    }

    fn softnet(&mut self, text: &str, row: u64) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() < 10 || !words.iter().all(|word| is_hex_8(word)) {
            return false;
        }
        let place = format!("CPU {row}");
        for (name, word) in SOFTNET_COLUMNS.iter().zip(&words) {
            if !name.is_empty() {
                let value = u64::from_str_radix(word, 16).unwrap_or(0);
                self.add_as(
                    &format!("softnet_stat.{name}"),
                    name,
                    Some(&place),
                    &value.to_string(),
                );
            }
        }
        self.section = Section::Softnet(row + 1);
        true
    }

    fn add(&mut self, name: &str, place: Option<&str>, value: &str) {
        self.add_as(name, name, place, value);
    }

    /// Adds a counter that the dictionary has as `key`.
    fn add_as(&mut self, key: &str, name: &str, place: Option<&str>, value: &str) {
        let number = value.parse::<u64>();
        if number == Ok(0) || value.is_empty() || value.starts_with('-') {
            self.zero += 1;
            return;
        }
        let entry = counter(key);
        if entry.is_none() && !is_loss(name) {
            self.other += 1;
            return;
        }
        let is_it = |group: &&mut CounterGroup| match (group.entry, entry) {
            (Some(known), Some(entry)) => std::ptr::eq(known, entry),
            (None, None) => group.values[0].name == name,
            _ => false,
        };
        let value = CounterValue {
            name: name.to_owned(),
            place: place.map(str::to_owned),
            value: value.to_owned(),
        };
        let number = number.unwrap_or(0);
        if let Some(group) = self.groups.iter_mut().find(is_it) {
            group.total = group.total.saturating_add(number);
            if group.values.len() < VALUES_MAX {
                group.values.push(value);
            } else {
                group.values_left_out += 1;
            }
        } else if self.groups.len() < GROUPS_MAX {
            self.groups.push(CounterGroup {
                entry,
                values: vec![value],
                values_left_out: 0,
                total: number,
            });
        } else {
            self.other += 1;
        }
    }
}

/// Whether the line may be one that begins or is a counter: cheap, because every line of a log is asked.
fn may_begin(text: &str) -> bool {
    let Some(last) = text.as_bytes().last() else {
        return false;
    };
    let first = text.as_bytes()[0];
    // Comparing the first byte before costs no call.
    let is_header = || {
        HEADERS
            .iter()
            .any(|header| header.as_bytes()[0] == first && text.starts_with(header))
    };
    match first {
        b'[' => {
            last.is_ascii_digit()
                && text.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
                && text.contains("]: ")
        }
        b'#' => true,
        b'0'..=b'9' | b'a'..=b'f' => {
            last.is_ascii_digit()
                || text.contains(": <")
                || is_hex_8(text.split(' ').next().unwrap_or(""))
                || is_header()
        }
        _ => last.is_ascii_digit() || text.ends_with("statistics:") || is_header(),
    }
}

/// Whether a name says that something got lost or failed.
fn is_loss(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LOSS_WORDS.iter().any(|word| name.contains(word))
}

fn is_hex_8(word: &str) -> bool {
    word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn all_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Counters with one entry that are kept: a NIC has up to 128 queues.
const VALUES_MAX: usize = 128;
const GROUPS_MAX: usize = 2_000;
const HEADER_LEN_MAX: usize = 64;
const PAIR_PREFIXES: [&str; 11] = [
    "Ip", "Icmp", "IcmpMsg", "Tcp", "Udp", "UdpLite", "TcpExt", "IpExt", "MPTcpExt", "Ip6", "Icmp6",
];
const HEADERS: [&str; 10] = [
    "Ethernet Channel Bonding Driver",
    "qdisc ",
    "class ",
    "entries ",
    "cpu=",
    "Tcp",
    "Ip",
    "Udp",
    "Icmp",
    "MPTcpExt",
];
/// Begins of lines of /proc/net/bonding/BOND.
const BONDING_KEYS: [&str; 31] = [
    "Bonding Mode",
    "Primary Slave",
    "Currently Active Slave",
    "MII ",
    "Up Delay",
    "Down Delay",
    "Peer Notification Delay",
    "Speed",
    "Duplex",
    "Link Failure Count",
    "Permanent HW addr",
    "Slave queue ID",
    "Aggregator",
    "Actor ",
    "Partner ",
    "Transmit Hash Policy",
    "802.3ad info",
    "LACP ",
    "Min links",
    "System ",
    "Active Aggregator Info",
    "Number of ports",
    "details ",
    "system ",
    "port ",
    "oper key",
    "ARP ",
    "NS IPv6",
    "Associated Aggregator",
    "Aggregator selection",
    "Use carrier",
];
/// Lines of `ip -s link` without counters.
const LINK_WORDS: [&str; 12] = [
    "link/",
    "RX",
    "TX",
    "altname",
    "vf ",
    "promiscuity",
    "bridge",
    "veth",
    "inet",
    "valid_lft",
    "bond",
    "vlan",
];
const QDISC_COUNTERS: [&str; 11] = [
    "dropped",
    "overlimits",
    "requeues",
    "drop_overlimit",
    "ecn_mark",
    "throttled",
    "flows_plimit",
    "horizon_drops",
    "drops",
    "marked",
    "early",
];
/// net/core/net-procfs.c: softnet_seq_show()
const SOFTNET_COLUMNS: [&str; 15] = [
    "processed",
    "dropped",
    "time_squeeze",
    "",
    "",
    "",
    "",
    "",
    "cpu_collision",
    "received_rps",
    "flow_limit_count",
    "backlog_len",
    "",
    "input_qlen",
    "process_qlen",
];
const LOSS_WORDS: [&str; 22] = [
    "drop", "err", "discard", "miss", "fail", "timeout", "overflow", "overrun", "underrun", "crc", "fcs",
    "lost", "bad", "abort", "no_buf", "nobuf", "invalid", "exceed", "stuck", "reject", "corrupt", "oob",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, u64)]) {
        let mut statistics = Statistics::new();
        for line in text.lines() {
            assert!(statistics.line(line), "{line:?}");
        }
        let found: Vec<_> = statistics
            .sorted()
            .iter()
            .map(|group| (group.entry.map_or("", |entry| entry.name.as_ref()), group.total))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    /// `ethtool -S eth0 | grep pp`
    #[test]
    fn counters_of_page_pools_need_no_heading() {
        let mut statistics = Statistics::new();
        for line in [
            "     rx_pp_alloc_fast: 12",
            "     rx_pp_alloc_slow: 0",
            "     rx_pp_recycle_cached: 7",
        ] {
            assert!(statistics.line(line), "{line}");
        }
        assert!(!statistics.line("     rx_frob_fast: 12"));
    }

    #[test]
    fn counters_of_drivers_are_found_by_queue() {
        check(
            "NIC statistics:\n     rx_packets: 12\n     tx_timeout_count: 1\n     rx_queue_0_drops: 3\n     rx_queue_1_drops: 4\n     rx_crc_errors: 0\n     frob_lost: 9",
            &[
                ("ethtool.tx_timeout_count", 1),
                ("ethtool.rx_dropped", 7),
                ("", 9),
            ],
        );
        let dictionary = Dictionary::new();
        for (name, entry) in [
            ("rx_queue_3_drops", "ethtool.rx_dropped"),
            ("tx3_xdp_full", "ethtool.xdp_tx_err"),
            ("[3]: rx_discards", "ethtool.rx_missed_errors"),
            ("queue_0_tx_missed_tx", "ethtool.tx_timeout_count"),
            ("queue_7_rx_page_alloc_fail", "ethtool.rx_alloc_failed"),
            ("rx_prio3_pause", "ethtool.rx_pause"),
            ("port.rx_crc_errors", "ethtool.rx_crc_errors"),
            ("rx_crc_errors.nic", "ethtool.rx_crc_errors"),
            ("rx_crc_errors_phy", "ethtool.rx_crc_errors"),
            ("rx0_wqe_err", "ethtool.rx_errors"),
            ("rx_out_of_buffer", "ethtool.rx_missed_errors"),
            ("pkts rx OOB", "ethtool.rx_missed_errors"),
            ("rx_pfc_ena_frames_pri5", "ethtool.rx_pause"),
            ("conntrack_allowance_exceeded", "ethtool.bw_in_allowance_exceeded"),
            ("TcpExtListenOverflows", "TcpExtListenOverflows"),
        ] {
            assert_eq!(
                dictionary.counter(name).map(|entry| entry.name.as_ref()),
                Some(entry),
                "{name}"
            );
        }
        assert_eq!(dictionary.counter("eth0"), None);
        assert_eq!(dictionary.counter(""), None);
    }

    #[test]
    fn counters_of_tools_are_found() {
        check(
            "#kernel\nTcpExtListenOverflows           12                 0.0\nIpInReceives 0 0.0\nTlsDecryptError  \t3",
            &[("TcpExtListenOverflows", 12), ("TlsDecryptError", 3)],
        );
        check(
            "cpu=0   \tfound=0 invalid=7 insert=0 insert_failed=0 drop=2 early_drop=0 error=0 search_restart=0\ncpu=1 drop=1",
            &[("nf_conntrack.drop", 3), ("nf_conntrack.invalid", 7)],
        );
        check(
            "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n00000010  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 00000000 00000000 00000000  00000000 00000000 00000000 00000000",
            &[("nf_conntrack.insert_failed", 10)],
        );
        check(
            "Tcp: RtoAlgorithm AttemptFails\nTcp: 0 4",
            &[("TcpAttemptFails", 4)],
        );
        check(
            "Udp: InDatagrams NoPorts InErrors\nUdp: 0 0 4",
            &[("UdpInErrors", 4)],
        );
        check(
            "00000001 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n00000000 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000",
            &[
                ("softnet_stat.dropped", 6),
                ("softnet_stat.time_squeeze", 3),
                ("softnet_stat.processed", 1),
            ],
        );
        check(
            "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq state UP mode DEFAULT group default qlen 1000\n    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n    RX:  bytes packets errors dropped  missed   mcast\n          0       0      0       5       0       0\n    RX errors:  length    crc   frame    fifo overrun\n                     0      2       0       0       0",
            &[("ip link: RX dropped", 5), ("ip link: crc", 2)],
        );
        check(
            "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p\n Sent 10 bytes 1 pkt (dropped 8, overlimits 0 requeues 0)\n backlog 0b 0p requeues 0\n  maxpacket 0 drop_overlimit 9 new_flow_count 0 ecn_mark 0",
            &[("tc qdisc: drop_overlimit", 9), ("tc qdisc: dropped", 8)],
        );
        check(
            "Ethernet Channel Bonding Driver: v6.18\n\nBonding Mode: fault-tolerance (active-backup)\nMII Status: up\n\nSlave Interface: eth1\nMII Status: down\nLink Failure Count: 3",
            &[("bonding.MII Status", 0), ("bonding.Link Failure Count", 3)],
        );
        check(
            "link mlx5_0/1 rx_write_requests 0 out_of_sequence 4 packet_seq_err 1",
            &[("rdma.out_of_sequence", 5)],
        );
    }

    #[test]
    fn lines_of_logs_are_no_counters() {
        let mut statistics = Statistics::new();
        for line in [
            "eth0: link up, 1000",
            "[12.345678] eth0: 12",
            "usb 1-4: new high-speed USB device number 5",
            "TCP: out of memory",
            "12 callbacks",
            "Process 12",
            "",
        ] {
            assert!(!statistics.line(line), "{line}");
        }
    }
}
