"""What could not be looked at is part of the answer; and looks into several namespaces at once."""

from expect import Cause, fault, healthy, statement
from programs import LINE

REQUEST = LINE.decode()
# BPF would also see the namespaces of the machine around the case.
ALL = ("--netns", "all", "--source", "diag")
INCOMPLETE = r"could not|not (be )?(judged|checked|read|looked)|incomplete|without (the )?rights?|unreadable|no permission|rights"


def hidden_fault(lab):
    """A host on which a process of root has used up its descriptors."""
    srv, cli = lab.pair()
    held = srv.start("open_descriptors", comm="upload-svc", n=500, limit=256)
    lab.proof(held.value["held"] > 240, f"held: {held.value}")
    srv.start("serve", comm="nginx", port=80)
    cli.start("hold", comm="client", dst=srv.addr, port=80, n=5, payload=REQUEST)
    return srv


@statement("coverage", INCOMPLETE, uid=65534, modes=("once", "watch 2"))
def unprivileged_says_what_was_not_judged(lab):
    """A user without rights asks, and the fault is in a process of root: the answer on stdout says what could not be judged."""
    return hidden_fault(lab)


@statement("coverage", INCOMPLETE, fails=True, uid=65534, filter=("--fail-on", "warning"))
def unprivileged_fails_in_a_script(lab):
    """The same with --fail-on warning: a script must not take the half look for a clean one."""
    return hidden_fault(lab)


@statement("coverage", INCOMPLETE, uid=65534, filter=ALL, apart=False)
def unprivileged_all_namespaces(lab):
    """A user without rights asks for all network namespaces, none of which but his own can be entered."""
    srv, _cli = lab.pair()
    other, peer = lab.pair("other", "peer")
    other.start("stuck_listener", comm="tiny-app", port=7000, backlog=4)
    peer.start("hold", comm="client", dst=other.addr, port=7000, n=20, blocking=False)
    lab.until(lambda: other.waiting(7000) == 5, "ss: 5 wait, more than the backlog")
    return srv


@fault("coverage", Cause(r"accept", {"accept-queue"}, ["tiny-app", ":7000"]), modes=("once", "watch 2"), filter=ALL, apart=False,
       effects={"listener-drops", "unread", "counters", "connect-unanswered"})
def stuck_listener_of_another_namespace(lab):
    """With --netns all, from another host's namespace: a stuck listener in a container."""
    srv, _cli = lab.pair()
    other, peer = lab.pair("other", "peer")
    other.start("stuck_listener", comm="tiny-app", port=7000, backlog=4)
    peer.start("hold", comm="client", dst=other.addr, port=7000, n=20, blocking=False)
    lab.until(lambda: other.waiting(7000) == 5, "ss: 5 wait, more than the backlog")
    lab.pause(4)
    return srv


@fault("coverage", Cause(r"descriptor|open files", {"open-files"}, ["upload-svc"]), filter=ALL, apart=False)
def descriptors_with_all_namespaces(lab):
    """With --netns all and six namespaces: one process has no descriptors left; it is one finding."""
    srv, cli = lab.pair()
    for number in range(2):
        other, peer = lab.pair(f"other{number}", f"peer{number}")
        other.start("serve", comm="nginx", port=80)
        peer.start("hold", comm="client", dst=other.addr, port=80, n=5, payload=REQUEST)
    cli.start("serve", comm="api", port=80)
    held = srv.start("hold", comm="upload-svc", dst=cli.addr, port=80, n=250, limit=256, payload=REQUEST, answer=True)
    lab.proof(held.value["open"] > 245, f"open: {held.value}")
    return srv


@fault("coverage", Cause(r"carrier|link is down|cable", {"no-carrier"}, ["eth0"]), filter=ALL, apart=False, modes=("once",),
       never={"peer-silent", "zero-window", "device-drops"}, effects={"send-stuck", "retransmissions", "counters"})
def no_carrier_of_another_namespace(lab):
    """With --netns all: a container whose device has lost its carrier, with a transfer under way."""
    srv, _cli = lab.pair()
    other, peer = lab.pair("other", "peer")
    peer.start("serve", comm="sink", port=5000, on="sink")
    other.start("send_bulk", comm="backup", dst=peer.addr, port=5000, chunk=20000, pause=0.02)
    lab.until(lambda: other.counter("TcpOutSegs") > 20, "data flows before the fault")
    peer.ip("link", "set", "eth0", "down")
    # The peer's end is set down, which is no fault of the other end's program.
    lab.until(lambda: "NO-CARRIER" in other.ip("link", "show", "eth0"), "ip link: NO-CARRIER")
    lab.pause(6)
    return srv


@healthy("healthy", apart=False)
def healthy_all_namespaces_busy(lab):
    """Three pairs of healthy busy hosts see each other's processes; one of them is looked at."""
    srv, cli = lab.pair()
    pairs = [(srv, cli)] + [lab.pair(f"other{n}", f"peer{n}") for n in range(2)]
    for a, b in pairs:
        a.start("serve", comm="nginx", port=80, on="close")
        b.start("short_connections", comm="wrk", dst=a.addr, port=80, rate=50, threads=4)
    lab.until(lambda: srv.counter("TcpPassiveOpens") > 50, "nstat: PassiveOpens")
    return srv
