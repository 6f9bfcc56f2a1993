"""Connections: windows, peers that vanish, loss, leaks, ports, descriptors, buffers."""

import re
import socket

from expect import Cause, fault
from programs import LINE

REQUEST = LINE.decode()
CUBIC = [[socket.IPPROTO_TCP, 13, "cubic"]]
LOCAL = {"no-carrier", "accept-queue", "close-wait"}
KEEPALIVE = [[socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1], [socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1],
             [socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1], [socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 30]]


def vanish(router):
    """The path loses everything from now, in silence."""
    router.nft("add table inet path\nadd chain inet path forward { type filter hook forward priority 0; policy drop; }\n")


def limited(host, by, port=5000):
    """The share of the busy time, in percent, that the receiver (rwnd_limited) or the send buffer (sndbuf_limited) took, as ss shows it."""
    found = [float(share) for line in host.ss("-tni", f"dport = :{port}") for share in re.findall(by + r":\w+\(([\d.]+)%\)", line)]
    return max(found, default=0)


def pending(host, port):
    return sum(int(line.split()[2]) for line in host.ss("-tn", f"dport = :{port}"))


@fault("window", Cause(r"window", {"zero-window"}, ["10.1.1.2", "feed"]), never={"peer-silent", "mtu-black-hole"}, modes=("once", "watch 2"),
       effects={"send-stuck", "receiver-limited"})
def zero_window(lab):
    """The peer's program has stopped reading twelve seconds ago; its window is closed."""
    srv, cli = lab.pair()
    srv.start("serve", comm="feed", port=7100, on="source")
    cli.start("receive", comm="consumer", dst=srv.addr, port=7100, read=False)
    lab.until(lambda: any("timer:(persist" in line for line in srv.ss("-tno", "sport = :7100")), "ss: persist timer", 15)
    lab.pause(12)
    return srv


@fault("window", Cause(r"read", {"unread"}, ["consumer", "10.1.1.2"]), modes=("once", "watch 2"), effects={"zero-window"})
def own_program_does_not_read(lab):
    """Our program has not read for twelve seconds; its receive buffer is full."""
    srv, cli = lab.pair()
    cli.start("serve", comm="feed", port=7100, on="source")
    srv.start("receive", comm="consumer", dst=cli.addr, port=7100, read=False)
    lab.until(lambda: any(int(line.split()[1]) > 50000 for line in srv.ss("-tn", "dport = :7100")), "ss: 50 kB unread", 15)
    lab.pause(12)
    return srv


@fault("window", Cause(r"window|reads slowly", {"receiver-limited", "zero-window"}, ["10.1.1.2", "feed"]), modes=("watch 5",),
       never={"retransmissions", "peer-silent"}, effects={"receiver-limited", "send-stuck"})
def slow_reader(lab):
    """The peer reads 40 kB a second, far less than we could send."""
    srv, cli = lab.pair()
    srv.start("serve", comm="feed", port=7101, on="source")
    cli.start("receive", comm="consumer", dst=srv.addr, port=7101, rate=40000, options=[[socket.SOL_SOCKET, socket.SO_RCVBUF, 16384]])
    lab.until(lambda: any("rwnd_limited" in line for line in srv.ss("-tni", "sport = :7101")), "ss: rwnd_limited")
    lab.pause(4)
    return srv


@fault("peer gone", Cause(r"peer|acknowledged", {"peer-silent"}, ["10.1.2.2", "backup"]), never={"zero-window", *LOCAL},
       modes=("once", "watch 2"), effects={"send-stuck", "retransmissions", "counters"})
def peer_vanishes(lab):
    """The path loses everything from one moment on; a transfer was under way."""
    srv, router, cli = lab.routed()
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="backup", dst=cli.addr, port=5000, chunk=20000, pause=0.02)
    lab.until(lambda: srv.counter("TcpOutSegs") > 20, "data flows before the fault")
    vanish(router)
    lab.until(lambda: pending(srv, 5000) > 50000, "ss: the send queue grows")
    lab.pause(8)
    return srv


@fault("peer gone", Cause(r"answer|connect", {"connect-unanswered"}, ["10.1.2.2", ":81"]), never=LOCAL, modes=("once", "watch 2"),
       effects={"retransmissions", "counters"})
def connects_unanswered(lab):
    """A firewall in the path swallows SYNs."""
    srv, router, cli = lab.routed()
    vanish(router)
    srv.start("hold", comm="poller", dst=cli.addr, port=81, n=6, blocking=False)
    lab.until(lambda: len(srv.ss("-tn", "state", "syn-sent")) == 6, "ss: 6 in SYN-SENT")
    lab.pause(8)
    return srv, lambda: lab.proof(len(srv.ss("-tn", "state", "syn-sent")) == 6, "still in SYN-SENT")


@fault("peer gone", Cause(r"keepalive", {"keepalive-unanswered", "peer-silent"}, ["10.1.2.2", "mq"]), modes=("once", "watch 2"), never=LOCAL,
       effects={"send-stuck"})
def keepalive_unanswered(lab):
    """Idle connections with keepalive; the peer is gone, and the probes are not answered."""
    srv, router, cli = lab.routed()
    cli.start("serve", comm="broker", port=5672)
    srv.start("hold", comm="mq", dst=cli.addr, port=5672, n=4, payload=REQUEST, options=KEEPALIVE)
    lab.pause(1)
    vanish(router)
    lab.until(lambda: any("keepalive" in line and line.split("keepalive,")[1].split(",")[1].split(")")[0] >= "3"
                          for line in srv.ss("-tno", "dport = :5672")), "ss: three probes unanswered", 12)
    return srv


