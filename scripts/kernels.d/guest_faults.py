"""Checks of `sockeye check`: faults made with what many build machines lack (bonds, netem, conntrack, qdiscs), and healthy hosts."""

import contextlib
import os
import socket
import time

from guest import check, command, document, module, require, wait_until
from guest_world import Process, tcp_pair


@contextlib.contextmanager
def namespaces(*names):
    """Namespaces with these names, for a while."""
    try:
        for name in names:
            command(f"ip netns add {name}", status=0)
            command(f"ip -n {name} link set lo up", status=0)
        yield
    finally:
        for name in names:
            command(f"ip netns del {name}")


def rules(netns, extra="", timeout=100):
    """The rules that have findings in a namespace: {rule: finding}."""
    found = document(f"check -n --severity notice -N {netns} {extra} --format json", timeout=timeout)
    return {finding["rule"]: finding for finding in found["findings"]}


def finds(netns, rule, extra=""):
    found = rules(netns, extra)
    require(rule in found, f"no finding {rule}, but {sorted(found)}")
    return f"found; also {sorted(set(found) - {rule})}" if len(found) > 1 else "found"


def wire(left, right):
    """A veth pair between two namespaces: 10.5.0.1 and 10.5.0.2 at v0."""
    module("veth")
    command(f"ip -n {left} link add v0 type veth peer name v0 netns {right}", status=0)
    for netns, address in ((left, "10.5.0.1"), (right, "10.5.0.2")):
        command(f"ip -n {netns} addr add {address}/24 dev v0", status=0)
        command(f"ip -n {netns} link set v0 up", status=0)


