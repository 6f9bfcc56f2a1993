//! The BPF walk over UDP's table lists every socket with the values of netlink, also the kernel's own; and each that exists
//! through it is listed once, whatever others do.

use super::bpf_walk::{Listed, can_walk, compare};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ip_tos, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketType, bind, connect, connect_unspec, socket};
use sockeye_lab::{Lab, LabSocket, Namespace, Pair, Skip, SocketOptions, need};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What can be asked of a walk, in addition to `-u -a`.
const LISTINGS: &[&[&str]] = &[
    &[],
    &["-o"],
    &["-m"],
    &["-i"],
    &["-4"],
    &["-6"],
    &["-m", "--columns", "tos,tclass,class_id,memory,drops"],
];

/// Filters, some of which the program itself judges.
const FILTERS: &[&[&str]] = &[
    &["state", "established"],
    &["state", "unconnected"],
    &["sport", "=", ":1026"],
    &["sport", "<=", ":1024"],
    &["sport", "gt", ":1024", "sport", "lt", ":65535"],
    &["not", "sport", "=", ":1026"],
    &["src", "127.0.0.0/8"],
    &["src", "[::1]"],
    &["dst", "127.0.0.1"],
    &["dst", "[::ffff:127.0.0.1]"],
    &["dst", "10.77.0.0/24"],
    &["dst", "::/0"],
    &["src", "0.0.0.0", "sport", "=", ":1024"],
    &["fwmark", "=", "0x1234"],
    &["dev", "lo"],
];

/// Sockets of every kind, in two namespaces.
struct SocketSet {
    namespaces: [Namespace; 2],
    lab_sockets: Vec<LabSocket>,
    /// Whether each namespace has sockets of the kernel's own too.
    has_vxlan: bool,
    _lab: Lab,
}

impl SocketSet {
    fn new(purpose: &str) -> Result<Self, Skip> {
        can_walk()?;
        let lab = Lab::new(purpose)?;
        let (client, server) = (lab.namespace("client"), lab.namespace("server"));
        let link = lab.link(&client, &server);
        let plain = SocketOptions::new();
        let shared = SocketOptions::new().reuse_port();
        let mut lab_sockets = Vec::new();
        for namespace in [&client, &server] {
            for (local, options) in [
                ("0.0.0.0:80", &plain),
                ("[::]:443", &plain),
                ("[::]:8443", &SocketOptions::new().v6_only(true)),
                ("127.0.0.1:22", &SocketOptions::new().mark(0x1234)),
                ("[::1]:22", &plain),
                ("[::ffff:127.0.0.1]:65535", &plain),
                ("0.0.0.0:1024", &SocketOptions::new().device("lo")),
                ("[::]:1025", &SocketOptions::new().device("lo").mark(0xffff_ffff)),
            ] {
                lab_sockets.push(namespace.udp_bound(local, options));
            }
            for local in ["127.0.0.1:1026", "[::1]:1026", "0.0.0.0:1026"] {
                lab_sockets.extend((0..3).map(|_| namespace.udp_bound(local, &shared)));
            }
        }
        let net_paths = [
            client.loopback(),
            client.loopback6(),
            client.loopback_mapped(),
            server.loopback(),
            server.loopback6(),
            server.loopback_mapped(),
            link.net_path(),
            link.net_path6(),
            link.net_path_mapped(),
        ];
        for net_path in &net_paths {
            let Pair { client, server, .. } = net_path.udp_connected();
            client.socket().send(b"three").unwrap();
            client.socket().send(b"more").unwrap();
            lab_sockets.extend([client, server]);
        }
        set_ip_tos(lab_sockets[0].socket(), 0x10).unwrap();
        lab_sockets[0].socket().set_recv_buffer_size(50_000).unwrap();
        let connected = lab_sockets.last().unwrap();
        connected.socket().shutdown(Shutdown::Read).unwrap();
        // Of the memory of what was read a part is given back later.
        let read = lab_sockets[lab_sockets.len() - 3].socket();
        read.set_nonblocking(true).unwrap();
        let _ = rustix::net::recv(read, &mut [0; 5], rustix::net::RecvFlags::empty());
        let has_vxlan = match [&client, &server].map(vxlan) {
            [Ok(()), Ok(())] => true,
            [Err(skip), _] | [_, Err(skip)] => {
                skip.print();
                false
            }
        };
        Ok(Self {
            namespaces: [client, server],
            lab_sockets,
            has_vxlan,
            _lab: lab,
        })
    }

    /// How many live there; VXLAN has one socket of each family.
    fn count_in(&self, namespace: &Namespace) -> usize {
        let inside = |one: &&LabSocket| one.namespace.inode() == namespace.inode();
        self.lab_sockets.iter().filter(inside).count() + if self.has_vxlan { 2 } else { 0 }
    }
}

