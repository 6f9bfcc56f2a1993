"""Healthy hosts that look suspicious."""

from expect import healthy
from programs import LINE

REQUEST = LINE.decode()


@healthy("healthy")
def healthy_busy_web(lab):
    """A web server with 200 short connections a second; the server closes first."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close")
    load = cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=200, threads=8)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 200, "nstat: PassiveOpens")

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["ok"] > 300 and count["refused"] == 0, f"every request was answered: {count}")
    return srv, after


@healthy("healthy", never={"close-wait", "fin-wait2"})
def healthy_half_close(lab):
    """Clients end their sending side after the request; the handlers work for three seconds and answer."""
    srv, cli = lab.pair()
    srv.start("serve", comm="report-gen", port=8000, on="late", delay=3.0)
    cli.start("half_closers", comm="client", dst=srv.addr, port=8000, rate=10)
    lab.until(lambda: len(srv.ss("-tn", "state", "close-wait")) > 20, "ss: more than 20 in CLOSE-WAIT at a time", 15)
    lab.pause(3)
    return srv


@healthy("healthy")
def healthy_idle_pool(lab):
    """500 idle keep-alive connections."""
    srv, cli = lab.pair()
    srv.start("serve", comm="api", port=8000)
    cli.start("hold", comm="pool", dst=srv.addr, port=8000, n=500, payload=REQUEST)
    lab.until(lambda: len(srv.ss("-tn", "state", "established")) >= 500, "ss: 500 established")
    return srv


@healthy("healthy")
def healthy_long_polls(lab):
    """Sixty clients wait half a minute for an answer, as chats and watches do."""
    srv, cli = lab.pair()
    srv.start("serve", comm="chat", port=8000, on="poll", delay=30.0)
    cli.start("hold", comm="browser", dst=srv.addr, port=8000, n=60, payload=REQUEST)
    lab.pause(5)
    return srv


@healthy("healthy")
def healthy_database_pool(lab):
    """A pool of 30 connections to a database: one query at a time, most of them idle. The host is the client's."""
    srv, cli = lab.pair()
    cli.start("serve", comm="postgres", port=5432)
    srv.start("keep_alive", comm="app", dst=cli.addr, port=5432, n=30, every=0.05)
    lab.until(lambda: srv.counter("TcpOutSegs") > 100, "queries run")
    lab.pause(4)
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_bursts(lab):
    """Three hundred clients connect at once, every second; the backlog of 512 holds them for the moment that accepting takes."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, backlog=512, on="close", accept_pause=0.0005)
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=300, threads=300)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 300, "nstat: PassiveOpens")

    def after():
        lab.proof(srv.counter("TcpExtListenOverflows") == 0, "no overflow happened")
    return srv, after


@healthy("healthy", modes=("once", "watch 5"), never={"cwnd-floor", "receiver-limited", "pacing-floor"})
def healthy_loopback_transfer(lab):
    """A file transfer over loopback at full speed."""
    srv = lab.host("srv")
    srv.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="copy", dst="127.0.0.1", port=5000)
    lab.until(lambda: srv.counter("TcpOutSegs") > 2000, "data flows")
    lab.pause(3)
    return srv


@healthy("healthy", modes=("once", "watch 5"), never={"cwnd-floor", "pacing-floor"})
def healthy_transfer_with_pacing(lab):
    """A transfer with BBR over a clean path of 20 ms and 1.2 MB/s; from time to time BBR probes with a small window."""
    srv, cli = lab.wired(delay=0.01, rate=1_200_000, queue=400)
    srv.sysctl(ipv4__tcp_congestion_control="bbr")
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="backup", dst=cli.addr, port=5000)
    lab.pause(8)
    lab.proof(any("bbr" in line for line in srv.ss("-tni", "dport = :5000")), "ss: bbr")
    return srv


@healthy("healthy", modes=("once", "watch 2"), never={"device-drops", "device-errors"})
def healthy_unhandled_protocols(lab):
    """A switch sends LLDP, STP and loop frames; no program handles them, and the device counts them as dropped."""
    srv, cli = lab.pair()
    cli.start("raw_frames", comm="switch", device="eth0", ethertypes=[0x88CC, 0x26, 0x9000], rate=100)
    lab.until(lambda: srv.device("eth0", "rx_packets") > 100, "ip -s link: frames arrive")
    lab.pause(2)
    return srv


@healthy("healthy")
def healthy_just_started(lab):
    """A host that has just started: an address, an idle listener, nothing else."""
    srv, cli = lab.pair()
    srv.start("serve", comm="sshd", port=22)
    return srv


@healthy("healthy", never={"close-wait", "fin-wait2"})
def healthy_graceful_shutdown(lab):
    """A server that shuts down: it listens no more and has just closed 100 connections, whose clients close a moment later."""
    srv, cli = lab.pair()
    server = srv.start("serve", comm="app", port=8000, on="hold")
    clients = cli.start("hold", comm="client", dst=srv.addr, port=8000, n=100)
    lab.until(lambda: srv.waiting(8000) == 0, "ss: all are accepted")
    server.send("unlisten")
    lab.pause(0.5)
    server.send("close")
    lab.until(lambda: len(srv.ss("-tan", "state", "fin-wait-2")) == 100, "ss: 100 in FIN-WAIT-2")
    return srv


@healthy("healthy")
def healthy_idle_sessions(lab):
    """SSH-like sessions with keepalive, idle, and one that types."""
    srv, cli = lab.pair()
    srv.start("serve", comm="sshd", port=22, child_options=[[1, 9, 1]])
    cli.start("hold", comm="ssh", dst=srv.addr, port=22, n=12, payload=REQUEST)
    cli.start("keep_alive", comm="ssh", dst=srv.addr, port=22, n=1, every=0.3)
    lab.pause(5)
    return srv


@healthy("healthy")
def healthy_multicast_receivers(lab):
    """Two receivers of a multicast group, 100 datagrams a second."""
    srv, cli = lab.pair()
    for _ in range(2):
        srv.start("udp_serve", comm="market-feed", port=5007, group=["239.1.1.1", srv.addr], answer=False)
    cli.start("udp_send", comm="exchange", dst="239.1.1.1", port=5007, rate=100, multicast=cli.addr)
    lab.until(lambda: srv.counter("UdpInDatagrams") > 50, "datagrams arrive")
    return srv


@healthy("healthy", uid=65534)
def healthy_unprivileged(lab):
    """A user without rights looks at a busy healthy host."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 50, "nstat: PassiveOpens")
    return srv


