//! Rules about the kernel's counters: those that should not move, or should stay small in relation to others.

use crate::finding::{Facts, Subject};
use crate::share::permille;
use crate::{Finding, Limit, Limits, Rule, Severity};
use sockeye_model::{Counter, Counters, Vitals};
use std::collections::BTreeSet;
use std::time::Duration;

/// The meaning of a counter, and how it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    /// The counter
    pub counter: Counter,
    /// Severity of a finding
    pub severity: Severity,
    /// Counters of the whole: it is compared with their sum
    pub of: &'static [Counter],
    /// Whether it moves on every host: then only its share is judged
    pub may_move: bool,
    /// Whether single events are usual on healthy hosts: judged only between two samples, from a rate on
    pub needs_rate: bool,
    /// Counters that count the same events more precisely: their values are subtracted
    pub parts: &'static [Counter],
    /// Rules that report the same about single sockets
    pub reported_by: &'static [Rule],
    /// Meaning, in one sentence
    pub text: &'static str,
    /// Command that helps or shows more
    pub remedy: Option<&'static str>,
}

pub(crate) fn findings(
    vitals: &Vitals,
    before: Option<&Vitals>,
    elapsed: Option<Duration>,
    reported: &BTreeSet<Rule>,
    limits: &Limits,
) -> Vec<Finding> {
    let before = before.map(|before| &before.counters);
    let unreported = MEANINGS
        .iter()
        .filter(|meaning| !meaning.reported_by.iter().any(|rule| reported.contains(rule)));
    unreported
        .filter_map(|meaning| {
            let mut finding = Finding::about(Rule::Counters, vitals.netns, Subject::Counter(meaning.counter));
            finding.facts = judge(meaning, &vitals.counters, before, elapsed, limits)?;
            finding.meaning = meaning.text;
            // Events since the host started may be long over.
            finding.severity = match before {
                Some(_) => meaning.severity,
                None => meaning.severity.min(Severity::Notice),
            };
            Some(match meaning.remedy {
                Some(command) => finding.inside(command),
                None => finding,
            })
        })
        .collect()
}

fn judge(
    meaning: &Meaning,
    now: &Counters,
    before: Option<&Counters>,
    elapsed: Option<Duration>,
    limits: &Limits,
) -> Option<Facts> {
    let since = |counter| {
        let now = now.value(counter)?;
        let before = before.and_then(|before| before.value(counter)).unwrap_or(0);
        // A counter that is smaller than before was reset.
        Some(now.checked_sub(before).unwrap_or(now))
    };
    let more_precise = meaning.parts.iter().filter_map(|counter| since(*counter));
    let count = since(meaning.counter)?.saturating_sub(more_precise.fold(0, u64::saturating_add));
    let whole = meaning
        .of
        .iter()
        .filter_map(|counter| since(*counter))
        .fold(0, u64::saturating_add);
    let share = permille(count, whole.max(count));
    let applies = if before.is_some() && !meaning.may_move {
        count > 0
    } else {
        count >= limits.of(Limit::CountersCount) && share >= limits.of(Limit::CountersShare)
    };
    let is_fast_enough = || {
        let least = u128::from(limits.of(Limit::CountersRate));
        let ms = elapsed
            .filter(|_| before.is_some())
            .map(|elapsed| elapsed.as_millis());
        ms.is_some_and(|ms| u128::from(count) * 1000 >= least * ms.max(1))
    };
    (applies && (!meaning.needs_rate || is_fast_enough())).then(|| {
        let name = if before.is_some() {
            "since_last_sample"
        } else {
            "since_start"
        };
        // More events than there are in the whole are no part of it.
        let is_part = whole > 0 && count <= whole;
        Facts::NONE
            .with(name, count)
            .with("compared_with", Some(whole).filter(|whole| *whole > 0))
            .with("share_permille", is_part.then_some(share))
    })
}

