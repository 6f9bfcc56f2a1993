"""Sockets that the laboratory has no maker for, held by processes with odd names; Python, for options that from Rust
would take `unsafe`.

odd.py DIRECTORY DEVICE CGROUP: DIRECTORY takes UNIX sockets, DEVICE is an interface, CGROUP a directory of cgroup2 or
"-". Says "lacks WHAT: WHY" for each thing this kernel does not have, then "ready", and stays until its stdin closes.
"""

import ctypes, os, select, socket, struct, sys, threading, time

directory, device, cgroup = sys.argv[1:4]
held = []
children = []
SOL_SOCKET, SOL_TCP, SOL_IP, SOL_IPV6, SOL_PACKET, SOL_NETLINK = 1, 6, 0, 41, 263, 270


def make(family, kind, protocol=0):
    made = socket.socket(family, kind, protocol)
    held.append(made)
    return made


def listener(address, family=socket.AF_INET, **options):
    made = make(family, socket.SOCK_STREAM)
    for level, name, value in options.get("options", []):
        made.setsockopt(level, name, value)
    made.bind(address)
    made.listen(options.get("backlog", 16))
    return made


def connected(server, options=()):
    client = make(server.family, socket.SOCK_STREAM)
    for level, name, value in options:
        client.setsockopt(level, name, value)
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    held.append(accepted)
    return client, accepted


def traffic(one, other):
    for _ in range(20):
        one.sendall(b"q" * 1500)
        other.recv(1500, socket.MSG_WAITALL)
        other.sendall(b"a" * 9000)
        one.recv(9000, socket.MSG_WAITALL)


