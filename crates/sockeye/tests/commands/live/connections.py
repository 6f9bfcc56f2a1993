"""Makes one connection in the way that the first argument names; the others are the server's address and port.

Prints what happened as one JSON object: ports and process ids.
"""

import array
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

TCP_SYNCNT, TCP_USER_TIMEOUT = 7, 18
SO_ATTACH_FILTER = 26
IPPROTO_MPTCP = 262


def listener(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)


def connect(address, port):
    return socket.create_connection((address, port))


def transfer(address, port):
    """100,000 bytes there, 5 back; the client closes first."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    child = os.fork()
    if child == 0:
        server.close()
        client.close()
        left = 100_000
        while left:
            left -= len(accepted.recv(65536))
        accepted.sendall(b"fives")
        assert accepted.recv(1) == b""
        accepted.close()
        os._exit(0)
    accepted.close()
    client.sendall(b"x" * 100_000)
    assert client.recv(5) == b"fives"
    local = client.getsockname()[1]
    client.close()
    os.waitpid(child, 0)
    return {"client_port": local, "server_port": server.getsockname()[1], "child": child}


def refused(address, port):
    server = listener(address, 0)
    port = server.getsockname()[1]
    server.close()
    try:
        connect(address, port)
    except ConnectionRefusedError:
        return {"server_port": port}


def refused_later(address, port):
    """The process does not wait in connect(2), and so the socket keeps the peer's address."""
    server = listener(address, 0)
    port = server.getsockname()[1]
    server.close()
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((address, port))
    select.select([], [client], [], 10)
    error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    client.close()
    return {"server_port": port, "error": error}


def unanswered(address, port):
    """The SYN is sent and never answered."""
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_TCP, TCP_SYNCNT, 1)
    client.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 1500)
    try:
        client.connect((address, port))
    except TimeoutError:
        return {"server_port": port}


def abandoned(address, port):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((address, port))
    client.close()
    return {"server_port": port}


def aborted(address, port):
    """The client resets the connection."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    local = client.getsockname()[1]
    client.close()
    try:
        accepted.recv(1)
    except ConnectionResetError:
        accepted.close()
        return {"client_port": local, "server_port": server.getsockname()[1]}


def unread(address, port):
    """The server closes with data that it has not read: the kernel sends a RST."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.sendall(b"never read")
    while accepted.recv(1, socket.MSG_PEEK) == b"":
        pass
    accepted.close()
    try:
        client.recv(1)
    except ConnectionResetError:
        pass
    return {"client_port": client.getsockname()[1], "server_port": server.getsockname()[1]}


def prefork(address, port):
    """A process that is not the one that called listen() accepts and closes, without reading."""
    server = listener(address, port)
    child = os.fork()
    if child == 0:
        accepted, _ = server.accept()
        accepted.close()
        os._exit(0)
    client = connect(address, server.getsockname()[1])
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    client.close()
    return {"server_port": server.getsockname()[1], "child": child}


def prefork_unread(address, port):
    """As prefork, and the worker leaves data unread."""
    server = listener(address, port)
    child = os.fork()
    if child == 0:
        accepted, _ = server.accept()
        time.sleep(0.05)
        accepted.close()
        os._exit(0)
    client = connect(address, server.getsockname()[1])
    client.sendall(b"x" * 10)
    os.waitpid(child, 0)
    client.close()
    return {"server_port": server.getsockname()[1], "child": child}


