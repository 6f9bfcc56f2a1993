"""Listeners that accept nothing, too little, or not from there."""

from expect import Cause, fault
from programs import LINE

REQUEST = LINE.decode()
NOT_ACCEPTED = r"accept"
QUEUE = {"accept-queue"}


def clients(lab, host, dst, port, n, payload=REQUEST, **options):
    return host.start("hold", comm="client", dst=dst, port=port, n=n, payload=payload, blocking=False, **options)


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["orders-web", ":8080"]), modes=("once", "watch 2"), effects={"unread"})
def listener_stopped(lab):
    """The server got SIGSTOP; three clients wait with their requests, far below the backlog of 128."""
    srv, cli = lab.pair()
    web = srv.start("serve", comm="orders-web", port=8080, backlog=128)
    clients(lab, cli, srv.addr, 8080, 1)
    web.stop()
    clients(lab, cli, srv.addr, 8080, 3)
    lab.until(lambda: srv.waiting(8080) == 3, "ss: 3 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8080) == 3, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["payments", ":9000"]), modes=("once", "watch 2"), effects={"unread"})
def listener_deadlock(lab):
    """The accepting thread waits for a lock that it holds itself; five clients of a backlog of 511 wait."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="payments", port=9000, backlog=511, how="deadlock")
    clients(lab, cli, srv.addr, 9000, 5)
    lab.until(lambda: srv.waiting(9000) == 5, "ss: 5 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(9000) == 5, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["legacy-cgi", ":8081"]), modes=("once", "watch 2"), effects={"unread"})
def listener_one_slow_request(lab):
    """A single-threaded server waits for its database, which does not answer; eight clients wait behind that request."""
    srv, cli = lab.pair()
    cli.start("stuck_listener", comm="database", port=5432, how="silent-client")
    srv.start("stuck_listener", comm="legacy-cgi", port=8081, backlog=64, how="upstream", upstream=[cli.addr, 5432])
    clients(lab, cli, srv.addr, 8081, 9)
    lab.until(lambda: srv.waiting(8081) == 8, "ss: 8 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8081) == 8, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["tiny-app", ":7000"]), modes=("once", "watch 2"),
       effects={"listener-drops", "unread", "counters"})
def listener_queue_full(lab):
    """Nothing accepts, the backlog is 4, and twenty clients try."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="tiny-app", port=7000, backlog=4)
    clients(lab, cli, srv.addr, 7000, 20)
    lab.until(lambda: srv.waiting(7000) == 5, "ss: 5 wait, more than the backlog")
    lab.until(lambda: srv.counter("TcpExtListenOverflows") > 5, "nstat: ListenOverflows")
    return srv


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["mail-in", ":2525"]), modes=("once", "watch 2"), effects={"unread"})
def listener_two_clients_unread(lab):
    """Two clients only, but each has sent 30 kB that nothing reads, for seconds."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="mail-in", port=2525, backlog=1000)
    clients(lab, cli, srv.addr, 2525, 2, payload="x" * 30000)
    lab.until(lambda: srv.waiting(2525) == 2, "ss: 2 connections wait to be accepted")
    lab.until(lambda: any(int(line.split()[1]) >= 29000 for line in srv.ss("-tn", "sport = :2525")), "ss: 30 kB unread")
    lab.pause(5)
    return srv, lambda: lab.proof(srv.waiting(2525) == 2, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["tls-term", ":8443"]), modes=("once", "watch 2"), effects={"unread"})
def listener_waits_for_silent_client(lab):
    """One thread accepts and reads the greeting; the first client says nothing, and six wait behind it, also silent."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="tls-term", port=8443, backlog=128, how="silent-client")
    clients(lab, cli, srv.addr, 8443, 7, payload=None)
    lab.until(lambda: srv.waiting(8443) == 6, "ss: 6 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8443) == 6, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["billing", ":8090"]), modes=("once", "watch 2"), effects={"unread"})
def listener_one_of_reuseport(lab):
    """Two processes share a port by SO_REUSEPORT; one is stuck, the other serves: every second client waits."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="billing", port=8090, backlog=128, reuseport=True)
    srv.start("serve", comm="billing-ok", port=8090, backlog=128, reuseport=True)
    clients(lab, cli, srv.addr, 8090, 16)
    lab.until(lambda: 1 <= srv.waiting(8090) < 16, "ss: some connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8090) >= 1, "they still wait")


@fault("descriptors", Cause(r"descriptor|open files", {"open-files"}, ["upload-svc"]), modes=("once",),
       effects={"accept-queue", "unread", "listener-drops"})
def listener_out_of_descriptors(lab):
    """The server has used all its 64 descriptors, accept() fails with EMFILE, and the clients wait: the limit is the cause."""
    srv, cli = lab.pair()
    srv.start("serve", comm="upload-svc", port=8085, backlog=128, on="hold", limit=64)
    cli.start("hold", comm="client", dst=srv.addr, port=8085, n=90, payload=REQUEST, blocking=False)
    lab.until(lambda: srv.waiting(8085) > 20, "ss: connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8085) > 20, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["prefork", ":8082"]), modes=("watch 2",), effects={"unread"})
def listener_all_workers_stopped(lab):
    """Four prefork workers share the listener; all of them are stopped, as after a freeze of their container."""
    srv, cli = lab.pair()
    srv.start("serve", comm="prefork", port=8082, backlog=256, workers=4)
    pids = [int(pid) for pid in srv.run("pgrep", "-x", "prefork")[1].split()]
    lab.proof(len(pids) == 4, "four workers run")
    srv.run("kill", "-STOP", *map(str, pids))
    clients(lab, cli, srv.addr, 8082, 6)
    lab.until(lambda: srv.waiting(8082) == 6, "ss: 6 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8082) == 6, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["v6-gateway", ":8083"]), modes=("watch 2",), effects={"unread"})
def listener_stopped_v6(lab):
    """A stopped server on IPv6; four clients wait."""
    srv, cli = lab.pair()
    for host, address in ((srv, "fd00::1/64"), (cli, "fd00::2/64")):
        host.ip("addr", "add", address, "dev", "eth0", "nodad")
    web = srv.start("serve", comm="v6-gateway", port=8083, bind="::", backlog=128)
    web.stop()
    clients(lab, cli, "fd00::1", 8083, 4)
    lab.until(lambda: srv.waiting(8083) == 4, "ss: 4 connections wait to be accepted")
    lab.pause(4)
    return srv, lambda: lab.proof(srv.waiting(8083) == 4, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, {"accept-queue", "listener-drops"}, ["slow-accept", ":8084"]), modes=("watch 2",),
       effects={"unread", "counters", "socket-drops"})
def listener_tiny_backlog(lab):
    """A backlog of 3 and a server that takes 100 ms for each accept: most of the load is turned away."""
    srv, cli = lab.pair()
    srv.start("serve", comm="slow-accept", port=8084, backlog=3, accept_pause=0.1, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=8084, rate=200, threads=40)
    lab.until(lambda: srv.counter("TcpExtListenOverflows") > 20, "nstat: ListenOverflows")
    before = srv.counter("TcpExtListenOverflows")
    return srv, lambda: lab.proof(srv.counter("TcpExtListenOverflows") > before + 5, "ListenOverflows went on growing")


@fault("listener", Cause(r"somaxconn|accept", {"accept-queue", "listener-drops", "backlog-capped"}, ["capped", ":8086"]),
       modes=("once", "watch 2"), effects={"unread", "counters", "socket-drops", "backlog-capped", "listener-drops"})
def listener_capped_by_somaxconn(lab):
    """The program asks for a backlog of 4096, but net.core.somaxconn is 8."""
    srv, cli = lab.pair()
    srv.sysctl(core__somaxconn=8)
    srv.start("serve", comm="capped", port=8086, backlog=4096, accept_pause=0.05, on="close")
    lab.proof(any(line.split()[2] == "8" for line in srv.ss("-tln", "sport = :8086")), "ss: backlog 8")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=8086, rate=400, threads=60)
    lab.until(lambda: srv.counter("TcpExtListenOverflows") > 20, "nstat: ListenOverflows")
    return srv


@fault("listener", Cause(r"unix"), modes=("once", "watch 2"))
def listener_unix_full(lab):
    """A UNIX stream listener (a database's or PHP's) accepts nothing, and its backlog of 4 is full."""
    srv = lab.host("srv")
    srv.start("unix_stuck", comm="php-fpm", path="\0php-fpm.sock", backlog=4)
    found = srv.start("unix_clients", comm="nginx", path="\0php-fpm.sock", n=12)
    lab.proof(found.value["refused"] >= 5, "connects fail with EAGAIN")
    lab.until(lambda: any(int(line.split()[2]) >= 5 for line in srv.ss("-xl")), "ss -xl: the queue is full")
    return srv


def spoofed(lab, srv, cli):
    """The way back to 198.51.100.0/24 ends at the client's host, which discards it."""
    srv.ip("route", "add", "198.51.100.0/24", "via", cli.addr)
    cli.ip("route", "add", "blackhole", "198.51.100.0/24")


@fault("syn queue", Cause(r"cookie", (), [":8088"]), modes=("once", "watch 2"),
       effects={"counters", "listener-drops", "retransmissions", "syn-queue"})
def syn_queue_full_without_cookies(lab):
    """A SYN flood with made-up sources; syncookies are off, so the queue of 32 is full and clients are turned away."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__tcp_syncookies=0, ipv4__tcp_max_syn_backlog=4096)
    spoofed(lab, srv, cli)
    srv.start("serve", comm="shop", port=8088, backlog=32)
    cli.start("raw_segments", comm="flood", dst=srv.addr, port=8088, src="198.51.100.%d", sources=[1, 250], rate=200)
    lab.until(lambda: srv.counter("TcpExtTCPReqQFullDrop") > 50, "nstat: TCPReqQFullDrop")
    lab.until(lambda: len(srv.ss("-tn", "state", "syn-recv")) >= 30, "ss: 30 in SYN-RECV")
    return srv


@fault("syn queue", Cause(r"syn|half.open", {"syn-queue"}, [":8088"]), modes=("once", "watch 2"),
       effects={"counters", "listener-drops", "retransmissions"})
def syn_flood_with_cookies(lab):
    """The same flood with syncookies: the host lives by cookies."""
    srv, cli = lab.pair()
    spoofed(lab, srv, cli)
    srv.start("serve", comm="shop", port=8088, backlog=32)
    cli.start("raw_segments", comm="flood", dst=srv.addr, port=8088, src="198.51.100.%d", sources=[1, 250], rate=200)
    lab.until(lambda: srv.counter("TcpExtSyncookiesSent") > 50, "nstat: SyncookiesSent")
    return srv


@fault("listener", Cause(r"127\.0\.0\.1|loopback|refus|reset|no listener|closed port", (), [":8080"]), modes=("watch 2",))
def listener_on_loopback_only(lab):
    """The server listens on 127.0.0.1:8080; the clients come to the host's address and are refused."""
    srv, cli = lab.pair()
    srv.start("serve", comm="admin-ui", port=8080, bind="127.0.0.1")
    load = cli.start("short_connections", comm="wrk", dst=srv.addr, port=8080, rate=40, threads=4)
    lab.until(lambda: srv.counter("TcpOutRsts") > 20, "nstat: OutRsts")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["ok"] == 0 and count["errors"].get("ECONNREFUSED", 0) > 20, f"all are refused: {count}")
    return srv, after


