"""Programs that the hosts of a case run. Each takes its control connection first, reports when it is ready, and stays."""

import array
import errno
import fcntl
import heapq
import itertools
import json
import os
import random
import resource
import select
import selectors
import socket
import struct
import subprocess
import threading
import time

LINE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
RESET = struct.pack("ii", 1, 0)


def execute(control, argv, uid=None, timeout=60):
    """Runs a command and reports its exit code and output."""
    def drop():
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=timeout, preexec_fn=drop)
        result = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
    except subprocess.TimeoutExpired:
        result = {"code": -1, "out": "", "err": f"no answer within {timeout} s"}
    data = json.dumps(result).encode()
    control.report({"bytes": len(data)})
    for start in range(0, len(data), 100_000):
        control.sock.send(data[start:start + 100_000])


def listening(port, bind="0.0.0.0", backlog=128, reuseport=False, options=()):
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuseport:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    for level, name, value in options:
        sock.setsockopt(level, name, value)
    sock.bind((bind, port))
    sock.listen(backlog)
    return sock


def connected(dst, port, src=None, options=(), timeout=None):
    family = socket.AF_INET6 if ":" in dst else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    for level, name, value in options:
        sock.setsockopt(level, name, value.encode() if isinstance(value, str) else value)
    if src:
        sock.bind((src, 0))
    sock.settimeout(timeout)
    sock.connect((dst, port))
    sock.settimeout(None)
    return sock


def descriptors(limit):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def stuck_listener(control, port, backlog=128, how="sleep", bind="0.0.0.0", workers=0, upstream=None, reuseport=False):
    """Listens, and stops accepting: `sleep`, `deadlock` (a thread waits for its own lock), `silent-client` (one thread reads from a
    client that says nothing), `upstream` (one thread waits for an answer of another server)."""
    sock = listening(port, bind, backlog, reuseport)
    for _ in range(workers):
        if os.fork() == 0:
            while True:
                connection, _ = sock.accept()
                connection.recv(1000)
    if how == "deadlock":
        lock = threading.Lock()

        def accept():
            with lock:
                with lock:
                    sock.accept()
        threading.Thread(target=accept, daemon=True).start()
    control.ready()
    if how == "silent-client":
        connection, _ = sock.accept()
        connection.recv(1000)
    if how == "upstream":
        connection, _ = sock.accept()
        connection.recv(1000)
        database = connected(*upstream)
        database.sendall(b"select 1\n")
        database.recv(1000)
    control.forever()


