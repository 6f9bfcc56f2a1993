#!/usr/bin/env python3
"""Makes sockets of many kinds in a private network namespace, and writes what the kernel says of them.

    sudo testdata/capture.py testdata/linux-X.Y

Needs root (a namespace, PACKET sockets), Python 3.11 and ip(8); asks the kernel by netlink itself. Nothing
outlives the process: the namespace goes with it, paths are bound in a temporary folder that is removed.

Written are the answers to sock_diag dumps as they were received (*.bin), copies of /proc/net files
(proc_*), and made.tsv: what this program made, in its own words, for the tests to compare with.
"""

import contextlib
import ctypes
import os
import pathlib
import platform
import socket
import struct
import subprocess
import sys
import tempfile
import time

NETLINK_SOCK_DIAG, TCPDIAG_GETSOCK, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP = 4, 18, 20, 0x301
ALL_STATES, ALL_EXTENSIONS = 0x3FFE, 0xFF
IPPROTO_UDPLITE, IPPROTO_MPTCP, TCP_CONGESTION = 136, 262, 13
ETH_P_ALL, ETH_P_IP = 3, 0x0800
CLONE_NEWNET = 0x40000000

kept = []  # every socket, so that none is closed before the dumps
made = []  # lines of made.tsv


def made_row(protocol, state, sock, local="-", peer="-", uid="0"):
    """Notes what was made. Without a socket: no file holds it any more."""
    inode = str(os.fstat(sock.fileno()).st_ino) if sock else "-"
    made.append("\t".join([protocol, state, inode, local, peer, uid]))


def keep(sock):
    kept.append(sock)
    return sock


def listener(family, address, protocol=0, **options):
    sock = keep(socket.socket(family, socket.SOCK_STREAM, protocol))
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, options.get("v6only", 0))
    if "congestion" in options:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, options["congestion"])
    sock.bind(address)
    sock.listen(options.get("backlog", 16))
    return sock


def connected(server, family, address, protocol=0):
    client = keep(socket.socket(family, socket.SOCK_STREAM, protocol))
    client.connect(address)
    return client, keep(server.accept()[0])


