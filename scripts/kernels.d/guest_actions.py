"""Checks of what changes a host: keepalive, kill, ns; and of captures."""

import contextlib
import json
import os
import socket
import time

from guest import Absent, check, command, document, require, sockeye
from guest_world import Process, tcp_pair


def sockets(port):
    """What ss lists of the clients of a port, with timers."""
    return command(f"ss -tnoH state established dport = :{port}", status=0).lines()


@check("keepalive set, list, unset", since=(5, 6), core=True)
def _():
    with Process("lab-idle", lambda _: tcp_pair("127.0.0.1", 8200, count=3)):
        require(not any("keepalive" in line for line in sockets(8200)), "keepalive is on before")
        done = sockeye("keepalive set dport = :8200 --time 77s --yes")
        require(done.status == 0, done.words())
        lines = sockets(8200)
        require(len(lines) == 3 and all("timer:(keepalive,1min" in line for line in lines), f"ss shows {lines}")
        listed = document("keepalive list -n dport = :8200 --format json", status=0)
        require("77" in json.dumps(listed), f"the list does not show it: {json.dumps(listed)[:200]}")
        done = sockeye("keepalive unset dport = :8200 --yes")
        require(done.status == 0 and not any("keepalive" in line for line in sockets(8200)), done.words())


@check("keepalive run", since=(5, 8))
def _():
    program = ("import socket,sys\ns=socket.create_server(('127.0.0.1',8201))\nc=socket.create_connection(('127.0.0.1',8201))\n"
               "a=s.accept()[0]\nprint(c.getsockopt(1,9),c.getsockopt(6,4))")
    done = sockeye(["keepalive", "run", "--time", "55s", "--", "python3", "-c", program])
    if done.status != 0 and not done.out:
        raise Absent(" ".join(done.err.split())[:300])
    require(done.out.split() == ["1", "55"], f"the program sees {done.out!r} {done.err[:200]}")


@check("keepalive attach, to a cgroup", since=(5, 8))
def _():
    group = "/sys/fs/cgroup/lab"
    os.makedirs(group, exist_ok=True)
    done = sockeye("keepalive attach /sys/fs/cgroup/lab --time 44s --yes")
    if done.status == 2:
        done = sockeye("keepalive attach /sys/fs/cgroup/lab --time 44s")
    if done.status != 0:
        os.rmdir(group)
        raise Absent(" ".join(done.err.split())[:300])

    def connect(_ready):
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        return tcp_pair("127.0.0.1", 8202)

    try:
        with Process("lab-group", connect):
            lines = sockets(8202)
            require(len(lines) == 1 and "keepalive" in lines[0], f"ss shows {lines}")
    finally:
        detached = sockeye("keepalive detach /sys/fs/cgroup/lab")
        with contextlib.suppress(OSError):
            os.rmdir(group)
    require(detached.status == 0, detached.words())


@check("kill: TCP", core=True)
def _():
    with Process("lab-victim", lambda _: tcp_pair("127.0.0.1", 8300, count=3)):
        require(len(sockets(8300)) == 3, "the sockets are not there")
        done = sockeye("kill dport = :8300 --yes")
        require(done.status == 0, done.words())
        require(not sockets(8300), f"still there: {sockets(8300)}")


@check("kill: UDP", since=(4, 10))
def _():
    def connected(_ready):
        each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        each.connect(("127.0.0.1", 8301))
        return each

    with Process("lab-victim", connected):
        done = sockeye("kill -u dport = :8301 --yes")
        require(done.status == 0, done.words())
        left = command("ss -unH state established dport = :8301", status=0).lines()
        require(not left, f"still there: {left}")


@check("ns: add, list, exec, pids, identify, del", core=True)
def _():
    def names():
        return {line.split()[0] for line in command("ip netns list", status=0).lines()}

    before = names()
    require(sockeye("ns add --prefix many --count 5").status == 0, "ns add failed")
    made = names() - before
    require(made == {f"many{number}" for number in range(5)}, f"made {made}")
    try:
        require(set(sockeye("ns list -1", status=0).lines()) == names(), "ns list -1 differs from ip netns list")
        inside = sockeye("ns exec many3 readlink /proc/self/ns/net", status=0).out.strip()
        require(inside == f"net:[{os.stat('/run/netns/many3').st_ino}]", f"exec ran in {inside}")
        with Process("lab-inside", lambda _: [1], netns="many2") as process:
            require(sockeye("ns pids many2", status=0).out.split() == [str(process.pid)], "ns pids")
            require(sockeye(f"ns identify {process.pid}", status=0).out.split() == ["many2"], "ns identify")
    finally:
        done = sockeye("ns del --prefix many --yes")
        if done.status != 0:
            command("sh -c 'for n in 0 1 2 3 4; do ip netns del many$n; done'")
    require(done.status == 0 and names() == before, f"ns del: {done.words()}; left {names() - before}")


@check("capture and analyze", core=True)
def _():
    path = "/tmp/lo.pcapng"

    def talk(ready):
        ready()
        while True:
            listener, client, server = tcp_pair("127.0.0.1", 8400)
            client.sendall(b"q" * 20000)
            time.sleep(0.2)
            for each in (client, server, listener):
                each.close()

    with Process("lab-talk", talk):
        done = sockeye(f"capture -i lo -d 4 -o {path} tcp port 8400")
    require(done.status == 0, done.words())
    report = document(f"analyze {path} --format json")
    require(report["connections"], "no connection in the capture")
    return f"{os.path.getsize(path)} bytes, {len(report['connections'])} connections"


@check("drop-ins by their names", core=True)
def _():
    for name in ("ss", "netstat", "lstf"):
        link = f"/tmp/{name}"
        with contextlib.suppress(FileExistsError):
            os.symlink("/usr/bin/sockeye", link)
        done = command([link, "-n"])
        require(done.status == 0 and done.lines(), done.words())
