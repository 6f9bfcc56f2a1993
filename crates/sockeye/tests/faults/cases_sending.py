"""Hosts that cannot send: routes, firewalls, neighbours, devices, addresses."""

from expect import Cause, fault
from programs import LINE

REQUEST = LINE.decode()
# What a peer, a path or a program is accused of, when the fault is our own host's.
BLAMES_PEER = {"zero-window", "peer-silent", "mtu-black-hole", "receiver-limited", "application-limited"}
# The firewall of this host, not one somewhere in the path.
OWN_FIREWALL = (r"netfilter|nftables|\bnft\b|own firewall|(our|local|the host's|this host's) (own )?(firewall|filter|rule)"
                r"|(firewall|filter|rule)s? (of|on) this host|EPERM")
STUCK = {"send-stuck", "retransmissions", "connect-unanswered", "counters"}


def sending(lab, host, peer, dst, port=5000):
    """A program of ours that sends steadily to a peer that reads; it has sent something."""
    peer.start("serve", comm="sink", port=port, on="sink")
    sender = host.start("send_bulk", comm="backup", dst=dst, port=port, chunk=20000, pause=0.02)
    lab.until(lambda: host.counter("TcpOutSegs") > 20, "data flows before the fault")
    return sender


def unsent(host, port=5000):
    """Bytes in the send queue to a port, as ss shows them."""
    return sum(int(line.split()[2]) for line in host.ss("-tn", f"dport = :{port}"))


def stuck(lab, host, port=5000):
    lab.until(lambda: unsent(host, port) > 50000, "ss: the send queue grows")
    lab.pause(4)
    return host, lambda: lab.proof(unsent(host, port) > 50000, "it is still stuck")


@fault("cannot send", Cause(r"\broute", (), ["10.1.2.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def route_removed(lab):
    """The default route is deleted while a connection sends."""
    srv, _router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "del", "default")
    lab.proof("unreachable" in srv.ip("route", "get", cli.addr, check=False) or not srv.ip("route", "show", "default"), "ip route: no route")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"blackhole|black hole route|\broute", (), ["10.1.2.2"]), never=BLAMES_PEER, effects=STUCK)
def route_blackhole(lab):
    """A blackhole route was added for the peer's network."""
    srv, _router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "add", "blackhole", "10.1.2.0/24")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK,
       modes=("once", "watch 2"))
def firewall_drops_output(lab):
    """A rule of our own firewall drops what goes out to the peer's port."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.drop("output", "tcp dport 5000")
    lab.until(lambda: srv.dropped("output") > 0, "nft: the rule counts packets")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"carrier|link is down|cable", (), ["eth0"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def no_carrier(lab):
    """The other end of the cable goes down while a connection sends."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    cli.ip("link", "set", "eth0", "down")
    lab.until(lambda: "NO-CARRIER" in srv.ip("link", "show", "eth0"), "ip link: NO-CARRIER")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"neighbo|\barp\b", (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def neighbour_failed(lab):
    """The peer's address is not resolved any more: the neighbour entry has failed."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__neigh__eth0__ucast_solicit=1, ipv4__neigh__eth0__mcast_solicit=1, ipv4__neigh__eth0__base_reachable_time_ms=1000,
               ipv4__neigh__eth0__delay_first_probe_time=1)
    sending(lab, srv, cli, cli.addr)
    cli.ip("link", "set", "eth0", "arp", "off")
    srv.ip("neigh", "flush", "dev", "eth0")
    lab.until(lambda: any(word in srv.ip("neigh", "show", "dev", "eth0") for word in ("FAILED", "INCOMPLETE")), "ip neigh: FAILED")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"\broute|unreachable", (), ["10.1.2.2"]), never=BLAMES_PEER, effects=STUCK)
def route_unreachable(lab):
    """An unreachable route hides the peer's network."""
    srv, _router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "add", "unreachable", "10.1.2.0/24")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"\broute|prohibit", (), ["10.1.2.2"]), never=BLAMES_PEER, effects=STUCK, modes=("watch 2",))