def listeners(address, port):
    """A connection to each of several listeners, each of a process of its own: two that share a port, one at another address of it, one for
    which the kernel finds a port, one of IPv6 at that port, one after another at the same port, and one that listens again."""
    connections = []

    def listens(bound, prepare=lambda server: None):
        """Returns process and port of a new listener, and what ends it."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            server = socket.socket(socket.AF_INET6 if bound and ":" in bound[0] else socket.AF_INET)
            prepare(server)
            if bound:
                server.bind(bound)
            server.listen(8)
            os.write(writes, struct.pack("H", server.getsockname()[1]))
            while True:
                signal.pause()
        (found,) = struct.unpack("H", os.read(reads, 2))

        def end():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

        return child, found, end

    def connects(to, pids):
        client = connect(*to)
        connections.append([client.getsockname()[1], pids])
        client.close()

    def shares(server):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    def only_v6(server):
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)

    first, shared, end_first = listens((address, 0), shares)
    second, _, end_second = listens((address, shared), shares)
    # Which of both gets a connection only the kernel knows; afterwards there is only one.
    connects((address, shared), [first, second])
    end_first()
    connects((address, shared), [second])
    end_second()
    at_one, port, end_one = listens((address, port))
    connects((address, port), [at_one])
    at_other, _, end_other = listens(("127.0.0.2", port))
    connects(("127.0.0.2", port), [at_other])
    connects((address, port), [at_one])
    of_v6, _, end_v6 = listens(("::1", port), only_v6)
    connects(("::1", port), [of_v6])
    end_one()
    connects(("127.0.0.2", port), [at_other])
    later, _, end_later = listens((address, port))
    connects((address, port), [later])
    connects(("127.0.0.2", port), [at_other])
    unbound, found, end_unbound = listens(None)
    connects((address, found), [unbound])
    for end in (end_other, end_v6, end_later, end_unbound):
        end()
    # Any address is that of each connection.
    anywhere, found, end_anywhere = listens(("0.0.0.0", 0))
    connects((address, found), [anywhere])
    end_anywhere()
    both, found, end_both = listens(("::", 0))
    connects((address, found), [both])
    connects(("::1", found), [both])
    end_both()
    return {"connections": connections}


def passed(address, port):
    """The connection is passed on to a process that has never had the listener."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    child = os.fork()
    if child == 0:
        _, ancillary, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
        (number,) = array.array("i", ancillary[0][2])
        accepted = socket.socket(fileno=number)
        assert accepted.recv(2) == b"hi"
        accepted.close()
        os._exit(0)
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [accepted.fileno()]))])
    accepted.close()
    client.sendall(b"hi")
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    client.close()
    return {"server_port": server.getsockname()[1], "child": child}


def many(address, port):
    """Two hundred connections, one after the other."""
    server = listener(address, port)
    for _ in range(200):
        client = connect(address, server.getsockname()[1])
        accepted, _ = server.accept()
        client.close()
        accepted.close()
    return {"server_port": server.getsockname()[1]}


def older(address, port):
    """A connection that is closed when standard input ends."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()
    local = client.getsockname()[1]
    client.close()
    accepted.recv(1)
    accepted.close()
    return {"client_port": local, "server_port": server.getsockname()[1]}


def datagrams(address, port):
    """A connected socket sends two datagrams of ten bytes to a server, which answers one of four bytes without a connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_DGRAM)
    server.bind((address, port))
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.connect(server.getsockname()[:2])
    for _ in range(2):
        client.send(b"ten bytes!")
    for _ in range(2):
        _, peer = server.recvfrom(100)
    server.sendto(b"four", peer)
    assert client.recv(100) == b"four"
    ports = {"client_port": client.getsockname()[1], "server_port": server.getsockname()[1]}
    client.close()
    server.close()
    return ports


def unconnected(address, port):
    """A socket without a connection sends one datagram, which nothing reads."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.sendto(b"x", (address, 9))
    local = client.getsockname()[1]
    client.close()
    return {"client_port": local}


def unreachable(address, port):
    """Nothing has the port: an ICMP message comes back, and the next call returns the error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.connect((address, 9))
    client.send(b"x")
    try:
        client.send(b"x")
    except ConnectionRefusedError:
        return {"client_port": client.getsockname()[1]}


def full(address, port):
    """A hundred datagrams for a receive buffer that holds few."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.bind((address, port))
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(100):
        client.sendto(b"x" * 1000, server.getsockname())
    server.setblocking(False)
    received = 0
    try:
        while server.recv(2000):
            received += 1
    except BlockingIOError:
        pass
    port = server.getsockname()[1]
    server.close()
    return {"server_port": port, "received": received}


def checksum(address, port):
    """A datagram with a wrong checksum, from a raw socket."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, port))
    # With a filter the kernel verifies the checksum when the datagram arrives; else only when it is read.
    accept_all = (ctypes.c_uint8 * 8)(6, 0, 0, 0, 0xFF, 0xFF, 0, 0)
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(accept_all))
    server.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    # A datagram of up to 76 bytes is verified before its socket is looked up.
    raw.sendto(struct.pack("!HHHH", 5555, server.getsockname()[1], 108, 0x1234) + bytes(100), (address, 0))
    server.settimeout(0.2)
    try:
        server.recv(100)
    except TimeoutError:
        return {"server_port": server.getsockname()[1]}


