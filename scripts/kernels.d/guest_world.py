"""Sockets of every protocol, owned by processes with names of their own, in this namespace and in others."""

import contextlib
import ctypes
import os
import signal
import socket

from guest import command

IPPROTO_MPTCP, IPPROTO_UDPLITE = 262, 136
NETNS = ("web1", "web2", "web3")


class Process:
    """A child with a name that runs a function, reports when it is ready, and then holds what it has until it is ended."""

    def __init__(self, name, function, netns=None):
        self.name = name
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            try:
                self._child(name, function, netns, write)
            except BaseException as error:
                os.write(write, f"!{error!r}".encode())
            os._exit(1)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            self.said = pipe.readline().decode().strip()
        if self.said.startswith("!") or not self.said:
            self.end()
            raise RuntimeError(f"{name}: {self.said}")

    @staticmethod
    def _child(name, function, netns, write):
        # Ends with the checks, however they end.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if netns:
            with open(f"/run/netns/{netns}") as file:
                os.setns(file.fileno(), 0x40000000)
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)
        held = function(lambda: os.write(write, b"ready\n"))
        # A function that runs for ever reports by itself. Others return what is to stay open.
        os.write(write, b"ready\n")
        while held:
            signal.pause()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def tcp_pair(address, port=0, family=socket.AF_INET, protocol=0, count=1):
    """A listener and connections to it: [listener, client, server, ...]."""
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(64)
    held = [listener]
    for _ in range(count):
        client = socket.socket(family, socket.SOCK_STREAM, protocol)
        client.connect(listener.getsockname()[:2])
        held += [client, listener.accept()[0]]
    return held


def web(_ready):
    held = tcp_pair("127.0.0.1", 8080, count=5) + tcp_pair("::1", 8081, socket.AF_INET6, count=2)
    # One with data that the server does not read, one with keepalive, one that the server has closed, one in TIME_WAIT.
    held[1].send(b"x" * 1000)
    held[3].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    held[6].close()
    held[8].close()
    held[7].close()
    return held


def datagrams(_ready):
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", 5353))
    connected = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connected.connect(("127.0.0.1", 5353))
    connected.send(b"y" * 100)
    other = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    other.bind(("::1", 5354))
    held = [bound, connected, other]
    with contextlib.suppress(OSError):
        lite = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, IPPROTO_UDPLITE)
        lite.bind(("127.0.0.1", 5355))
        held.append(lite)
    return held


def local(_ready):
    held = []
    for kind, name in ((socket.SOCK_STREAM, "/tmp/stream"), (socket.SOCK_STREAM, "\0abstract"), (socket.SOCK_SEQPACKET, "/tmp/seq")):
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(name)
        listener.listen(5)
        client = socket.socket(socket.AF_UNIX, kind)
        client.connect(name)
        held += [listener, client, listener.accept()[0]]
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagram.bind("/tmp/datagram")
    return held + [datagram, *socket.socketpair()]


def raw(_ready):
    return [
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)),
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x800)),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4),
    ]


def mptcp(_ready):
    return tcp_pair("127.0.0.1", 8090, protocol=IPPROTO_MPTCP, count=2)


def in_netns(_ready):
    return tcp_pair("127.0.0.1", 9000, count=3)


class World:
    """All of it, once for all checks of listings."""

    def __init__(self):
        self.processes = []
        self.mptcp_error = None
        for name, function in (("lab-web", web), ("lab-udp", datagrams), ("lab-unix", local), ("lab-raw", raw)):
            self.processes.append(Process(name, function))
        try:
            self.processes.append(Process("lab-mptcp", mptcp))
        except RuntimeError as error:
            self.mptcp_error = str(error)
        for name in NETNS:
            command(f"ip netns add {name}", status=0)
            command(f"ip -n {name} link set lo up", status=0)
            self.processes.append(Process(f"lab-{name}", in_netns, netns=name))

    _shared = _error = None

    @classmethod
    def shared(cls):
        if cls._error:
            raise RuntimeError(cls._error)
        if cls._shared is None:
            try:
                cls._shared = cls()
            except (OSError, RuntimeError) as error:
                cls._error = str(error)
                raise
        return cls._shared
