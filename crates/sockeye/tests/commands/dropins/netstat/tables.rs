//! `sockeye netstat -s -r -i -g` against those of net-tools 2.10.

use super::peer::{self, both, compare, compare_with, report, with_files, with_names};
use sockeye_lab::{Lab, Namespace, need};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn statistics_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netstats"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for line in STATISTICS {
        compare(&here, line, None);
    }
}

const STATISTICS: &[&str] = &[
    "-s",
    "-st",
    "-su",
    "-sw",
    "-sU",
    "-sS",
    "-s4",
    "-s6",
    "-s6t",
    "-s6u",
    "-stu",
    "-s6w",
    "-se",
    "-sA unix",
    "-s -4 -6",
    "-sx",
    "-sn",
    "-sc",
    "-sp",
    "--statistics --tcp",
    "-sA ip",
];

/// Every counter that a sentence is known for or that any kernel has had, none of them 0, then all of them 0.
#[test]
fn every_counter_is_that_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netcounters"));
    let folder = lab.directory().join("net");
    fs::create_dir_all(folder.join("sctp")).unwrap();
    let sentences = include_str!("../../../../../commands/dropins/src/output/netstat/sentences.txt");
    let mut compared = 0;
    for zero in [false, true] {
        let (mut snmp, mut netstat) = (String::new(), String::new());
        let (mut snmp6, mut sctp) = (String::new(), String::new());
        let mut number = 0_u64;
        for section in sentences.split('[').skip(1) {
            let (table, lines) = section.split_once("]\n").unwrap();
            let (mut names, mut values) = (String::new(), String::new());
            // `WHEN COUNTER|SENTENCE|`
            for line in lines.lines() {
                let name = line.split([' ', '|']).nth(1).unwrap();
                number += 1;
                let value = if zero { 0 } else { number };
                names += &format!(" {name}");
                values += &format!(" {value}");
                match table {
                    "IP6" | "ICMP6" | "UDP6" => snmp6 += &format!("{name:<32}\t{value}\n"),
                    "SCTP" => sctp += &format!("{name:<32}\t{value}\n"),
                    _ => {}
                }
            }
            let (title, file) = match table {
                "IP" => ("Ip", &mut snmp),
                "ICMP" => ("Icmp", &mut snmp),
                "TCP" => ("Tcp", &mut snmp),
                "UDP" => ("Udp", &mut snmp),
                "TCP_EXT" => ("TcpExt", &mut netstat),
                _ => continue,
            };
            *file += &format!("{title}:{names} NoSentence\n{title}:{values} 5\n");
        }
        snmp += "UdpLite: InDatagrams New\nUdpLite: 1 0\n";
        netstat += "IpExt: InOctets Minus\nIpExt: 18446744073709551615 -1\n";
        snmp6 += "UdpLite6InDatagrams 7\nIcmp6OutType135 3\n";
        assert!(number > 150, "{number} counters");
        for (name, text) in [
            ("snmp", snmp),
            ("netstat", netstat),
            ("snmp6", snmp6),
            ("sctp/snmp", sctp),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        for line in STATISTICS {
            compared += 1;
            compare_files(&folder, line);
        }
    }
    // A file that makes no sense, and none.
    fs::write(folder.join("snmp"), "Ip: A B\nIp: 1 2\nbroken\nlines\n").unwrap();
    compare_files(&folder, "-s");
    fs::remove_file(folder.join("netstat")).unwrap();
    compare_files(&folder, "-s");
    fs::remove_file(folder.join("snmp")).unwrap();
    compare_files(&folder, "-s");
    compare_files(&folder, "-s6");
    fs::remove_file(folder.join("snmp6")).unwrap();
    compare_files(&folder, "-s6");
    report(&format!(
        "netstat -s: compared {compared} combinations on made counters\n"
    ));
}

#[test]
fn routes_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netroutes"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let (device, _) = link.devices();
    for route in [
        &format!("route add default via 10.77.0.2 dev {device} onlink metric 100")[..],
        &format!("route add 192.0.2.7/32 dev {device} mtu 1300 window 4000"),
        "route add blackhole 198.51.100.0/24",
        "route add unreachable 203.0.113.9/32 metric 5",
        &format!("route add 169.254.0.0/16 dev {device}"),
        &format!("route add default via fd77::2 dev {device} onlink metric 77"),
        "route add blackhole 2001:db8::/32",
        &format!("route add 2001:db8:1:2:3:4:5:6/128 dev {device}"),
    ] {
        here.ip(route);
    }
    let folder = lab.directory();
    let hosts = "10.77.0.2 gateway.example.org\n192.0.2.7 a-name-longer-than-its-column.example.org alias\n\
                 fd77::2 six.example.org\n2001:db8:1:2:3:4:5:6 long-six-name.example.org\n";
    fs::write(folder.join("hosts"), hosts).unwrap();
    fs::write(
        folder.join("networks"),
        "default 0.0.0.0\nlink-local 169.254.0.0\nlab 10.77\n",
    )
    .unwrap();
    for line in ROUTES {
        let words: Vec<&str> = line.split_whitespace().collect();
        compare_with(&words, None, &|command| with_names(&here, folder, command));
    }
}