@fault("listener", Cause(r"refus|reset|no listener|closed port|nothing listens"), modes=("watch 2",))
def listener_missing(lab):
    """The service is not running: 100 connection attempts a second are refused."""
    srv, cli = lab.pair()
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=9999, rate=100, threads=8)
    lab.until(lambda: srv.counter("TcpOutRsts") > 50, "nstat: OutRsts")
    return srv


@fault("resets", Cause(r"reset"), modes=("watch 2",))
def reset_storm(lab):
    """Every client resets its connection after its request: 100 a second."""
    srv, cli = lab.pair()
    srv.start("serve", comm="api", port=8089)
    cli.start("short_connections", comm="broken-client", dst=srv.addr, port=8089, rate=100, threads=8, reset=True)
    lab.until(lambda: srv.counter("TcpEstabResets") > 50, "nstat: EstabResets")
    before = srv.counter("TcpEstabResets")
    return srv, lambda: lab.proof(srv.counter("TcpEstabResets") > before + 50, "EstabResets went on growing")


@fault("listener", Cause(r"read", {"unread"}, ["worker-hung", ":8091"]), modes=("once", "watch 2"))
def server_accepts_and_reads_nothing(lab):
    """The server accepts, but its workers hang: requests stay unread for twelve seconds."""
    srv, cli = lab.pair()
    srv.start("serve", comm="worker-hung", port=8091, on="hold")
    clients(lab, cli, srv.addr, 8091, 10)
    lab.until(lambda: len([1 for line in srv.ss("-tn", "sport = :8091") if int(line.split()[1]) > 0]) == 10, "ss: 10 with unread data")
    lab.pause(12)
    return srv