def route_prohibit(lab):
    """A prohibit route for the peer itself."""
    srv, _router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "add", "prohibit", "10.1.2.2/32")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"\broute", (), ["fd00:2::2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def route_removed_v6(lab):
    """The IPv6 default route is gone; IPv4 is well."""
    srv, router, cli = lab.routed()
    for host, device, address in ((srv, "eth0", "fd00:1::1/64"), (router, "left", "fd00:1::2/64"), (router, "right", "fd00:2::1/64"),
                                  (cli, "eth0", "fd00:2::2/64")):
        host.ip("addr", "add", address, "dev", device, "nodad")
    router.sysctl(ipv6__conf__all__forwarding=1)
    srv.ip("-6", "route", "add", "default", "via", "fd00:1::2")
    cli.ip("-6", "route", "add", "default", "via", "fd00:2::1")
    cli.start("serve", comm="sink", port=5000, bind="::", on="sink")
    srv.start("send_bulk", comm="backup6", dst="fd00:2::2", port=5000, chunk=20000, pause=0.02)
    lab.until(lambda: srv.counter("TcpOutSegs") > 20, "data flows before the fault")
    srv.ip("-6", "route", "del", "default")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"rule|policy|\broute", (), ["10.1.2.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def policy_rule_wrong(lab):
    """A policy rule sends what comes from our address to a table whose default is unreachable; the main table is right."""
    srv, _router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "add", "unreachable", "default", "table", "100")
    srv.ip("rule", "add", "from", "10.1.1.1", "lookup", "100", "pref", "100")
    lab.proof("via 10.1.1.2" in srv.ip("route", "show", "default"), "ip route: the main table has the default route")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"address", (), ["10.1.1.1"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def source_address_removed(lab):
    """The address that the connection comes from was removed (a failover moved it); another one of the network remains."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__conf__all__promote_secondaries=1, ipv4__conf__eth0__promote_secondaries=1)
    srv.ip("addr", "add", "10.1.1.3/24", "dev", "eth0")
    sending(lab, srv, cli, cli.addr)
    srv.ip("addr", "del", "10.1.1.1/24", "dev", "eth0")
    lab.proof("10.1.1.3" in srv.ip("addr", "show", "eth0") and "10.1.1.1/" not in srv.ip("addr", "show", "eth0"), "ip addr: gone")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK,
       modes=("once", "watch 2"))
def firewall_drops_input(lab):
    """A rule of our own drops what comes in from the peer: no acknowledgement arrives."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.drop("input", "tcp sport 5000")
    host, after = stuck(lab, srv)
    lab.until(lambda: srv.dropped("input") > 2, "nft: the rule counts packets")
    return host, after


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK)
def firewall_rejects_output(lab):
    """A rule of our own rejects what goes out."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.drop("output", "ip daddr 10.1.1.2 meta l4proto tcp", "reject with icmp type admin-prohibited")
    lab.until(lambda: srv.dropped("output") > 0, "nft: the rule counts packets")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), effects=STUCK, never=BLAMES_PEER,
       modes=("once", "watch 2"))
def firewall_drops_connects(lab):
    """New connections to a service are dropped by a rule of our own."""
    srv, cli = lab.pair()
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.drop("output", "tcp dport 5000 tcp flags syn")
    srv.start("hold", comm="agent-app", dst=cli.addr, port=5000, n=5, blocking=False)
    lab.until(lambda: len(srv.ss("-tn", "state", "syn-sent")) == 5, "ss: 5 in SYN-SENT")
    lab.pause(8)
    lab.proof(srv.dropped("output") > 5, "nft: the rule counts packets")
    return srv, lambda: lab.proof(len(srv.ss("-tn", "state", "syn-sent")) == 5, "still in SYN-SENT")


@fault("cannot send", Cause(OWN_FIREWALL, (), [":80"]), effects={"syn-queue", "retransmissions", "counters"},
       modes=("once", "watch 2"))
def firewall_drops_replies(lab):
    """A server whose own firewall drops its replies: the connections stay in SYN-RECV."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80)
    srv.drop("output", "tcp sport 80")
    cli.start("hold", comm="client", dst=srv.addr, port=80, n=12, blocking=False)
    lab.until(lambda: len(srv.ss("-tn", "state", "syn-recv")) >= 10, "ss: 10 in SYN-RECV")
    lab.pause(3)
    lab.proof(srv.dropped("output") > 10, "nft: the rule counts packets")
    return srv


@fault("cannot send", Cause(OWN_FIREWALL, (), [":8080"]), modes=("watch 2",), effects={"counters"})
def firewall_drops_clients(lab):
    """The firewall drops what comes to a port on which a server listens."""
    srv, cli = lab.pair()
    srv.start("serve", comm="tomcat", port=8080)
    srv.drop("input", "tcp dport 8080")
    cli.start("short_connections", comm="client", dst=srv.addr, port=8080, rate=60, threads=60)
    lab.until(lambda: srv.dropped("input") > 30, "nft: the rule counts packets")
    before = srv.dropped("input")
    return srv, lambda: lab.proof(srv.dropped("input") > before, "the rule goes on counting")


@fault("cannot send", Cause(r"neighbo|\barp\b|gateway", (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def gateway_dead(lab):
    """The default gateway does not answer ARP any more; the peer is behind it."""
    srv, router, cli = lab.routed()
    sending(lab, srv, cli, cli.addr)
    router.ip("link", "set", "left", "arp", "off")
    srv.ip("neigh", "flush", "dev", "eth0")
    lab.until(lambda: any(word in srv.ip("neigh", "show", "dev", "eth0") for word in ("FAILED", "INCOMPLETE")), "ip neigh: FAILED")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"neighbo|\barp\b|address of the link", (), ["10.1.1.2"]), effects={*STUCK, "peer-silent"}, modes=("once",))
def neighbour_wrong_address(lab):
    """A permanent neighbour entry holds the link address of a network card that was replaced."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.ip("neigh", "replace", "10.1.1.2", "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"\bdown\b|\broute", (), ["eth0"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def device_down(lab):
    """Our own device was set down."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.ip("link", "set", "eth0", "down")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"loopback|\blo\b", (), ["lo"]), modes=("once",), effects=STUCK)
def loopback_down(lab):
    """The loopback device was never set up, as in a careless container: programs cannot connect to 127.0.0.1."""
    srv, cli = lab.pair()
    srv.ip("link", "set", "lo", "down")
    srv.start("serve", comm="redis", port=6379, bind="0.0.0.0")
    load = srv.start("short_connections", comm="app", dst="127.0.0.1", port=6379, rate=20)
    lab.pause(7)
    load.send("report")
    count = load.receive()
    lab.proof(count["ok"] == 0 and count["refused"] >= 2, f"connects fail: {count}")
    return srv


@fault("cannot send", Cause(r"rp.?filter|reverse.?path", (), ["eth1"]), never=BLAMES_PEER, effects=STUCK, modes=("watch 2", "watch 14"))
def reverse_path_filter(lab):
    """Replies come back over another device, and rp_filter discards them."""
    srv, cli = lab.pair()
    lab.link(srv, cli, names=("eth1", "eth1"))
    cli.ip("addr", "add", "10.9.9.9/32", "dev", "lo")
    srv.ip("route", "add", "10.9.9.9/32", "via", "10.1.1.2", "src", "10.1.1.1")
    srv.sysctl(ipv4__conf__all__rp_filter=0, ipv4__conf__eth0__rp_filter=0, ipv4__conf__eth1__rp_filter=0)
    cli.sysctl(ipv4__conf__all__rp_filter=0, ipv4__conf__eth0__rp_filter=0, ipv4__conf__eth1__rp_filter=0)
    cli.sysctl(ipv4__conf__all__arp_announce=2)
    sending(lab, srv, cli, "10.9.9.9")
    srv.sysctl(ipv4__conf__all__rp_filter=1)
    cli.ip("route", "add", "10.1.1.1/32", "via", "10.1.2.1", "dev", "eth1")
    host, after = stuck(lab, srv)
    lab.until(lambda: srv.counter("TcpExtIPReversePathFilter") > 2, "nstat: IPReversePathFilter")
    return host, after


@fault("queues", Cause(r"queueing discipline|qdisc", {"qdisc-drops", "qdisc-backlog"}, ["eth0"]), modes=("once", "watch 2"),
       effects={"retransmissions", "queue-length", "device-drops", "cwnd-floor", "counters", "qdisc-drops", "qdisc-backlog"})
def shaper_with_tiny_queue(lab):
    """A token bucket of 4 Mbit/s with room for four packets drops what twelve connections and a datagram sender send."""
    srv, cli = lab.pair()
    srv.tool("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "4mbit", "burst", "5kb", "limit", "6kb")
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="backup", dst=cli.addr, port=5000, n=12)
    srv.start("udp_send", comm="metrics", dst=cli.addr, port=6000, size=1000, rate=500)
    drops = lambda: int(srv.tool("tc", "-s", "qdisc", "show", "dev", "eth0").split("dropped ")[1].split(",")[0])
    lab.until(lambda: drops() > 100, "tc -s: dropped")
    before = drops()
    return srv, lambda: lab.proof(drops() > before + 20, "it went on dropping")


@fault("queues", Cause(r"queue", {"queue-length"}, ["tun0"]), modes=("once", "watch 2"),
       effects={"device-drops", "qdisc-drops", "counters"})
def tunnel_with_short_queue(lab):
    """A tunnel with a queue of 3 packets, whose program takes 20 ms for each; bursts of 20 are cut."""
    srv = lab.host("srv")
    srv.start("tun", comm="vpn", device="tun0", address="10.8.0.1/24", queue=3, pause=0.02)
    srv.start("udp_send", comm="voip", dst="10.8.0.2", port=4000, rate=40, burst=20, size=500)
    lab.until(lambda: srv.device("tun0", "tx_dropped") > 50, "ip -s link: tx dropped of tun0", 15)
    before = srv.device("tun0", "tx_dropped")
    return srv, lambda: lab.proof(srv.device("tun0", "tx_dropped") > before, "it went on dropping")


@fault("queues", Cause(r"tunnel|tun0|reads the", {"queue-length", "device-drops"}, ["tun0"]), modes=("once", "watch 2"),
       effects={"counters", "qdisc-drops", "connect-unanswered"})
def tunnel_nothing_reads(lab):
    """A left-over tunnel catches a route; its program does not read any more, and every packet ends there."""
    srv = lab.host("srv")
    srv.start("tun", comm="old-vpn", device="tun0", address="10.8.0.1/24", queue=20, read=False)
    srv.ip("route", "add", "10.20.0.0/16", "dev", "tun0")
    srv.start("hold", comm="sync", dst="10.20.0.5", port=443, n=3, blocking=False)
    srv.start("udp_send", comm="metrics", dst="10.20.0.9", port=8125, rate=50)
    lab.until(lambda: srv.device("tun0", "tx_dropped") > 30, "ip -s link: tx dropped of tun0")
    lab.pause(3)
    return srv


@fault("udp", Cause(r"\broute"), modes=("watch 2",), effects={"counters"})
def udp_without_route(lab):
    """Datagrams to a network without a route: each send fails with ENETUNREACH."""
    srv, cli = lab.pair()
    load = srv.start("udp_send", comm="statsd-client", dst="172.30.0.9", port=8125, rate=100)
    lab.until(lambda: srv.counter("IpOutNoRoutes") > 50, "nstat: OutNoRoutes")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["errors"].get("ENETUNREACH", 0) > 100, f"ENETUNREACH: {count}")
    return srv, after


@fault("udp", Cause(OWN_FIREWALL), modes=("watch 2",))
def udp_dropped_by_firewall(lab):
    """Our own firewall drops syslog datagrams: each send fails with EPERM."""
    srv, cli = lab.pair()
    srv.drop("output", "udp dport 514")
    load = srv.start("udp_send", comm="rsyslogd", dst=cli.addr, port=514, rate=100)
    lab.until(lambda: srv.dropped("output") > 50, "nft: the rule counts packets")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["errors"].get("EPERM", 0) > 100, f"EPERM: {count}")
    return srv, after