@healthy("healthy", apart=False, never={"open-files"})
def healthy_containers_of_others(lab):
    """Processes of other network namespaces are visible and hold hundreds of sockets that are in no table of ours."""
    srv, cli = lab.pair()
    other, peer = lab.pair("other", "peer")
    other.start("serve", comm="container-app", port=80, limit=1024)
    peer.start("hold", comm="container-client", dst=other.addr, port=80, n=400, payload=REQUEST)
    srv.start("serve", comm="nginx", port=80, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 50, "nstat: PassiveOpens")
    return srv


@healthy("healthy", never={"time-wait", "ephemeral-ports"})
def healthy_many_time_wait(lab):
    """A server that closes first has more than a thousand connections in TIME-WAIT, of a limit of 131072."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=600, threads=8)
    lab.until(lambda: len(srv.ss("-tan", "state", "time-wait")) > 1000, "ss: 1000 in TIME-WAIT", 20)
    return srv


@healthy("healthy", modes=("watch 2",), never={"listener-drops", "accept-queue", "counters"})
def healthy_fault_is_over(lab):
    """The listener overflowed earlier; the program works again, and the counters only remember."""
    srv, cli = lab.pair()
    server = srv.start("serve", comm="app", port=8000, backlog=4)
    server.stop()
    load = cli.start("hold", comm="crowd", dst=srv.addr, port=8000, n=60, payload=REQUEST, blocking=False)
    lab.until(lambda: srv.counter("TcpExtListenOverflows") > 20, "nstat: ListenOverflows")
    load.kill()
    server.signal(18)
    lab.pause(4)
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=8000, rate=20)
    lab.until(lambda: srv.waiting(8000) == 0, "ss: nothing waits any more")
    before = srv.counter("TcpExtListenOverflows")
    return srv, lambda: lab.proof(srv.counter("TcpExtListenOverflows") == before, "no overflow since")


@healthy("healthy")
def healthy_firewall_against_scans(lab):
    """A firewall drops scans of ports on which nothing listens; the service works."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close")
    srv.drop("input", "tcp dport 1000-2000")
    cli.start("short_connections", comm="scanner", dst=srv.addr, port=1433, rate=20, threads=20)
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.dropped("input") > 20, "nft: the rule counts packets")
    return srv


