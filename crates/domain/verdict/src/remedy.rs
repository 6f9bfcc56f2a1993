//! Remedies for findings about sockets.

use crate::finding::Example;
use crate::{Finding, Remedy, Rule};
use sockeye_model::{Endpoint, Port};
use std::net::IpAddr;

/// Remedies for the fault of these sockets.
pub(crate) fn remedies(finding: &Finding) -> Vec<Remedy> {
    let first = finding.examples.first();
    let peer = first.and_then(|example| example.peer.ip());
    let owner_filter = owner_filter(finding);
    let sockeye = |text: String| Remedy::Sockeye(text);
    match finding.rule {
        Rule::NoKeepalive => vec![
            sockeye(format!(
                "keepalive set 'state established and not timer = keepalive and {} and {owner_filter}' --time 60s --interval 10s --probes 6",
                idle_filter(finding)
            )),
            Remedy::Advice("let the program set SO_KEEPALIVE, or start it by `sockeye keepalive run`"),
        ],
        Rule::KeepaliveLate => {
            let which = if finding.sockets == 1 {
                single_socket_filter(finding)
            } else {
                format!("timer = keepalive and {owner_filter}")
            };
            vec![
                sockeye(format!("keepalive list '{which}'")),
                sockeye(format!(
                    "keepalive set '{which}' --time 60s --interval 10s --probes 6"
                )),
                Remedy::Inside("sysctl -w net.ipv4.tcp_keepalive_time=120".into()),
            ]
        }
        // No command reaches its namespace, and none is needed.
        Rule::PeerSilent if finding.severity < crate::Severity::Notice => Vec::new(),
        Rule::KeepaliveUnanswered | Rule::PeerSilent | Rule::SendStuck => {
            let mut list = path_checks(peer, finding);
            list.extend(full_size_probe(peer, finding));
            list.push(sockeye(format!("kill '{}'", single_socket_filter(finding))));
            list
        }
        Rule::ConnectUnanswered => path_checks(peer, finding),
        Rule::MtuBlackHole => {
            let mut list = Vec::new();
            if let Some(ip) = peer {
                list.push(Remedy::Inside(format!("tracepath -n {ip}")));
            }
            list.push(Remedy::Inside("sysctl -w net.ipv4.tcp_mtu_probing=1".into()));
            list.push(Remedy::Advice(
                "let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") through, or clamp the MSS on the tunnel",
            ));
            list
        }
        Rule::ZeroWindow => vec![
            Remedy::Advice("look at the peer: the program there does not read (stuck, stopped, or too slow)"),
            sockeye(format!("kill '{}'", single_socket_filter(finding))),
        ],
        Rule::CloseWait => {
            let mut list = vec![sockeye(format!(
                "sockets -tp state close-wait and {owner_filter}"
            ))];
            // A request that is still being worked on is not killed.
            if finding.facts.value("unanswered").is_none() {
                list.push(sockeye(format!(
                    "kill 'state close-wait and {owner_filter} and {}'",
                    quiet_filter(finding)
                )));
                list.push(Remedy::Advice(
                    "mend the program: it does not close what the peer has closed",
                ));
            } else {
                list.push(Remedy::Advice(
                    "look at the program: it received requests and neither answers nor closes",
                ));
            }
            list
        }
        Rule::FinWait2 if finding.severity < crate::Severity::Warning => vec![
            sockeye(format!("sockets -tp state fin-wait-2 and {owner_filter}")),
            Remedy::Advice("look at the peer: it neither answers nor closes"),
        ],
        Rule::FinWait2 => vec![
            sockeye(format!("sockets -tp state fin-wait-2 and {owner_filter}")),
            sockeye(format!(
                "kill 'state fin-wait-2 and {owner_filter} and {}'",
                quiet_filter(finding)
            )),
            Remedy::Advice(
                "look at the peer: it does not close; let the program close() instead of shutdown()",
            ),
        ],
        Rule::Unread | Rule::UdpUnread => {
            let mut list = owner_state(finding);
            list.push(sockeye(format!("sockets -tuamp '{owner_filter} and recvq > 0'")));
            if finding.rule == Rule::UdpUnread {
                list.extend(longer_receive_buffer(finding));
                list.push(Remedy::Advice(
                    "a longer buffer helps against bursts, not against a slow reader",
                ));
            }
            list
        }
        Rule::SocketDrops => {
            let mut list = vec![sockeye(format!("sockets -tuamp '{owner_filter} and drops > 0'"))];
            list.extend(longer_receive_buffer(finding));
            list.push(Remedy::Advice("let the program read faster"));
            list
        }
        Rule::Retransmissions | Rule::SpuriousRetransmissions | Rule::Reordering | Rule::CwndFloor => {
            let mut list = path_checks(peer, finding);
            list.push(sockeye(format!("sockets -tip '{owner_filter} and retrans > 0'")));
            if finding.rule == Rule::CwndFloor {
                list.push(Remedy::Inside("ip route show table all | grep cwnd".into()));
            }
            list
        }
        Rule::RttInflation => {
            let mut list = path_checks(peer, finding);
            list.push(Remedy::Inside("tc -s qdisc".into()));
            list.push(Remedy::Advice(
                "shorten the queue at the bottleneck (fq_codel, cake), or shape below its rate",
            ));
            list
        }
        Rule::PacingFloor => vec![
            sockeye(format!("sockets -tip '{owner_filter} and sendq > 0'")),
            Remedy::Advice(
                "SO_MAX_PACING_RATE is the program's own doing; else the congestion control measured a slow path",
            ),
        ],
        Rule::ReceiverLimited if finding.facts.value("tcp_window_scaling") == Some(0) => vec![
            Remedy::Inside("sysctl -w net.ipv4.tcp_window_scaling=1".into()),
            Remedy::Advice("connections that are open already keep what they agreed upon: open them again"),
        ],
        Rule::ReceiveBuffer => longer_own_buffer(finding),
        Rule::NagleDelayedAck => vec![Remedy::Advice(
            "let the program write each message at once (writev, MSG_MORE), or set TCP_NODELAY",
        )],
        Rule::ConnectionGrowth => vec![
            sockeye(format!(
                "sockets -tip '{owner_filter} and {}'",
                service_filter(finding)
            )),
            Remedy::Advice(
                "let the program close its connections, or use them again (one client for all calls)",
            ),
        ],
        Rule::ReceiverLimited => vec![Remedy::Advice(
            "at the peer: raise the last of net.ipv4.tcp_rmem, set no SO_RCVBUF there, let it read faster",
        )],
        Rule::SendBufferLimited => vec![longer_send_buffer(finding)],
        Rule::ApplicationLimited => vec![Remedy::Advice("look at the program, not at the network")],
        _ => Vec::new(),
    }
}