@fault("addresses", Cause(r"duplicate|\bDAD\b", (), ["eth0"]))
def duplicate_address_v6(lab):
    """Another host has our IPv6 address: duplicate address detection has failed, and the address is not used."""
    srv, cli = lab.pair()
    cli.ip("addr", "add", "fd00::1/64", "dev", "eth0", "nodad")
    srv.sysctl(ipv6__conf__eth0__accept_dad=1)
    srv.ip("addr", "add", "fd00::1/64", "dev", "eth0")
    lab.until(lambda: "dadfailed" in srv.ip("-6", "addr", "show", "eth0"), "ip addr: dadfailed")
    return srv


@fault("router", Cause(r"forward"), modes=("watch 2",), effects={"counters"})
def router_does_not_forward(lab):
    """This host is the gateway of another one, but ip_forward is off: what should go on is discarded."""
    cli, router, srv = lab.routed("cli", "far")
    router.sysctl(ipv4__ip_forward=0)
    cli.start("udp_send", comm="client", dst=srv.addr, port=4000, rate=100)
    lab.until(lambda: router.counter("IpInAddrErrors") > 50, "nstat: IpInAddrErrors")
    return router


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK)
def firewall_drops_in_postrouting(lab):
    """The rule that drops is in a postrouting chain."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.drop("postrouting", "ip daddr 10.1.1.2 tcp dport 5000")
    lab.until(lambda: srv.dropped("postrouting") > 0, "nft: the rule counts packets")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK)
def firewall_drops_without_counter(lab):
    """The rule that drops has no counter, as most rules."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.nft("add table ip guard\nadd chain ip guard out { type filter hook output priority 10; }\n"
            "add rule ip guard out ip daddr 10.1.1.0/24 tcp dport { 5000, 5001 } drop\n")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK)
