//! The vitals of a host, read in namespaces with known values.

use sockeye_lab::{Lab, Namespace, need, program, wait_for, wait_until};
use sockeye_model::{Counter, Device, Duplex, Inode, NetnsInode, Pid, Settings, Vitals};
use sockeye_source::owners::{Owners, ScanOptions};
use sockeye_source::{OpenNetns, vitals};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// A process that holds something until it is dropped.
struct Holder(Child);

impl Holder {
    /// Starts it, and waits until it says that it is ready.
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let holder = Self(child);
        assert_eq!(line, "ready\n");
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn device<'a>(vitals: &'a Vitals, name: &str) -> &'a Device {
    let mut all = vitals.devices.iter();
    all.find(|device| device.name.as_bytes() == name.as_bytes())
        .unwrap_or_else(|| panic!("{name} is not in {:?}", vitals.devices))
}

fn read(namespace: &Namespace) -> Vitals {
    namespace.run(vitals::namespace)
}

/// A tap of this name, which no program reads, half duplex at 100 Mbit/s; and a tun, `tun0`.
const TAP: &str = "
import fcntl, os, socket, struct, sys
def tun(name, flags):
    file = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(file, 0x400454ca, struct.pack('16sH22x', name, flags | 0x1000))
    return file
kept = [tun(b'tap0', 2), tun(b'tun0', 1)]
sset = bytearray(struct.pack('=IIIHBBBBBBIIHBBIII', 2, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
import ctypes
buffer = (ctypes.c_char * len(sset)).from_buffer(sset)
request = struct.pack('16sP', b'tap0', ctypes.addressof(buffer)).ljust(40, b'\\0')
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn tap_with_short_queue_counts_drops() {
    let lab = need!(Lab::new("vitals_tap"));
    need!(program("python3"));
    let namespace = lab.namespace("a");
    let _holder = Holder::start(namespace.command("python3", &["-c", TAP]));
    namespace.ip("link set tap0 txqueuelen 3 mtu 1400 up");
    namespace.ip("addr add 10.9.0.1/24 dev tap0");
    namespace.ip("addr add fd09::1/64 dev tap0 nodad");
    namespace.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev tap0");
    let before = read(&namespace);
    let tap = device(&before, "tap0");
    assert_eq!(tap.driver.as_bytes(), b"tap");
    assert_eq!((tap.queue_packets, tap.mtu_bytes), (Some(3), Some(1400)));
    assert_eq!(
        (tap.speed_mbit_per_s, tap.duplex),
        (Some(100), Some(Duplex::Half))
    );
    assert_eq!((tap.is_up, tap.has_carrier), (true, Some(true)));
    assert!(!tap.is_physical && !tap.is_loopback && tap.master.is_none());
    for address in ["10.9.0.1", "fd09::1"] {
        let address: IpAddr = address.parse().unwrap();
        assert!(tap.addresses.contains(&address), "{:?}", tap.addresses);
    }
    let tun = device(&before, "tun0");
    assert_eq!((tun.driver.as_bytes(), tun.is_up), (&b"tun"[..], false));
    assert_eq!(tun.duplex, Some(Duplex::Full));
    let lo = device(&before, "lo");
    assert!(lo.is_loopback && lo.speed_mbit_per_s.is_none());

    namespace.run(|| {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        for _ in 0..50 {
            let _ = socket.send_to(&[0; 1000], "10.9.0.2:9");
        }
    });
    let lost = |vitals: &Vitals| {
        let tap = device(vitals, "tap0");
        let below: u64 = tap.qdiscs.iter().map(|qdisc| qdisc.drops).sum();
        tap.traffic.unwrap().tx_dropped + below
    };
    // The kernel sends the packets of a queueing discipline later.
    wait_until("packets to be dropped", || {
        lost(&read(&namespace)) >= lost(&before) + 40
    });
    // The kernel sends a packet now and then.
    wait_until("the same counters as in /proc/net/dev", || {
        let text = namespace.proc_net("dev");
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("tap0:")).unwrap();
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let traffic = device(&read(&namespace), "tap0").traffic.unwrap();
        [
            traffic.tx_bytes,
            traffic.tx_packets,
            traffic.tx_errors,
            traffic.tx_dropped,
        ] == numbers[8..12]
    });
}

#[test]
fn veth_has_carrier_bridge_and_shaper() {
    let lab = need!(Lab::new("vitals_veth"));
    need!(program("tc"));
    let namespace = lab.namespace("a");
    namespace.ip("link add left type veth peer name right");
    namespace.ip("link add bridge0 type bridge");
    namespace.ip("link set left up");
    let before = read(&namespace);
    let left = device(&before, "left");
    assert_eq!(left.driver.as_bytes(), b"veth");
    assert_eq!(
        (left.is_up, left.has_carrier),
        (true, Some(false)),
        "the other end is down"
    );
    assert!(!left.is_physical && left.bond.is_none() && left.bond_port.is_none());
    assert!(left.speed_mbit_per_s.is_none());

    namespace.ip("link set right master bridge0 up");
    namespace.ip("addr add 10.9.1.1/24 dev left");
    namespace.ip("neigh replace 10.9.1.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
    namespace.output(
        "tc",
        &[
            "qdisc", "add", "dev", "left", "root", "handle", "7:", "tbf", "rate", "8kbit", "burst", "1600",
            "limit", "2200",
        ],
    );
    let joined = wait_for("a carrier", || {
        let vitals = read(&namespace);
        (device(&vitals, "left").has_carrier == Some(true)).then_some(vitals)
    });
    let (left, right) = (device(&joined, "left"), device(&joined, "right"));
    assert!(left.carrier_changes > device(&before, "left").carrier_changes);
    assert_eq!(right.master, Some(device(&joined, "bridge0").index));
    assert_eq!(device(&joined, "bridge0").driver.as_bytes(), b"bridge");

    namespace.run(|| {
        let socket = UdpSocket::bind("10.9.1.1:0").unwrap();
        for _ in 0..20 {
            let _ = socket.send_to(&[0; 1000], "10.9.1.2:9");
        }
    });
    let after = read(&namespace);
    let root = device(&after, "left").qdiscs.first().unwrap();
    assert_eq!(
        (root.kind.as_bytes(), root.handle, root.parent),
        (&b"tbf"[..], 0x7_0000, u32::MAX)
    );
    // One goes at once, two wait.
    assert!((15..20).contains(&root.drops), "{root:?}");
    assert!(
        root.overlimits > 0 && root.waiting_packets > 0 && root.waiting_bytes > 1000,
        "{root:?}"
    );
}

/// Every counter of the files, read by words; `TcpExtListenDrops`, `Ip6InReceives`.
fn counters(namespace: &Namespace) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    for file in ["snmp", "netstat"] {
        let text = namespace.proc_net(file);
        let lines: Vec<_> = text.lines().collect();
        for pair in lines.chunks(2) {
            let (title, names) = pair[0].split_once(": ").unwrap();
            let (_, values) = pair[1].split_once(": ").unwrap();
            for (name, value) in names.split(' ').zip(values.split(' ')) {
                found.extend(value.parse().ok().map(|value| (format!("{title}{name}"), value)));
            }
        }
    }
    for line in namespace.proc_net("snmp6").lines() {
        let (name, value) = line.split_once(char::is_whitespace).unwrap();
        found.insert(name.to_owned(), value.trim().parse().unwrap());
    }
    found
}

#[test]
fn counters_match_proc() {
    let lab = need!(Lab::new("vitals_counters"));
    let namespace = lab.namespace("a");
    namespace.run(|| {
        for address in ["127.0.0.1:9", "[::1]:9"] {
            assert!(TcpStream::connect(address).is_err());
            let local = if address.starts_with('[') {
                "[::1]:0"
            } else {
                "127.0.0.1:0"
            };
            UdpSocket::bind(local).unwrap().send_to(b"x", address).unwrap();
        }
    });
    let expected = counters(&namespace);
    let vitals = read(&namespace);
    let mut known = 0;
    for &counter in Counter::ALL {
        assert_eq!(
            vitals.counters.value(counter),
            expected.get(&counter.to_string()).copied(),
            "{counter}"
        );
        known += usize::from(vitals.counters.value(counter).is_some());
    }
    // A kernel may lack a few; a name that no kernel has is our error.
    assert!(
        known + 3 > Counter::ALL.len(),
        "{known} of {}",
        Counter::ALL.len()
    );
    assert_eq!(vitals.counters.value(Counter::UdpNoPorts), Some(1));
    assert_eq!(vitals.counters.value(Counter::Udp6NoPorts), Some(1));
    assert_eq!(vitals.counters.value(Counter::TcpAttemptFails), Some(2));
}

#[test]
fn settings_are_read_where_sockets_need_them() {
    let lab = need!(Lab::new("vitals_settings"));
    let namespace = lab.namespace("a");
    namespace.sysctl("ipv4/ip_local_port_range", "40000 40099");
    namespace.sysctl("ipv4/ip_local_reserved_ports", "39990-40009,40050,50000");
    namespace.sysctl("ipv4/tcp_max_tw_buckets", "77");
    namespace.sysctl("core/somaxconn", "123");
    namespace.sysctl("ipv4/tcp_rmem", "4096 8192 99999");
    namespace.sysctl("ipv4/tcp_keepalive_time", "600");
    let empty = read(&namespace);
    assert_eq!(empty.settings, Settings::default());
    assert_eq!(
        (empty.usage.tcp, empty.usage.time_wait, empty.usage.udp),
        (Some(0), Some(0), Some(0))
    );

    let all = namespace.run(vitals::settings);
    assert_eq!(
        (all.ephemeral_ports, all.reserved_ports),
        (Some((40000, 40099)), Some(11))
    );
    assert_eq!((all.time_wait_max, all.somaxconn), (Some(77), Some(123)));
    assert_eq!(all.tcp_rmem_bytes, Some([4096, 8192, 99999]));
    assert_eq!(all.keepalive_time_s, Some(600));
    assert!(all.tcp_wmem_bytes.is_some() && all.fin_timeout_s.is_some() && all.mtu_probing.is_some());
    assert!(all.keepalive_interval_s.is_some() && all.keepalive_probes.is_some());
    assert!(all.syn_backlog_max.is_some() && all.syncookies.is_some());

    let (listener, _six) = namespace.run(|| {
        let bind = |address| std::net::TcpListener::bind(address).unwrap();
        (bind("127.0.0.1:0"), bind("[::1]:0"))
    });
    let listening = read(&namespace);
    assert_eq!(listening.usage.tcp, Some(2));
    assert_eq!(listening.settings.somaxconn, Some(123));
    assert_eq!(
        listening.settings.ephemeral_ports, None,
        "no connection was opened"
    );

    let address = listener.local_addr().unwrap();
    let client = namespace.run(|| TcpStream::connect(address).unwrap());
    let served = listener.accept().unwrap();
    let connected = read(&namespace);
    let expected = Settings {
        time_wait_max: None,
        ..all
    };
    assert_eq!((connected.settings, connected.usage.tcp), (expected, Some(4)));
    // Who closes first keeps the TIME_WAIT.
    drop(client);
    drop(served);
    let closed = wait_for("a TIME_WAIT", || {
        let vitals = read(&namespace);
        (vitals.usage.time_wait == Some(1)).then_some(vitals)
    });
    assert_eq!(closed.settings, all);
}

#[test]
fn conntrack_use_is_read() {
    let lab = need!(Lab::new("vitals_conntrack"));
    need!(program("nft"));
    let namespace = lab.namespace("a");
    assert_eq!(read(&namespace).conntrack, None);
    let rule =
        "table inet t { chain c { type filter hook input priority 0; ct state established accept; }; }";
    namespace.output("nft", &[rule]);
    namespace.run(|| {
        for _ in 0..5 {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", "127.0.0.1:9").unwrap();
        }
    });
    let fill = read(&namespace).conntrack.unwrap();
    assert_eq!(fill.used, 5);
    let max = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").unwrap();
    assert_eq!(max.trim(), fill.max.to_string());
}

#[test]
fn process_at_its_descriptor_limit_is_full() {
    let _lab = need!(Lab::new("vitals_files"));
    need!(program("python3"));
    let script = "
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 50))
try:
    while True: os.open('/dev/null', os.O_RDONLY)