def serve(control, port, bind="0.0.0.0", backlog=512, on="echo", delay=0.0, reuseport=False, limit=None, accept_pause=0.0,
          rate=0, options=(), workers=1, child_options=()):
    """A server of one process that accepts everything.

    on: echo (answers each request), close (answers and closes), hold (accepts, reads nothing), sink (reads and discards),
    leak (reads, ignores the peer's end), late (reads up to the end, works for `delay` seconds, answers, closes),
    trickle (reads `rate` bytes a second), source (sends without end), poll (answers after `delay` seconds),
    abandon (as leak; also never closes what was reset).
    """
    if limit:
        descriptors(limit)
    sock = listening(port, bind, backlog, reuseport, options)
    sock.setblocking(False)
    for _ in range(workers - 1):
        if os.fork() == 0:
            break
    else:
        control.ready()
    watched = selectors.DefaultSelector()
    watched.register(sock, selectors.EVENT_READ)
    kept, timers, order = [], [], itertools.count()
    last = time.monotonic()
    while True:
        now = time.monotonic()
        wait = 0.2 if not timers else max(0.0, min(0.2, timers[0][0] - now))
        if on == "trickle":
            wait = 0.05
        for key, ready in watched.select(wait):
            if key.fileobj is sock:
                try:
                    connection, _ = sock.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE):
                        raise
                    time.sleep(0.05)
                    continue
                for level, name, value in child_options:
                    connection.setsockopt(level, name, value)
                connection.setblocking(False)
                kept.append(connection)
                if accept_pause:
                    time.sleep(accept_pause)
                if on == "source":
                    watched.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
                elif on not in ("hold", "trickle"):
                    watched.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            if on == "source":
                try:
                    if ready & selectors.EVENT_READ:
                        connection.recv(65536)
                    if ready & selectors.EVENT_WRITE:
                        connection.send(b"s" * 65536)
                except BlockingIOError:
                    pass
                except OSError:
                    watched.unregister(connection)
                continue
            try:
                data = connection.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if on in ("leak", "abandon"):
                if not data:
                    watched.unregister(connection)
                continue
            if on == "late":
                if not data:
                    watched.unregister(connection)
                    heapq.heappush(timers, (now + delay, next(order), connection, True))
                continue
            if not data:
                watched.unregister(connection)
                kept.remove(connection)
                connection.close()
                continue
            if on == "sink":
                continue
            if on == "poll":
                heapq.heappush(timers, (now + delay, next(order), connection, False))
                continue
            try:
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            except OSError:
                pass
            if on == "close":
                watched.unregister(connection)
                kept.remove(connection)
                connection.close()
        now = time.monotonic()
        while timers and timers[0][0] <= now:
            _, _, connection, close = heapq.heappop(timers)
            try:
                connection.send(b"ok")
            except OSError:
                pass
            if close:
                kept.remove(connection)
                connection.close()
        if on == "trickle":
            share = int(rate * (now - last))
            if share > 0:
                last = now
                for connection in kept:
                    try:
                        connection.recv(share)
                    except OSError:
                        pass
        if control.sock in select.select([control.sock], [], [], 0)[0]:
            command = control.command(0)
            if command in ("close", "reset"):
                for connection in kept:
                    if command == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    connection.close()
                kept.clear()
            if command == "unlisten":
                watched.unregister(sock)
                sock.close()
            if command == "busy":
                time.sleep(3600)


def hold(control, dst, port, n=1, payload=None, src=None, options=(), blocking=True, limit=None, timeout=None, every=0.0, then=None,
         ready_first=False, answer=False):
    """Opens `n` connections and keeps them, and obeys: close, reset, shutdown, send, exit."""
    if limit:
        descriptors(limit)
    kept = []
    if ready_first:
        control.ready()
    failures = 0
    for _ in range(n):
        try:
            if blocking:
                sock = connected(dst, port, src, options, timeout)
            else:
                sock = socket.socket(socket.AF_INET6 if ":" in dst else socket.AF_INET, socket.SOCK_STREAM)
                for level, name, value in options:
                    sock.setsockopt(level, name, value)
                if src:
                    sock.bind((src, 0))
                sock.setblocking(False)
                try:
                    sock.connect((dst, port))
                except BlockingIOError:
                    pass
        except OSError:
            failures += 1
            continue
        kept.append(sock)
        if payload:
            try:
                sock.send(payload.encode())
                if answer:
                    sock.recv(65536)
            except OSError:
                pass
        if every:
            time.sleep(every)
    if then == "shutdown":
        for sock in kept:
            sock.shutdown(socket.SHUT_WR)
    if not ready_first:
        control.ready({"open": len(kept), "refused": failures})
    # Answers are read and discarded; a socket that has ended is kept open all the same.
    alive = set(kept) if blocking and not limit else set()
    while True:
        for sock in select.select([control.sock, *alive], [], [])[0]:
            if sock is not control.sock:
                try:
                    if not sock.recv(65536):
                        alive.discard(sock)
                except OSError:
                    alive.discard(sock)
        command = control.command(0)
        if command is None:
            continue
        if command in ("close", "reset"):
            alive.clear()
        for sock in kept:
            try:
                if command == "close":
                    sock.close()
                elif command == "reset":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    sock.close()
                elif command == "shutdown":
                    sock.shutdown(socket.SHUT_WR)
                elif command == "send":
                    sock.setblocking(False)
                    sock.send(b"x" * 1000)
            except OSError:
                pass
        if command == "exit":
            os._exit(0)
        control.report({"done": command})