@fault("listener", Cause(r"read|stopped", {"unread"}, ["frozen", ":8092"]), modes=("once", "watch 2"), effects={"accept-queue"})
def server_frozen_with_connections(lab):
    """A server got SIGSTOP with 20 connections open; their requests are unread for twelve seconds."""
    srv, cli = lab.pair()
    server = srv.start("serve", comm="frozen", port=8092)
    load = cli.start("hold", comm="client", dst=srv.addr, port=8092, n=20)
    lab.until(lambda: srv.waiting(8092) == 0, "ss: all are accepted")
    server.stop()
    load.send("send")
    load.receive()
    lab.until(lambda: len([1 for line in srv.ss("-tn", "sport = :8092") if int(line.split()[1]) > 0]) == 20, "ss: 20 with unread data")
    lab.pause(12)
    return srv


@fault("syn queue", Cause(r"syn|half.open", {"syn-queue"}, ()), modes=("once", "watch 2"), effects={"counters", "listener-drops"},
       never={"accept-queue"})
def syn_backlog_sysctl_small(lab):
    """tcp_max_syn_backlog is 32 and syncookies are off: with 24 half-open connections, further SYNs vanish, though the backlog is 512."""
    srv, cli = lab.pair()
    srv.sysctl(ipv4__tcp_syncookies=0, ipv4__tcp_max_syn_backlog=32)
    spoofed(lab, srv, cli)
    srv.start("serve", comm="shop", port=8088, backlog=512)
    cli.start("raw_segments", comm="flood", dst=srv.addr, port=8088, src="198.51.100.%d", sources=[1, 250], rate=200)
    lab.until(lambda: srv.counter("TcpExtListenDrops") > 50, "nstat: ListenDrops")
    lab.proof(20 <= len(srv.ss("-tn", "state", "syn-recv")) < 40, "ss: fewer than 40 in SYN-RECV")
    return srv


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["hung-svc", ":8093"]), modes=("watch 2",), effects={"unread"}, never={"close-wait"})
def listener_clients_gave_up(lab):
    """Nothing accepts; twelve clients sent requests, waited and closed: the waiting connections are in CLOSE-WAIT, and no program leaks."""
    srv, cli = lab.pair()
    srv.start("stuck_listener", comm="hung-svc", port=8093, backlog=200)
    load = clients(lab, cli, srv.addr, 8093, 12)
    lab.until(lambda: srv.waiting(8093) == 12, "ss: 12 wait")
    load.send("send")
    load.receive()
    load.send("close")
    load.receive()
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) == 12, "ss: 12 in CLOSE-WAIT")
    lab.pause(5)
    return srv, lambda: lab.proof(srv.waiting(8093) == 12, "they still wait")


