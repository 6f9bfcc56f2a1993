//! Everything that the running kernel counts, sets and says is in the dictionary.

use sockeye_dictionary::{Dictionary, Kind};
use std::fs;
use std::path::Path;

/// The names that no entry of the kind has.
#[track_caller]
fn check(kind: Kind, names: &[String]) {
    assert!(!names.is_empty(), "the kernel names no {kind}");
    let dictionary = Dictionary::new();
    let unknown: Vec<_> = names
        .iter()
        .filter(|name| {
            !dictionary
                .find(name)
                .entries
                .iter()
                .any(|entry| entry.kind == kind)
        })
        .collect();
    println!("{} of {} known", names.len() - unknown.len(), names.len());
    assert!(
        unknown.is_empty(),
        "{} of {} are unknown: {unknown:?}",
        unknown.len(),
        names.len()
    );
}

/// `Prefix: a b c`, and a line of numbers after it.
fn paired(path: &str) -> Vec<String> {
    let Ok(text) = fs::read_to_string(path) else {
        return Vec::new();
    };
    text.lines()
        .step_by(2)
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(prefix, names)| names.split(' ').map(move |name| format!("{prefix}{name}")))
        .collect()
}

#[test]
fn every_snmp_and_netstat_counter_has_an_entry() {
    let names = [paired("/proc/net/snmp"), paired("/proc/net/netstat")].concat();
    check(Kind::Counter, &names);
    if fs::metadata("/proc/net/mptcp").is_ok() {
        check(Kind::Counter, &paired("/proc/net/mptcp"));
    }
    assert!(
        names.iter().any(|name| name.starts_with("MPTcpExt")) || !Path::new("/proc/sys/net/mptcp").exists(),
        "MPTCP is there, its counters are not"
    );
}

#[test]
fn every_ipv6_counter_has_an_entry() {
    let Ok(text) = fs::read_to_string("/proc/net/snmp6") else {
        println!("SKIP: no IPv6 here");
        return;
    };
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    check(Kind::Counter, &names);
}

#[test]
fn every_sockstat_counter_has_an_entry() {
    let mut names = Vec::new();
    for file in ["sockstat", "sockstat6"] {
        let text = fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
        for line in text.lines() {
            let Some((group, fields)) = line.split_once(": ") else {
                continue;
            };
            for name in fields.split(' ').step_by(2) {
                names.push(format!("{file}.{group}.{name}"));
            }
        }
    }
    check(Kind::Counter, &names);
}

/// Its columns have no names in the file: there must be as many entries as columns.
#[test]
fn every_softnet_column_has_an_entry() {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let columns = text.lines().next().unwrap().split_whitespace().count();
    let dictionary = Dictionary::new();
    let entries = dictionary
        .entries()
        .filter(|entry| entry.kind == Kind::Counter && entry.name.starts_with("softnet_stat."));
    // Five of the columns are always 0.
    assert!(entries.count() + 5 >= columns, "{columns} columns");
}

#[test]
fn every_drop_reason_has_an_entry() {
    let marks = ["SKB_DROP_REASON_MAX", "SKB_DROP_REASON_SUBSYS_"];
    let names = btf_names(|name| {
        let is_reason = name.starts_with("SKB_DROP_REASON_") || name == "SKB_CONSUMED";
        is_reason && !marks.iter().any(|mark| name.starts_with(mark))
    });
    if names.is_empty() {
        println!("SKIP: the kernel has no BTF");
        return;
    }
    check(Kind::DropReason, &names);
}

#[test]
fn every_setting_has_an_entry() {
    let mut names = Vec::new();
    collect(Path::new("/proc/sys/net"), &mut names);
    names.retain(|name| {
        WANTED.iter().any(|prefix| name.starts_with(prefix)) || name == "net.nf_conntrack_max"
    });
    names.sort();
    check(Kind::Setting, &names);
}

fn collect(folder: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, names);
        } else if let Ok(setting) = path.strip_prefix("/proc/sys") {
            names.push(setting.to_string_lossy().replace('/', "."));
        }
    }
}

const WANTED: [&str; 13] = [
    "net.core.",
    "net.ipv4.tcp_",
    "net.ipv4.ip_",
    "net.ipv4.ipfrag_",
    "net.ipv4.udp_",
    "net.ipv4.icmp_",
    "net.ipv4.neigh.",
    "net.ipv6.neigh.",
    "net.ipv4.conf.",
    "net.ipv6.conf.",
    "net.ipv4.route.",
    "net.netfilter.nf_conntrack_",
    "net.mptcp.",
];

#[test]
fn every_tcp_state_has_an_entry() {
    // include/net/tcp_states.h
    let kernel = [
        "TCP_ESTABLISHED",
        "TCP_SYN_SENT",
        "TCP_SYN_RECV",
        "TCP_FIN_WAIT1",
        "TCP_FIN_WAIT2",
        "TCP_TIME_WAIT",
        "TCP_CLOSE",
        "TCP_CLOSE_WAIT",
        "TCP_LAST_ACK",
        "TCP_LISTEN",
        "TCP_CLOSING",
        "TCP_NEW_SYN_RECV",
        "TCP_BOUND_INACTIVE",
    ];
    // As `ss` and `netstat` write them.
    let tools = [
        "ESTAB",
        "SYN-SENT",
        "SYN-RECV",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "UNCONN",
        "CLOSE-WAIT",
        "LAST-ACK",
        "LISTEN",
        "CLOSING",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
    ];
    let names: Vec<_> = kernel
        .iter()
        .chain(&tools)
        .map(|name| (*name).to_owned())
        .collect();
    check(Kind::State, &names);
}

#[test]
fn every_tcp_info_field_has_an_entry() {
    let mut names = btf_names(|name| name.starts_with("tcpi_"));
    names.sort();
    names.dedup();
    if names.is_empty() {
        println!("SKIP: the kernel has no BTF");
        return;
    }
    check(Kind::TcpInfo, &names);
}

/// Names in the kernel's BTF, whatever has them.
fn btf_names(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let btf = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    btf.split(|&byte| byte == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| wanted(text))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_column_and_timer_has_an_entry() {
    let columns = [
        "Netid",
        "State",
        "Recv-Q",
        "Send-Q",
        "Local Address:Port",
        "Peer Address:Port",
        "Process",
        "Proto",
        "Foreign Address",
        "PID/Program name",
        "Timer",
        "User",
        "Inode",
        "cwnd",
        "ssthresh",
        "rtt",
        "rto",
        "mss",
        "minrtt",
        "pacing_rate",
        "delivery_rate",
        "unacked",
        "retrans",
        "lost",
        "skmem",
        "rwnd_limited",
        "sndbuf_limited",
        "busy",
        "app_limited",
        "RX-DRP",
        "RX-OVR",
        "TX-ERR",
        "uid",
        "ino",
        "sk",
        "cgroup",
        "fwmark",
        "wscale",
    ];
    let names: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
    check(Kind::Column, &names);
    let timers = ["on", "keepalive", "timewait", "persist", "probe", "off"];
    let names: Vec<_> = timers.iter().map(|name| (*name).to_owned()).collect();
    check(Kind::Timer, &names);
}