/// The program chooses the receive buffer, up to a limit, which the kernel doubles.
fn longer_receive_buffer(finding: &Finding) -> Option<Remedy> {
    let most = finding.facts.value("rmem_max_bytes")?;
    let length = finding.examples.first()?.facts.value("rcvbuf_bytes")?;
    Some(if length >= most.saturating_mul(2) {
        let longer = most.saturating_mul(4);
        Remedy::Anywhere(format!("sysctl -w net.core.rmem_max={longer}"))
    } else {
        Remedy::Advice("let the program ask for a longer buffer (SO_RCVBUF, up to net.core.rmem_max)")
    })
}

/// A send buffer grows up to a limit, unless the program has set its size.
fn longer_send_buffer(finding: &Finding) -> Remedy {
    let most = finding.facts.value("tcp_wmem_max_bytes");
    let length = finding
        .examples
        .first()
        .and_then(|example| example.facts.value("sndbuf_bytes"));
    match most.zip(length) {
        Some((most, length)) if length >= most => {
            let longer = most.saturating_mul(4);
            Remedy::Inside(format!("sysctl -w net.ipv4.tcp_wmem='4096 65536 {longer}'"))
        }
        _ => Remedy::Advice(
            "set no SO_SNDBUF in the program, or a longer one: it switches automatic sizing off",
        ),
    }
}

/// The receive buffer of TCP grows up to a limit, unless the program has set its size.
fn longer_own_buffer(finding: &Finding) -> Vec<Remedy> {
    let most = finding.facts.value("tcp_rmem_max_bytes");
    let length = finding
        .examples
        .first()
        .and_then(|example| example.facts.value("rcvbuf_bytes"));
    let mut list = Vec::new();
    if most.is_some_and(|most| length.is_none_or(|length| length >= most)) {
        list.push(Remedy::Inside(
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'".into(),
        ));
    } else {
        list.push(Remedy::Advice(
            "set no SO_RCVBUF in the program, or a longer one: it switches automatic sizing off",
        ));
    }
    list
}

/// A filter for the service of all sockets.
fn service_filter(finding: &Finding) -> String {
    let peer = finding.examples.first().map(|example| example.peer);
    peer.map_or_else(String::new, |peer| format!("dst = {}", endpoint_filter(&peer)))
}