const ROUTES: &[&str] = &[
    "-r",
    "-rn",
    "-re",
    "-ree",
    "-reee",
    "-reeee",
    "-rne",
    "-rnee",
    "-rC",
    "-rCe",
    "-rCee",
    "-rF",
    "-rFC",
    "-rN",
    "-r6",
    "-r6n",
    "-r6e",
    "-r6C",
    "-r6FC",
    "-r -4 -6",
    "-rv",
    "-rW",
    "-rA inet6,inet",
    "-rA ip6",
    "--route --inet",
    "-rA ax25",
    "-rA netrom",
    "-rA rose",
    "-rA ipx",
    "-rA ddp",
    "-rA x25",
    "-rA ash",
    "-rA econet",
    "-rA bluetooth",
    "-rA unix",
    "-rA inet,x25",
    "-rx",
    "-rt",
    "-ra",
];

/// Flags and numbers that are hard to come by.
#[test]
fn added_routes_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netmade"));
    let folder = lab.directory().join("net");
    fs::create_dir_all(&folder).unwrap();
    let mut route =
        String::from("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n");
    let mut route6 = String::new();
    let zeros = "0".repeat(32);
    for bit in 0..32 {
        let flags = 1_u32 << bit | 1;
        route += &format!(
            "eth{bit}\t00000{bit:02x}A\t0101A8C0\t{flags:04X}\t1\t{bit}\t{bit}\t00FFFFFF\t1500\t{bit}\t3\n"
        );
        route6 += &format!(
            "fd{:02x}{} 40 {zeros} 00 {zeros} 00 ffffffff 00000001 {bit:08x} {flags:08x}     eth{bit}\n",
            bit,
            "0".repeat(28),
        );
    }
    route +=
        "a_name_of_15_by\t00000000\t00000000\t0003\t10\t2147483647\t-5\t00000000\t1234567\t123456\t9999999\n";
    route += "*\t000A0A0A\t00000000\t0205\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
    route += "down\t000A0A0A\t00000000\t0002\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
    route6 += &format!(
        "{zeros} 00 {zeros} 00 00000000000000000000ffff01020304 00 00000400 00000001 00000000 00000003     eth0\n"
    );
    route6 += &format!(
        "20010db8000100020003000400050006 80 {zeros} 00 20010db8111122223333444455556666 00 00000400 00000001 00000000 00000007     eth0\n"
    );
    fs::write(folder.join("route"), route).unwrap();
    fs::write(folder.join("ipv6_route"), route6).unwrap();
    for line in ["-rn", "-rne", "-rnee", "-rnC", "-r6n", "-r6nC", "-r6nFC"] {
        compare_files(&folder, line);
    }
    fs::remove_file(folder.join("route")).unwrap();
    fs::remove_file(folder.join("ipv6_route")).unwrap();
    for line in ["-rn", "-r6n", "-r6nC"] {
        compare_files(&folder, line);
    }
}

#[test]
fn interfaces_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netifaces"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let links = [lab.link(&here, &there), lab.link(&here, &there)];
    let (device, _) = links[0].devices();
    let (other, _) = links[1].devices();
    for line in [
        &format!("addr add 10.99.0.1/20 broadcast 10.99.15.255 dev {device} label {device}:2")[..],
        &format!("addr add 10.98.0.1/32 peer 10.98.0.2 dev {device} label {device}:10"),
        &format!("link set {device} promisc on mtu 1400"),
        &format!("link set {other} down"),
        "link set lo multicast on",
        "tuntap add mode tun name tun0",
        "addr add 10.97.0.1 peer 10.97.0.2 dev tun0",
        "link set tun0 up txqueuelen 77",
    ] {
        attempt(&here, line);
    }
    let _pair = links[0].net_path().unread(5000);
    for line in INTERFACES {
        compare(&here, line, None);
    }
}

const INTERFACES: &[&str] = &[
    "-i",
    "-ia",
    "-ie",
    "-iea",
    "-iee",
    "-in",
    "-iv",
    "-iW",
    "--interfaces --all",
    "-i -t",
    "-ip",
    "-io",
];

#[test]
fn multicast_groups_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netgroups"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let _link = lab.link(&here, &there);
    let socket = here.udp_bound("0.0.0.0:0", &sockeye_lab::SocketOptions::new());
    socket
        .socket()
        .join_multicast_v4(&[239, 1, 2, 3].into(), &[127, 0, 0, 1].into())
        .unwrap();
    for line in [
        "-g",
        "-gn",
        "-g4",
        "-g6",
        "-g4n",
        "--groups -6n",
        "-gt",
        "-gx",
        "-ga",
        "-gv",
    ] {
        compare(&here, line, None);
    }
}

/// Runs both where the files of `folder` are `/proc/net`.
#[track_caller]
fn compare_files(folder: &Path, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (real, _) = both(&words, None);
    let outcome = with_files(folder, &real);
    assert!(!outcome.stderr.contains("mount:"), "{outcome}");
    // There /proc is no proc file system, which only ours notes.
    let note = "netstat: no proc file system is mounted on /proc; try: mount -t proc proc /proc\n";
    compare_with(&words, None, &|command: &mut Command| {
        let mut outcome = with_files(folder, command);
        outcome.stderr = outcome.stderr.replace(note, "");
        outcome
    });
}

/// Kernels may lack the one or other kind of interface.
fn attempt(namespace: &Namespace, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = namespace.command("ip", &words).output().unwrap();
    if !output.status.success() {
        report(&format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr)));
    }
}