def spurious(address, port):
    """The answers become slow when the client knows the link as fast: it sends again what was not lost."""
    client = connect(address, port)
    for _ in range(20):
        client.sendall(b"x")
        assert client.recv(1) == b"y"
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    client.sendall(b"x")
    assert client.recv(1) == b"y"
    local = client.getsockname()[1]
    client.close()
    return {"client_port": local}


def echo(address, port):
    """Answers each byte of one connection."""
    server = listener(address, port)
    print(json.dumps({"port": server.getsockname()[1]}), flush=True)
    accepted, _ = server.accept()
    while accepted.recv(1):
        accepted.sendall(b"y")
    return {"server_port": server.getsockname()[1]}


def send_errors(address, port):
    """No route for an address."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        client.sendto(b"x", ("192.0.2.7", 9))
    except OSError as error:
        return {"errno": error.errno}


def connect_errors(address, port):
    """connect() without a route, for TCP and UDP, IPv4 and IPv6; then one that is refused after the SYN."""
    errors = []
    for family, to in [(socket.AF_INET, "192.0.2.7"), (socket.AF_INET6, "2001:db8::7")]:
        for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
            with socket.socket(family, kind) as client:
                errors.append(client.connect_ex((to, 9)))
    with socket.socket() as client:
        assert client.connect_ex((address, 9)) == 111
        errors.append(client.connect_ex(("192.0.2.7", 9)))
    return {"errors": errors}


def accept_overflow(address, port):
    """More connections than the accept queue holds: what the kernel counts is returned."""
    server = socket.socket()
    server.bind((address, port))
    server.listen(1)
    clients = []
    for _ in range(6):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(server.getsockname())
        clients.append(client)
    before = overflows()
    clients.append(socket.socket())
    clients[-1].setblocking(False)
    clients[-1].connect_ex(server.getsockname())
    made = {"server_port": server.getsockname()[1], "last_port": clients[-1].getsockname()[1]}
    assert overflows() > before, "the accept queue is not full"
    for client in clients:
        client.close()
    server.close()
    return {**made, "overflows": overflows()}


def overflows():
    return tcp_counters()["ListenOverflows"]


def syn_overflow(address, port, repeated=()):
    """SYNs from an address that never answers fill the queue of a listener; then those of `repeated` come again."""
    server = socket.socket()
    server.bind((address, port))
    server.listen(2)
    port = server.getsockname()[1]
    before = tcp_counters()
    for number in range(8):
        send_segment(address, 2000 + number, port, SYN)
    for number in repeated:
        send_segment(address, 2000 + number, port, SYN)
    after = tcp_counters()
    server.close()
    return {"server_port": port, "moved": {name: after[name] - before[name] for name in after}}


def repeated_syns(address, port):
    return syn_overflow(address, port, [0, 1, 2] * 3)


def full_of_repeated(address, port):
    """Requests are queued before the accept queue is full. Then they come again, and ACKs that belong to nothing."""
    server = socket.socket()
    server.bind((address, port))
    server.listen(5)
    port = server.getsockname()[1]
    before = tcp_counters()
    for number in range(3):
        send_segment(address, 2000 + number, port, SYN)
    clients = [socket.socket() for _ in range(8)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(server.getsockname())
    for number in range(3):
        send_segment(address, 2000 + number, port, SYN)
        send_segment(address, 3000 + number, port, ACK)
    after = tcp_counters()
    server.close()
    return {"server_port": port, "moved": {name: after[name] - before[name] for name in after}}


SYN, ACK = 2, 16


def send_segment(address, source_port, port, flags):
    """Sends a segment from an address that never answers."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    source, to = socket.inet_aton("192.0.2.7"), socket.inet_aton(address)
    tcp = struct.pack("!HHIIBBHHH", source_port, port, 1, 0, 5 << 4, flags, 1000, 0, 0)
    words = struct.unpack("!16H", source + to + struct.pack("!BBH", 0, 6, 20) + tcp)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    tcp = tcp[:16] + struct.pack("!H", ~total & 0xFFFF) + tcp[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, to)
    raw.sendto(ip + tcp, (address, 0))