@healthy("healthy", allowed={"no-carrier"})
def healthy_unused_device(lab):
    """A second device is set down, a blackhole route for private networks exists, and a neighbour that does not exist was tried."""
    srv, cli = lab.pair()
    lab.link(srv, cli, names=("eth1", "eth1"), up=False)
    srv.ip("route", "add", "blackhole", "192.168.0.0/16")
    srv.start("udp_send", comm="discovery", dst="10.1.1.77", port=9, rate=2, count=3)
    srv.start("serve", comm="nginx", port=80, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: "10.1.1.77" in srv.ip("neigh", "show", "nud", "failed"), "ip neigh: one FAILED")
    return srv


@healthy("healthy")
def healthy_health_checks(lab):
    """A load balancer checks a port five times a second and ends each check with a reset."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80)
    cli.start("short_connections", comm="balancer", dst=srv.addr, port=80, rate=5, reset=True, payload=False)
    cli.start("keep_alive", comm="browser", dst=srv.addr, port=80, n=5, every=0.05)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 20, "nstat: PassiveOpens", 15)
    return srv


@healthy("healthy", modes=("once", "watch 5"), never={"zero-window", "send-stuck", "peer-silent"})
def healthy_video_player(lab):
    """A player reads 250 kB a second, and we fill its buffer: it limits the transfer by intention, and the window never closes for long."""
    srv, cli = lab.pair()
    srv.start("serve", comm="media", port=8000, on="source")
    cli.start("receive", comm="player", dst=srv.addr, port=8000, rate=250000)
    lab.pause(5)
    return srv


@healthy("healthy")
def healthy_syslog_bursts(lab):
    """Bursts of 50 datagrams to a receiver that reads them all."""
    srv, cli = lab.pair()
    srv.start("udp_serve", comm="rsyslogd", port=514, answer=False)
    cli.start("udp_send", comm="clients", dst=srv.addr, port=514, rate=200, burst=50)
    lab.until(lambda: srv.counter("UdpInDatagrams") > 200, "datagrams arrive")
    return srv, lambda: lab.proof(srv.counter("UdpRcvbufErrors") == 0, "none was dropped")


@healthy("healthy", never={"device-drops"})
def healthy_small_tunnel(lab):
    """A tunnel with a queue of 20 packets and a program that reads at once; light traffic."""
    srv = lab.host("srv")
    srv.start("tun", comm="vpn", device="tun0", address="10.8.0.1/24", queue=20)
    srv.start("udp_send", comm="app", dst="10.8.0.2", port=4000, rate=50)
    lab.until(lambda: srv.device("tun0", "tx_packets") > 50, "packets pass")
    return srv, lambda: lab.proof(srv.device("tun0", "tx_dropped") == 0, "none was dropped")


@healthy("healthy")
def healthy_many_files(lab):
    """A program holds half of its descriptors, all files, and another one thousands of a large limit."""
    srv, _cli = lab.pair()
    srv.start("open_descriptors", comm="indexer", n=500, limit=1024)
    srv.start("open_descriptors", comm="database", n=5000, limit=16384)
    return srv


@healthy("healthy")
def healthy_little_loss(lab):
    """A path that loses one segment in 2000, and a transfer that does not suffer from it."""
    srv, cli = lab.wired(delay=0.001, loss=0.0005, one_way=0)
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="replica", dst=cli.addr, port=5000, chunk=10000, pause=0.01)
    lab.until(lambda: srv.counter("TcpOutSegs") > 1000, "data flows", 30)
    return srv


@healthy("healthy", modes=("once", "watch 5"))
def healthy_paused_consumer(lab):
    """A consumer that pauses two seconds (garbage collection, a slow disk) and goes on; the window is closed for that time only."""
    srv, cli = lab.pair()
    srv.start("serve", comm="feed", port=7100, on="source")
    consumer = cli.start("receive", comm="consumer", dst=srv.addr, port=7100, rate=2_000_000)
    lab.pause(3)
    consumer.stop()
    lab.pause(2)
    return srv, lambda: consumer.signal(18)


@healthy("healthy", modes=("once", "watch 2"))
def healthy_shaper(lab):
    """A shaper of 4 Mbit/s with a queue that is long enough: it delays, drops nothing, and two transfers share it."""
    srv, cli = lab.pair()
    srv.tool("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "4mbit", "burst", "15kb", "limit", "5mb")
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="backup", dst=cli.addr, port=5000, n=2)
    lab.pause(4)
    return srv, lambda: lab.proof("dropped 0" in srv.tool("tc", "-s", "qdisc", "show", "dev", "eth0"), "tc -s: nothing was dropped")


@healthy("healthy")
def healthy_optional_service_refused(lab):
    """A program tries an optional local service every second, which is not installed, and goes on without it."""
    srv, cli = lab.pair()
    srv.start("short_connections", comm="app", dst="127.0.0.1", port=11211, rate=1)
    srv.start("serve", comm="nginx", port=80, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 100, "nstat: PassiveOpens")
    return srv


@healthy("healthy")
def healthy_resolver(lab):
    """A name server answers, and a program of this host asks it 100 times a second."""
    srv, cli = lab.pair()
    cli.start("udp_serve", comm="unbound", port=53)
    srv.start("udp_send", comm="crawler", dst=cli.addr, port=53, connect=True, rate=100, wait=1.0)
    lab.until(lambda: srv.counter("UdpInDatagrams") > 100, "answers arrive")
    return srv


@healthy("healthy")
def healthy_single_thread_answers_in_turn(lab):
    """A single-threaded server takes 100 ms for each of five clients: each waits in the queue for a moment, and all are served."""
    srv, cli = lab.pair()
    srv.start("serve", comm="wsgi", port=8000, backlog=128, on="close", accept_pause=0.1)
    load = cli.start("short_connections", comm="client", dst=srv.addr, port=8000, rate=8, threads=5)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 20, "nstat: PassiveOpens", 15)

    def after():
        load.send("report")
        count = load.receive()
        lab.proof(count["refused"] == 0, f"all are served: {count}")
    return srv, after


@healthy("healthy", modes=("once", "watch 2"))
def healthy_proxy(lab):
    """A proxy's pool: clients on one side, 40 idle upstream connections on the other, and half-closed requests in between."""
    srv, cli = lab.pair()
    cli.start("serve", comm="upstream", port=9000)
    srv.start("serve", comm="haproxy", port=80, on="late", delay=0.3)
    srv.start("keep_alive", comm="haproxy", dst=cli.addr, port=9000, n=40, every=0.02)
    cli.start("half_closers", comm="client", dst=srv.addr, port=80, rate=20)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 40, "nstat: PassiveOpens")
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_firewall_default_deny(lab):
    """A firewall with a policy of drop and connection tracking, as it should be; broadcast noise is dropped, the service works."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close")
    srv.nft("add table inet host\nadd chain inet host input { type filter hook input priority 0; policy drop; }\n"
            "add rule inet host input ct state established,related counter accept\nadd rule inet host input tcp dport 80 counter accept\n"
            "add rule inet host input meta l4proto { icmp, icmpv6 } accept\nadd rule inet host input iif lo accept\n"
            "add rule inet host input counter drop\n")
    cli.start("udp_send", comm="noise", dst=srv.addr, port=137, rate=20)
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 50, "nstat: PassiveOpens")
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_after_cable_was_pulled(lab):
    """The cable was pulled for three seconds and is back; the transfer goes on."""
    srv, cli = lab.pair()
    cli.start("serve", comm="sink", port=5000, on="sink")
    srv.start("send_bulk", comm="replica", dst=cli.addr, port=5000, chunk=10000, pause=0.01)
    lab.until(lambda: srv.counter("TcpOutSegs") > 100, "data flows")
    cli.ip("link", "set", "eth0", "down")
    lab.pause(3)
    cli.ip("link", "set", "eth0", "up")
    lab.until(lambda: all(int(line.split()[2]) < 100000 for line in srv.ss("-tn", "dport = :5000")), "ss: the send queue has drained", 15)
    lab.pause(2)
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_chat(lab):
    """Forty connections that send a little message now and then, in both directions (websockets)."""
    srv, cli = lab.pair()
    srv.start("serve", comm="chat", port=8000)
    cli.start("keep_alive", comm="browser", dst=srv.addr, port=8000, n=40, every=0.02)
    cli.start("hold", comm="browser", dst=srv.addr, port=8000, n=100, payload=REQUEST)
    lab.pause(5)
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_reuseport_workers(lab):
    """Four workers with a listener each on the same port, by SO_REUSEPORT, under load."""
    srv, cli = lab.pair()
    for _ in range(4):
        srv.start("serve", comm="worker", port=8000, backlog=64, reuseport=True, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=8000, rate=150, threads=8)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 150, "nstat: PassiveOpens")
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_stopped_without_clients(lab):
    """A batch job is suspended by its user (SIGSTOP); its listener has no client and its one connection is idle."""
    srv, cli = lab.pair()
    job = srv.start("serve", comm="notebook", port=8888)
    cli.start("hold", comm="browser", dst=srv.addr, port=8888, n=1)
    lab.until(lambda: srv.waiting(8888) == 0, "ss: accepted")
    job.stop()
    lab.pause(3)
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_slow_request_of_large_body(lab):
    """Clients upload at 50 kB a second over a clean path; the server waits for them, and answers when it has all."""
    srv, cli = lab.pair()
    srv.start("serve", comm="upload", port=8000, on="sink")
    cli.start("send_bulk", comm="phone", dst=srv.addr, port=8000, n=20, chunk=2500, pause=0.05)
    lab.pause(5)
    return srv


@healthy("healthy", modes=("once", "watch 2"))
def healthy_second_path(lab):
    """Two default routes; the preferred one works, the other's gateway does not exist, and nothing uses it."""
    srv, _router, cli = lab.routed()
    spare = lab.host("spare")
    lab.link(srv, spare, names=("eth1", "eth0"))
    srv.ip("route", "add", "default", "via", "10.1.3.77", "metric", "500")
    cli.start("serve", comm="api", port=80)
    srv.start("keep_alive", comm="app", dst=cli.addr, port=80, n=5, every=0.05)
    lab.until(lambda: srv.counter("TcpOutSegs") > 100, "requests run")
    return srv