/// Makes the kernel open UDP sockets of its own there, on [`VXLAN_PORT`].
fn vxlan(namespace: &Namespace) -> Result<(), Skip> {
    let port = VXLAN_PORT.to_string();
    let words = [
        "link", "add", "vx0", "type", "vxlan", "dstport", &port, "external",
    ];
    let mut make = namespace.command("ip", &words);
    let made = make.output().unwrap();
    if !made.status.success() {
        let outcome = String::from_utf8_lossy(&made.stderr).trim().to_owned();
        return Err(Skip::new(format!("no VXLAN from this kernel: {outcome}")));
    }
    namespace.ip("link set vx0 up");
    Ok(())
}

const VXLAN_PORT: u16 = 4789;

#[test]
fn bpf_walk_agrees_with_netlink_on_udp() {
    let socket_set = need!(SocketSet::new("walk_udp"));
    for namespace in &socket_set.namespaces {
        for words in LISTINGS.iter().chain(FILTERS) {
            let words = [&["-u", "-a"], *words].concat();
            let walked = compare(&words.join(" "), |source| {
                Listed::inside(namespace, source, &words)
            });
            let is_filter = FILTERS.contains(&&words[2..]);
            if words.contains(&"-4") || words.contains(&"-6") || is_filter {
                assert!(walked.rows.len() < socket_set.count_in(namespace), "{words:?}");
                assert!(
                    !walked.rows.is_empty(),
                    "{words:?} found nothing, which proves little"
                );
            } else {
                assert_eq!(walked.rows.len(), socket_set.count_in(namespace), "{words:?}");
            }
        }
        // From another namespace, the rows also have the namespace.
        let named = ["-u", "-a", "--netns", namespace.name()];
        let outside = compare("from outside", |source| Listed::here(source, &named));
        assert_eq!(outside.rows.len(), socket_set.count_in(namespace));
        for row in outside.rows.values() {
            assert_eq!(row["netns_inode"], namespace.inode(), "{row}");
        }
    }
}

#[test]
fn bpf_walk_lists_all_namespaces_and_kernel_sockets() {
    let socket_set = need!(SocketSet::new("walk_udp_all"));
    let listed = Listed::here("bpf", &["-u", "-a", "--netns", "all"]);
    assert_eq!(listed.source(), "bpf");
    for namespace in &socket_set.namespaces {
        let inside: Vec<_> = listed
            .rows
            .values()
            .filter(|row| row["netns_inode"] == namespace.inode())
            .collect();
        assert_eq!(inside.len(), socket_set.count_in(namespace));
        if socket_set.has_vxlan {
            let own = inside.iter().filter(|row| row["local"]["port"] == VXLAN_PORT);
            assert_eq!(own.count(), 2, "{inside:#?}");
        }
    }
}

/// A namespace may have a table of its own (`net.ipv4.udp_child_hash_entries` of the namespace it was born in).
#[test]
fn bpf_walk_reads_udp_tables_of_single_namespaces() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_udp_tables"));
    let parent = lab.namespace("parent");
    let outer = parent.loopback().udp_connected();
    let child = need!(with_table(&lab, &parent));
    let pairs = [
        child.loopback().udp_connected(),
        child.loopback6().udp_connected(),
    ];
    for (namespace, expected) in [(&parent, 2), (&child, 2 * pairs.len())] {
        let words = ["-u", "-a", "--netns", namespace.name()];
        let outside = compare(&words.join(" "), |source| Listed::here(source, &words));
        let inside = compare("inside", |source| {
            Listed::inside(namespace, source, &["-u", "-a"])
        });
        assert_eq!([outside.rows.len(), inside.rows.len()], [expected; 2]);
    }
    let all = Listed::here("bpf", &["-u", "-a", "--netns", "all"]);
    for lab_socket in pairs.iter().chain([&outer]).flat_map(Pair::lab_sockets) {
        let listed = all.rows.values().filter(|row| row["inode"] == lab_socket.inode);
        assert_eq!(listed.count(), 1, "{lab_socket:?}");
    }
}

/// More sockets on one port than fit into the buffer of a run: it takes several runs, and none is listed twice. And more
/// than the program's start is worth.
#[test]
fn udp_chain_longer_than_the_buffer_is_listed_once() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_udp_crowd"));
    let here = lab.namespace("here");
    let to = |local: SocketAddr| move |_| bound(local, true);
    let crowd = here.run(|| -> Result<Vec<OwnedFd>, Errno> {
        let v4 = (0..CROWD).map(to((Ipv4Addr::LOCALHOST, 7777).into()));
        let v6 = (0..CROWD / 20).map(to((Ipv6Addr::LOCALHOST, 7777).into()));
        v4.chain(v6).collect()
    });
    let crowd = match crowd {
        Ok(crowd) => crowd,
        Err(errno) => return Skip::new(format!("no {CROWD} sockets: {errno}")).print(),
    };
    for (words, source, count) in [
        (&["-u", "-a"][..], "bpf", crowd.len()),
        (&["-u", "-a", "-m"], "auto", crowd.len()),
        (&["-u", "-a", "sport", "=", ":7777"], "bpf", crowd.len()),
        // Where few of the chain are wanted, they are found among those that are not.
        (&["-6", "-u", "-a"], "bpf", CROWD / 20),
    ] {
        let listed = Listed::inside(&here, source, words);
        assert_eq!(
            (listed.source(), listed.rows.len(), listed.unsettled()),
            ("bpf", count, 0),
            "{words:?}"
        );
    }
}