def options_of_ip():
    for number, (level, name, value) in enumerate(
        [(SOL_IP, 11, 1), (SOL_IP, 15, 1), (SOL_IP, 19, 1), (SOL_IP, 34, 0), (SOL_IP, 49, 0), (SOL_IP, 26, 1),
         (SOL_IP, 24, 1), (SOL_IP, 10, 3)]
    ):  # RECVERR, FREEBIND, TRANSPARENT, MULTICAST_LOOP, MULTICAST_ALL, RECVERR_RFC4884, BIND_ADDRESS_NO_PORT, MTU_DISCOVER
        udp = make(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(level, name, value)
        udp.bind(("127.0.0.1", 5100 + number))
    tcp = listener(("127.0.0.1", 5199), options=[(SOL_IP, 15, 1), (SOL_IP, 19, 1)])
    connected(tcp)
    tcp6 = listener(("::1", 5198), socket.AF_INET6, options=[(SOL_IPV6, 25, 1), (SOL_IPV6, 75, 1)])
    connected(tcp6)


def raw_header_included():
    raw = make(socket.AF_INET, socket.SOCK_RAW, 255)
    raw.setsockopt(SOL_IP, 3, 1)
    raw6 = make(socket.AF_INET6, socket.SOCK_RAW, 58)
    raw6.bind(("::1", 0))
    connected_raw = make(socket.AF_INET, socket.SOCK_RAW, 1)
    connected_raw.connect(("127.0.0.1", 0))
    raw89 = make(socket.AF_INET, socket.SOCK_RAW, 89)
    raw89.setsockopt(SOL_SOCKET, 25, device.encode() + b"\0")


def classes():
    for number, (mark, priority, tos) in enumerate([(0, 6, 0x10), (7, 0, 0x28), (0xFFFFFFFF, 1, 0xB8)]):
        server = listener(("127.0.0.1", 5200 + number), options=[(SOL_IP, 1, tos), (SOL_SOCKET, 12, priority)])
        connected(server, [(SOL_SOCKET, 36, struct.pack("I", mark)), (SOL_IP, 1, tos), (SOL_SOCKET, 12, priority)])
        server6 = listener(("::1", 5210 + number), socket.AF_INET6, options=[(SOL_IPV6, 67, tos)])
        connected(server6, [(SOL_IPV6, 67, tos), (SOL_SOCKET, 36, struct.pack("I", mark))])
    udp = make(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(SOL_IP, 1, 0x20)
    udp.setsockopt(SOL_SOCKET, 36, 0x55)
    udp.bind(("127.0.0.1", 5220))


def md5():
    address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton("127.0.0.1")).ljust(128, b"\0")
    signature = struct.pack("=128sBBHI80s", address, 0, 0, 6, 0, b"secret")
    server = listener(("127.0.0.1", 5230), options=[(SOL_TCP, 14, signature)])
    connected(server, [(SOL_TCP, 14, signature)])


def upper_layer():
    server = listener(("127.0.0.1", 5231))
    one, other = connected(server)
    one.setsockopt(SOL_TCP, 31, b"tls")


def tcp_tuned():
    for number, congestion in enumerate([b"reno", b"cubic", b"bbr", b"dctcp", b"vegas"]):
        try:
            server = listener(("127.0.0.1", 5240 + number), options=[(SOL_TCP, 13, congestion)])
            one, other = connected(server, [(SOL_TCP, 13, congestion)])
            traffic(one, other)
        except OSError as error:
            print(f"lacks congestion control {congestion.decode()}: {error}", flush=True)
    server = listener(("127.0.0.1", 5250), options=[(SOL_TCP, 23, 5), (SOL_TCP, 2, 700)])  # FASTOPEN, MAXSEG
    one, other = connected(server, [(SOL_TCP, 3, 1), (SOL_SOCKET, 47, struct.pack("Q", 1 << 20))])  # CORK, MAX_PACING
    one.send(b"corked")
    one.sendall(b"o" * 100, socket.MSG_OOB)
    one, other = connected(server)
    traffic(one, other)
    other.setsockopt(SOL_SOCKET, 8, 4096)
    one.setblocking(False)
    try:
        while True:
            one.send(b"f" * 65536)
    except BlockingIOError:
        pass
    plain = listener(("127.0.0.1", 5251))
    one, other = connected(plain)
    one.sendall(b"unread")


def port_kinds():
    closed = make(socket.AF_INET, socket.SOCK_STREAM)
    closed.bind(("127.0.0.1", 5260))
    for address in ["0.0.0.0", "127.0.0.1"]:
        for port in [22, 53, 80, 443, 8080, 3306]:
            listener((address, port), options=[(SOL_SOCKET, 15, 1)])
    for port in [22, 53, 443]:
        listener(("::", port), socket.AF_INET6, options=[(SOL_IPV6, 26, 1), (SOL_SOCKET, 15, 1)])
    listener(("::", 9443), socket.AF_INET6)
    bound = make(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(SOL_SOCKET, 25, device.encode() + b"\0")
    bound.bind(("0.0.0.0", 9444))
    bound.listen(1)


def udp():
    for number, length in enumerate([0, 1, 1000]):
        receiver = make(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 5300 + number))
        sender = make(socket.AF_INET, socket.SOCK_DGRAM)
        sender.connect(receiver.getsockname())
        sender.send(b"d" * length)
    dropping = make(socket.AF_INET, socket.SOCK_DGRAM)
    dropping.setsockopt(SOL_SOCKET, 8, 1)
    dropping.bind(("127.0.0.1", 5310))
    for _ in range(40):
        sender.sendto(b"x" * 1000, dropping.getsockname())
    for address in [("0.0.0.0", 53), ("127.0.0.1", 123), ("0.0.0.0", 68)]:
        make(socket.AF_INET, socket.SOCK_DGRAM).bind(address)
    any6 = make(socket.AF_INET6, socket.SOCK_DGRAM)
    any6.bind(("::", 5311))
    only6 = make(socket.AF_INET6, socket.SOCK_DGRAM)
    only6.setsockopt(SOL_IPV6, 26, 1)
    only6.bind(("::", 5312))
    six = make(socket.AF_INET6, socket.SOCK_DGRAM)
    six.connect(("::1", 5312))
    mapped = make(socket.AF_INET6, socket.SOCK_DGRAM)
    mapped.connect(("::ffff:127.0.0.1", 5300))
    bound = make(socket.AF_INET, socket.SOCK_DGRAM)
    bound.setsockopt(SOL_SOCKET, 25, device.encode() + b"\0")
    bound.bind(("0.0.0.0", 5313))


def udp_lite():
    make(socket.AF_INET, socket.SOCK_DGRAM, 136).bind(("127.0.0.1", 5320))


def ping():
    make(socket.AF_INET, socket.SOCK_DGRAM, 1).bind(("127.0.0.1", 77))
    make(socket.AF_INET6, socket.SOCK_DGRAM, 58).bind(("::1", 78))


def mptcp():
    server = make(socket.AF_INET, socket.SOCK_STREAM, 262)
    server.bind(("127.0.0.1", 5330))
    server.listen(3)
    client = make(socket.AF_INET, socket.SOCK_STREAM, 262)
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    held.append(accepted)
    traffic(client, accepted)
    server6 = make(socket.AF_INET6, socket.SOCK_STREAM, 262)
    server6.bind(("::", 5331))
    server6.listen(3)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def filtered(made):
    """LD [0]; JEQ 1; RET 0; RET -1; a classic filter that lets nothing through but odd packets."""
    code = struct.pack("=HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 1, 0, 0xDEAD, 0x06, 0, 0, 0, 0x06, 0, 0, 0xFFFFFFFF)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(4, ctypes.addressof(buffer))
    made.setsockopt(SOL_SOCKET, 26, bytes(program))


def packet():
    for kind, ethertype in [(socket.SOCK_RAW, 3), (socket.SOCK_DGRAM, 0x0800), (socket.SOCK_RAW, 0x88CC),
                            (socket.SOCK_DGRAM, 0), (socket.SOCK_RAW, 0x1234)]:
        made = make(socket.AF_PACKET, kind, 0)
        filtered(made)
        made.bind((device, ethertype))
    unbound = make(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    versions = [(0, struct.pack("IIII", 4096, 4, 2048, 8)), (1, struct.pack("IIII", 4096, 4, 2048, 8)),
                (2, struct.pack("IIIIIII", 4096, 4, 2048, 8, 60, 0, 1))]
    for version, ring in versions:
        made = make(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.setsockopt(SOL_PACKET, 10, version)
        made.setsockopt(SOL_PACKET, 12, 4)  # RESERVE
        made.setsockopt(SOL_PACKET, 5, ring)
        if version != 2:
            made.setsockopt(SOL_PACKET, 13, ring)
        filtered(made)
        made.bind((device, 0x88B5))
    for number, way in enumerate([0, 1, 2, 3, 4, 5, 0x8000]):
        for _ in range(2):
            made = make(socket.AF_PACKET, socket.SOCK_RAW, 0)
            filtered(made)
            made.bind((device, 0x88B6))
            try:
                made.setsockopt(SOL_PACKET, 18, struct.pack("I", (number + 1) | way << 16))
            except OSError as error:
                print(f"lacks packet fanout {way:#x}: {error}", flush=True)
    flags = make(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in [8, 9, 15, 7]:  # AUXDATA, ORIGDEV, VNET_HDR, LOSS
        try:
            flags.setsockopt(SOL_PACKET, option, 1)
        except OSError:
            pass
    membership = struct.pack("iHH8s", socket.if_nametoindex(device), 1, 0, b"")  # PROMISC
    flags.setsockopt(SOL_PACKET, 1, membership)
    multicast = struct.pack("iHH8s", socket.if_nametoindex(device), 0, 6, b"\x01\x00\x5e\x00\x00\x01")
    flags.setsockopt(SOL_PACKET, 1, multicast)


def netlink():
    for family in [0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 18, 20, 21]:
        try:
            made = make(socket.AF_NETLINK, socket.SOCK_RAW, family)
            # Ports of our own, which are no process's.
            made.bind((0xF0000000 + family, 0))
        except OSError as error:
            print(f"lacks netlink family {family}: {error}", flush=True)
    named = make(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    named.bind((0, 0))
    groups = make(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
    groups.bind((0xF0001000, 0x80000001))
    groups.setsockopt(SOL_NETLINK, 1, 33)  # ADD_MEMBERSHIP
    groups.setsockopt(SOL_NETLINK, 1, 25)
    to = make(socket.AF_NETLINK, socket.SOCK_RAW, 2)
    to.bind((0xF0001001, 0))
    to.connect((0xF0000002, 0))
    # Unanswered: a dump of which only the beginning is read stays open.
    dump = make(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    dump.bind((0xF0001002, 0))
    dump.send(struct.pack("=IHHIIB3x", 20, 18, 0x301, 1, 0, 0))


def unix():
    path = directory + "/"
    for kind in [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:
        word = "stream" if kind == socket.SOCK_STREAM else "seq"
        server = make(socket.AF_UNIX, kind)
        server.bind(path + word)
        server.listen(4)
        for number in range(3):
            client = make(socket.AF_UNIX, kind)
            client.connect(path + word)
            if number == 0:
                accepted, _ = server.accept()
                held.append(accepted)
                client.send(b"u" * 700)
                shut = make(socket.AF_UNIX, kind)
                shut.connect(path + word)
                shut.shutdown(socket.SHUT_WR)
        abstract = make(socket.AF_UNIX, kind)
        abstract.bind(("\0lab-" + word).encode())
        abstract.listen(0)
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        held.extend([one, other])
        one.send(b"data")
        one.shutdown(socket.SHUT_WR)
        gone, stays = socket.socketpair(socket.AF_UNIX, kind)
        gone.close()
        held.append(stays)
        make(socket.AF_UNIX, kind)
        make(socket.AF_UNIX, kind).bind(path + word + "-bound")
    receiver = make(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(path + "dgram")
    for length in [0, 5, 400]:
        sender = make(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.connect(path + "dgram")
        sender.send(b"g" * length)
    make(socket.AF_UNIX, socket.SOCK_DGRAM)
    make(socket.AF_UNIX, socket.SOCK_DGRAM).bind("")
    for name in [b"with space", b"ctl\x1b[1m\n", b"\xff\xfe", "h\u00f6he".encode(), b"tab\there", b"quote\"'\\", b"comma,(x)",
                 b"n" * 60]:
        for whole in [os.fsencode(path) + name, b"\0" + name, b"\0zero\0inside-" + name]:
            server = make(socket.AF_UNIX, socket.SOCK_STREAM)
            server.bind(whole[:107])
            server.listen(1)
            client = make(socket.AF_UNIX, socket.SOCK_STREAM)
            client.connect(whole[:107])
    removed = make(socket.AF_UNIX, socket.SOCK_STREAM)
    removed.bind(path + "removed")
    removed.listen(1)
    os.unlink(path + "removed")
    fds = [one.fileno() for one in held[-2:]]
    one, other = socket.socketpair()
    held.extend([one, other])
    socket.send_fds(one, [b"x"], fds)
    huge = make(socket.AF_UNIX, socket.SOCK_STREAM)
    huge.bind(("\0" + "x" * 106).encode())


def vsock():
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
        made = make(40, kind)
        # Any port: all namespaces share them.
        made.bind((0xFFFFFFFF, 0xFFFFFFFF))
        if kind != socket.SOCK_DGRAM:
            made.listen(1)
        if kind == socket.SOCK_STREAM:
            client = make(40, kind)
            client.setblocking(False)
            try:
                client.connect((1, made.getsockname()[1]))
            except BlockingIOError:
                pass


def xdp():
    make(44, socket.SOCK_RAW, 0)


def tipc():
    make(30, socket.SOCK_STREAM, 0)


def sctp():
    listener(("127.0.0.1", 5410))
    made = make(socket.AF_INET, socket.SOCK_STREAM, 132)
    made.bind(("127.0.0.1", 5410))
    made.listen(1)


def dccp():
    made = make(socket.AF_INET, 6, 33)
    made.bind(("127.0.0.1", 5411))


def named(comm, then, user=None):
    """A child with this name that holds what we hold when it begins, or, where `then` says so, what that opens."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        os.read(read, 1)
        os.close(read)
        children.append(child)
        return
    try:
        then()
        with open("/proc/self/comm", "wb") as file:
            file.write(comm)
        if user:
            os.setgid(user)
            os.setuid(user)
    except OSError as error:
        print(f"lacks process {comm}: {error}", flush=True)
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PDEATHSIG, which setuid would forget
    os.write(write, b"x")
    while True:
        time.sleep(1000)


def only(*opens):
    def then():
        for made in held:
            made.close()
        held.clear()
        for open_it in opens:
            open_it()
    return then


def pair_on(port, copies=0):
    def then():
        server = listener(("127.0.0.1", port))
        one, other = connected(server)
        for _ in range(copies):
            held.append(one.dup())
        made = make(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind(f"\0lab-port-{port}".encode())
        made.listen(5)
        make(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))
    return then


def threads():
    for name in [b"thread one", b"(thr)ead", b"\xc3\xb6"]:
        started = threading.Event()

        def body():
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "wb") as file:
                file.write(name)
            started.set()
            threading.Event().wait()
        threading.Thread(target=body, daemon=True).start()
        started.wait()


def in_cgroup(path):
    def then():
        with open(path + "/cgroup.procs", "w") as file:
            file.write("0")
    return then


def shared():
    listener(("127.0.0.1", 5500))


# 1. Processes, each with sockets of its own; they must not hold what comes later.
names = [b"two words", b"par(en)s", b"quo\"te", b"back\\slash", "\u00e4\u00f6\u00fc\u00df".encode(), b"exactly15bytes!", b"tab\tnl\nesc\x1b[1m",
         b"\xff\xfe", b")", b"(", b"a)b", b"123", b"comma,fd=3"]
for number, comm in enumerate(names):
    named(comm, only(pair_on(5510 + number)))
named(b"nobodys", only(pair_on(5550)), user=65534)
# Twice: the last field of a listing counts for no width, and which socket comes last differs between the two programs.
for number, comm in enumerate([b"many fds", b"more fds"]):
    named(comm, only(pair_on(5551 + 2 * number, copies=60)))
named(b"with threads", only(pair_on(5552), threads))
if cgroup != "-":
    for number, inside in enumerate(["", "/inner", "/odd name", "/gone"]):
        os.makedirs(cgroup + inside, exist_ok=True)
        named(b"grouped", only(in_cgroup(cgroup + inside), pair_on(5560 + number)))
# 2. A listener that four processes share.
only(shared)()
for number in range(3):
    named(b"sharer%d" % number, lambda: None)
# 3. What this process holds.
for group in [options_of_ip, raw_header_included, classes, md5, upper_layer, tcp_tuned, port_kinds, udp, udp_lite, ping, mptcp,
              packet, netlink, unix, vsock, xdp, tipc, sctp, dccp]:
    try:
        group()
    except OSError as error:
        print(f"lacks {group.__name__.replace('_', ' ')}: {error}", flush=True)
print("ready", flush=True)

# Stays until stdin closes; its children die with it.
while sys.stdin.buffer.read(1):
    pass
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