def send_bulk(control, dst, port, src=None, options=(), chunk=65536, pause=0.0, n=1, greet=False):
    """Sends without end over `n` connections, and ignores errors."""
    socks = [connected(dst, port, src, options, 10) for _ in range(n)]
    for sock in socks:
        sock.setblocking(False)
        if greet:
            sock.send(LINE)
    if greet:
        time.sleep(0.5)
    control.ready()
    data = b"d" * chunk
    alive = list(socks)
    while True:
        if control.sock in select.select([control.sock], alive if not pause else [], [], pause or 1)[0]:
            control.command(0)
        if pause:
            time.sleep(pause)
        for sock in select.select([], alive, [], 0 if pause else 0.2)[1]:
            try:
                sock.send(data)
            except BlockingIOError:
                pass
            except OSError:
                alive.remove(sock)


def receive(control, dst, port, n=1, rate=None, options=(), read=True):
    """Connects and reads: everything, `rate` bytes a second, or nothing."""
    socks = [connected(dst, port, None, options, 10) for _ in range(n)]
    for sock in socks:
        sock.send(LINE)
    control.ready()
    while read:
        for sock in select.select(socks, [], [], 0.2)[0]:
            if not sock.recv(rate // 10 if rate else 1 << 20):
                socks.remove(sock)
        if rate:
            time.sleep(0.1)
    control.forever()


def short_connections(control, dst, port, rate=50, reset=False, threads=1, payload=True, src=None, answer=True):
    """Opens, asks, reads the answer and closes, `rate` times a second; counts failures."""
    count = {"ok": 0, "refused": 0, "errors": {}}

    def run():
        while True:
            start = time.monotonic()
            try:
                sock = connected(dst, port, src, (), 3)
                sock.settimeout(5)
                if payload:
                    sock.send(LINE)
                    if answer:
                        sock.recv(1000)
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                sock.close()
                count["ok"] += 1
            except OSError as error:
                count["refused"] += 1
                name = errno.errorcode.get(error.errno, "timeout") if error.errno else "timeout"
                count["errors"][name] = count["errors"].get(name, 0) + 1
            time.sleep(max(0.0, threads / rate - (time.monotonic() - start)))
    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()
    control.ready()
    while True:
        if control.command(3600):
            control.report(count)


def keep_alive(control, dst, port, n=10, every=0.5):
    """`n` connections in a pool; a request over one of them every `every` seconds."""
    socks = [connected(dst, port) for _ in range(n)]
    control.ready()
    for sock in itertools.cycle(socks):
        sock.send(LINE)
        sock.recv(1000)
        control.command(every)


def half_closers(control, dst, port, rate=5, n=None):
    """Sends a request, ends its sending side, waits for the answer, again and again."""
    def one():
        try:
            sock = connected(dst, port)
            sock.send(LINE)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1000):
                pass
            sock.close()
        except OSError:
            pass
    control.ready()
    for number in itertools.count():
        if n is None or number < n:
            threading.Thread(target=one, daemon=True).start()
        control.command(1 / rate)


def open_descriptors(control, n, limit, kind="file"):
    """Holds `n` descriptors: files, pipes, epoll instances, or sockets that never got an address."""
    descriptors(limit)
    kept = []
    try:
        while len(kept) < n:
            if kind == "file":
                kept.append(os.open("/etc/hostname" if os.path.exists("/etc/hostname") else "/proc/self/stat", os.O_RDONLY))
            elif kind == "pipe":
                kept.extend(os.pipe())
            elif kind == "epoll":
                kept.append(select.epoll())
            elif kind == "socket":
                kept.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    except OSError:
        pass
    control.ready({"held": len(kept)})
    while True:
        # The program goes on trying, as programs do.
        try:
            os.close(os.open("/proc/self/stat", os.O_RDONLY))
        except OSError:
            pass
        control.command(0.2)


