//! The same question put to this kernel, to `ss` and to us, about real sockets on loopback.
//!
//! Needs no privilege. What `fwmark` does is only seen with CAP_NET_ADMIN, without which its programs are
//! not sent.

use super::generate::{Names, Pool, Rng};
use super::live::{Sockets, dump, ss};
use sockeye_filter::{Filter, KernelFeatures, Resolve, parse};
use sockeye_model::{CgroupId, Entry, Socket, State, StateSet};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

/// Identifies a socket, with its state: a change of state during the test is no wrong answer.
type Key = (u64, String);

fn keys<'a>(sockets: impl Iterator<Item = &'a Socket>) -> BTreeSet<Key> {
    sockets
        .map(|socket| {
            let text = format!("{:?} {:?} {:?}", socket.state, socket.local, socket.peer);
            (socket.cookie.map_or(0, |cookie| cookie.0), text)
        })
        .collect()
}

fn filter(text: &str) -> Filter {
    parse(text, &Names).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

fn pool(sockets: &Sockets) -> Pool {
    let mut ports: Vec<u16> = sockets.ports.iter().copied().collect();
    ports.extend(&sockets.listening);
    ports.extend(&sockets.listening);
    ports.extend([0, 1, 65535]);
    let addresses = [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.3",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "10.1.1.1",
    ];
    Pool {
        ports,
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        autobound: false,
        ..Pool::default()
    }
}

#[test]
fn kernel_accepts_the_same_sockets() {
    let sockets = Sockets::make();
    let kernel = match dump(
        &filter("fwmark 0").program(KernelFeatures::FULL).bytecode,
        StateSet::ALL,
    ) {
        Ok(_) => KernelFeatures::FULL,
        Err(1) => {
            println!("SKIP: fwmark in the kernel: CAP_NET_ADMIN is missing");
            KernelFeatures::UNPRIVILEGED
        }
        Err(errno) => panic!("errno {errno}"),
    };
    let pool = pool(&sockets);
    let mut rng = Rng(7);
    let (mut programs, mut found) = (0, 0);
    for round in 0..600 {
        let text = match FIXED.get(round) {
            Some(text) => text.replace("PORT", &sockets.listening[round % 4].to_string()),
            None => pool.filter(&mut rng),
        };
        let filter = filter(&text);
        let program = filter.program(kernel);
        let states = filter.states().unwrap_or(StateSet::ALL_AND_BOUND);
        if states.is_empty() {
            continue;
        }
        let judge = |socket: &&Socket| sockets.is_ours(socket) && filter.matches(&Entry::new(socket));
        // A socket may change (a TIME_WAIT ends): asked again before it counts as an error.
        let mut agreed = false;
        for _ in 0..3 {
            let all = dump(&[], StateSet::ALL_AND_BOUND).unwrap();
            assert!(all.iter().filter(|socket| sockets.is_ours(socket)).count() >= 40);
            let listed =
                dump(&program.bytecode, states).unwrap_or_else(|errno| panic!("{text}: errno {errno}"));
            let ours = keys(all.iter().filter(judge));
            let kernels = if program.exact {
                keys(listed.iter().filter(|socket| sockets.is_ours(socket)))
            } else {
                keys(listed.iter().filter(judge))
            };
            programs += usize::from(!program.bytecode.is_empty());
            found += ours.len();
            agreed = ours == kernels;
            if agreed {
                break;
            }
            eprintln!("{text}\nours {ours:#?}\nkernel's {kernels:#?}");
        }
        assert!(agreed, "{text}");
    }
    assert!(programs > 300 && found > 2000, "{programs} {found}");
}

const FIXED: &[&str] = &[
    "",
    "sport = :PORT",
    "dport = :PORT",
    "sport != :PORT",
    "sport >= :PORT and dport <= :PORT",
    "src 127.0.0.0/8",
    "src 0.0.0.0/0",
    "not src 0.0.0.0/0",
    "src ::/0",
    "src [::ffff:0:0/96]",
    "not src [::ffff:127.0.0.1]",
    "src inet:*",
    "src inet6:*",
    "not src inet6:[::1]",
    "dst 127.0.0.1:PORT or src localhost",
    "dst localhost",
    "not ( dst localhost or src localhost )",
    "peers = loopback",
    "peers != loopback",
    "peers = public",
    "family = inet6 and src 127.0.0.1",
    "state listening",
    "state time-wait sport = :PORT",
    "state close-wait state fin-wait-2",
    "exclude established",
    "( state time-wait or state close-wait ) and dport = :PORT",
    "fwmark = 0",
    "fwmark != 0/0xff",
    "dev = 0",
    "dev != 0",
    "dev = lo or dport = :PORT",
    "proto = udp or sport = :PORT",
    "sport = 1-65534",
    "timer = timewait",
    "recvq > 0 or state listening",
];

/// Knows one cgroup.
struct Cgroup(CgroupId);

impl Resolve for Cgroup {
    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        (path == "/mine").then_some(self.0)
    }
}