def firewall_policy_drop(lab):
    """The output chain got a policy of drop, and no rule accepts this traffic."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.nft("add table inet host\nadd chain inet host output { type filter hook output priority 0; policy drop; }\n"
            "add rule inet host output tcp dport 443 accept\nadd rule inet host output meta l4proto icmp accept\n")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"neighbo|\barp\b|netmask|prefix", (), ["10.1.2.2"]), effects={"connect-unanswered", "counters"}, modes=("once", "watch 2"))
def netmask_wrong(lab):
    """Our netmask is /8 instead of /24: hosts behind the router are looked for on the wire, and do not answer ARP."""
    srv, _router, cli = lab.routed()
    srv.ip("addr", "add", "10.1.1.1/8", "dev", "eth0")
    srv.ip("addr", "del", "10.1.1.1/24", "dev", "eth0")
    cli.start("serve", comm="api", port=80)
    srv.start("short_connections", comm="agent-app", dst=cli.addr, port=80, rate=20, threads=8)
    lab.until(lambda: cli.addr in srv.ip("neigh", "show", "nud", "failed") + srv.ip("neigh", "show", "nud", "incomplete"), "ip neigh: FAILED")
    lab.pause(3)
    return srv


@fault("cannot send", Cause(r"\broute"), modes=("watch 2",), effects={"syn-queue", "counters"}, never={"listener-drops", "accept-queue"})
def no_return_route(lab):
    """Clients come from another network through the router, but this server has no default route: it cannot answer their SYNs."""
    srv, _router, cli = lab.routed()
    srv.start("serve", comm="nginx", port=80)
    srv.ip("route", "del", "default")
    cli.start("short_connections", comm="client", dst=srv.addr, port=80, rate=60, threads=60)
    lab.pause(3)
    before = srv.counter("TcpInSegs")
    lab.proof(before > 40 and srv.counter("TcpOutSegs") == 0, f"nstat: {before} segments came in, none went out")
    return srv


@fault("cannot send", Cause(r"\broute"), modes=("watch 2",), effects={"counters"})
def connects_without_route_v6(lab):
    """A program prefers IPv6, but there is no IPv6 default route (no router advertisement): each connect fails."""
    srv, cli = lab.pair()
    srv.ip("addr", "add", "fd00::1/64", "dev", "eth0", "nodad")
    load = srv.start("short_connections", comm="updater", dst="2001:db8::9", port=443, rate=40)
    lab.until(lambda: srv.counter("Ip6OutNoRoutes") > 30, "nstat: Ip6OutNoRoutes")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["errors"].get("ENETUNREACH", 0) > 50, f"ENETUNREACH: {count}")
    return srv, after


@fault("cannot send", Cause(r"carrier|link is down|cable", (), ["eth0"]), never={*BLAMES_PEER, "device-drops"}, modes=("once", "watch 2"))
def no_carrier_many_programs(lab):
    """The cable is pulled while four programs send and a fifth connects: one finding, which names the device, explains all of it."""
    srv, cli = lab.pair()
    for number in range(4):
        cli.start("serve", comm="sink", port=5000 + number, on="sink")
        srv.start("send_bulk", comm=f"backup{number}", dst=cli.addr, port=5000 + number, chunk=20000, pause=0.02, n=3)
    lab.until(lambda: srv.counter("TcpOutSegs") > 100, "data flows before the fault")
    cli.ip("link", "set", "eth0", "down")
    srv.start("hold", comm="poller", dst=cli.addr, port=81, n=3, blocking=False)
    srv.start("udp_send", comm="metrics", dst=cli.addr, port=8125, rate=50)
    lab.until(lambda: "NO-CARRIER" in srv.ip("link", "show", "eth0"), "ip link: NO-CARRIER")
    lab.until(lambda: all(unsent(srv, 5000 + number) > 20000 for number in range(4)), "ss: the send queues grow")
    lab.pause(7)
    return srv


@fault("cannot send", Cause(r"bridge|neighbo|disabled", (), ["br0"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def bridge_port_blocked(lab):
    """The host's address is on a bridge, whose only port is in the disabled state."""
    srv, cli = lab.pair()
    srv.ip("link", "add", "br0", "type", "bridge")
    srv.ip("addr", "flush", "dev", "eth0")
    srv.ip("link", "set", "eth0", "master", "br0")
    srv.ip("addr", "add", "10.1.1.1/24", "dev", "br0")
    srv.ip("link", "set", "br0", "up")
    sending(lab, srv, cli, cli.addr)
    srv.tool("bridge", "link", "set", "dev", "eth0", "state", "0")
    lab.proof("state disabled" in srv.tool("bridge", "link", "show"), "bridge link: disabled")
    return stuck(lab, srv)