@fault("peer gone", Cause(r"keepalive", {"no-keepalive"}, ["10.1.2.2", "ldap-pool"]), modes=("once",), never=LOCAL,
       filter=("--set", "no-keepalive.idle=4s"))
def half_open_without_keepalive(lab):
    """The peer's host has died; twenty idle connections without keepalive will never learn of it (idle threshold: 4 s)."""
    srv, router, cli = lab.routed()
    cli.start("serve", comm="slapd", port=389)
    srv.start("hold", comm="ldap-pool", dst=cli.addr, port=389, n=20, payload=REQUEST)
    lab.pause(1)
    vanish(router)
    lab.pause(6)
    lab.proof(len(srv.ss("-tn", "state", "established", "dport = :389")) == 20, "ss: 20 established")
    return srv


@fault("peer gone", Cause(r"orphan|no process|peer|acknowledged", {"orphans", "peer-silent"}, ["10.1.2.2"]), modes=("once", "watch 2"),
       effects={"send-stuck", "retransmissions", "counters"}, never={"zero-window", *LOCAL})
def orphans_after_exit(lab):
    """A program ended with data in a hundred connections whose peer is gone: sockets without a process, in FIN-WAIT-1."""
    srv, router, cli = lab.routed()
    cli.start("serve", comm="sink", port=5000, on="sink")
    app = srv.start("hold", comm="batch", dst=cli.addr, port=5000, n=100, payload=REQUEST)
    vanish(router)
    app.send("send")
    app.receive()
    app.kill()
    lab.until(lambda: len(srv.ss("-tn", "state", "fin-wait-1")) == 100, "ss: 100 in FIN-WAIT-1")
    lab.pause(7)
    return srv


@fault("path", Cause(r"MTU", {"mtu-black-hole"}, ["10.1.2.2"]), modes=("once", "watch 2"), effects={"retransmissions", "send-stuck", "counters"},
       never={"zero-window", "peer-silent", *LOCAL})
def mtu_black_hole(lab):
    """The path carries 1000 bytes, and the router's ICMP message is filtered."""
    srv, router, cli = lab.routed()
    srv.sysctl(ipv4__tcp_mtu_probing=0)
    router.ip("link", "set", "right", "mtu", "1000")
    router.drop("output", "icmp type destination-unreachable")
    cli.start("serve", comm="upload", port=8443, on="sink")
    cli.start("serve", comm="api", port=80)
    srv.start("keep_alive", comm="pinger", dst=cli.addr, port=80, n=1, every=0.1)
    srv.start("send_bulk", comm="uploader", dst=cli.addr, port=8443, pause=0.3, chunk=60000, greet=True)
    lab.until(lambda: router.dropped("output") > 3, "nft of the router: filtered ICMP")
    lab.pause(8)
    return srv, lambda: lab.proof(pending(srv, 8443) > 50000, "ss: the send queue is full")


@fault("path", Cause(r"MTU", {"mtu-black-hole"}, ["10.1.2.2", "browser"]), modes=("once", "watch 2"), never={"zero-window", "unread", *LOCAL},
       effects={"retransmissions", "send-stuck", "counters", "peer-silent"})
def mtu_black_hole_first_data(lab):
    """The first data of every connection (a large greeting) is already too large for the path: nothing was ever acknowledged."""
    srv, router, cli = lab.routed()
    srv.sysctl(ipv4__tcp_mtu_probing=0)
    router.ip("link", "set", "right", "mtu", "1000")
    router.drop("output", "icmp type destination-unreachable")
    cli.start("serve", comm="upload", port=8443, on="sink")
    srv.start("hold", comm="browser", dst=cli.addr, port=8443, n=5, payload="h" * 4000)
    lab.until(lambda: router.dropped("output") > 3, "nft of the router: filtered ICMP")
    lab.pause(9)
    return srv, lambda: lab.proof(pending(srv, 8443) >= 5 * 4000, "ss: nothing was acknowledged")


@fault("path", Cause(r"sent again|lost|loss", {"retransmissions"}, ["10.1.1.2"]), modes=("once", "watch 5"),
       effects={"cwnd-floor", "counters", "reordering"}, never={"zero-window", "peer-silent", "receiver-limited", *LOCAL})
def path_loses(lab):
    """The path loses a tenth of what we send."""
    srv, cli = lab.wired(delay=0.002, loss=0.1, one_way=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="replica", dst=cli.addr, port=5000, chunk=5000, pause=0.01)
    lab.until(lambda: srv.counter("TcpRetransSegs") > 40, "nstat: RetransSegs", 15)
    before = srv.counter("TcpRetransSegs")
    return srv, lambda: lab.proof(srv.counter("TcpRetransSegs") > before, "retransmissions went on")


@fault("path", Cause(r"window|sent again|lost|loss", {"cwnd-floor", "retransmissions"}, ["10.1.1.2"]), modes=("watch 5",),
       effects={"cwnd-floor", "counters", "spurious-retransmissions", "pacing-floor", "retransmissions", "reordering"},
       never={"zero-window", "receiver-limited", *LOCAL})
def congestion_window_collapsed(lab):
    """A quarter of the segments is lost: cubic's window stays at its floor for seconds."""
    srv, cli = lab.wired(delay=0.01, loss=0.25, one_way=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="replica", dst=cli.addr, port=5000, options=CUBIC)
    lab.pause(6)
    cwnd = lambda: [int(word[5:]) for line in srv.ss("-tni", "dport = :5000") for word in line.split() if word.startswith("cwnd:")]
    lab.until(lambda: max(cwnd()) <= 6, "ss: cwnd of 6 at most")
    return srv