/// A filter for idle sockets: half of the shortest idle time shown, so that active sockets do not match.
fn idle_filter(finding: &Finding) -> String {
    let all = finding.examples.iter();
    let least = all.filter_map(|example| example.facts.value("idle_ms")).min();
    format!("idle > {}ms", least.unwrap_or(0) / 2)
}

/// A filter for half-closed sockets: half of the shortest age shown, so that younger ones do not match.
fn quiet_filter(finding: &Finding) -> String {
    let all = finding.examples.iter();
    let least = all.filter_map(|example| example.facts.value("age_ms")).min();
    format!("idle > {}ms", least.unwrap_or(0) / 2)
}

/// A filter for the sockets of a finding: by owner, or else by what they have in common.
fn owner_filter(finding: &Finding) -> String {
    if let Some(owner) = finding.owner {
        return format!("pid = {}", owner.pid);
    }
    let same = |of: fn(&Example) -> Option<String>| {
        let mut all = finding.examples.iter().map(of);
        let first = all.next()??;
        all.all(|other| other.as_ref() == Some(&first)).then_some(first)
    };
    let local = |example: &Example| example.local.port().map(|port| format!("sport = :{port}"));
    let service = |example: &Example| example.peer.port().map(|port| format!("dport = :{port}"));
    let peer = |example: &Example| {
        let ip = example.peer.ip()?;
        Some(format!("dst = {}", endpoint_filter(&Endpoint::inet(ip, Port(0)))))
    };
    let uid = |example: &Example| example.uid.map(|uid| format!("uid = {uid}"));
    same(local)
        .or_else(|| same(service))
        .or_else(|| same(peer))
        .or_else(|| same(uid))
        .unwrap_or_else(|| "recvq >= 0".to_owned())
}

/// Commands that show where packets are lost or delayed.
fn path_checks(peer: Option<IpAddr>, finding: &Finding) -> Vec<Remedy> {
    let Some(ip) = peer else { return Vec::new() };
    let mut list = vec![Remedy::Inside(format!("ip route get {ip}"))];
    let probe = if finding.rule == Rule::ConnectUnanswered {
        let port = finding.examples.first().and_then(|example| example.peer.port());
        port.map_or_else(
            || format!("ping -c 3 {ip}"),
            |port| format!("ping -c 3 {ip}; nc -vz -w 3 {ip} {port}"),
        )
    } else {
        format!("ping -c 3 {ip}")
    };
    list.push(Remedy::Inside(probe));
    list
}

/// A command that tests whether full-sized packets get through.
fn full_size_probe(peer: Option<IpAddr>, finding: &Finding) -> Vec<Remedy> {
    let facts = finding.examples.first().map(|example| example.facts);
    let (Some(ip), Some(pmtu)) = (peer, facts.and_then(|facts| facts.value("untried_pmtu_bytes"))) else {
        return Vec::new();
    };
    // Headers in the packet of an echo request.
    let headers = if ip.is_ipv4() { 28 } else { 48 };
    vec![
        Remedy::Inside(format!(
            "ping -c 3 -M do -s {} {ip}",
            pmtu.saturating_sub(headers)
        )),
        Remedy::Advice(
            "no segment of full size was ever acknowledged: if short packets get through and long ones do not, a smaller MTU on the path drops them",
        ),
    ]
}

/// Commands that show the state of the owner.
fn owner_state(finding: &Finding) -> Vec<Remedy> {
    let owner = finding.owner.iter();
    owner
        .map(|owner| {
            Remedy::Anywhere(format!(
                "grep -H State /proc/{0}/status; cat /proc/{0}/stack",
                owner.pid
            ))
        })
        .collect()
}

/// A filter that matches only the worst socket.
fn single_socket_filter(finding: &Finding) -> String {
    finding.examples.first().map_or_else(String::new, |example| {
        let (local, peer) = (endpoint_filter(&example.local), endpoint_filter(&example.peer));
        format!("src = {local} and dst = {peer}")
    })
}

/// An address in filter syntax.
pub(crate) fn endpoint_filter(end: &Endpoint) -> String {
    let Endpoint::Inet { ip, port } = end else {
        return "*".to_owned();
    };
    let port = if port.0 == 0 {
        String::new()
    } else {
        format!(":{port}")
    };
    match ip {
        IpAddr::V4(ip) => format!("{ip}{port}"),
        IpAddr::V6(ip) => format!("[{ip}]{port}"),
    }
}