def text(name):
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def make_inet():
    plain = listener(socket.AF_INET, ("127.0.0.1", 8080), backlog=16, congestion=b"cubic")
    made_row("tcp", "LISTEN", plain, "127.0.0.1:8080", "0.0.0.0:0")
    v6only = listener(socket.AF_INET6, ("::", 8443), v6only=1, congestion=b"bbr")
    os.fchown(v6only.fileno(), 1000, 1000)
    made_row("tcp", "LISTEN", v6only, "[::]:8443", "[::]:0", "1000")
    both = listener(socket.AF_INET6, ("::", 9090))
    made_row("tcp", "LISTEN", both, "[::]:9090", "[::]:0")

    client, server = connected(plain, socket.AF_INET, ("127.0.0.1", 8080))
    client.sendall(b"x" * 5)
    made_row("tcp", "ESTAB", client, text(client.getsockname()), "127.0.0.1:8080")
    made_row("tcp", "ESTAB", server, "127.0.0.1:8080", text(client.getsockname()))
    client, server = connected(v6only, socket.AF_INET6, ("::1", 8443))
    client.sendall(b"x" * 100_000)
    server.recv(50_000, socket.MSG_WAITALL)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made_row("tcp", "ESTAB", client, text(client.getsockname()), "[::1]:8443")
    made_row("tcp", "ESTAB", server, "[::1]:8443", text(client.getsockname()))
    client, server = connected(both, socket.AF_INET, ("127.0.0.1", 9090))
    made_row("tcp", "ESTAB", server, "[::ffff:127.0.0.1]:9090", f"[::ffff:127.0.0.1]:{client.getsockname()[1]}")

    # Who closes first has to wait.
    client, server = connected(plain, socket.AF_INET, ("127.0.0.1", 8080))
    name = text(client.getsockname())
    client.close()
    server.close()
    made_row("tcp", "TIME-WAIT", None, name, "127.0.0.1:8080", "-")
    # One that waits for the other's FIN without a file is such a minimal socket already.
    client, server = connected(plain, socket.AF_INET, ("127.0.0.1", 8080))
    name = text(client.getsockname())
    client.close()
    made_row("tcp", "FIN-WAIT-2", None, name, "127.0.0.1:8080", "-")
    client, server = connected(plain, socket.AF_INET, ("127.0.0.1", 8080))
    client.shutdown(socket.SHUT_WR)
    made_row("tcp", "FIN-WAIT-2", client, text(client.getsockname()), "127.0.0.1:8080")
    made_row("tcp", "CLOSE-WAIT", server, "127.0.0.1:8080", text(client.getsockname()))
    # Nobody accepts this one: it waits in the listener's queue, without a file of its own end.
    client = keep(socket.socket())
    client.connect(("127.0.0.1", 8080))
    made_row("tcp", "ESTAB", client, text(client.getsockname()), "127.0.0.1:8080")
    # Nobody answers there.
    silent = keep(socket.socket())
    silent.setblocking(False)
    silent.bind(("127.0.0.1", 0))
    silent.connect_ex(("192.0.2.1", 443))
    made_row("tcp", "SYN-SENT", silent, text(silent.getsockname()), "192.0.2.1:443")

    for protocol, name in ((socket.IPPROTO_UDP, "udp"), (IPPROTO_UDPLITE, "udplite")):
        server = keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, protocol))
        server.bind(("127.0.0.1", 5353))
        made_row(name, "UNCONN", server, "127.0.0.1:5353", "0.0.0.0:0")
        client = keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, protocol))
        client.connect(("127.0.0.1", 5353))
        client.send(b"hello")
        made_row(name, "ESTAB", client, text(client.getsockname()), "127.0.0.1:5353")
        six = keep(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, protocol))
        six.bind(("::1", 5353))
        made_row(name, "UNCONN", six, "[::1]:5353", "[::]:0")
    raw = keep(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
    made_row("raw", "UNCONN", raw, "0.0.0.0:1", "0.0.0.0:0")
    raw = keep(socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
    made_row("raw", "UNCONN", raw, "[::]:58", "[::]:0")

    server = listener(socket.AF_INET, ("127.0.0.1", 7070), IPPROTO_MPTCP)
    made_row("mptcp", "LISTEN", server, "127.0.0.1:7070", "0.0.0.0:0")
    client, server = connected(server, socket.AF_INET, ("127.0.0.1", 7070), IPPROTO_MPTCP)
    client.sendall(b"hello")
    made_row("mptcp", "ESTAB", client, text(client.getsockname()), "127.0.0.1:7070")
    made_row("mptcp", "ESTAB", server, "127.0.0.1:7070", text(client.getsockname()))


def make_unix():
    def inode(sock):
        return str(os.fstat(sock.fileno()).st_ino)

    def bound(kind, name):
        sock = keep(socket.socket(socket.AF_UNIX, kind))
        sock.bind(name)
        return sock

    def row(protocol, state, sock, peer="-"):
        name = sock.getsockname()
        name = "@" + name[1:].decode() if isinstance(name, bytes) and name else name or "*"
        made_row(protocol, state, sock, name.replace("\0", "@").replace("\n", "\\n"), peer)

    stream = bound(socket.SOCK_STREAM, "server socket")
    stream.listen(5)
    waiting = keep(socket.socket(socket.AF_UNIX))
    waiting.connect("server socket")
    waiting.sendall(b"hello")
    row("u_str", "LISTEN", stream)
    row("u_str", "ESTAB", waiting, "?")
    datagrams = bound(socket.SOCK_DGRAM, "\0sockeye\0datagrams")
    sender = keep(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    sender.connect("\0sockeye\0datagrams")
    sender.send(b"hello")
    # The kernel calls a datagram socket connected as soon as somebody connects *to* it.
    row("u_dgr", "ESTAB", datagrams)
    row("u_dgr", "ESTAB", sender, inode(datagrams))
    one, other = map(keep, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    one.send(b"abc")
    other.shutdown(socket.SHUT_WR)
    row("u_seq", "ESTAB", one, inode(other))
    row("u_seq", "ESTAB", other, inode(one))
    row("u_dgr", "UNCONN", bound(socket.SOCK_DGRAM, "two\nlines"))
    row("u_str", "UNCONN", keep(socket.socket(socket.AF_UNIX)))


def make_others():
    packet = keep(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
    made_row("p_raw", "UNCONN", packet, "3 *")
    packet = keep(socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0))
    packet.bind(("lo", ETH_P_IP))
    os.fchown(packet.fileno(), 1000, 1000)
    made_row("p_dgr", "UNCONN", packet, "2048 1", uid="1000")
    groups = keep(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
    groups.bind((7001, 5))
    made_row("nl", "UNCONN", groups, "0 7001")
    peer = keep(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2))
    peer.bind((7002, 0))
    peer.connect((0, 3))
    # A group is given as a mask, and told by its number: the lowest.
    made_row("nl", "ESTAB", peer, "2 7002", "2 0 group 1")


def dump(kind, payload):
    """What the kernel answers, buffer after buffer, up to and with NLMSG_DONE."""
    asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    with asking:
        asking.send(struct.pack("=IHHII", 16 + len(payload), kind, NLM_F_REQUEST_DUMP, 1, 0) + payload)
        answer = b""
        while True:
            buffer = asking.recv(65536)
            answer += buffer
            kinds, at = [], 0
            while at < len(buffer):
                length, kind = struct.unpack_from("=IH", buffer, at)
                kinds.append(kind)
                at += (length + 3) & ~3
            if 2 in kinds:
                raise SystemExit(f"the kernel refused: {buffer!r}")
            if 3 in kinds:
                return answer


def inet_v2(family, protocol):
    request = struct.pack("=BBBxI48x", family, min(protocol, 255), ALL_EXTENSIONS, ALL_STATES)
    if protocol > 255:
        request += struct.pack("=HHI", 8, 3, protocol)
    return dump(SOCK_DIAG_BY_FAMILY, request)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise SystemExit(f"no namespace of our own: {os.strerror(ctypes.get_errno())}; are you root?")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "route", "add", "192.0.2.0/24", "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        make_inet()
        make_unix()
        make_others()
        time.sleep(1.5)  # a retransmission of the SYN, the keepalive timer, settled queues
        family = socket.AF_INET
        files = {
            "tcp_one_pass.bin": dump(
                TCPDIAG_GETSOCK, struct.pack("=BBBB48xII", family, 0, 0, ALL_EXTENSIONS, ALL_STATES, 0)
            ),
            "udp4.bin": inet_v2(socket.AF_INET, socket.IPPROTO_UDP),
            "udp6.bin": inet_v2(socket.AF_INET6, socket.IPPROTO_UDP),
            "mptcp4.bin": inet_v2(socket.AF_INET, IPPROTO_MPTCP),
            "unix.bin": dump(SOCK_DIAG_BY_FAMILY, struct.pack("=BBHIIIQ", 1, 0, 0, ALL_STATES, 0, 0x7F, 0)),
            "packet.bin": dump(SOCK_DIAG_BY_FAMILY, struct.pack("=BBHIIQ", 17, 0, 0, 0, 0x3F, 0)),
            "netlink.bin": dump(SOCK_DIAG_BY_FAMILY, struct.pack("=BBHIIQ", 16, 255, 0, 0, 0x0B, 0)),
        }
        names = "tcp tcp6 udp udp6 udplite udplite6 raw raw6 unix packet netlink".split()
        for name in names:
            files[f"proc_{name}"] = pathlib.Path(f"/proc/self/net/{name}").read_bytes()
        stat = pathlib.Path("/proc/self/stat")
        files["proc_pid_stat"] = stat.read_bytes()
        pathlib.Path("/proc/self/comm").write_bytes(b") R (\n\x1b[31m")
        files["proc_pid_stat_hostile"] = stat.read_bytes()
    header = "# protocol, state, inode ('-': no file holds it), local, peer ('?': not accepted yet), uid\n"
    files["made.tsv"] = (header + "\n".join(made) + "\n").encode()
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    print(f"{len(files)} files of Linux {platform.release()} ({sys.byteorder} endian) in {folder}")


if __name__ == "__main__":
    main()