macro_rules! meanings {
    ($($counter:ident $severity:ident $of:tt $may:ident $reported:tt $(less $parts:tt)? $text:literal $remedy:expr;)*) => {
        /// All counters that are judged.
        pub const MEANINGS: &[Meaning] = &[$(Meaning {
            counter: Counter::$counter,
            severity: Severity::$severity,
            of: meanings!(@counters $of),
            may_move: meanings!(@may $may),
            needs_rate: meanings!(@rate $may),
            parts: meanings!(@parts $($parts)?),
            reported_by: meanings!(@rules $reported),
            text: $text,
            remedy: $remedy,
        },)*];
    };
    (@parts) => { &[] };
    (@parts $counters:tt) => { meanings!(@counters $counters) };
    (@counters [$($counter:ident),*]) => { &[$(Counter::$counter),*] };
    (@rules [$($rule:ident),*]) => { &[$(Rule::$rule),*] };
    (@may share) => { true };
    (@may never) => { false };
    (@may rate) => { true };
    (@rate rate) => { true };
    (@rate share) => { false };
    (@rate never) => { false };
}

// Sources of the meanings: Documentation/networking/snmp_counter.rst, and where each is counted in net/ipv4, net/ipv6.
meanings! {
    ListenOverflows Warning [TcpPassiveOpens] never [AcceptQueue, ListenerDrops, BacklogCapped]
        "Connections were turned away: the queue of some listener was full, since its program did not accept them fast enough."
        Some("ss -ltn");
    ListenDrops Warning [TcpPassiveOpens] never [AcceptQueue, ListenerDrops, BacklogCapped, SynQueue] less [ListenOverflows, TcpReqQFullDrop]
        "Listeners turned connections away, for whatever reason: a full queue (ListenOverflows), no memory, no route."
        Some("ss -ltn");
    TcpReqQFullDrop Warning [TcpPassiveOpens] never [SynQueue]
        "SYNs were dropped: a listener's queue of half-open connections was full, and SYN cookies are off (net.ipv4.tcp_syncookies=0)."
        Some("sysctl -w net.ipv4.tcp_syncookies=1");
    TcpReqQFullDoCookies Warning [TcpPassiveOpens] never [SynQueue]
        "SYN cookies were sent: a listener's queue of half-open connections was full. A SYN flood, or a backlog that is too short."
        Some("ss -tn state syn-recv");
    SyncookiesSent Warning [TcpPassiveOpens] never [SynQueue] less [TcpReqQFullDoCookies]
        "SYN cookies were sent: a listener's queue of half-open connections was full. A SYN flood, or a backlog that is too short."
        Some("ss -tn state syn-recv");
    SyncookiesFailed Notice [SyncookiesSent, TcpPassiveOpens] share []
        "Acknowledgements came in that no SYN cookie of ours fits: late ones, or guesses."
        None;
    TcpFastOpenListenOverflow Warning [TcpPassiveOpens] never []
        "TCP Fast Open was refused: too many of its connections were not acknowledged yet."
        None;
    TcpRetransSegs Warning [TcpOutSegs] share
        [CannotSend, FirewallDrops, Retransmissions, PeerSilent, MtuBlackHole, SpuriousRetransmissions, ConnectUnanswered, AcceptQueue, SynQueue, DeviceDrops, QdiscDrops, QueueLength]
        "A large part of all TCP segments is sent again: segments get lost on the path."
        Some("nstat -az | grep -i retrans");
    TcpLostRetransmit Warning [TcpRetransSegs] share
        [CannotSend, FirewallDrops, Retransmissions, PeerSilent, MtuBlackHole, ConnectUnanswered, AcceptQueue, SynQueue, DeviceDrops, QdiscDrops, QueueLength]
        "Retransmitted segments were lost too: the path loses bursts, or a policer drops them."
        None;
    TcpSpuriousRtos Notice [TcpTimeouts] share []
        "Timeouts turned out to be needless: round trips are sometimes much longer than they were before."
        None;
    TcpAbortOnTimeout Warning [TcpActiveOpens, TcpPassiveOpens] share [CannotSend, FirewallDrops, PeerSilent, KeepaliveUnanswered]
        "Connections were ended because the peer did not answer: peers vanish, or paths to them."
        None;
    TcpAbortOnMemory Critical [TcpActiveOpens, TcpPassiveOpens] never [TcpMemory, Orphans]
        "Connections were reset because memory was short: TCP is at its limit (net.ipv4.tcp_mem), or there are too many orphans."
        Some("sysctl net.ipv4.tcp_mem net.ipv4.tcp_max_orphans; cat /proc/net/sockstat");
    TcpAbortFailed Notice [TcpActiveOpens, TcpPassiveOpens] never []
        "A reset could not be sent because memory was short."
        None;
    TcpMemoryPressures Warning [] never [TcpMemory]
        "TCP came under memory pressure and shrank its buffers."
        Some("sysctl net.ipv4.tcp_mem; cat /proc/net/sockstat");
    TcpAttemptFails Notice [TcpActiveOpens, TcpPassiveOpens] share [CannotSend, FirewallDrops, ConnectUnanswered, SynQueue]
        "A large part of the attempts to connect fails: refused or not answered."
        Some("ss -tno state syn-sent");
    TcpSynRetrans Notice [TcpActiveOpens, TcpPassiveOpens] share [CannotSend, FirewallDrops, ConnectUnanswered, SynQueue, AcceptQueue]
        "A large part of the attempts to connect had to be repeated: SYNs get lost, or servers drop them."
        Some("ss -tno state syn-sent");
    TcpEstabResets Warning [TcpActiveOpens, TcpPassiveOpens] rate [] less [TcpAbortOnClose, TcpAbortOnData, TcpAbortOnTimeout]
        "Peers reset established connections, many a second: their programs end them without closing, or a middlebox does."
        Some("tcpdump -ni any 'tcp[tcpflags] & tcp-rst != 0'");
    TcpAbortOnClose Notice [TcpActiveOpens, TcpPassiveOpens] rate [Unread]
        "Programs of this host close connections with unread data, many a second: their peers get a reset instead of an end."
        Some("tcpdump -ni any 'tcp[tcpflags] & tcp-rst != 0'");
    TcpOutRsts Notice [] rate [AcceptQueue] less [TcpAttemptFails, TcpAbortOnClose, TcpAbortOnData, TcpAbortOnMemory, TcpAbortOnTimeout]
        "Clients are refused: segments come for ports on which nothing listens, or for connections that do not exist any more, and are answered with resets."
        Some("tcpdump -ni any 'tcp[tcpflags] & tcp-rst != 0'");
    TcpInErrs Warning [TcpInSegs] share [] less [TcpInCsumErrors]
        "Segments came in damaged: bad checksum or header."
        None;
    TcpInCsumErrors Warning [TcpInSegs] never []
        "TCP segments came in with wrong checksums: memory or a device on the way corrupts them."
        None;
    PruneCalled Warning [TcpInSegs] share [Unread]
        "Receive buffers overflowed and had to be squeezed: programs do not read as fast as data comes in."
        Some("ss -tmn");
    RcvPruned Warning [TcpInSegs] never [Unread]
        "Segments were dropped from full receive buffers: programs do not read as fast as data comes in."
        Some("ss -tmn");
    OfoPruned Warning [TcpInSegs] share []
        "Segments that came early were thrown away because the receive buffer was full, and have to be sent again."
        Some("sysctl net.ipv4.tcp_rmem");
    TcpRcvQDrop Warning [TcpInSegs] never [Unread, TcpMemory] less [RcvPruned]
        "Segments were dropped since the receive queue had no memory left."
        Some("ss -tmn");
    TcpOfoDrop Warning [TcpInSegs] share []
        "Segments that came early were dropped because the receive buffer was full, and have to be sent again."
        Some("sysctl net.ipv4.tcp_rmem");
    TcpZeroWindowDrop Notice [TcpInSegs] share [Unread]
        "Segments were dropped that came while our window was closed."
        None;
    TcpBacklogDrop Warning [TcpInSegs] never []
        "Segments were dropped since a program held its socket locked for too long."
        None;
    PfMemallocDrop Critical [TcpInSegs] never []
        "Packets were dropped since the host is out of memory."
        Some("free -m; dmesg | tail");
    TcpWqueueTooBig Warning [] never []
        "A send queue grew beyond all measure and a segment could not be split: a peer acknowledges tiny pieces."
        None;
    TcpRetransFail Notice [TcpRetransSegs] share [CannotSend, FirewallDrops, DeviceDrops, QdiscDrops, QueueLength]
        "Segments could not be sent again: the device's queue or memory was full."
        Some("tc -s qdisc");
    TcpTimeWaitOverflow Warning [TcpActiveOpens, TcpPassiveOpens] never [TimeWaitMax]
        "TIME_WAIT sockets were dropped: there were as many as net.ipv4.tcp_max_tw_buckets allows."
        Some("sysctl net.ipv4.tcp_max_tw_buckets");
    PawsEstab Notice [TcpInSegs] share []
        "Segments were dropped for their old timestamps: late duplicates, or several hosts behind one address."
        None;
    TcpSackReneging Warning [TcpInSegs] never []
        "Peers took back what they had acknowledged selectively: they are short of memory, or broken."
        None;
    TcpMinTtlDrop Warning [TcpInSegs] never []
        "Segments were dropped for their TTL (IP_MINTTL): a sender is further away than it should be."
        None;
    TcpMd5NotFound Warning [TcpInSegs] never []
        "Segments without the MD5 signature that was agreed upon were dropped."
        None;
    TcpMd5Failure Warning [TcpInSegs] never []
        "Segments with a wrong MD5 signature were dropped: the keys of both ends differ."
        None;
    TcpMtupFail Notice [] never [MtuBlackHole]
        "Probes for a larger MTU were lost."
        None;
    IpReversePathFilter Warning [IpInReceives] never [ReversePath]
        "Packets were dropped since the way back to their senders leads elsewhere (rp_filter): asymmetric routes, or forged addresses."
        Some("sysctl net.ipv4.conf.all.rp_filter");
    IpInHdrErrors Warning [IpInReceives] share []
        "Packets with damaged headers, or with a TTL that ran out here (a routing loop), were dropped."
        None;
    IpInAddrErrors Notice [IpInReceives] share []
        "Packets for addresses that are not ours came in, and forwarding is off."
        Some("sysctl net.ipv4.ip_forward");
    IpInDiscards Warning [IpInReceives] never []
        "Good packets were dropped on their way in because memory was short."
        None;
    IpOutDiscards Warning [IpOutRequests] share [CannotSend, FirewallDrops, DeviceDrops, QdiscDrops, QueueLength] less [UdpSndbufErrors]
        "Packets were dropped on their way out: no buffer, or a filter (EPERM to the program)."
        Some("nft list ruleset");
    IpOutNoRoutes Warning [IpOutRequests, IpForwDatagrams] share [CannotSend, FirewallDrops]
        "Packets could not be sent: there is no route to where they go."
        Some("ip route");
    IpInNoRoutes Warning [IpInReceives] share []
        "Packets came in that could not be forwarded: there is no route to where they go."
        Some("ip route");
    IpInTruncatedPkts Warning [IpInReceives] never []
        "Packets came in cut short: a device or driver is broken."
        None;
    IpReasmFails Warning [IpReasmReqds] share []
        "Fragmented packets could not be reassembled: fragments get lost, or come too slowly for the memory they may take."
        Some("sysctl net.ipv4.ipfrag_high_thresh");
    IpFragFails Warning [IpOutRequests, IpForwDatagrams] share [MtuBlackHole]
        "Packets were too long for the next link and must not be fragmented: ICMP informs the senders, if it gets through."
        Some("ip link | grep mtu");
    IpFragCreates Notice [IpOutRequests, IpForwDatagrams] share [MtuBlackHole]
        "Packets are sent in fragments, for they are longer than the MTU of their device: a tunnel's MTU is larger than the network below it carries, or programs send long datagrams."
        Some("ip -d link | grep mtu");
    IcmpInDestUnreachs Notice [UdpOutDatagrams, TcpActiveOpens] share [CannotSend, FirewallDrops, ConnectUnanswered] less [UdpNoPorts]
        "Much of what this host sends is answered by ICMP \"unreachable\": nothing listens on the port there, or there is no way to the host, as a router reports, or this host itself if a neighbour does not answer."
        Some("tcpdump -ni any icmp");
    IcmpInCsumErrors Warning [] never []
        "ICMP messages came in with wrong checksums."
        None;
    UdpRcvbufErrors Warning [UdpInDatagrams] never [UdpUnread, SocketDrops]
        "Datagrams were dropped since the receive buffer of their socket was full: its program does not read fast enough."
        Some("ss -uamn");
    UdpSndbufErrors Notice [UdpOutDatagrams] share [DeviceDrops, QdiscDrops, QueueLength]
        "Datagrams could not be sent: the send buffer or the device's queue was full."
        Some("tc -s qdisc");
    UdpMemErrors Critical [UdpInDatagrams] never [UdpMemory]
        "Datagrams were dropped since UDP as a whole is at its limit of memory (net.ipv4.udp_mem)."
        Some("sysctl net.ipv4.udp_mem; cat /proc/net/sockstat");
    UdpInCsumErrors Warning [UdpInDatagrams] never []
        "UDP datagrams came in with wrong checksums: memory or a device on the way corrupts them."
        None;
    UdpNoPorts Notice [UdpInDatagrams] share []
        "Datagrams came in for ports without a listener."
        Some("ss -uan");
    Ip6InHdrErrors Warning [Ip6InReceives] share []
        "IPv6 packets with damaged headers, or with a hop limit that ran out here (a routing loop), were dropped."
        None;
    Ip6InTooBigErrors Warning [Ip6InReceives] share [MtuBlackHole]
        "IPv6 packets were too long for the next link: ICMP informs the senders, if it gets through."
        Some("ip link | grep mtu");
    Ip6InDiscards Info [Ip6InReceives] share []
        "IPv6 packets were dropped on their way in: their device has IPv6 switched off (disable_ipv6), or memory was short."
        None;
    Ip6OutDiscards Warning [Ip6OutRequests] share [CannotSend, FirewallDrops, DeviceDrops, QdiscDrops, QueueLength] less [Udp6SndbufErrors]
        "IPv6 packets were dropped on their way out: no buffer, or a filter."
        Some("nft list ruleset");
    Ip6OutNoRoutes Notice [Ip6OutRequests] share [CannotSend, FirewallDrops]
        "IPv6 packets could not be sent: there is no route to where they go."
        Some("ip -6 route");
    Ip6ReasmFails Warning [Ip6ReasmReqds] share []
        "Fragmented IPv6 packets could not be reassembled: fragments get lost."
        None;
    Ip6FragFails Warning [Ip6OutRequests] share []
        "IPv6 packets were too long for the next link."
        Some("ip link | grep mtu");
    Udp6RcvbufErrors Warning [Udp6InDatagrams] never [UdpUnread, SocketDrops]
        "Datagrams over IPv6 were dropped since the receive buffer of their socket was full."
        Some("ss -uamn");
    Udp6SndbufErrors Notice [Udp6OutDatagrams] share [DeviceDrops, QdiscDrops, QueueLength]
        "Datagrams over IPv6 could not be sent: the send buffer or the device's queue was full."
        Some("tc -s qdisc");
    Udp6MemErrors Critical [Udp6InDatagrams] never [UdpMemory]
        "Datagrams over IPv6 were dropped since UDP as a whole is at its limit of memory (net.ipv4.udp_mem)."
        Some("sysctl net.ipv4.udp_mem");
    Udp6InCsumErrors Warning [Udp6InDatagrams] never []
        "UDP datagrams over IPv6 came in with wrong checksums."
        None;
    Udp6NoPorts Notice [Udp6InDatagrams] share []
        "Datagrams over IPv6 came in for ports without a listener."
        Some("ss -6uan");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vitals(values: &[(Counter, u64)]) -> Vitals {
        let mut vitals = Vitals::default();
        for &(counter, value) in values {
            vitals.counters.set(counter, value);
        }
        vitals
    }

    #[track_caller]
    fn check(
        before: Option<&[(Counter, u64)]>,
        now: &[(Counter, u64)],
        reported: &[Rule],
        expected: &[(&str, u64)],
    ) {
        let before = before.map(vitals);
        let reported = reported.iter().copied().collect();
        let found = findings(
            &vitals(now),
            before.as_ref(),
            Some(Duration::from_secs(1)),
            &reported,
            &Limits::default(),
        );
        let reported_counts: Vec<(String, Option<u64>)> = found
            .iter()
            .map(|finding| {
                let Subject::Counter(counter) = finding.subject else {
                    panic!("{finding:?}");
                };
                (
                    format!("{} {counter}", finding.severity),
                    finding.facts.iter().next().map(|fact| fact.value),
                )
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|&(name, count)| (name.to_owned(), Some(count)))
            .collect();
        assert_eq!(reported_counts, expected);
    }

    use Counter::{
        IpReasmFails, IpReasmReqds, ListenDrops, ListenOverflows, TcpInCsumErrors, TcpInSegs, TcpPassiveOpens,
    };

    #[test]
    fn counters_that_never_move_and_counters_by_share() {
        // Without an earlier sample: a large share of the whole.
        check(None, &[(TcpInSegs, 1000), (TcpInCsumErrors, 9)], &[], &[]);
        check(
            None,
            &[(TcpInSegs, 1000), (TcpInCsumErrors, 10)],
            &[],
            &[("notice TcpInCsumErrors", 10)],
        );
        check(None, &[(TcpInSegs, 10_000), (TcpInCsumErrors, 10)], &[], &[]);
        let before = [
            (TcpInSegs, 10_000),
            (TcpInCsumErrors, 10),
            (IpReasmReqds, 50),
            (IpReasmFails, 50),
        ];
        check(Some(&before), &before, &[], &[]);
        let one_more = [
            (TcpInSegs, 20_000),
            (TcpInCsumErrors, 11),
            (IpReasmReqds, 51),
            (IpReasmFails, 51),
        ];
        check(Some(&before), &one_more, &[], &[("warning TcpInCsumErrors", 1)]);
        let many_more = [
            (TcpInSegs, 20_000),
            (TcpInCsumErrors, 10),
            (IpReasmReqds, 99),
            (IpReasmFails, 99),
        ];
        check(Some(&before), &many_more, &[], &[("warning IpReasmFails", 49)]);
    }

    #[test]
    fn reset_counters_do_not_underflow() {
        let before = [(TcpInSegs, 10_000), (TcpInCsumErrors, 500)];
        check(
            Some(&before),
            &[(TcpInSegs, 100), (TcpInCsumErrors, 3)],
            &[],
            &[("warning TcpInCsumErrors", 3)],
        );
        // A kernel that does not have the counter, or did not have it before.
        check(Some(&before), &[(TcpInSegs, 100)], &[], &[]);
        check(
            Some(&[]),
            &[(TcpInCsumErrors, 3)],
            &[],
            &[("warning TcpInCsumErrors", 3)],
        );
    }

    #[test]
    fn usual_events_are_judged_by_their_rate() {
        use Counter::{TcpAbortOnClose, TcpEstabResets, TcpOutRsts};
        let resets = |count| [(TcpPassiveOpens, count), (TcpEstabResets, count)];
        let nothing = [(TcpPassiveOpens, 0), (TcpEstabResets, 0), (TcpOutRsts, 0)];
        check(Some(&nothing), &resets(19), &[], &[]);
        check(
            Some(&nothing),
            &resets(20),
            &[],
            &[("warning TcpEstabResets", 20)],
        );
        // Since the start of the host there is no rate.
        check(None, &resets(1_000_000), &[], &[]);
        // Few of many connections.
        let of_many = [(TcpPassiveOpens, 10_000), (TcpEstabResets, 99)];
        check(Some(&nothing), &of_many, &[], &[]);
        // What our programs end is not the peers' doing.
        let own = [(TcpPassiveOpens, 99), (TcpEstabResets, 50), (TcpAbortOnClose, 50)];
        check(Some(&nothing), &own, &[], &[("notice TcpExtTCPAbortOnClose", 50)]);
        let refused = [(TcpOutRsts, 40), (TcpAbortOnClose, 10), (TcpPassiveOpens, 1000)];
        check(Some(&nothing), &refused, &[], &[("notice TcpOutRsts", 30)]);
    }

    #[test]
    fn counter_explained_by_another_finding_is_skipped() {
        let now = [(TcpPassiveOpens, 100), (ListenOverflows, 40), (ListenDrops, 40)];
        check(None, &now, &[], &[("notice TcpExtListenOverflows", 40)]);
        check(None, &now, &[Rule::AcceptQueue], &[]);
        check(
            None,
            &now,
            &[Rule::ZeroWindow],
            &[("notice TcpExtListenOverflows", 40)],
        );
        let more = [(TcpPassiveOpens, 100), (ListenOverflows, 40), (ListenDrops, 60)];
        check(
            None,
            &more,
            &[],
            &[
                ("notice TcpExtListenOverflows", 40),
                ("notice TcpExtListenDrops", 20),
            ],
        );
    }

    #[test]
    fn each_counter_has_one_meaning() {
        let mut seen = BTreeSet::new();
        for meaning in MEANINGS {
            assert!(seen.insert(meaning.counter), "{}", meaning.counter);
            assert!(meaning.text.ends_with('.'), "{}", meaning.counter);
            assert!(!meaning.parts.contains(&meaning.counter) && !meaning.of.contains(&meaning.counter));
        }
    }
}