/// As many as make the walk worth its start, and two buffers and a bit.
const CROWD: usize = 8_100;

/// Sockets that live as long as the test are listed once, while others open and close, and others again wander from
/// chain to chain: an iterator on one of these is misled.
#[test]
fn udp_socket_that_exists_during_the_walk_is_listed_once() {
    need!(can_walk());
    let lab = need!(Lab::new("walk_udp_churn"));
    let parent = lab.namespace("parent");
    let child = match with_table(&lab, &parent) {
        Ok(child) => Some(child),
        Err(skip) => {
            skip.print();
            None
        }
    };
    for here in [Some(parent), child].into_iter().flatten() {
        let lasting: BTreeMap<u64, OwnedFd> = here.run(|| {
            let make = |nth: usize| {
                let local: SocketAddr = match nth % 3 {
                    0 => (Ipv6Addr::LOCALHOST, 0).into(),
                    1 => (Ipv4Addr::LOCALHOST, 0).into(),
                    _ => (Ipv4Addr::LOCALHOST, 7777).into(),
                };
                let made = bound(local, nth % 3 == 2).unwrap();
                (rustix::fs::fstat(&made).unwrap().st_ino, made)
            };
            (0..LASTING).map(make).collect()
        });
        let (over, made) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let _end = Ended(&over); // also when an assertion fails
            scope.spawn(|| here.run(|| open_and_close(&over, &made)));
            scope.spawn(|| here.run(|| wander(&over, &made)));
            sockeye_lab::wait_until("the churn", || made.load(Ordering::Relaxed) > 1000);
            let mut unsettled = 0;
            for nth in 0..20 {
                let before = made.load(Ordering::Relaxed);
                let words = [&["-u", "-a", "-n"][..], &["-u", "-a", "-n", "-m"]][nth % 2];
                let listed = Listed::inside(&here, "bpf", words);
                let mut found: BTreeMap<u64, usize> = BTreeMap::new();
                for row in listed.rows.values() {
                    *found.entry(row["inode"].as_u64().unwrap_or(0)).or_default() += 1;
                }
                unsettled += listed.unsettled();
                for inode in lasting.keys() {
                    let count = found.get(inode).copied().unwrap_or(0);
                    // A chain that kept changing is reported, and may have had any of them.
                    assert!(
                        count == 1 || (count == 0 && listed.unsettled() > 0),
                        "{inode}: {count} times"
                    );
                }
                sockeye_lab::wait_until("the churn to go on", || made.load(Ordering::Relaxed) > before);
            }
            assert!(
                unsettled < 20,
                "{unsettled} chains of 20 walks would not hold still"
            );
        });
    }
}

const LASTING: usize = 2_000;

/// Sets the flag when it is dropped, also by a panic: the threads that read it end.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open_and_close(over: &AtomicBool, made: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        // Some in the longest chain, some anywhere.
        let crowd: Vec<_> = (0..8)
            .map(|_| bound((Ipv4Addr::LOCALHOST, 7777).into(), true).unwrap())
            .collect();
        drop(UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap());
        drop(crowd);
        made.fetch_add(9, Ordering::Relaxed);
    }
}

/// A socket that never asked for a port loses it when it is disconnected, and gets another one: the same memory is in
/// another chain then.
fn wander(over: &AtomicBool, made: &AtomicU64) {
    let wanderers: Vec<_> = (0..200)
        .map(|_| socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap())
        .collect();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    while !over.load(Ordering::Relaxed) {
        for wanderer in &wanderers {
            connect(wanderer, &to).unwrap();
            connect_unspec(wanderer).unwrap();
            connect(wanderer, &to).unwrap();
            made.fetch_add(1, Ordering::Relaxed);
        }
        for wanderer in &wanderers {
            connect_unspec(wanderer).unwrap();
        }
    }
}

fn bound(local: SocketAddr, is_shared: bool) -> Result<OwnedFd, Errno> {
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let made = socket(family, SocketType::DGRAM, None)?;
    set_socket_reuseport(made.as_fd(), is_shared)?;
    bind(&made, &local)?;
    Ok(made)
}

/// A namespace with the smallest table of its own that the kernel makes: 128 buckets.
fn with_table(lab: &Lab, parent: &Namespace) -> Result<Namespace, Skip> {
    let child = parent.run(|| {
        // Each namespace has its own setting, which those have that are born in it.
        std::fs::write(CHILD_ENTRIES, "128")
            .map_err(|error| Skip::new(format!("no {CHILD_ENTRIES} (Linux 6.2): {error}")))?;
        Ok(lab.namespace("own_table"))
    })?;
    let has = child
        .run(|| std::fs::read_to_string("/proc/sys/net/ipv4/udp_hash_entries"))
        .unwrap();
    // A table of another namespace shows as a negative number.
    assert_eq!(has.trim(), "128");
    Ok(child)
}

const CHILD_ENTRIES: &str = "/proc/sys/net/ipv4/udp_child_hash_entries";