def in_netns(netns, function):
    """Calls the function in a namespace and returns what it returns: sockets stay where they were made."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        os.setns(there, 0x40000000)
        return function()
    finally:
        os.setns(own, 0x40000000)
        os.close(own)
        os.close(there)


def connection(left, right, address="10.5.0.2"):
    """A connection from `left` to `right`: (client, server)."""
    listener = in_netns(right, lambda: socket.create_server((address, 7000)))
    client = in_netns(left, lambda: socket.create_connection((address, 7000), timeout=30))
    server, _ = listener.accept()
    listener.close()
    return client, server


def transfer(client, server, size, seconds=20):
    """Sends this many bytes, or for so long; returns how many arrived."""
    client.setblocking(False)
    server.setblocking(False)
    end, sent, arrived = time.monotonic() + seconds, 0, 0
    while arrived < size and time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            if sent < size:
                sent += client.send(b"z" * min(65536, size - sent))
        try:
            arrived += len(server.recv(1 << 20))
        except BlockingIOError:
            time.sleep(0.01)
    return arrived


@check("check: a healthy host has no finding", core=True)
def _():
    with namespaces("healthy"), Process("lab-web", lambda _: tcp_pair("127.0.0.1", 80, count=3), netns="healthy"):
        found = rules("healthy")
        # The command looked: it saw the sockets.
        seen = document("check -n -N healthy --format json")["checked"]
        require(not found, f"{ {rule: each.get('text') for rule, each in found.items()} }")
        require(seen.get("sockets", 0) >= 7, f"checked {seen}")
        return f"{seen['sockets']} sockets"


@check("check: full accept queue", core=True)
def _():
    def overflow(_ready):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 81))
        listener.listen(2)
        clients = [socket.socket() for _ in range(5)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", 81))
        return [listener, clients]

    with namespaces("queue"), Process("lab-slow", overflow, netns="queue"):
        time.sleep(3)
        return finds("queue", "accept-queue")


@check("check: bond with a dead port", since=(4, 0))
def _():
    module("bonding")
    module("veth")
    with namespaces("bond"):
        for text in ("link add bond0 type bond mode active-backup miimon 100", "link add a0 type veth peer name a1",
                     "link add b0 type veth peer name b1", "link set a0 master bond0", "link set b0 master bond0",
                     "link set bond0 up", "link set a1 up", "link set b1 up"):
            command(f"ip -n bond {text}", status=0)

        def is_up(name):
            return "MII Status: up" in command(f"grep -A1 Interface:.{name} /proc/net/bonding/bond0", netns="bond").out

        wait_until("both ports of the bond", lambda: is_up("a0") and is_up("b0"))
        found = rules("bond", "--skip no-carrier")
        require("bond-port-down" not in found, "a finding before the fault")
        command("ip -n bond link set b1 down", status=0)
        wait_until("the bond to notice", lambda: not is_up("b0"))
        return finds("bond", "bond-port-down")


@check("check: bond without monitoring", since=(4, 0))
def _():
    module("bonding")
    with namespaces("bond"):
        command("ip -n bond link add bond0 type bond mode active-backup miimon 0", status=0)
        command("ip -n bond link set bond0 up", status=0)
        return finds("bond", "bond-unmonitored")


@check("check: half duplex", since=(4, 16))
def _():
    module("virtio_pci")
    module("virtio_net")
    wait_until("the network device", lambda: os.path.exists("/sys/class/net/eth0"))
    with namespaces("duplex"):
        command("ip link set eth0 netns duplex", status=0)
        command("ip -n duplex link set eth0 up", status=0)
        return finds("duplex", "half-duplex")


@check("check: netem loss", since=(4, 0))
def _():
    module("sch_netem")
    # What the own qdisc drops would be another finding: the loss is on a router's other side.
    with namespaces("left", "router", "right"):
        module("veth")
        for netns, side, address in (("left", 1, "10.5.1.1"), ("right", 2, "10.5.2.1")):
            command(f"ip -n {netns} link add v0 type veth peer name v{side} netns router", status=0)
            command(f"ip -n {netns} addr add {address}/24 dev v0", status=0)
            command(f"ip -n {netns} link set v0 up", status=0)
            command(f"ip -n router addr add 10.5.{side}.2/24 dev v{side}", status=0)
            command(f"ip -n router link set v{side} up", status=0)
            command(f"ip -n {netns} route add default via 10.5.{side}.2", status=0)
        command(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], netns="router", status=0)
        client, server = connection("left", "right", "10.5.2.1")
        transfer(client, server, 200_000)
        require("retransmissions" not in rules("left"), "a finding before the fault")
        command("tc -n router qdisc add dev v2 root netem loss 15%", status=0)
        transfer(client, server, 3_000_000, seconds=30)
        answer = finds("left", "retransmissions")
        client.close(), server.close()
        return answer


@check("check: netem delay", since=(4, 0))
def _():
    module("sch_netem")
    with namespaces("left", "right"):
        wire("left", "right")
        client, server = connection("left", "right")
        transfer(client, server, 200_000)
        require("rtt-inflation" not in rules("left"), "a finding before the fault")
        command("tc -n left qdisc add dev v0 root netem delay 400ms", status=0)
        for _ in range(12):
            transfer(client, server, 500, seconds=10)
        # Data must be on its way: the rule judges connections that send.
        with Process("lab-sender", lambda ready: keep_sending(client, server, ready)):
            answer = finds("left", "rtt-inflation")
        client.close(), server.close()
        return answer


def keep_sending(client, server, ready):
    ready()
    client.setblocking(True)
    server.setblocking(True)
    while True:
        client.sendall(b"z" * 3000)
        server.recv(65536)


@check("check: drops of a qdisc", since=(4, 0))
def _():
    module("sch_tbf")
    with namespaces("left", "right"):
        wire("left", "right")
        command("tc -n left qdisc add dev v0 root tbf rate 200kbit burst 2000 limit 3000", status=0)
        sender = in_netns("left", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for _ in range(200):
            sender.sendto(b"d" * 1000, ("10.5.0.2", 9))
        sender.close()
        return finds("left", "qdisc-drops")


@check("check: backlog of a qdisc", since=(4, 0))
def _():
    module("sch_tbf")
    with namespaces("left", "right"):
        wire("left", "right")
        command("tc -n left qdisc add dev v0 root tbf rate 8kbit burst 2000 limit 10000000", status=0)
        sender = in_netns("left", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.setsockopt(socket.SOL_SOCKET, 32, 8_000_000)
        for _ in range(800):
            sender.sendto(b"d" * 1000, ("10.5.0.2", 9))
        answer = finds("left", "qdisc-backlog")
        sender.close()
        return answer


@check("check: full conntrack table", since=(4, 17))
def _():
    module("nf_conntrack")
    module("nft_ct")
    path = "/proc/sys/net/netfilter/nf_conntrack_max"
    with open(path) as file:
        before = file.read()
    with namespaces("ct"):
        command("nft add table ip t", netns="ct", status=0)
        command(["nft", "add chain ip t c { type filter hook input priority 0; }"], netns="ct", status=0)
        command("nft add rule ip t c ct state new accept", netns="ct", status=0)
        with Process("lab-web", lambda _: tcp_pair("127.0.0.1", 80, count=20), netns="ct"):
            require("conntrack" not in rules("ct"), "a finding before the fault")
            try:
                # The limit is one for all namespaces.
                with open(path, "w") as file:
                    file.write("20")
                return finds("ct", "conntrack")
            finally:
                with open(path, "w") as file:
                    file.write(before)


@check("check: two samples see what changes (-w)")
def _():
    with namespaces("watched"), Process("lab-web", lambda _: tcp_pair("127.0.0.1", 80, count=3), netns="watched"):
        found = document("check -n -N watched -w 2 -c 1 --format json")
        require(found["checked"].get("sockets", 0) >= 7, f"checked {found['checked']}")