#[test]
fn sockets_are_found_by_their_cgroup() {
    let sockets = Sockets::make();
    let all = dump(&[], StateSet::ALL).unwrap();
    let ours = all.iter().filter(|socket| sockets.is_ours(socket));
    let Some(cgroup) = ours.clone().find_map(|socket| socket.cgroup) else {
        println!("SKIP: this kernel does not report cgroups");
        return;
    };
    for text in ["cgroup = /mine", "cgroup != /mine"] {
        let filter = parse(text, &Cgroup(cgroup)).unwrap();
        let expected = keys(ours.clone().filter(|socket| filter.matches(&Entry::new(socket))));
        let listed = dump(
            &filter.program(KernelFeatures::UNPRIVILEGED).bytecode,
            StateSet::ALL,
        )
        .unwrap();
        assert_eq!(
            keys(listed.iter().filter(|socket| sockets.is_ours(socket))),
            expected,
            "{text}"
        );
        // Minimal sockets (TIME_WAIT) have none.
        assert!(expected.len() >= 7, "{text}: {expected:?}");
    }
}

/// Jumps as far as they can go.
#[test]
fn kernel_accepts_a_program_of_60_kilobytes() {
    let sockets = Sockets::make();
    let text = "sport 1 or ".repeat(4000) + &format!("dport {}", sockets.listening[0]);
    let program = filter(&text).program(KernelFeatures::OLDEST);
    assert!(program.exact && program.bytecode.len() > 60_000);
    let listed = dump(&program.bytecode, StateSet::ALL.without(State::Listen)).unwrap();
    assert!(listed.len() >= 3);
    assert!(
        listed
            .iter()
            .all(|socket| socket.peer.port().map(|port| port.0) == Some(sockets.listening[0]))
    );
}

/// Only the kernel knows whether a port was asked for.
#[test]
fn autobound_matches_ports_chosen_by_the_kernel() {
    let sockets = Sockets::make();
    let chosen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The same number again, this time asked for.
    let port = chosen.local_addr().unwrap().port();
    drop(chosen);
    let Ok(asked) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) else {
        println!("SKIP: port {port} was taken meanwhile");
        return;
    };
    let filter = filter(&format!(
        "autobound ( sport = :{port} or dport = :{} )",
        sockets.listening[0]
    ));
    assert!(filter.needs().kernel_only);
    let listed = dump(&filter.program(KernelFeatures::OLDEST).bytecode, StateSet::ALL).unwrap();
    // A connection of another process may have this number at another address.
    let is_asked = |socket: &Socket| {
        socket.state == State::Listen && socket.local.port().map(|port| port.0) == Some(port)
    };
    assert!(!listed.iter().any(is_asked), "{listed:?}");
    assert!(listed.len() >= 3, "clients of ours are missing: {listed:?}");
    drop(asked);
}

