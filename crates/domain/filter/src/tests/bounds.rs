//! Bounds never exclude what `matches` accepts, and are exact only where nothing else is within them.

use super::generate::{Names, Pool, Rng, owners, socket};
use sockeye_filter::{Bounds, Filter, Prefix128, parse};
use sockeye_model::{Endpoint, Entry, Family, NetnsInode, Port, Protocol, Socket, State};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

fn filter(text: &str) -> Filter {
    parse(text, &Names).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

/// What is not everything, in few words; behind `~` what is not exact.
fn shown(bounds: &Bounds) -> String {
    if *bounds == Bounds::NOTHING {
        return "nothing".into();
    }
    let mut words = Vec::new();
    match (bounds.v4, bounds.v6) {
        (true, true) => {}
        (v4, v6) => words.push(format!(
            "{}{}",
            if v4 { "v4" } else { "" },
            if v6 { "v6" } else { "" }
        )),
    }
    let mut end = |name: &str, prefix: Prefix128, ports: &RangeInclusive<u16>| {
        if prefix != Prefix128::ANY && (prefix != Prefix128::MAPPED || bounds.v6) {
            let len = prefix.mask.count_ones();
            words.push(format!("{name} {}/{len}", Ipv6Addr::from_bits(prefix.bits)));
        }
        if *ports != (0..=u16::MAX) {
            words.push(format!("{name} :{}-{}", ports.start(), ports.end()));
        }
    };
    end("local", bounds.local, &bounds.local_port);
    end("peer", bounds.peer, &bounds.peer_port);
    if let Some(netns) = &bounds.netns {
        words.push(format!(
            "netns {:?}",
            netns.iter().map(|netns| netns.0).collect::<Vec<_>>()
        ));
    }
    let words = words.join(", ");
    if bounds.exact { words } else { format!("~{words}") }
}

#[test]
fn expressions_have_their_bounds() {
    let mut wrong = Vec::new();
    for (text, expected) in [
        ("", ""),
        ("src *", ""),
        ("not src *", "nothing"),
        // Ports
        ("sport = :ssh", "local :22-22"),
        ("dport = 443", "peer :443-443"),
        ("sport = 0", "local :0-0"),
        ("sport > 0", "local :1-65535"),
        ("sport >= 0", ""),
        ("sport <= 65535", ""),
        ("sport < 0", "nothing"),
        ("sport > 65535", "nothing"),
        ("sport >= 80", "local :80-65535"),
        ("sport > 80", "local :81-65535"),
        ("dport < 80", "peer :0-79"),
        ("dport <= 80", "peer :0-80"),
        ("dport = 8000-8999", "peer :8000-8999"),
        ("not sport >= 80", "local :0-79"),
        ("not sport <= 80", "local :81-65535"),
        ("not sport >= 0", "nothing"),
        ("not sport < 0", ""),
        ("not sport = 0", "local :1-65535"),
        ("sport != 65535", "local :0-65534"),
        ("not sport = 80", "~"),
        ("dport != 8000-8999", "~"),
        ("sport >= 80 and sport <= 90", "local :80-90"),
        ("sport = 80 and sport = 81", "nothing"),
        ("sport = 80 and dport = 81", "local :80-80, peer :81-81"),
        ("sport = 80 or dport = 80", "~"),
        ("sport = 80 or sport = 81", "local :80-81"),
        ("sport = 80 or sport = 90", "~local :80-90"),
        ("sport <= 90 or sport = 80-100", "local :0-100"),
        ("sport = 65535 or sport = 65534", "local :65534-65535"),
        ("sport = 65535 or sport = 0", "~"),
        ("sport < 80 or sport >= 80", ""),
        ("sport < 80 or sport > 80", "~"),
        ("not ( sport < 80 or sport > 90 )", "local :80-90"),
        (
            "( sport 80 and dport 1 ) or ( sport 81 and dport 1 )",
            "local :80-81, peer :1-1",
        ),
        (
            "( sport 80 and dport 1 ) or ( sport 81 and dport 2 )",
            "~local :80-81, peer :1-2",
        ),
        // One is within the other, so that its own exactness does not matter.
        ("sport = 80 or ( sport = 80 and rtt > 5ms )", "local :80-80"),
        ("( sport = 80 and rtt > 5ms ) or sport <= 80", "local :0-80"),
        ("( sport <= 80 and rtt > 5ms ) or sport = 80", "~local :0-80"),
        // Addresses. Those of IPv4 are also those of IPv6 sockets that talk IPv4...
        ("src 10.0.0.0/8", "local ::ffff:10.0.0.0/104"),
        ("src 10.1.2.3", "local ::ffff:10.1.2.3/128"),
        ("dst 0.0.0.0", "peer ::ffff:0.0.0.0/128"),
        ("dst 0.0.0.0/0", "peer ::ffff:0.0.0.0/96"),
        ("src inet:10/8", "v4, local ::ffff:10.0.0.0/104"),
        // ... and those of IPv6 are of no IPv4 socket, the empty prefix included.
        ("src [::/0]", "v6"),
        ("src [::]", "v6, local ::/128"),
        ("dst [2001:db8::/32]", "v6, peer 2001:db8::/32"),
        ("dst [::ffff:10.0.0.1]", "v6, peer ::ffff:10.0.0.1/128"),
        ("dst [::ffff:0:0/96]", "v6, peer ::ffff:0.0.0.0/96"),
        ("dst 10.0.0.1 and dst [::/0]", "v6, peer ::ffff:10.0.0.1/128"),
        ("not src [::/0]", "v4"),
        ("not src 0.0.0.0/0", "~"),
        ("src != 10.0.0.1", "~"),
        ("not src [::]", "~"),
        ("src 10.0.0.1:80", "local ::ffff:10.0.0.1/128, local :80-80"),
        ("dst [::1]:443", "v6, peer ::1/128, peer :443-443"),
        ("src *:80", "local :80-80"),
        ("src 10.0.0.0/8 and src 10.1.0.0/16", "local ::ffff:10.1.0.0/112"),
        ("src 10.0.0.0/8 or src 10.1.0.0/16", "local ::ffff:10.0.0.0/104"),
        ("src 10.0.0.0/8 and src 11.0.0.0/8", "nothing"),
        ("src 10.0.0.0/8 or src 11.0.0.0/8", "local ::ffff:10.0.0.0/103"),
        ("src 10.0.0.0/8 or src 9.0.0.0/8", "~local ::ffff:8.0.0.0/102"),
        // Touching is not enough: one is a half, the other less than that.
        (
            "src 10.128.0.0/9 or src 10.0.0.0/16",
            "~local ::ffff:10.0.0.0/104",
        ),
        (
            "src 10.0.0.0/16 or src 10.128.0.0/9",
            "~local ::ffff:10.0.0.0/104",
        ),
        ("src 10.0.0.0/8 or dst 10.0.0.0/8", "~"),
        (
            "dst [2001:db8::/33] or dst [2001:db8:8000::/33]",
            "v6, peer 2001:db8::/32",
        ),
        ("dst [::/1] or dst [8000::/1]", "v6"),
        (
            "src 10.0.0.1 and dst [::1]",
            "v6, local ::ffff:10.0.0.1/128, peer ::1/128",
        ),
        // Hosts of several addresses
        ("dst web", "~peer ::/2"), // 10.0.0.1 and 2001:db8::1
        ("dst inet:web", "v4, peer ::ffff:10.0.0.1/128"),
        ("dst web:80", "~peer ::/2, peer :80-80"),
        ("src localhost", "~local ::/80"),
        // Families
        ("family = inet", "v4"),
        ("family = inet6", "v6"),
        ("family != inet", "v6"),
        ("family = inet or family = inet6", ""),
        ("family = inet and family = inet6", "nothing"),
        ("family = unix", "nothing"),
        ("family != unix", ""),
        ("family = inet and dst [2001:db8::/32]", "nothing"),
        ("src inet:*", "v4"),
        ("src != inet:*", "nothing"), // as in ss, the listing is confined to a family that is named
        ("src inet6:*:80", "v6, local :80-80"),
        ("src inet:10.0.0.1 or sport 80", "~v4"),
        ("src inet:* or src inet6:*", ""),
        (
            "( family = inet and sport 80 ) or ( family = inet6 and sport 80 )",
            "local :80-80",
        ),
        (
            "( family = inet and sport 80 ) or ( family = inet6 and sport 81 )",
            "~local :80-81",
        ),
        (
            "( family = inet and sport 80 ) or src 10.0.0.0/8",
            "~local ::ffff:0.0.0.0/96",
        ),
        ("src unix:*", "nothing"),
        ("src unix:* or sport 80", "nothing"),
        ("src netlink:rtnl:*", "nothing"),
        // Namespaces
        ("netns = web1", "netns [4026]"),
        ("netns = 5 or netns = web1 or netns = 5", "netns [5, 4026]"),
        ("netns = 5 and netns = 6", "nothing"),
        (
            "( netns = 5 or netns = 6 ) and ( netns = 6 or netns = 7 )",
            "netns [6]",
        ),
        ("netns = 5 or sport = 80", "~"),
        ("netns = 5 and sport = 80", "local :80-80, netns [5]"),
        ("netns = 4294967296", "nothing"),
        ("not netns = 4294967296", ""),
        ("netns != 5", "~"),
        ("not netns != 5", "~"), // an unknown namespace is not unequal to 5
        ("netns > 5", "~"),
        // States are asked for, where all of the expression is subject to them.
        ("state established", ""),
        ("exclude listening sport = 80", "local :80-80"),
        (
            "sport = 80 and not ( state closed or state listening )",
            "local :80-80",
        ),
        ("not ( sport >= 80 or state closed )", "local :0-79"),
        ("( state established and sport = 80 ) or dport = 80", "~"),
        (
            "( state established and sport = 80 ) or sport = 80",
            "local :80-80",
        ),
        (
            "( state established and sport = 80 ) or sport = 81",
            "~local :80-81",
        ),
        (
            "sport = 80 and ( state established or dport = 80 )",
            "~local :80-80",
        ),
        // What else there is
        ("autobound", "~local :32768-60999"),
        ("not autobound", "~"),
        ("peers = none", "nothing"),
        ("peers != all", "nothing"),
        ("not peers = none", "~"),
        ("peers = public", "~"),
        ("peers = private", "~"),
        ("peers = loopback", "~peer ::/80"),
        ("not peers = all", "~peer ::/80"),
        ("family = inet and peers = loopback", "~v4"),
        ("proto = tcp and sport = 80", "~local :80-80"),
        ("proto = inet and sport = 80", "local :80-80"),
        ("proto = unix", "nothing"),
        ("proto != unix", ""),
        ("dev lo and sport = 80", "~local :80-80"),
        ("fwmark 1", "~"),
        ("cgroup /a", "~"),
        ("uid = root", "~"),
        ("owner = nginx and dst 10.0.0.0/8", "~peer ::ffff:10.0.0.0/104"),
        ("timer = on", "~"),
        ("sport = 80 and sport = 81 and rtt > 5ms", "nothing"),
        ("sport = 80 and rtt > 5ms or sport = 81", "~local :80-81"),
        ("not ( sport >= 80 and rtt > 5ms )", "~"),
        ("not ( sport >= 80 or rtt > 5ms )", "~local :0-79"),
    ] {
        let found = shown(&filter(text).bounds());
        if found != expected {
            wrong.push(format!("{text}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn namespaces_beyond_the_maximum_are_unbounded() {
    let any_of = |count: usize| {
        let each: Vec<_> = (1..=count)
            .rev()
            .map(|inode| format!("netns = {inode}"))
            .collect();
        filter(&each.join(" or ")).bounds()
    };
    let most = any_of(Bounds::NETNS_MAX);
    let inodes: Vec<_> = (1..).map(NetnsInode).take(Bounds::NETNS_MAX).collect();
    assert_eq!((most.netns, most.exact), (Some(inodes), true));
    let more = any_of(Bounds::NETNS_MAX + 1);
    assert_eq!((more.netns, more.exact), (None, false));
}

#[test]
fn long_expressions_have_bounds_too() {
    let long = "sport 1 or ".repeat(100_000) + "sport 2";
    assert_eq!(shown(&filter(&long).bounds()), "local :1-2");
}

#[test]
fn sockets_of_other_families_are_in_no_bounds() {
    let mut socket = Socket::new(Protocol::UnixStream, State::Established);
    socket.family = Family::Unix;
    assert!(!Bounds::EVERYTHING.contains(&socket));
    assert!(!Bounds::NOTHING.contains(&socket) && Bounds::NOTHING.is_impossible());
}

/// A socket just within the bounds, or just beyond them in one respect: at the ends of ranges, with the bits
/// behind the prefixes at random.
fn socket_at(bounds: &Bounds, rng: &mut Rng) -> Socket {
    let port = |rng: &mut Rng, range: &RangeInclusive<u16>| {
        let (low, high) = (*range.start(), *range.end());
        let inside = low.saturating_add(rng.below(usize::from(high.saturating_sub(low)) + 1) as u16);
        if rng.one_in(8) {
            rng.pick(&[low.saturating_sub(1), high.saturating_add(1)])
        } else {
            rng.pick(&[low, high, inside])
        }
    };
    let address = |rng: &mut Rng, prefix: Prefix128, is_v6: bool| {
        let mut prefix = prefix;
        if !is_v6 || rng.one_in(3) {
            // Also where the prefix says less than that.
            prefix.bits |= Prefix128::MAPPED.bits & !prefix.mask;
            prefix.mask |= Prefix128::MAPPED.mask;
        }
        let random = u128::from(rng.next()) << 64 | u128::from(rng.next());
        let rest = rng.pick(&[0, u128::MAX, random]) & !prefix.mask;
        let mut bits = prefix.bits | rest;
        if rng.one_in(8) {
            bits ^= prefix.mask & prefix.mask.wrapping_neg(); // its last bit
        }
        let v6 = Ipv6Addr::from_bits(bits);
        match v6.to_ipv4_mapped() {
            Some(v4) if !is_v6 => IpAddr::V4(v4),
            _ if !is_v6 => IpAddr::V4(std::net::Ipv4Addr::from_bits(bits as u32)),
            _ => IpAddr::V6(v6),
        }
    };
    let is_v6 = match (bounds.v4, bounds.v6) {
        (true, false) => rng.one_in(8),
        (false, true) => !rng.one_in(8),
        _ => rng.one_in(2),
    };
    let mut socket = socket(rng);
    socket.protocol = rng.pick(&[Protocol::Tcp, Protocol::Udp, Protocol::Raw]);
    socket.family = if is_v6 { Family::Inet6 } else { Family::Inet };
    socket.local = Endpoint::inet(
        address(rng, bounds.local, is_v6),
        Port(port(rng, &bounds.local_port)),
    );
    socket.peer = Endpoint::inet(
        address(rng, bounds.peer, is_v6),
        Port(port(rng, &bounds.peer_port)),
    );
    socket.netns = match &bounds.netns {
        Some(netns) if !rng.one_in(8) => Some(rng.pick(netns)),
        _ if rng.one_in(4) => None,
        _ => Some(rng.pick(&[NetnsInode(4026), NetnsInode(5), NetnsInode(6)])),
    };
    socket
}

/// Those that bounds can decide, so that they often are exact.
fn simple(pool: &Pool, rng: &mut Rng, depth: usize) -> String {
    let inner = |rng: &mut Rng| simple(pool, rng, depth - 1);
    match rng.below(if depth == 0 { 7 } else { 13 }) {
        0 | 1 => {
            let (side, compare) = (
                rng.pick(&["sport", "dport"]),
                rng.pick(&["=", "=", "<=", ">=", "!="]),
            );
            format!("{side} {compare} {}", rng.pick(&pool.ports))
        }
        2 => format!(
            "{} = {}",
            rng.pick(&["sport", "dport"]),
            rng.pick(&["0-79", "80-90", "82-443", "91-99"])
        ),
        3 | 4 => {
            let side = rng.pick(&["src", "dst"]);
            let net = rng.pick(&[
                "10.0.0.0/8",
                "10.0.0.0/9",
                "10.128.0.0/9",
                "10.0.0.0/16",
                "11.0.0.0/8",
                "0.0.0.0/0",
                "0.0.0.0",
                "[::]",
                "[::/0]",
                "[2001:db8::/32]",
                "[2001:db8::/33]",
                "[2001:db8:8000::/33]",
                "[::/1]",
                "[8000::/1]",
                "[::ffff:0:0/96]",
                "[::ffff:10.0.0.0/104]",
                "inet:*",
                "inet6:web",
                "inet6:[::/0]",
                "localhost",
                "web",
            ]);
            format!("{side} {net}")
        }
        5 => format!(
            "family {} {}",
            rng.pick(&["=", "!="]),
            rng.pick(&["inet", "inet6"])
        ),
        6 => format!("netns = {}", rng.pick(&["web1", "5", "6"])),
        7 => format!("not ( {} )", inner(rng)),
        8 if depth > 1 => format!("( {} and rtt > 5ms )", inner(rng)),
        9..=10 => format!("( {} and {} )", inner(rng), inner(rng)),
        _ => format!("( {} or {} )", inner(rng), inner(rng)),
    }
}

#[test]
fn bounds_never_exclude_what_matches_accepts() {
    let (mut rng, pool) = (Rng(7), Pool::default());
    let (mut exact, mut inexact, mut nothing) = (0, 0, 0);
    let (mut accepted, mut within, mut outside) = (0, 0, 0);
    for round in 0..12_000 {
        let text = if round % 2 == 0 {
            pool.filter(&mut rng)
        } else {
            let depth = rng.below(4);
            simple(&pool, &mut rng, depth)
        };
        let filter = filter(&text);
        let bounds = filter.bounds();
        match (bounds.is_impossible(), bounds.exact) {
            (true, _) => {
                assert_eq!(bounds, Bounds::NOTHING, "{text}");
                nothing += 1;
            }
            (_, true) => exact += 1,
            (_, false) => inexact += 1,
        }
        for nth in 0..24 {
            let mut socket = if nth % 3 == 0 && !bounds.is_impossible() {
                socket_at(&bounds, &mut rng)
            } else if nth % 3 == 1 {
                socket_at(&Bounds::EVERYTHING, &mut rng)
            } else {
                socket(&mut rng)
            };
            if !socket.protocol.is_inet() {
                assert!(!bounds.contains(&socket));
                continue;
            }
            if let Some(states) = filter.states()
                && let Some(state) = State::ALL.into_iter().find(|&state| states.contains(state))
                && rng.one_in(2)
            {
                socket.state = state;
            }
            let owners = owners(&mut rng);
            let matches = filter.matches(&Entry::with_owners(&socket, owners.as_deref()));
            let is_within = bounds.contains(&socket);
            let is_listed = is_within && filter.states().is_none_or(|states| states.contains(socket.state));
            assert!(is_listed || !matches, "{text}: {bounds:?} excludes {socket:?}");
            assert!(
                !bounds.exact || is_listed == matches,
                "{text}: {bounds:?} is not exact for {socket:?}"
            );
            accepted += usize::from(matches);
            *(if is_within { &mut within } else { &mut outside }) += 1;
        }
    }
    println!(
        "{exact} exact, {inexact} not, {nothing} nothing; {within} within, {outside} outside, {accepted} accepted"
    );
    // The generator has to produce all cases for this to mean anything.
    assert!(exact > 1500 && inexact > 1500 && nothing > 500);
    assert!(within > 50_000 && outside > 50_000 && accepted > 50_000);
}