def udp_serve(control, port, bind="0.0.0.0", buffer=None, pause=0.0, read=True, group=None, answer=True):
    """A UDP server that answers each datagram, after `pause` seconds, or never reads."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((bind, port))
    if group:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group[0]) + socket.inet_aton(group[1]))
    control.ready()
    while read:
        data, peer = sock.recvfrom(65536)
        if answer:
            try:
                sock.sendto(data, peer)
            except OSError:
                pass
        if pause:
            time.sleep(pause)
    control.forever()


def udp_send(control, dst, port, rate=100, size=200, connect=False, burst=1, count=None, wait=None, src=None, multicast=None):
    """Sends datagrams; with `wait` it waits for an answer to each, as a resolver does."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if src:
        sock.bind((src, 0))
    if multicast:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(multicast))
    if connect:
        sock.connect((dst, port))
    result = {"sent": 0, "refused": 0, "answers": 0, "errors": {}}
    control.ready()
    data = b"q" * size
    sent = 0
    while True:
        for _ in range(burst):
            if count is not None and sent >= count:
                break
            sent += 1
            try:
                sock.send(data) if connect else sock.sendto(data, (dst, port))
                result["sent"] += 1
                if wait:
                    sock.settimeout(wait)
                    sock.recv(65536)
                    result["answers"] += 1
            except OSError as error:
                result["refused"] += 1
                name = errno.errorcode.get(error.errno, "timeout") if error.errno else "timeout"
                result["errors"][name] = result["errors"].get(name, 0) + 1
        if control.command(burst / rate):
            control.report(result)


def udp_sockets(control, n, dst=None, port=9):
    """Holds `n` UDP sockets with a port each."""
    kept = []
    failed = 0
    for _ in range(n):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.connect((dst, port)) if dst else sock.bind(("0.0.0.0", 0))
        except OSError:
            failed += 1
        kept.append(sock)
    control.ready({"refused": failed})
    control.forever()


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(array.array("H", data))
    total = (total >> 16) + (total & 0xffff)
    total += total >> 16
    return ~total & 0xffff


def tcp_segment(src, dst, sport, dport, flags, seq=1, ack=0, payload=b"", broken=False):
    header = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 5 << 4, flags, 64240, 0, 0)
    pseudo = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!BBH", 0, 6, len(header) + len(payload))
    value = checksum(pseudo + header + payload)
    if broken:
        value ^= 0x5555
    return header[:16] + struct.pack("=H", value) + header[18:] + payload


def raw_segments(control, dst, port, src="10.1.1.%d", sources=(100, 250), rate=200, flags=2, broken=False):
    """Segments with made-up source addresses and ports: a SYN flood by default."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    control.ready()
    for number in itertools.count():
        source = src % (sources[0] + number % (sources[1] - sources[0])) if "%" in src else src
        segment = tcp_segment(source, dst, 1024 + number * 7 % 60000, port, flags, random.getrandbits(31), broken=broken)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, number & 0xffff, 0, 64, 6, 0, socket.inet_aton(source), socket.inet_aton(dst))
        try:
            sock.sendto(header + segment, (dst, 0))
        except OSError:
            pass
        if control.command(1 / rate):
            control.report({"sent": number})


def raw_fragments(control, dst, rate=20):
    """First fragments of datagrams whose rest never comes."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    control.ready()
    for number in itertools.count(1):
        body = struct.pack("!HHHH", 4000, 4000, 3008, 0) + b"f" * 1472
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, number & 0xffff, 0x2000, 64, 17, 0, b"\0" * 4, socket.inet_aton(dst))
        sock.sendto(header + body, (dst, 0))
        control.command(1 / rate)


def raw_frames(control, device, ethertypes, rate=50):
    """Frames of protocols that no one handles, as switches send them (LLDP, STP)."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((device, 0))
    control.ready()
    for number in itertools.count():
        kind = ethertypes[number % len(ethertypes)]
        if kind == 0x26:
            frame = bytes.fromhex("0180c2000000") + b"\2\0\0\0\0\1" + struct.pack("!H", 38) + bytes.fromhex("424203") + b"\0" * 43
        else:
            frame = bytes.fromhex("0180c200000e") + b"\2\0\0\0\0\1" + struct.pack("!H", kind) + b"\2\7\4" + b"\0" * 60
        sock.send(frame)
        control.command(1 / rate)


def tun(control, device, address, queue=None, read=True, pause=0.0, mtu=None):
    """A tunnel device; its program reads a packet each `pause` seconds, or never."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, 0x400454ca, struct.pack("16sH22x", device.encode(), 0x1001))
    subprocess.run(["ip", "addr", "add", address, "dev", device], check=True)
    if queue:
        subprocess.run(["ip", "link", "set", device, "txqueuelen", str(queue)], check=True)
    if mtu:
        subprocess.run(["ip", "link", "set", device, "mtu", str(mtu)], check=True)
    subprocess.run(["ip", "link", "set", device, "up"], check=True)
    control.ready()
    while read:
        os.read(file, 70000)
        if pause:
            time.sleep(pause)
    control.forever()