@fault("path", Cause(r"order", {"reordering"}, ["10.1.1.2"]), modes=("once", "watch 5"),
       effects={"spurious-retransmissions", "counters", "retransmissions", "cwnd-floor"}, never={"zero-window", "peer-silent", *LOCAL})
def path_reorders(lab):
    """A tenth of the segments is 4 ms late, so that later ones overtake them."""
    srv, cli = lab.wired(delay=0.002, reorder=0.1, one_way=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="replica", dst=cli.addr, port=5000, chunk=30000, pause=0.01)
    lab.pause(6)
    lab.until(lambda: any("reord_seen" in line for line in srv.ss("-tni", "dport = :5000")), "ss: reord_seen")
    return srv


@fault("path", Cause(r"round trip|bufferbloat|queue on the way", {"rtt-inflation"}, ["10.1.1.2"]), modes=("once", "watch 5"),
       effects={"retransmissions", "counters"}, never={"zero-window", "peer-silent", "receiver-limited", *LOCAL})
def bufferbloat(lab):
    """A bottleneck of 400 kB/s with a queue of 1000 frames; cubic fills it, and round trips grow from 4 ms to hundreds."""
    srv, cli = lab.wired(delay=0.002, rate=400000, queue=1000, one_way=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="camera", dst=cli.addr, port=5000, options=CUBIC)
    rtt = lambda: [float(word[4:].split("/")[0]) for line in srv.ss("-tni", "dport = :5000") for word in line.split() if word.startswith("rtt:")]
    lab.until(lambda: max(rtt()) > 250, "ss: rtt above 250 ms", 15)
    lab.pause(2)
    return srv, lambda: lab.proof(max(rtt()) > 200, f"ss: still {rtt()}")


@fault("buffers", Cause(r"receive window|receive buffer|receiver", {"receiver-limited"}, ["10.1.1.2", "mirror"]), modes=("watch 5", "watch 2"),
       never={"retransmissions", "zero-window", "peer-silent", *LOCAL})
def receive_buffer_small(lab):
    """The peer has set SO_RCVBUF to 16 kB on a path of 40 ms."""
    srv, cli = lab.wired(delay=0.02)
    cli.start("serve", comm="sink", port=5000, on="sink", options=[[socket.SOL_SOCKET, socket.SO_RCVBUF, 16384]])
    srv.start("send_bulk", comm="mirror", dst=cli.addr, port=5000, options=CUBIC)
    lab.pause(6)
    lab.until(lambda: limited(srv, "rwnd_limited") > 60, "ss: rwnd_limited above 60 % of the time")
    return srv


@fault("buffers", Cause(r"send buffer|sndbuf", {"send-buffer-limited"}, ["10.1.1.2", "mirror"]), modes=("watch 5", "watch 2"),
       never={"retransmissions", "zero-window", "peer-silent", "receiver-limited", *LOCAL})
def send_buffer_small(lab):
    """Our program has set SO_SNDBUF to 8 kB on a path of 40 ms."""
    srv, cli = lab.wired(delay=0.02)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="mirror", dst=cli.addr, port=5000, options=[[socket.SOL_SOCKET, socket.SO_SNDBUF, 8192]])
    lab.pause(6)
    lab.until(lambda: limited(srv, "sndbuf_limited") > 60, "ss: sndbuf_limited above 60 % of the time")
    return srv


@fault("buffers", Cause(r"tcp_rmem|receive buffer|receive window|buffer"), modes=("watch 5",), effects={"unread"})
def tcp_rmem_tiny(lab):
    """net.ipv4.tcp_rmem was set to 4096 bytes at most on this host, which receives a bulk transfer over 40 ms."""
    srv, cli = lab.wired(delay=0.02)
    srv.sysctl(ipv4__tcp_rmem="4096 4096 4096")
    srv.start("serve", comm="ingest", port=5000, on="sink")
    cli.start("send_bulk", comm="mirror", dst=srv.addr, port=5000)
    lab.pause(5)
    lab.until(lambda: limited(cli, "rwnd_limited") > 60, "ss of the sender: rwnd_limited above 60 % of the time")
    return srv


@fault("buffers", Cause(r"nagle|delayed"), modes=("watch 5",), never={"retransmissions", "zero-window", "peer-silent", *LOCAL})
def nagle_and_delayed_ack(lab):
    """Requests of two small writes: the second waits for an acknowledgement that the peer delays by 40 ms."""
    srv, cli = lab.pair()
    cli.start("echo_pairs", comm="rpc-server", port=7200)
    load = srv.start("write_write_read", comm="rpc-client", dst=cli.addr, port=7200)
    lab.pause(2)

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["requests"] / count["seconds"] < 100, f"fewer than 100 requests a second on a path of microseconds: {count}")
    return srv, after


@fault("leak", Cause(r"close", {"close-wait"}, ["leaky"]), modes=("watch 2",), effects={"unread"}, never={"fin-wait2"})
def close_wait_leak(lab):
    """The server never closes what its clients have closed: 40 sockets, none of which drains."""
    srv, cli = lab.pair()
    srv.start("serve", comm="leaky", port=8000, on="leak")
    clients = cli.start("hold", comm="client", dst=srv.addr, port=8000, n=40, payload=REQUEST)
    clients.send("close")
    clients.receive()
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) == 40, "ss: 40 in CLOSE-WAIT")
    lab.pause(8)
    return srv, lambda: lab.proof(len(srv.ss("-tn", "state", "close-wait")) == 40, "none has drained")