except OSError: pass
print('ready', flush=True)
sys.stdin.read()
";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let holder = Holder::start(command);
    let found = vitals::open_files(800);
    let of_holder = |(files, _): &&(sockeye_model::OpenFiles, _)| files.process.pid == Pid(holder.0.id());
    let Some((files, netns)) = found.files.iter().find(of_holder) else {
        panic!("{found:?}");
    };
    assert!(netns.is_some(), "{found:?}");
    let kinds = files.kinds.expect("its descriptors may be read");
    assert!(kinds.files >= 30, "{kinds:?}");
    assert_eq!(kinds.unlisted_sockets, Some(0), "{kinds:?}");
    // It may have been born with some beyond the limit.
    let open = std::fs::read_dir(format!("/proc/{}/fd", holder.0.id()))
        .unwrap()
        .count();
    assert_eq!(
        (files.fill.used, files.fill.max),
        (u64::try_from(open).unwrap(), 40)
    );
    assert!(open >= 40);
}

/// What owners and a walk show says the same as all descriptors and tables.
#[test]
fn kinds_of_descriptors_are_the_same_by_owners() {
    let lab = need!(Lab::new("vitals_kinds"));
    need!(program("python3"));
    let namespace = lab.namespace("a");
    let script = "
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
kept = [socket.create_server(('127.0.0.1', 0)) for _ in range(5)]
kept += [socket.socket() for _ in range(2)]
kept += [socket.socketpair() for _ in range(3)] + [os.pipe(), os.memfd_create('x')]
gone = [os.open('/dev/null', os.O_RDONLY) for _ in range(4)]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('127.0.0.1', 0))
for one in gone[:3]: os.close(one)
while len(os.listdir('/proc/self/fd')) < 55: kept.append(os.dup(0))
print('ready', flush=True)
sys.stdin.read()
";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let holder = namespace.run(|| Holder::start(command));
    let pid = Pid(holder.0.id());
    let crowded = vitals::crowded_processes(800);
    let process = crowded.processes.iter().find(|process| process.pid() == pid);
    let process = process.expect("it is near its limit");
    let owners = Owners::scan_pids(&[pid], &ScanOptions::default()).unwrap();
    let mut known = vitals::KnownSockets::default();
    for (inode, of_socket) in owners.iter() {
        of_socket.iter().for_each(|owner| known.add(owner.fd, inode));
    }
    // A walk shows those of TCP and UDP.
    namespace.run(|| {
        for table in ["tcp", "udp"] {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
            for line in text.lines().skip(1) {
                let inode = line.split_ascii_whitespace().nth(9).unwrap();
                known.set_listed(Inode(inode.parse().unwrap()));
            }
        }
    });
    let (by_tables, by_owners) = (process.files(None), process.files(Some(&known)));
    assert_eq!(by_owners, by_tables);
    let kinds = by_owners.kinds.expect("its descriptors may be read");
    assert_eq!(
        (kinds.sockets, kinds.unlisted_sockets),
        (5 + 2 + 6 + 1, Some(2)),
        "{kinds:?}"
    );
}