def wire(control, ends, delay=0.0, loss=0.0, reorder=0.0, mtu=None, duplicate=0.0, rate=None, queue=1000, one_way=None):
    """Copies frames between two devices: `delay` seconds each way, a share `loss` of them lost, a share `reorder` late.

    rate: bytes a second each way; queue: frames that may wait for it. one_way: impair only what enters at that end (0 or 1).
    The commands {"loss": 1.0} and so on change a value.
    """
    socks = []
    for end in ends:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.bind((end, 0))
        sock.setsockopt(263, 23, 1)
        sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
        sock.setblocking(False)
        socks.append(sock)
    control.ready()
    values = {"delay": delay, "loss": loss, "reorder": reorder, "duplicate": duplicate, "rate": rate, "mtu": mtu}
    pending, order, free, inside = [], itertools.count(), [0.0, 0.0], [0, 0]
    while True:
        now = time.monotonic()
        wait = min(0.5, max(0.0, pending[0][0] - now)) if pending else 0.5
        for sock in select.select([*socks, control.sock], [], [], wait)[0]:
            if sock is control.sock:
                values.update(control.command(0))
                continue
            side = socks.index(sock)
            for _ in range(64):
                try:
                    frame = sock.recv(70000)
                except BlockingIOError:
                    break
                except OSError:
                    break
                now = time.monotonic()
                impaired = one_way is None or one_way == side
                ip = frame[12:14] in (b"\x08\x00", b"\x86\xdd")
                if impaired and ip and random.random() < values["loss"]:
                    continue
                if impaired and values["mtu"] and len(frame) > values["mtu"] + 14:
                    continue
                when = now + values["delay"]
                if values["rate"] and impaired:
                    if inside[side] >= queue:
                        continue
                    inside[side] += 1
                    free[side] = max(free[side], now) + len(frame) / values["rate"]
                    when = free[side] + values["delay"]
                if impaired and random.random() < values["reorder"]:
                    when += 0.004
                heapq.heappush(pending, (when, next(order), side, frame))
                if impaired and random.random() < values["duplicate"]:
                    heapq.heappush(pending, (when, next(order), side, frame))
        now = time.monotonic()
        while pending and pending[0][0] <= now:
            _, _, side, frame = heapq.heappop(pending)
            if values["rate"] and inside[side]:
                inside[side] -= 1
            try:
                socks[1 - side].send(frame)
            except OSError:
                pass


def write_write_read(control, dst, port, nodelay=False):
    """Requests in two small writes, each waiting for the answer to both: Nagle meets the delayed ACK."""
    sock = connected(dst, port)
    if nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    control.ready()
    count, start = 0, time.monotonic()
    while True:
        sock.send(b"h" * 50)
        sock.send(b"b" * 50)
        got = 0
        while got < 100:
            got += len(sock.recv(100 - got))
        count += 1
        if control.sock in select.select([control.sock], [], [], 0)[0]:
            control.command(0)
            control.report({"requests": count, "seconds": time.monotonic() - start})


def echo_pairs(control, port):
    """Answers only when 100 bytes are complete."""
    sock = listening(port)
    control.ready()

    def run(connection):
        while True:
            got = 0
            while got < 100:
                data = connection.recv(100 - got)
                if not data:
                    return
                got += len(data)
            connection.send(b"a" * 100)
    while True:
        connection, _ = sock.accept()
        threading.Thread(target=run, args=(connection,), daemon=True).start()


def unix_stuck(control, path, backlog=4):
    """A UNIX stream listener that accepts nothing, and clients that wait."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    sock.listen(backlog)
    control.ready()
    control.forever()


def unix_clients(control, path, n):
    kept, failed = [], 0
    for _ in range(n):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(path)
        except OSError:
            failed += 1
        kept.append(sock)
    control.ready({"refused": failed})
    control.forever()