/// What `ss` prints for the same words.
#[test]
fn ss_lists_the_same_sockets() {
    if let Err(error) = Command::new("ss").arg("-V").output() {
        println!("SKIP: ss: {error}");
        return;
    }
    let sockets = Sockets::make();
    let pool = Pool {
        negations: false,
        ours: false,
        fwmark: false,
        dev: false,
        ..pool(&sockets)
    };
    let mut rng = Rng(8);
    let mut found = 0;
    for round in 0..200 {
        let text = match FOR_SS.get(round) {
            Some(text) => text
                .replace("PORT0", &sockets.listening[0].to_string())
                .replace("PORT2", &sockets.listening[2].to_string())
                .replace("PORT3", &sockets.listening[3].to_string()),
            None => pool.filter(&mut rng),
        };
        let filter = filter(&text);
        if filter.states().is_some_and(StateSet::is_empty) {
            continue;
        }
        let mut agreed = false;
        for _ in 0..3 {
            let all = dump(&[], StateSet::ALL).unwrap();
            let theirs: BTreeSet<_> = ss(&text)
                .into_iter()
                .filter(|(_, local, peer)| {
                    sockets.listening.contains(local) || sockets.listening.contains(peer)
                })
                .collect();
            // Of a single state, `ss` leaves the column out.
            let no_state = theirs.iter().any(|(state, ..)| state.is_empty());
            let ours: BTreeSet<_> = all
                .iter()
                .filter(|socket| sockets.is_ours(socket) && filter.matches(&Entry::new(socket)))
                .map(|socket| {
                    let port = |end: sockeye_model::Endpoint| end.port().map_or(0, |port| port.0);
                    let state = if no_state {
                        String::new()
                    } else {
                        socket.state.to_string()
                    };
                    (state, port(socket.local), port(socket.peer))
                })
                .collect();
            found += ours.len();
            agreed = ours == theirs;
            if agreed {
                break;
            }
            eprintln!("{text}\nours {ours:?}\nss's {theirs:?}");
        }
        assert!(agreed, "{text}");
    }
    assert!(found > 1000, "{found}");
}

/// `inet:` at the end: there it confines the listing in `ss`, too.
const FOR_SS: &[&str] = &[
    "",
    "sport = :PORT0",
    "sport == PORT0",
    "sport eq :PORT0",
    "sport :PORT0",
    "dport != :PORT0",
    "dport ne PORT0",
    "sport > PORT0",
    "sport < :PORT0",
    "sport ge PORT0 and sport le PORT0",
    "! sport = :PORT0",
    "not ( sport = :PORT0 or dport = :PORT0 )",
    "sport = :PORT0 or sport = :PORT2 and src [::1]",
    "src [::1] and sport = :PORT2 or sport = :PORT0",
    "src 127.0.0.1",
    "src 127",
    "src 127/8",
    "src 127.0.0.0/255.0.0.0",
    "src 0x7f.0.0.1",
    "dst = 127.0.0.1:PORT3",
    "src *:PORT0",
    "src :PORT0",
    "src *",
    "src any",
    "src 0.0.0.0/0",
    "src ::/0",
    "src [::1]",
    "src [::1]:PORT2",
    "dst [::ffff:127.0.0.1]",
    "src 127.0.0.0/8 dst 127.0.0.1",
    "dst 127.0.0.2 or dst 127.0.0.3",
    "src inet:127.0.0.1",
    "src inet6:*",
    "dst inet6:[::1] or sport = :PORT0",
    "sport = inet:PORT3",
    "not dst inet:127.0.0.1",
    "dev = 0",
    "dev != lo",
    "dev 0 dport = :PORT0",
    "autobound",
    "autobound and dport = :PORT3",
    "exclude listening exclude time-wait dport = :PORT0",
    "state connected dport = :PORT0",
    "state bucket dport = :PORT0 or sport = :PORT3",
    "state established state CLOSE-WAIT dport = :PORT0 or sport = :PORT3",
    "exclude bucket sport = :PORT3",
    "state synchronized exclude established",
    "state big",
    "state all ( dport = :PORT2 )",
    "state listening",
    "state time-wait sport = :PORT2 or dport = :PORT2",
];