#[test]
fn each_namespace_has_its_own_vitals() {
    let lab = need!(Lab::new("vitals_many"));
    let namespaces: Vec<_> = ["a", "b", "c"].map(|name| lab.namespace(name)).into();
    for (namespace, mtu) in namespaces.iter().zip([1001, 1002, 1003]) {
        namespace.ip(&format!("link add name mine mtu {mtu} type veth peer name other"));
        namespace.sysctl("core/somaxconn", &mtu.to_string());
    }
    let _listeners: Vec<_> = namespaces
        .iter()
        .map(|namespace| namespace.run(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap()))
        .collect();
    // More than one thread takes, and than one procfs of our own serves; every fourth is gone.
    let count = 200;
    let found = vitals::namespaces(count, &|number, act| {
        let namespace = namespaces.get(number % 4).ok_or(io::ErrorKind::NotFound)?;
        let file = File::open(namespace.path())?;
        act(OpenNetns {
            fd: file.as_fd(),
            inode: NetnsInode(u32::try_from(namespace.inode()).unwrap()),
            process: None,
        });
        Ok(())
    });
    assert_eq!(found.len(), count);
    for (number, found) in found.iter().enumerate() {
        let Some(namespace) = namespaces.get(number % 4) else {
            assert_eq!(found.as_ref().unwrap_err().kind(), io::ErrorKind::NotFound);
            continue;
        };
        let vitals = found.as_ref().unwrap();
        assert_eq!(
            vitals.netns.map(|inode| u64::from(inode.0)),
            Some(namespace.inode())
        );
        let own = u32::try_from(1001 + number % 4).unwrap();
        assert_eq!(device(vitals, "mine").mtu_bytes, Some(own));
        assert_eq!(vitals.settings.somaxconn, Some(own));
        assert_eq!(vitals.usage.tcp, Some(1));
    }
    // What is no namespace cannot be entered.
    let found = vitals::namespaces(1, &|_, act| {
        let file = File::open("/dev/null")?;
        act(OpenNetns {
            fd: file.as_fd(),
            inode: NetnsInode(1),
            process: None,
        });
        Ok(())
    });
    assert!(found[0].is_err());
}