def stuck_quietly(lab, host, port=5000):
    """As `stuck`, for faults in which data leaves the host and gets lost behind its IP layer."""
    lab.until(lambda: unsent(host, port) > 20000, "ss: the send queue grows")
    lab.pause(5)
    return host, lambda: lab.proof(unsent(host, port) > 20000, "it is still stuck")


@fault("cannot send", Cause(r"\broute", (), ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def route_rule_by_port(lab):
    """A routing rule for the peer's port leads into a table with a black hole."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.ip("route", "add", "blackhole", "default", "table", "100")
    srv.ip("rule", "add", "ipproto", "tcp", "dport", "5000", "lookup", "100", "pref", "50")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def firewall_verdict_map(lab):
    """A map of ports to verdicts jumps to a chain that drops."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.nft("table inet fw {\n chain deny { drop; }\n chain out { type filter hook output priority 0; policy accept;\n"
            "  tcp dport vmap { 5000 : jump deny, 22 : accept }\n }\n}\n")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def firewall_connection_state(lab):
    """A rule drops what connection tracking does not know, as after its table was flushed."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.sysctl(netfilter__nf_conntrack_tcp_loose=0)
    srv.nft("table inet fw {\n chain out { type filter hook output priority 0; policy accept;\n"
            "  ct state != established tcp dport 5000 counter drop\n }\n}\n")
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2", "netdev"]), never=BLAMES_PEER, effects=STUCK)
def firewall_egress(lab):
    """A rule at the device (netdev, egress) drops what goes out."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.nft('table netdev n {\n chain e { type filter hook egress device "eth0" priority 0;\n  tcp dport 5000 counter drop\n }\n}\n')
    lab.until(lambda: unsent(srv) > 50000, "ss: the send queue grows")
    lab.pause(2)
    return srv


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2", "netdev"]), never=BLAMES_PEER, effects=STUCK,
       modes=("once", "watch 2"))
def firewall_ingress(lab):
    """A rule at the device (netdev, ingress) drops the acknowledgements."""
    srv, cli = lab.pair()
    sending(lab, srv, cli, cli.addr)
    srv.nft('table netdev n {\n chain i { type filter hook ingress device "eth0" priority 0;\n  tcp sport 5000 counter drop\n }\n}\n')
    return stuck_quietly(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["fd00::2"]), never=BLAMES_PEER, effects=STUCK, modes=("once", "watch 2"))
def firewall_drops_neighbour_discovery(lab):
    """A rule of our own drops all ICMPv6, and with it the answers of the next hop."""
    srv, cli = lab.pair()
    for host, address in ((srv, "fd00::1/64"), (cli, "fd00::2/64")):
        host.ip("addr", "add", address, "dev", "eth0", "nodad")
    cli.start("serve", comm="sink", port=5000, bind="::", on="sink")
    srv.start("send_bulk", comm="backup6", dst="fd00::2", port=5000, chunk=20000, pause=0.02)
    lab.until(lambda: srv.counter("TcpOutSegs") > 20, "data flows before the fault")
    srv.drop("input", "meta l4proto ipv6-icmp")
    srv.ip("-6", "neigh", "flush", "dev", "eth0")
    lab.until(lambda: any(word in srv.ip("-6", "neigh", "show", "dev", "eth0") for word in ("FAILED", "INCOMPLETE")), "ip neigh: FAILED", 15)
    return stuck(lab, srv)


@fault("cannot send", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2"]), never=BLAMES_PEER, effects=STUCK)
def firewall_drops_arp(lab):
    """A rule of our own drops ARP answers."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__neigh__eth0__ucast_solicit=1, ipv4__neigh__eth0__mcast_solicit=1)
    sending(lab, srv, cli, cli.addr)
    srv.nft("table arp f {\n chain i { type filter hook input priority 0; policy accept;\n  arp operation reply counter drop\n }\n}\n")
    srv.ip("neigh", "flush", "dev", "eth0")
    lab.until(lambda: any(word in srv.ip("neigh", "show", "dev", "eth0") for word in ("FAILED", "INCOMPLETE")), "ip neigh: FAILED")
    lab.until(lambda: unsent(srv) > 50000, "ss: the send queue grows")
    lab.pause(1)
    return srv


@fault("cannot send", Cause(r"carrier", (), ["eth0"]), never=BLAMES_PEER | {"no-carrier", "device-drops"}, effects=STUCK, modes=("once", "watch 2"))
def no_carrier_below_macvlan(lab):
    """The device below a macvlan loses its carrier: one finding, about that device."""
    srv, cli = lab.pair()
    srv.ip("addr", "flush", "dev", "eth0")
    srv.ip("link", "add", "mv0", "link", "eth0", "type", "macvlan", "mode", "bridge")
    srv.ip("addr", "add", "10.1.1.1/24", "dev", "mv0")
    srv.ip("link", "set", "mv0", "up")
    sending(lab, srv, cli, cli.addr)
    cli.ip("link", "set", "eth0", "down")
    return stuck(lab, srv)


@fault("cannot send", Cause(r"carrier", (), ["eth0"]), never=BLAMES_PEER | {"no-carrier", "device-drops"}, effects=STUCK, modes=("once", "watch 2"))
def no_carrier_of_a_bridge_port(lab):
    """The port of a bridge that leads to the peer loses its carrier; another port is well."""
    srv, cli = lab.pair()
    other = lab.host("other")
    lab.link(srv, other, v4=(None, "10.1.1.3"), names=("eth1", "eth0"))
    srv.ip("addr", "flush", "dev", "eth0")
    srv.ip("link", "add", "br0", "type", "bridge")
    for port in ("eth0", "eth1"):
        srv.ip("link", "set", port, "master", "br0")
    srv.ip("addr", "add", "10.1.1.1/24", "dev", "br0")
    srv.ip("link", "set", "br0", "up")
    srv.start("serve", comm="web", port=80)
    other.start("hold", comm="client", dst="10.1.1.1", port=80, payload=REQUEST)
    lab.until(lambda: len(srv.ss("-tn", "sport = :80")) > 0, "ss: the other port forwards", 15)
    sending(lab, srv, cli, cli.addr)
    cli.ip("link", "set", "eth0", "down")
    return stuck_quietly(lab, srv)


@fault("cannot send", Cause(r"loopback", (), ["lo"]), never={"connect-unanswered"}, modes=("watch 2",))
def loopback_down_while_connecting(lab):
    """A program connects to its own host again and again while loopback is down."""
    srv, _cli = lab.pair()
    srv.start("serve", comm="api", port=8080)
    srv.start("hold", comm="self", dst="127.0.0.1", port=8080, n=3)
    srv.start("send_bulk", comm="local", dst="127.0.0.1", port=8080, chunk=2000, pause=0.02)
    srv.ip("link", "set", "lo", "down")
    lab.pause(3)
    return srv


@fault("firewall", Cause(OWN_FIREWALL, {"firewall-drops"}, ["10.1.1.2", "metrics"]), modes=("once", "watch 2"), effects={"counters"})
def firewall_drops_datagrams(lab):
    """A rule of our own drops the datagrams of a program."""
    srv, cli = lab.pair()
    srv.drop("output", "udp dport 8125")
    srv.start("udp_send", comm="metrics", dst=cli.addr, port=8125, connect=True)
    lab.until(lambda: srv.dropped("output") > 50, "nft: the rule counts packets")
    return srv