def tcp_counters():
    with open("/proc/net/netstat") as file:
        names, values = [line.split() for line in file if line.startswith("TcpExt:")]
    return dict(zip(names[1:], map(int, values[1:])))


def zero_window(address, port):
    """The client sends until the server, which does not read, takes no more; then it reads."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.bind((address, port))
    server.listen(1)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.settimeout(0.6)
    sent = 0
    try:
        while True:
            sent += client.send(b"x" * 1000)
    except TimeoutError:
        pass
    client.setblocking(False)
    left = sent
    while left:
        left -= len(accepted.recv(65536))
    local = client.getsockname()[1]
    client.close()
    accepted.recv(1)
    accepted.close()
    return {"client_port": local, "server_port": server.getsockname()[1], "sent": sent}


def mptcp_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)


def mptcp_listener(address, port):
    server = mptcp_socket()
    server.bind((address, port))
    server.listen(1)
    return server


def mptcp_connection(server):
    """Both ends of a connection with one subflow, the client's first, after some bytes."""
    client = mptcp_socket()
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    client.sendall(b"hello")
    assert accepted.recv(5) == b"hello"
    return client, accepted


def mptcp(address, port):
    """A connection of MPTCP with one subflow."""
    server = mptcp_listener(address, port)
    client, accepted = mptcp_connection(server)
    local = client.getsockname()[1]
    client.close()
    assert accepted.recv(1) == b""
    accepted.close()
    return {"client_port": local, "server_port": server.getsockname()[1]}


def mptcp_prefork(address, port):
    """A worker accepts a connection of MPTCP, and reads."""
    server = mptcp_listener(address, port)
    child = os.fork()
    if child == 0:
        accepted, _ = server.accept()
        while accepted.recv(5):
            pass
        accepted.close()
        os._exit(0)
    client = mptcp_socket()
    client.connect(server.getsockname())
    client.sendall(b"hello")
    client.close()
    os.waitpid(child, 0)
    return {"server_port": server.getsockname()[1], "child": child}


def mptcp_joined(address, port):
    """A connection of MPTCP with a second subflow, which a thread of the kernel opens."""
    for words in ["limits set subflow 2", "endpoint add 127.0.0.2 dev lo subflow"]:
        subprocess.run(["ip", "mptcp", *words.split()], check=True)
    server = mptcp_listener(address, port)
    client, accepted = mptcp_connection(server)
    # SOL_MPTCP, MPTCP_INFO: subflows after the first one
    deadline = time.monotonic() + 10
    while client.getsockopt(284, 1, 8)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    client.close()
    assert accepted.recv(1) == b""
    accepted.close()
    return {"server_port": server.getsockname()[1]}


def same_addresses(address, port):
    """A second socket is bound and connected as the first is."""
    server = listener(address, port)
    clients = [socket.socket(), socket.socket()]
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((address, clients[0].getsockname()[1]))
        error = client.connect_ex(server.getsockname())
    return {"client_port": clients[0].getsockname()[1], "errno": error}


def rejected(address, port):
    """A rule of this host rejects the SYN of a connect() that does not wait."""
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((address, port))
    error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    client.close()
    return {"errno": error}


def mptcp_refused(address, port):
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    return {"errno": client.connect_ex((address, 9))}