#[test]
fn host_vitals_are_read_once() {
    let lab = need!(Lab::new("vitals_host"));
    let namespace = lab.namespace("a");
    namespace.ip("link add left up type veth peer name right");
    namespace.ip("neigh replace 10.9.2.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
    let host = vitals::host();
    let lines = std::fs::read_to_string("/proc/net/softnet_stat")
        .unwrap()
        .lines()
        .count();
    assert_eq!(host.processors.len(), lines);
    assert!(host.processors.iter().any(|processor| processor.processed > 0));
    let setting = |path: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap();
        text.split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    };
    let arp = host
        .neighbours
        .iter()
        .find(|table| table.name.as_bytes() == b"arp_cache");
    let arp = arp.unwrap();
    assert_eq!([arp.fill.max], setting("ipv4/neigh/default/gc_thresh3")[..]);
    assert!(arp.fill.used > 0, "of the other namespace");
    let page = u64::try_from(sockeye_sys::page_bytes()).unwrap();
    let limits: Vec<_> = setting("ipv4/tcp_mem").iter().map(|pages| pages * page).collect();
    assert_eq!(host.tcp_memory.unwrap().limits_bytes[..], limits);
    assert_eq!([host.orphans.unwrap().max], setting("ipv4/tcp_max_orphans")[..]);
    assert_eq!([host.rmem_max_bytes.unwrap()], setting("core/rmem_max")[..]);
    assert!(host.udp_memory.is_some() && host.wmem_max_bytes.is_some());
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: u64 = uptime.split('.').next().unwrap().parse().unwrap();
    assert!(host.uptime_s.unwrap().abs_diff(seconds) < 5);
}