@fault("leak", Cause(r"close", {"close-wait"}, ["leaky-pool"]), modes=("watch 5",), effects={"unread"})
def close_wait_slow_leak(lab):
    """One handler in ten never closes; the others do at once: CLOSE-WAIT grows slowly under load."""
    srv, cli = lab.pair()
    srv.start("serve", comm="leaky-pool", port=8000, on="leak")
    srv.start("serve", comm="well", port=8001, on="close")
    cli.start("short_connections", comm="client", dst=srv.addr, port=8000, rate=4, answer=False)
    cli.start("short_connections", comm="client", dst=srv.addr, port=8001, rate=40, threads=4)
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) >= 25, "ss: 25 in CLOSE-WAIT", 15)
    before = len(srv.ss("-tn", "state", "close-wait"))
    return srv, lambda: lab.proof(len(srv.ss("-tn", "state", "close-wait")) > before + 8, "they grow")


@fault("leak", Cause(r"shut down|FIN.?WAIT|does not close", {"fin-wait2"}, ["uploader", "10.1.1.2"]), modes=("once", "watch 2"))
def fin_wait2_leak(lab):
    """Our program has ended its sending side on 30 connections; the peer never closes."""
    srv, cli = lab.pair()
    cli.start("serve", comm="broken-peer", port=8000, on="leak")
    srv.start("hold", comm="uploader", dst=cli.addr, port=8000, n=30, payload=REQUEST, then="shutdown")
    lab.until(lambda: len(srv.ss("-tn", "state", "fin-wait-2")) == 30, "ss: 30 in FIN-WAIT-2")
    lab.pause(8)
    return srv


@fault("ports", Cause(r"local ports|ephemeral|EADDRNOTAVAIL", {"ephemeral-ports"}, ["10.1.1.2", ":80"]), modes=("once", "watch 2"),
       effects={"time-wait", "counters"})
def ports_exhausted_by_time_wait(lab):
    """Short connections to one service, closed by us, with 100 local ports: connect() fails with EADDRNOTAVAIL."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__ip_local_port_range="40000 40099", ipv4__tcp_tw_reuse=0)
    cli.start("serve", comm="api", port=80)
    load = srv.start("short_connections", comm="cron-job", dst=cli.addr, port=80, rate=100, threads=4)
    lab.until(lambda: len(srv.ss("-tn", "state", "time-wait")) >= 98, "ss: all ports in TIME-WAIT", 15)

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["errors"].get("EADDRNOTAVAIL", 0) > 20, f"EADDRNOTAVAIL: {count}")
    return srv, after


@fault("ports", Cause(r"local ports|ephemeral|EADDRNOTAVAIL", {"ephemeral-ports"}, ["10.1.1.2", ":80", "pool-leak"]), modes=("once",))
def ports_exhausted_by_established(lab):
    """A connection pool that leaks holds all 100 local ports to one service."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__ip_local_port_range="40000 40099")
    cli.start("serve", comm="api", port=80)
    load = srv.start("hold", comm="pool-leak", dst=cli.addr, port=80, n=120)
    lab.proof(load.value["refused"] >= 20, f"connects fail: {load.value}")
    return srv


@fault("ports", Cause(r"local ports|ephemeral", {"udp-ports"}, ["resolver"]), modes=("once",))
def udp_ports_exhausted(lab):
    """UDP sockets hold all 100 local ports."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__ip_local_port_range="40000 40099")
    load = srv.start("udp_sockets", comm="resolver", n=130)
    lab.proof(load.value["refused"] >= 30, f"binds fail: {load.value}")
    return srv


@fault("ports", Cause(r"TIME.?WAIT", {"time-wait-max", "time-wait"}), modes=("watch 2",), effects={"counters"})
def time_wait_table_full(lab):
    """tcp_max_tw_buckets is 20: connections skip TIME-WAIT, as nstat's TCPTimeWaitOverflow shows."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__tcp_max_tw_buckets=20)
    cli.start("serve", comm="api", port=80)
    srv.start("short_connections", comm="cron-job", dst=cli.addr, port=80, rate=100, threads=4)
    lab.until(lambda: srv.counter("TcpExtTCPTimeWaitOverflow") > 50, "nstat: TCPTimeWaitOverflow", 15)
    return srv


FULL = Cause(r"descriptor|open files", {"open-files"}, ["upload-svc"])


def descriptors_of(host, name):
    return int(host.run("sh", "-c", f"ls /proc/$(pgrep -x {name})/fd | wc -l")[1])


@fault("descriptors", FULL, modes=("once", "watch 2"))
def descriptors_of_reset_sockets(lab):
    """120 connections were reset by their clients and never closed by the server: they are in no table, but hold its descriptors."""
    srv, cli = lab.pair()
    srv.start("serve", comm="upload-svc", port=8000, on="abandon", limit=128)
    clients = cli.start("hold", comm="client", dst=srv.addr, port=8000, n=118, payload=REQUEST)
    lab.until(lambda: descriptors_of(srv, "upload-svc") > 115, "descriptors of the server in /proc")
    clients.send("reset")
    clients.receive()
    lab.until(lambda: not srv.ss("-tan", "state", "connected", "sport = :8000"), "ss: no connection is left")
    lab.proof(descriptors_of(srv, "upload-svc") > 115, "the descriptors are still open")
    lab.pause(2)
    return srv


@fault("descriptors", FULL, modes=("once", "watch 2"))
def descriptors_of_reset_client_sockets(lab):
    """As before, but the program is a client: it has no listener, and none of its sockets is in any table."""
    srv, cli = lab.pair()
    cli.start("serve", comm="api", port=80, on="hold")
    srv.start("hold", comm="upload-svc", dst=cli.addr, port=80, n=120, limit=128)
    server = cli.programs[-1]
    lab.until(lambda: cli.waiting(80) == 0 and descriptors_of(srv, "upload-svc") > 115, "descriptors in /proc")
    server.send("reset")
    lab.until(lambda: not srv.ss("-tan", "state", "connected"), "ss: no connection is left")
    lab.proof(descriptors_of(srv, "upload-svc") > 115, "the descriptors are still open")
    return srv