@healthy("healthy", never={"accept-queue"}, modes=("once", "watch 1", "watch 2", "watch 3"))
def healthy_queue_that_moves(lab):
    """The server accepts twenty a second, and clients always wait for two seconds: its queue moves."""
    srv, cli = lab.pair()
    srv.start("serve", comm="busy", port=8080, backlog=256, accept_pause=0.05, on="close")
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=8080, rate=10000, threads=50)
    lab.until(lambda: srv.waiting(8080) > 30, "ss: more than 30 wait")
    lab.pause(3)
    return srv, lambda: lab.proof(srv.waiting(8080) > 20, "the queue is never empty")


@healthy("healthy", never={"listener-drops"})
def healthy_deferred_accept(lab):
    """A server with TCP_DEFER_ACCEPT: the kernel counts the bare acknowledgement of each handshake as a drop."""
    srv, cli = lab.pair()
    srv.start("serve", comm="nginx", port=80, on="close", options=[[6, 9, 5]])
    cli.start("short_connections", comm="wrk", dst=srv.addr, port=80, rate=200, threads=8)
    lab.until(lambda: srv.counter("TcpExtTCPDeferAcceptDrop") > 200, "nstat: TCPDeferAcceptDrop")
    return srv


@healthy("healthy")
def healthy_rule_against_leaks(lab):
    """A rule of our own drops packets that should not leave, as those of NetBIOS, while there is other traffic."""
    srv, cli = lab.pair()
    srv.nft("table inet g {\n chain o { type filter hook output priority 0; policy accept;\n  udp dport 137 drop\n }\n}\n")
    srv.start("serve", comm="nginx", port=80)
    cli.start("keep_alive", comm="client", dst=srv.addr, port=80)
    srv.start("udp_send", comm="samba", dst=cli.addr, port=137)
    lab.until(lambda: srv.counter("IpOutDiscards") > 100, "nstat: IpOutDiscards")
    return srv


@healthy("healthy", never={"neighbours"})
def healthy_permanent_neighbours_elsewhere(lab):
    """Another host's namespace has 1,100 permanent neighbours, which no limit counts."""
    srv, _cli = lab.pair()
    other, _peer = lab.pair("other", "peer")
    entries = "".join(f"neigh replace 10.1.2.{i % 250 + 2} lladdr 02:00:00:00:{i // 250:02x}:{i % 250:02x} dev eth0 nud permanent\n" if i < 250 else
                      f"neigh replace 10.2.{i // 250}.{i % 250 + 2} lladdr 02:00:00:00:{i // 250:02x}:{i % 250:02x} dev eth0 nud permanent\n"
                      for i in range(1100))
    other.tool("ip", "-batch", "-", text=entries)
    return srv