@fault("listener", Cause(NOT_ACCEPTED, QUEUE, ["sidecar", ":15001"]), modes=("once", "watch 2"), never={"peer-silent"},
       effects={"unread", "connect-unanswered", "listener-drops", "counters"})
def listener_stuck_local_clients(lab):
    """Clients and the stuck server are on the same host: the listener is the cause, the unanswered connects its effect."""
    srv = lab.host("srv")
    srv.start("stuck_listener", comm="sidecar", port=15001, backlog=8, bind="127.0.0.1")
    clients(lab, srv, "127.0.0.1", 15001, 20)
    lab.until(lambda: srv.waiting(15001) == 9, "ss: 9 wait, more than the backlog")
    lab.until(lambda: len(srv.ss("-tn", "state", "syn-sent")) >= 8, "ss: the others are in SYN-SENT")
    lab.pause(8)
    return srv


@fault("listener", Cause(r"accept", QUEUE, ["php-fpm"]), modes=("once", "watch 3"))
def listener_unix_hangs(lab):
    """A UNIX listener with a backlog of 64 accepts nothing; three clients wait."""
    srv, _cli = lab.pair()
    srv.start("unix_stuck", comm="php-fpm", path="\0php-fpm.sock", backlog=64)
    srv.start("unix_clients", comm="nginx", path="\0php-fpm.sock", n=3)
    lab.pause(1)
    return srv


@fault("listener", Cause(r"accept", QUEUE, ["slow-app", ":8080"]), modes=("watch 2", "watch 3"), effects={"unread"})
def listener_slow_for_its_clients(lab):
    """The server accepts two a second, and sixty clients wait: each for many seconds."""
    srv, cli = lab.pair()
    srv.start("serve", comm="slow-app", port=8080, backlog=128, accept_pause=0.5)
    clients(lab, cli, srv.addr, 8080, 60, payload=None)
    lab.until(lambda: srv.waiting(8080) > 30, "ss: more than 30 wait")
    lab.pause(12)
    return srv, lambda: lab.proof(0 < srv.waiting(8080), "some still wait")