@fault("descriptors", FULL, modes=("once",))
def descriptors_of_files(lab):
    """A program without any socket has opened as many files as it may."""
    srv, _cli = lab.pair()
    held = srv.start("open_descriptors", comm="upload-svc", n=500, limit=256, kind="file")
    lab.proof(held.value["held"] > 240, f"held: {held.value}")
    return srv


@fault("descriptors", FULL, modes=("once",))
def descriptors_of_unconnected_sockets(lab):
    """A program has made sockets that it never binds or connects."""
    srv, _cli = lab.pair()
    held = srv.start("open_descriptors", comm="upload-svc", n=500, limit=256, kind="socket")
    lab.proof(held.value["held"] > 240, f"held: {held.value}")
    lab.proof(not srv.ss("-tan", "state", "connected"), "ss shows none of them")
    return srv


@fault("descriptors", FULL, modes=("once",))
def descriptors_of_pipes(lab):
    """A program leaks pipes."""
    srv, _cli = lab.pair()
    held = srv.start("open_descriptors", comm="upload-svc", n=500, limit=256, kind="pipe")
    lab.proof(held.value["held"] > 240, f"held: {held.value}")
    return srv


@fault("descriptors", Cause(r"descriptor|open files", {"open-files"}, ["upload-svc"]), modes=("once", "watch 2"))
def descriptors_of_client_connections(lab):
    """Our program opens connections and never closes them: 250 of 256 descriptors are ESTABLISHED connections to one service."""
    srv, cli = lab.pair()
    cli.start("serve", comm="api", port=80)
    srv.start("hold", comm="upload-svc", dst=cli.addr, port=80, n=250, limit=256, payload=REQUEST, answer=True)
    lab.until(lambda: descriptors_of(srv, "upload-svc") > 248, "descriptors in /proc")
    return srv


@fault("descriptors", Cause(r"descriptor|open files", {"open-files"}, ["upload-svc"]), modes=("once",))
def descriptors_of_one_client(lab):
    """One client holds 245 of a server's 256 descriptors."""
    srv, cli = lab.pair()
    srv.start("serve", comm="upload-svc", port=8000, limit=256)
    cli.start("hold", comm="client", dst=srv.addr, port=8000, n=245, payload=REQUEST)
    lab.until(lambda: descriptors_of(srv, "upload-svc") > 245, "descriptors in /proc")
    return srv


@fault("udp", Cause(r"drop|buffer", {"socket-drops", "udp-unread"}, ["collector", ":514"]), modes=("once", "watch 2"),
       effects={"counters", "udp-unread", "socket-drops"})
def udp_slow_receiver(lab):
    """A collector takes 50 ms for each datagram; 400 a second arrive, and the kernel drops most."""
    srv, cli = lab.pair()
    srv.start("udp_serve", comm="collector", port=514, buffer=8192, pause=0.05, answer=False)
    cli.start("udp_send", comm="clients", dst=srv.addr, port=514, rate=400, burst=4)
    lab.until(lambda: srv.counter("UdpRcvbufErrors") > 100, "nstat: UdpRcvbufErrors")
    before = srv.counter("UdpRcvbufErrors")
    return srv, lambda: lab.proof(srv.counter("UdpRcvbufErrors") > before + 50, "drops went on")


@fault("udp", Cause(r"read|buffer", {"udp-unread", "unread"}, ["dhcp-relay", ":67"]), modes=("once", "watch 2"))
def udp_server_stopped(lab):
    """A UDP server is stopped; datagrams wait in its buffer, which is not full yet."""
    srv, cli = lab.pair()
    server = srv.start("udp_serve", comm="dhcp-relay", port=67, answer=False)
    server.stop()
    cli.start("udp_send", comm="clients", dst=srv.addr, port=67, rate=200, count=60)
    lab.until(lambda: any(int(line.split()[1]) > 20000 for line in srv.ss("-uan", "sport = :67")), "ss -u: unread datagrams")
    lab.pause(5)
    return srv


@fault("udp", Cause(r"no socket|no.?ports|nothing listens|no program|closed port"), modes=("watch 2",), effects={"counters"})
def udp_port_closed(lab):
    """The DNS server on this host has died: queries arrive at a port without a socket."""
    srv, cli = lab.pair()
    cli.start("udp_send", comm="clients", dst=srv.addr, port=53, rate=100)
    lab.until(lambda: srv.counter("UdpNoPorts") > 50, "nstat: UdpNoPorts")
    return srv


@fault("udp", Cause(r"answer|dns|repl", (), ["10.1.1.2"]), modes=("watch 5",))
def dns_unanswered(lab):
    """A program asks a name server, which never answers; it waits a second for each query."""
    srv, cli = lab.pair()
    cli.drop("input", "udp dport 53")
    load = srv.start("udp_send", comm="crawler", dst=cli.addr, port=53, connect=True, rate=5, wait=1.0)
    lab.pause(4)

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["answers"] == 0 and count["sent"] >= 4, f"no answer at all: {count}")
    return srv, after


@fault("udp", Cause(r"unreachable|refus|port", (), ()), modes=("watch 2",), effects={"counters"})
def udp_peer_port_closed(lab):
    """Our statsd client sends to a host where nothing listens: each datagram brings back an ICMP port unreachable."""
    srv, cli = lab.pair()
    cli.sysctl(ipv4__icmp_ratelimit=0, ipv4__icmp_msgs_per_sec=100000)
    srv.start("udp_send", comm="statsd", dst=cli.addr, port=8125, rate=100)
    lab.until(lambda: srv.counter("IcmpInDestUnreachs") > 50, "nstat: IcmpInDestUnreachs")
    return srv