def mptcp_aborted(address, port):
    """The client of a connection of MPTCP resets it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    server.bind((address, port))
    server.listen(1)
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    client.sendall(b"hello")
    assert accepted.recv(5) == b"hello"
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    try:
        accepted.recv(1)
    except ConnectionResetError:
        return {"server_port": server.getsockname()[1]}


def speaks_first(address, port):
    """A worker of a prefork server only writes, and the client resets the connection."""
    server = listener(address, port)
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        accepted, _ = server.accept()
        accepted.sendall(b"220 ready")
        os.close(end)
        os.read(ended, 1)
        os._exit(0)
    client = connect(address, server.getsockname()[1])
    assert client.recv(9) == b"220 ready"
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    os.close(end)
    os.waitpid(child, 0)
    return {"server_port": server.getsockname()[1], "child": child}


def resent(address, port):
    """A megabyte, of which the host drops some: how many segments the client has sent again is returned."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    child = os.fork()
    if child == 0:
        while accepted.recv(65536):
            pass
        os._exit(0)
    accepted.close()
    client.sendall(b"x" * 1_000_000)
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    local = client.getsockname()[1]
    client.close()
    return {"client_port": local}


def upload(address, port):
    """Two million bytes, after which the client closes."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    child = os.fork()
    if child == 0:
        client.close()
        while accepted.recv(1 << 20):
            pass
        os._exit(0)
    accepted.close()
    client.sendall(bytes(2_000_000))
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    local = client.getsockname()[1]
    client.close()
    return {"client_port": local}


def syn_retransmissions():
    """TcpExt: TCPSynRetrans, which counts SYN-ACKs as well."""
    names, values = [line.split() for line in open("/proc/self/net/netstat") if line.startswith("TcpExt:")]
    return int(values[names.index("TCPSynRetrans")])


def unfinished(address, port):
    """The last segment of the handshake does not arrive: the server sends its SYN-ACK again."""
    server = listener(address, port)
    client = connect(address, port)
    deadline = time.monotonic() + 10
    while not syn_retransmissions() and time.monotonic() < deadline:
        time.sleep(0.01)
    local = client.getsockname()[1]
    # The same segment is what the server would take for the end of the handshake.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    server.close()
    return {"client_port": local, "retransmissions": syn_retransmissions()}


def no_neighbor(address, port):
    """Nothing answers at this address of a network that we are in: TCP and UDP."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family)
    client.setblocking(False)
    client.connect_ex((address, port))
    sender = socket.socket(family, socket.SOCK_DGRAM)
    sender.sendto(b"x", (address, port))
    time.sleep(1.5)
    ports = {"tcp_port": client.getsockname()[1], "udp_port": sender.getsockname()[1]}
    client.close()
    sender.close()
    return ports


def mptcp_without_route(address, port):
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    return {"errno": client.connect_ex((address, port))}


def late_data(address, port, after=0):
    """The server sends to a client that has closed so many seconds ago, which answers with a RST."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    local = client.getsockname()[1]
    client.close()
    assert accepted.recv(1) == b""
    time.sleep(after)
    accepted.sendall(b"too late")
    time.sleep(0.1)
    accepted.close()
    return {"client_port": local}


def later_data(address, port):
    """As late_data, when the client's FIN was acknowledged: the kernel keeps no socket of it any more."""
    return late_data(address, port, after=0.5)


def reset_by_linger(address, port):
    """The client waits until a poll has seen it, and sends a RST."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    local = client.getsockname()[1]
    time.sleep(1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    accepted.close()
    return {"client_port": local}


def half_closed(address, port):
    """The peer of a connection has shut down sending, after 50 bytes. It stays so until standard input ends."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.sendall(b"x" * 50)
    client.shutdown(socket.SHUT_WR)
    print("ready", flush=True)
    sys.stdin.read()
    return {"server_port": server.getsockname()[1]}


def udp_refused(address, port):
    """Datagrams to a port that nothing listens on."""
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind((address, port))
    closed = other.getsockname()[1]
    other.close()
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((address, closed))
    client.send(b"x")
    time.sleep(0.1)
    local = client.getsockname()[1]
    client.close()
    return {"client_port": local}


def named(address, port):
    """Of a process whose name is neither UTF-8 nor harmless."""
    ctypes.CDLL(None).prctl(15, b"\x9b31m\xff", 0, 0, 0)
    return many(address, port)


result = globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
assert result, "it went another way"
print(json.dumps({**result, "pid": os.getpid()}))