@fault("packets", Cause(r"checksum|csum"), modes=("once", "watch 2"), effects={"socket-drops", "device-errors", "listener-drops"})
def checksum_errors(lab):
    """A broken network card or middlebox: segments arrive with wrong checksums."""
    srv, cli = lab.pair()
    srv.start("serve", comm="api", port=80)
    cli.start("raw_segments", comm="broken", dst=srv.addr, port=80, src="10.1.1.2", rate=200, broken=True)
    lab.until(lambda: srv.counter("TcpInCsumErrors") > 100, "nstat: TcpInCsumErrors")
    return srv


@fault("packets", Cause(r"reass|reasm|fragment"), modes=("watch 2",))
def fragments_lost(lab):
    """Only the first fragments of large datagrams arrive: reassembly fails."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__ipfrag_time=1)
    cli.start("raw_fragments", comm="nfs", dst=srv.addr, rate=100)
    lab.until(lambda: srv.counter("IpReasmFails") > 30, "nstat: IpReasmFails")
    before = srv.counter("IpReasmFails")
    return srv, lambda: lab.proof(srv.counter("IpReasmFails") > before, "it goes on")


@fault("packets", Cause(r"fragment|MTU", (), ()), modes=("watch 2",), effects={"counters"})
def tunnel_mtu_too_large(lab):
    """The network below a VXLAN device has a smaller MTU than it was made for: every full packet is sent in two fragments."""
    srv, cli = lab.pair()
    for host, peer, inner in ((srv, cli.addr, "10.50.0.1"), (cli, srv.addr, "10.50.0.2")):
        host.ip("link", "add", "vx0", "type", "vxlan", "id", "7", "remote", peer, "dstport", "4789", "dev", "eth0")
        host.ip("link", "set", "vx0", "mtu", "1450", "up")
        host.ip("addr", "add", f"{inner}/24", "dev", "vx0")
    srv.ip("link", "set", "eth0", "mtu", "1400")
    srv.start("udp_send", comm="video", dst="10.50.0.2", port=4000, size=1420, rate=200, burst=4)
    lab.until(lambda: srv.counter("IpFragCreates") > 100, "nstat: IpFragCreates")
    return srv


@fault("tables", Cause(r"neighbo", {"neighbours"}), modes=("once",), host_wide=True)
def neighbour_table_nearly_full(lab):
    """940 of 1024 entries of the neighbour table, which all namespaces share, are in use (a flat network, or a scan)."""
    srv, cli = lab.pair()
    entries = "".join(f"neigh add 10.60.{n // 250}.{1 + n % 250} lladdr 02:00:00:00:{n // 250:02x}:{n % 250:02x} nud reachable extern_learn "
                      "dev eth0\n" for n in range(900))
    srv.ip("addr", "add", "10.60.0.254/16", "dev", "eth0")
    srv.tool("ip", "-batch", "-", text=entries)
    lab.proof(len(srv.ip("neigh", "show").splitlines()) > 850, "ip neigh: more than 850 entries")
    return srv


@fault("buffers", Cause(r"pac", {"pacing-floor"}, ["10.1.1.2", "throttled"]), modes=("watch 5",), never={"retransmissions", "zero-window",
       "peer-silent", "receiver-limited", *LOCAL}, effects={"application-limited"})
def pacing_rate_set_too_low(lab):
    """The program has limited itself by SO_MAX_PACING_RATE to 20 kB a second; data waits."""
    srv, cli = lab.pair()
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="throttled", dst=cli.addr, port=5000, options=[[socket.SOL_SOCKET, 47, 20000]])
    lab.pause(5)
    lab.until(lambda: pending(srv, 5000) > 50000, "ss: data waits")
    return srv


@fault("buffers", Cause(r"scal"), modes=("watch 5",), effects={"receiver-limited"}, never={"retransmissions", "peer-silent", *LOCAL})
def window_scaling_off(lab):
    """net.ipv4.tcp_window_scaling is 0, and a transfer over 60 ms is held at 64 kB a round trip."""
    srv, cli = lab.wired(delay=0.03)
    srv.sysctl(ipv4__tcp_window_scaling=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="mirror", dst=cli.addr, port=5000, options=CUBIC)
    lab.pause(6)
    lab.until(lambda: limited(srv, "rwnd_limited") > 50, "ss: rwnd_limited above half of the time")
    return srv


@fault("leak", Cause(r"never closes|leak|grow|more and more|connections of one"), modes=("watch 5",))
def established_leak(lab):
    """A program opens ten connections a second to one service, uses each once and closes none; its limit is far away."""
    srv, cli = lab.pair()
    cli.start("serve", comm="api", port=80)
    srv.start("hold", comm="sdk-per-call", dst=cli.addr, port=80, n=400, payload=REQUEST, every=0.1, ready_first=True, answer=True)
    lab.until(lambda: len(srv.ss("-tn", "state", "established")) > 70, "ss: more than 70 established", 15)
    before = len(srv.ss("-tn", "state", "established"))
    return srv, lambda: lab.proof(len(srv.ss("-tn", "state", "established")) > before + 30, "they grow")


@fault("cannot send", Cause(r"no route|route"), modes=("watch 2",))
def connects_without_route(lab):
    """There is no default route; a program tries to connect to an address far away, and fails at once."""
    srv, cli = lab.pair()
    load = srv.start("short_connections", comm="updater", dst="172.30.0.9", port=443, rate=40)
    lab.until(lambda: srv.counter("IpOutNoRoutes") > 30, "nstat: OutNoRoutes")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["errors"].get("ENETUNREACH", 0) > 50, f"ENETUNREACH: {count}")
    return srv, after


@fault("cannot send", Cause(r"neighbo|\barp\b|gateway", (), ["10.1.1.99"]), effects={"connect-unanswered", "counters"}, modes=("once", "watch 2"))
def default_gateway_wrong(lab):
    """The default gateway is an address that no host has; a program tries to connect."""
    srv, cli = lab.pair()
    srv.ip("route", "add", "default", "via", "10.1.1.99")
    srv.start("short_connections", comm="updater", dst="172.30.0.9", port=443, rate=20, threads=10)
    lab.until(lambda: "10.1.1.99" in srv.ip("neigh", "show", "nud", "failed") + srv.ip("neigh", "show", "nud", "incomplete"), "ip neigh: FAILED")
    lab.pause(4)
    return srv


@fault("queues", Cause(r"queueing discipline|qdisc", {"qdisc-backlog", "qdisc-drops"}, ["eth0"]), modes=("once", "watch 2"),
       effects={"rtt-inflation", "retransmissions", "pacing-floor", "send-stuck", "counters", "cwnd-floor"}, never={"zero-window", "peer-silent"})
def shaper_with_backlog(lab):
    """A token bucket of 400 kbit/s in front of 30 connections: hundreds of packets wait for seconds in our own queue."""
    srv, cli = lab.pair()
    srv.tool("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "400kbit", "burst", "5kb", "limit", "3mb")
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="backup", dst=cli.addr, port=5000, n=30, options=CUBIC)
    waiting = lambda: int(srv.tool("tc", "-s", "qdisc", "show", "dev", "eth0").split("backlog ")[1].split("b ")[1].split("p")[0])
    lab.until(lambda: waiting() > 50, "tc -s: more than 50 packets wait", 15)
    lab.pause(2)
    return srv, lambda: lab.proof(waiting() > 50, "they still wait")


@fault("udp", Cause(r"drop|buffer|read", {"socket-drops", "udp-unread", "unread"}, ["netflow", ":2055"]), modes=("once", "watch 2"),
       effects={"counters", "udp-unread", "socket-drops"})
def udp_server_stopped_and_full(lab):
    """A stopped UDP server whose buffer is full: everything that comes is dropped."""
    srv, cli = lab.pair()
    server = srv.start("udp_serve", comm="netflow", port=2055, answer=False)
    server.stop()
    cli.start("udp_send", comm="routers", dst=srv.addr, port=2055, rate=500, burst=10, size=1000)
    lab.until(lambda: srv.counter("UdpRcvbufErrors") > 50, "nstat: UdpRcvbufErrors")
    return srv


@fault("addresses", Cause(r"neighbo|solicit", (), ["fd00::2"]), modes=("once", "watch 2"), never={"zero-window", "peer-silent", "mtu-black-hole"},
       effects={"send-stuck", "retransmissions", "counters"})
def neighbour_failed_v6(lab):
    """The peer answers no neighbour solicitation any more."""
    srv, cli = lab.pair()
    for host, address in ((srv, "fd00::1/64"), (cli, "fd00::2/64")):
        host.ip("addr", "add", address, "dev", "eth0", "nodad")
    cli.start("serve", comm="sink", port=5000, bind="::", on="sink")
    srv.start("send_bulk", comm="backup6", dst="fd00::2", port=5000, chunk=20000, pause=0.02)
    lab.until(lambda: srv.counter("TcpOutSegs") > 20, "data flows before the fault")
    cli.drop("input", "icmpv6 type nd-neighbor-solicit")
    srv.ip("neigh", "flush", "dev", "eth0")
    lab.until(lambda: any(word in srv.ip("-6", "neigh", "show", "dev", "eth0") for word in ("FAILED", "INCOMPLETE")), "ip neigh: FAILED")
    lab.until(lambda: pending(srv, 5000) > 50000, "ss: the send queue grows")
    lab.pause(4)
    return srv, lambda: lab.proof(pending(srv, 5000) > 50000, "it is still stuck")


@fault("buffers", Cause(r"tcp_wmem|send buffer", {"send-buffer-limited"}, ["10.1.1.2", "mirror"]), modes=("watch 5",),
       never={"retransmissions", "zero-window", "peer-silent", "receiver-limited", *LOCAL})
def tcp_wmem_tiny(lab):
    """net.ipv4.tcp_wmem was set to 8192 bytes at most; a transfer over 40 ms waits for its send buffer."""
    srv, cli = lab.wired(delay=0.02)
    srv.sysctl(ipv4__tcp_wmem="4096 8192 8192")
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="mirror", dst=cli.addr, port=5000)
    lab.pause(6)
    lab.until(lambda: limited(srv, "sndbuf_limited") > 60, "ss: sndbuf_limited above 60 % of the time")
    return srv


@fault("path", Cause(r"congestion window|cwnd", {"cwnd-floor"}, ["10.1.1.2", "mirror"]), modes=("watch 5",), effects={"pacing-floor"},
       never={"retransmissions", "zero-window", "peer-silent", "receiver-limited", "send-buffer-limited", *LOCAL})
def congestion_window_locked_by_route(lab):
    """A route attribute (cwnd lock 2) of an old experiment holds every transfer at two segments a round trip of 40 ms."""
    srv, cli = lab.wired(delay=0.02)
    srv.ip("route", "change", "10.1.1.0/24", "dev", "eth0", "src", "10.1.1.1", "cwnd", "lock", "2", "initcwnd", "2")
    cli.start("serve", comm="sink", port=5000, on="sink")
    # The attribute holds from the second connection to a peer on, whose metrics the first has left.
    first = srv.start("hold", comm="first", dst=cli.addr, port=5000, n=1, payload="x" * 3000)
    lab.pause(0.5)
    first.send("close")
    first.receive()
    lab.until(lambda: "cwnd 2" in srv.ip("tcp_metrics", "show"), "ip tcp_metrics: cwnd 2")
    srv.start("send_bulk", comm="mirror", dst=cli.addr, port=5000, options=CUBIC)
    lab.pause(6)
    lab.until(lambda: any(" cwnd:2 " in line + " " for line in srv.ss("-tni", "dport = :5000")), "ss: cwnd 2")
    return srv


@fault("path", Cause(r"firewall|netfilter|nftables|\bnft\b", (), ["10.1.2.2"]), modes=("once", "watch 2"),
       effects={"retransmissions", "send-stuck", "counters", "mtu-black-hole"}, never={"zero-window", "peer-silent", "unread", *LOCAL})
def own_firewall_drops_icmp(lab):
    """The router reports that fragmentation is needed, and our own firewall drops all ICMP."""
    srv, router, cli = lab.routed()
    srv.sysctl(ipv4__tcp_mtu_probing=0)
    router.ip("link", "set", "right", "mtu", "1000")
    srv.drop("input", "meta l4proto icmp")
    cli.start("serve", comm="upload", port=8443, on="sink")
    srv.start("send_bulk", comm="uploader", dst=cli.addr, port=8443, pause=0.3, chunk=60000, greet=True)
    lab.until(lambda: srv.dropped("input") > 3, "nft: our rule counts ICMP")
    lab.pause(8)
    return srv, lambda: lab.proof(pending(srv, 8443) > 50000, "ss: the send queue is full")


@fault("window", Cause(r"read", {"unread"}, ["worker", ":7300"]), modes=("once", "watch 2"), effects={"zero-window"}, never={"peer-silent", "send-stuck"})
def local_reader_stuck(lab):
    """Writer and reader are both on this host, over loopback: the reader has hung for twelve seconds; it is the cause."""
    srv = lab.host("srv")
    srv.start("serve", comm="worker", port=7300, on="hold")
    srv.start("send_bulk", comm="producer", dst="127.0.0.1", port=7300)
    lab.until(lambda: any(int(line.split()[1]) > 50000 for line in srv.ss("-tn", "sport = :7300")), "ss: 50 kB unread")
    lab.pause(12)
    return srv


@fault("leak", Cause(r"read|stopped|close", {"unread", "close-wait"}, ["frozen-app"]), modes=("watch 2",), effects={"unread", "close-wait"})
def close_wait_of_stopped_program(lab):
    """A stopped program: 25 clients sent a request, gave up and closed; the sockets are in CLOSE-WAIT with unread data."""
    srv, cli = lab.pair()
    server = srv.start("serve", comm="frozen-app", port=8000)
    load = cli.start("hold", comm="client", dst=srv.addr, port=8000, n=25)
    lab.until(lambda: srv.waiting(8000) == 0, "ss: all are accepted")
    server.stop()
    load.send("send")
    load.receive()
    load.send("close")
    load.receive()
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) == 25, "ss: 25 in CLOSE-WAIT")
    lab.pause(8)
    return srv


@fault("path", Cause(r"drop", {"device-drops"}, ["eth0"]), modes=("once", "watch 2"), effects={"counters"})
def jumbo_frames_not_taken(lab):
    """Our MTU is 9000, the switch's 1500: large datagrams are dropped by the device."""
    srv, cli = lab.pair()
    srv.ip("link", "set", "eth0", "mtu", "9000")
    srv.start("udp_send", comm="nfs", dst=cli.addr, port=2049, size=4000, rate=100)
    lab.until(lambda: srv.device("eth0", "tx_dropped") > 50, "ip -s link: tx dropped")
    return srv


@fault("queues", Cause(r"queueing discipline|qdisc", {"qdisc-drops"}, ["eth0"]), modes=("watch 2",), effects={"counters", "socket-drops"})
def shaper_drops_datagrams(lab):
    """A token bucket of 400 kbit/s drops most datagrams of a program that sends 4 Mbit/s."""
    srv, cli = lab.pair()
    srv.tool("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "400kbit", "burst", "3kb", "limit", "6kb")
    srv.start("udp_send", comm="camera", dst=cli.addr, port=5004, size=1000, rate=500, burst=5)
    lab.until(lambda: srv.counter("UdpSndbufErrors") > 50, "nstat: UdpSndbufErrors")
    return srv


@fault("peer gone", Cause(r"peer|acknowledged|answer", {"peer-silent"}, ["10.1.2.2"]), modes=("watch 2",), never={"zero-window", "close-wait", *LOCAL},
       effects={"retransmissions", "send-stuck", "counters", "orphans"})
def last_ack_after_peer_vanished(lab):
    """The peer closed and vanished; our program then closed too: 40 sockets without a process are in LAST-ACK."""
    srv, router, cli = lab.routed()
    cli.start("serve", comm="api", port=80, on="hold")
    server = cli.programs[-1]
    app = srv.start("hold", comm="batch", dst=cli.addr, port=80, n=40, limit=1000)
    lab.until(lambda: cli.waiting(80) == 0, "ss: all are accepted")
    server.send("close")
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) == 40, "ss: 40 in CLOSE-WAIT")
    vanish(router)
    app.send("close")
    app.receive()
    lab.until(lambda: len(srv.ss("-tn", "state", "last-ack")) == 40, "ss: 40 in LAST-ACK")
    lab.pause(7)
    return srv
