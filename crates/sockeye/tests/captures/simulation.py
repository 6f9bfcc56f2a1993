"""A small simulation of TCP connections, whose packets are written into a capture.

Time is virtual and the random numbers are fixed: the same call gives the same file on every machine. A path is a
list of elements for each direction (`Delay`, `Shaper`, `Filter`, `Jitter`, and `TAP`, the place of the capture).
The TCP here has what captures show: slow start, SACK, DSACK, fast recovery, timeouts, delayed ACKs, Nagle, window
probes, path MTU discovery. It is no model of a particular stack.
"""

import heapq
import ipaddress
import struct

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MS = 1_000_000
SECOND = 1_000 * MS
TAP = object()


class Random:
    """Numbers that depend on the seed only."""

    def __init__(self, seed):
        self.state = seed * 2654435761 % 2**32 or 1

    def below(self, limit):
        for _ in range(2):
            self.state ^= self.state << 13 & 0xFFFFFFFF
            self.state ^= self.state >> 17
            self.state ^= self.state << 5 & 0xFFFFFFFF
        return self.state % limit


class World:
    """The clock, the events that are due, and the captured packets."""

    def __init__(self):
        self.now = 0
        self.due = []
        self.count = 0
        self.packets = []

    def at(self, when, action):
        self.count += 1
        heapq.heappush(self.due, (max(when, self.now), self.count, action))

    def after(self, delay, action):
        self.at(self.now + delay, action)

    def run(self, until=None):
        while self.due and (until is None or self.due[0][0] <= until):
            self.now, _, action = heapq.heappop(self.due)
            action()

    def capture(self, packet):
        self.packets.append((self.now, packet))


# The path


class Delay:
    def __init__(self, ns):
        self.ns = ns

    def take(self, world, packet, pass_on):
        world.after(self.ns, lambda: pass_on(packet))


class Jitter:
    """Delays that vary, in order; `delays` gives the extra delay of the n-th packet."""

    def __init__(self, delays, in_order=True):
        self.delays, self.in_order, self.count, self.last = delays, in_order, 0, 0

    def take(self, world, packet, pass_on):
        self.count += 1
        when = world.now + self.delays(self.count, packet)
        if self.in_order:
            when = max(when, self.last + 1_000)
            self.last = when
        world.at(when, lambda: pass_on(packet))


class Shaper:
    """A queue of at most `limit` bytes in front of a link of `rate` bytes per second."""

    def __init__(self, rate, limit=1 << 40):
        self.rate, self.limit, self.free = rate, limit, 0

    def take(self, world, packet, pass_on):
        waiting = max(self.free - world.now, 0) * self.rate // SECOND
        if waiting + packet.size() > self.limit:
            return
        self.free = max(self.free, world.now) + packet.size() * SECOND // self.rate
        world.at(self.free, lambda: pass_on(packet))


class Policer:
    """Drops what exceeds the rate and the burst; nothing waits."""

    def __init__(self, rate, burst):
        self.rate, self.burst, self.tokens, self.last = rate, burst, burst, 0

    def take(self, world, packet, pass_on):
        self.tokens = min(self.burst, self.tokens + (world.now - self.last) * self.rate // SECOND)
        self.last = world.now
        if self.tokens >= packet.size():
            self.tokens -= packet.size()
            pass_on(packet)


class Filter:
    """Calls `decide(n, packet)`: 0 drops the packet, 1 passes it, 2 duplicates it. n counts packets with data."""

    def __init__(self, decide, of_all=False):
        self.decide, self.count, self.of_all = decide, 0, of_all

    def take(self, world, packet, pass_on):
        if self.of_all or packet.len > 0:
            self.count += 1
            copies = self.decide(self.count, packet)
        else:
            copies = 1
        for copy in range(copies):
            world.after(copy * 20_000, lambda: pass_on(packet))


class Mtu:
    """Drops packets that are too long; with an address, answers with ICMP."""

    def __init__(self, mtu, router=None, back=None):
        self.mtu, self.router, self.back = mtu, router, back

    def take(self, world, packet, pass_on):
        if packet.size() <= self.mtu:
            pass_on(packet)
        elif self.router is not None:
            self.back(packet, self.mtu)


# Packets


class Packet:
    def __init__(self, **fields):
        self.src = self.dst = None
        self.seq = self.ack = self.flags = self.window = self.len = self.ipid = 0
        self.sack, self.options, self.data, self.ttl = [], b"", b"", 64
        self.raw = None
        self.__dict__.update(fields)

    def is_v6(self):
        return ":" in self.src[0]

    def size(self):
        return (40 if self.is_v6() else 20) + 20 + len(self.options) + self.len

    def encoded(self, full=True):
        if self.raw is not None:
            return self.raw
        payload = self.data[: self.len] + b"x" * (self.len - len(self.data))
        offset = (20 + len(self.options)) // 4
        head = struct.pack(
            "!HHIIBBHHH",
            self.src[1],
            self.dst[1],
            self.seq & 0xFFFFFFFF,
            self.ack & 0xFFFFFFFF,
            offset << 4,
            self.flags,
            self.window,
            0,
            0,
        )
        return ip(self.src[0], self.dst[0], 6, head + self.options + payload, self.ipid, self.ttl)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source, destination, protocol, payload, ipid=0, ttl=64):
    if ":" in source:
        head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, ttl)
        return head + ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), ipid & 0xFFFF, 0x4000, ttl, protocol, 0)
    head += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def icmp(router, packet, kind, code, rest=0):
    """An ICMP error of `router` about this packet, sent to its source."""
    protocol = 58 if packet.is_v6() else 1
    quote = packet.encoded()[: 1000 if packet.is_v6() else 28]
    body = struct.pack("!BBHI", kind, code, 0, rest) + quote
    if protocol == 1:
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    return Packet(raw=ip(router, packet.src[0], protocol, body), src=(router, 0), dst=packet.src)


def name_bytes(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def dns(source, destination, number, name, kind, answers=None, code=0):
    """A DNS query (no answers) or its response; addresses, or (name, None) for an alias."""
    is_answer = answers is not None
    flags = 0x8180 | code if is_answer else 0x0100
    body = struct.pack("!HHHHHH", number, flags, 1, len(answers or []), 0, 0)
    body += name_bytes(name) + struct.pack("!HH", kind, 1)
    for answer in answers or []:
        data = ipaddress.ip_address(answer).packed
        body += struct.pack("!HHHIH", 0xC00C, 28 if ":" in answer else 1, 1, 60, len(data)) + data
    datagram = struct.pack("!HHHH", source[1], destination[1], 8 + len(body), 0) + body
    return Packet(raw=ip(source[0], destination[0], 17, datagram), src=source, dst=destination)


# The ends


class End:
    """One end of a connection. `app` is a generator of actions:

    ("send", bytes[, first bytes]), ("receive", bytes), ("wait", ns), ("close",), ("reset",), ("end",)
    """

    def __init__(self, world, address, peer, iss, **options):
        self.world, self.address, self.peer_address, self.iss = world, address, peer, iss
        self.is_client = False
        self.mss, self.receive_buffer, self.send_buffer = 1448, 1 << 22, 1 << 30
        self.initial_window, self.nagle, self.delayed_ack, self.scale = 10, False, 40 * MS, 7
        self.quick_acks, self.reader, self.silly, self.keepalive = 16, None, False, None
        self.min_rto, self.probes_tail, self.timestamps, self.sack = 200 * MS, False, True, True
        self.ids, self.cwnd_max, self.honours_icmp, self.dead = None, 1 << 30, True, False
        self.syn_retries, self.clock_offset, self.ttl, self.ack_every = 4, 100_000, 64, 2
        self.delays_acks_of_all = False
        self.__dict__.update(options)
        self.id = self.ids or [iss * 7 % 60_000 + 1]
        self.path = None
        self.state, self.app, self.waits = "closed", None, None
        self.next = self.una = 0
        self.written = self.wanted = 0
        self.marks = {}
        self.fin_sent = self.fin_wanted = False
        self.queue = []
        self.cwnd, self.ssthresh, self.recover = self.initial_window * self.mss, 1 << 40, None
        self.srtt, self.var, self.rto, self.timer, self.backoff = None, 0, SECOND, None, 0
        self.persist, self.probe_count = None, 0
        self.received, self.taken, self.later, self.peer_fin = 0, 0, [], False
        self.peer_iss, self.peer_window, self.peer_scale = None, 0, 0
        self.unacked_in, self.ack_timer, self.duplicate = 0, None, None
        self.recent, self.advertised = 0, 0
        self.last_heard = 0

    # Sending packets

    def clock(self):
        return (self.world.now // MS + self.clock_offset) & 0xFFFFFFFF

    def emit(self, flags, seq, length=0, syn=False):
        if self.dead:
            return
        options = b""
        if syn:
            options += struct.pack("!BBH", 2, 4, self.mss + (12 if self.timestamps else 0))
            options += b"\4\2" if self.sack else b"\1\1"
            if self.timestamps:
                options += struct.pack("!BBII", 8, 10, self.clock(), self.recent)
            else:
                options += b"\1" * 2
            if self.scale is not None:
                options += b"\1" + struct.pack("!BBB", 3, 3, self.scale)
            options += b"\0" * (-len(options) % 4)
        else:
            if self.timestamps:
                options += b"\1\1" + struct.pack("!BBII", 8, 10, self.clock(), self.recent)
            blocks = ([self.duplicate] if self.duplicate else []) + self.later[-3:][::-1]
            if self.sack and blocks and length == 0:
                options += b"\1\1" + struct.pack("!BB", 5, 2 + 8 * len(blocks))
                for start, end in blocks:
                    options += struct.pack(
                        "!II", (self.peer_iss + 1 + start) & 0xFFFFFFFF, (self.peer_iss + 1 + end) & 0xFFFFFFFF
                    )
        self.duplicate = None
        window = self.window()
        if flags & ACK:
            self.advertised = self.received + window
        first = next((data for start, data in self.marks.items() if start == seq - 1), b"")
        packet = Packet(
            src=self.address,
            dst=self.peer_address,
            seq=self.iss + seq,
            ack=(self.peer_iss + 1 + self.received + self.peer_fin if flags & ACK else 0),
            flags=flags,
            window=min(window, 65535) if syn else min(window >> (self.scale or 0), 65535),
            len=length,
            options=options,
            data=first,
            ipid=0 if syn and flags & ACK else self.id[0],
            ttl=self.ttl,
        )
        packet.blocks = [] if syn else ([tuple(b) for b in blocks] if self.sack and length == 0 else [])
        packet.clock, packet.scale = self.clock(), self.scale
        if not (syn and flags & ACK):
            self.id[0] = self.id[0] % 65535 + 1
        if flags & ACK:
            self.unacked_in, self.ack_timer = 0, None
        self.path(packet)

    def window(self):
        space = max(self.receive_buffer - (self.received - self.taken), 0)
        promised = max(self.advertised - self.received, 0)
        if self.silly:
            return space
        if space < min(self.mss, self.receive_buffer // 2):
            return promised if promised else 0
        return max(space, promised)

    def flight(self):
        return sum(s["end"] - s["start"] for s in self.queue if not s["sacked"] and not s["lost"])

    # Opening

    def connect(self):
        self.is_client, self.state = True, "syn_sent"
        self.send_syn(0)

    def send_syn(self, times):
        if self.state != "syn_sent" or times > self.syn_retries:
            return
        self.syn_time = self.world.now
        self.emit(SYN, 0, syn=True)
        self.world.after(SECOND << times, lambda: self.send_syn(times + 1))

    def send_syn_ack(self, times=0):
        if self.state != "syn_received" or times > 4:
            return
        self.emit(SYN | ACK, 0, syn=True)
        self.world.after(SECOND << times, lambda: self.send_syn_ack(times + 1))

    def established(self):
        self.state = "established"
        self.next = self.una = 1
        self.step()

    # The program

    def step(self, value=None):
        while self.app is not None and self.waits is None:
            try:
                action = next(self.app)
            except StopIteration:
                self.app = None
                return
            kind, *args = action
            if kind == "send":
                if len(args) > 1:
                    self.marks[self.wanted] = args[1]
                self.wanted += args[0]
                self.fill()
                if self.written < self.wanted:
                    self.waits = ("space",)
            elif kind == "receive":
                self.waits = ("data", self.consumed() + args[0])
                self.check_receive()
            elif kind == "wait":
                self.waits = ("time",)
                self.world.after(args[0], self.wake)
            elif kind == "close":
                self.fin_wanted = True
                self.push()
            elif kind == "reset":
                self.emit(RST | ACK, self.next)
                self.state = "closed"
                self.app = None
            elif kind == "end":
                self.waits = ("end",)
                self.check_receive()

    consumed_total = 0

    def consumed(self):
        return self.consumed_total

    def wake(self):
        if self.waits and self.waits[0] == "time":
            self.waits = None
            self.step()

    def fill(self):
        self.written = min(self.wanted, max(self.una - 1, 0) + self.send_buffer)
        self.push()

    def check_receive(self):
        if not self.waits:
            return
        if self.waits[0] == "data" and self.taken >= self.waits[1]:
            self.consumed_total = self.waits[1]
            self.waits = None
            self.step()
        elif self.waits[0] == "end" and self.peer_fin:
            self.waits = None
            self.step()

    # Sending data

    def push(self):
        if self.state not in ("established", "closing"):
            return
        # Retransmissions first.
        for segment in self.queue:
            if segment["lost"] and not segment["sacked"]:
                if self.flight() + segment["end"] - segment["start"] > max(self.cwnd, self.mss):
                    return
                self.resend(segment)
        while True:
            left = self.written + 1 - self.next
            room = self.una + self.peer_window - self.next
            size = min(self.mss, left, max(room, 0))
            if size <= 0:
                if left > 0 and room <= 0 and not self.queue:
                    self.start_persist()
                break
            if self.flight() + size > min(self.cwnd, self.cwnd_max) and self.queue:
                break
            if size < self.mss and self.queue and (self.nagle or size < left):
                if self.nagle or self.peer_window > self.mss:
                    break
            if size < self.mss and size < left and not self.queue and self.peer_window >= self.mss:
                break
            start = self.next
            self.next += size
            flags = ACK | (PSH if self.next == self.written + 1 else 0)
            self.queue.append(
                dict(start=start, end=start + size, time=self.world.now, lost=False, sacked=False, again=0, fin=False)
            )
            self.emit(flags, start, size)
            self.arm()
        if self.fin_wanted and not self.fin_sent and self.next == self.written + 1 == self.wanted + 1:
            self.fin_sent, self.state = True, "closing"
            self.queue.append(
                dict(
                    start=self.next, end=self.next + 1, time=self.world.now, lost=False, sacked=False, again=0, fin=True
                )
            )
            self.emit(FIN | ACK, self.next)
            self.next += 1
            self.arm()

    def resend(self, segment):
        segment["lost"], segment["time"] = False, self.world.now
        segment["again"] += 1
        if segment["fin"]:
            self.emit(FIN | ACK, segment["start"])
        else:
            size = segment["end"] - segment["start"]
            if size > self.mss:
                # The path MTU is smaller now.
                place = self.queue.index(segment)
                rest = dict(segment, start=segment["start"] + self.mss, lost=True, again=0)
                segment["end"], size = segment["start"] + self.mss, self.mss
                self.queue.insert(place + 1, rest)
            flags = ACK | (PSH if segment["end"] == self.written + 1 else 0)
            self.emit(flags, segment["start"], size)
        self.arm()

    def arm(self, delay=None):
        token = object()
        self.timer = token
        if not self.queue:
            return
        wait = delay or self.rto << self.backoff
        tail = self.probes_tail and self.srtt and self.backoff == 0 and not any(s["again"] for s in self.queue)
        if tail and delay is None:
            wait = min(wait, 2 * self.srtt + 2 * MS)
        self.world.after(wait, lambda: self.timeout(token, tail))

    def timeout(self, token, is_tail):
        if self.timer is not token or not self.queue or self.state == "closed":
            return
        if is_tail:
            return self.resend(self.queue[-1])
        if self.backoff > 6:
            self.state = "closed"
            return
        self.backoff += 1
        self.ssthresh, self.cwnd, self.recover = max(self.flight() // 2, 2 * self.mss), self.mss, self.next
        for segment in self.queue:
            segment["lost"] = not segment["sacked"]
        self.resend(self.queue[0])

    def start_persist(self):
        if self.persist:
            return
        self.persist = token = object()
        self.world.after(min(self.rto, 400 * MS) << self.probe_count, lambda: self.probe(token))

    def probe(self, token):
        if self.persist is not token:
            return
        self.persist = None
        if self.peer_window == 0 and self.probe_count < 8:
            self.probe_count += 1
            self.emit(ACK, self.next - 1)
            self.start_persist()
        else:
            self.push()

    def start_keepalive(self):
        idle, interval, count = self.keepalive
        self.last_heard = self.world.now

        def tick(sent):
            if self.state != "established":
                return
            quiet = self.world.now - self.last_heard
            if quiet < idle and sent == 0:
                return self.world.after(idle - quiet, lambda: tick(0))
            if quiet < interval and sent > 0:
                return self.world.after(idle, lambda: tick(0))
            if sent >= count:
                self.emit(RST | ACK, self.next)
                self.state = "closed"
                return
            self.emit(ACK, self.next - 1)
            self.world.after(interval, lambda: tick(sent + 1))

        self.world.after(idle, lambda: tick(0))

    # Receiving

    def get(self, packet):
        if self.dead or self.state == "gone":
            return
        if packet.raw is not None:
            return self.get_icmp(packet)
        self.last_heard = self.world.now
        if packet.flags & RST:
            self.state, self.app, self.timer = "closed", None, None
            return
        if self.state == "reset":
            # The connection is unknown here.
            self.world.after(10_000, lambda: self.path(self.answer_reset(packet)))
            return
        if packet.flags & SYN:
            return self.get_syn(packet)
        if self.state == "syn_received":
            self.get_ack(packet)
            self.established()
        if self.state == "closed":
            return
        if packet.clock:
            self.recent = packet.clock if packet.seq - self.peer_iss - 1 <= self.received else self.recent
        self.get_ack(packet)
        self.get_data(packet)

    def answer_reset(self, packet):
        return Packet(
            src=self.address, dst=self.peer_address, seq=packet.ack, ack=0, flags=RST, window=0, ttl=self.ttl, ipid=0
        )

    def get_syn(self, packet):
        self.peer_iss, self.peer_window = packet.seq, packet.window
        self.peer_scale = packet.scale
        self.recent = packet.clock
        if packet.flags & ACK:
            if self.state == "syn_sent":
                self.measure(self.world.now - self.syn_time)
                self.established_pending(packet)
            else:
                self.emit(ACK, self.next)
        elif self.state in ("listen", "syn_received"):
            if self.state == "listen":
                self.state = "syn_received"
                self.send_syn_ack()
            else:
                self.emit(SYN | ACK, 0, syn=True)

    def established_pending(self, packet):
        self.state = "established"
        self.next = self.una = 1
        self.emit(ACK, 1)
        if self.keepalive:
            self.start_keepalive()
        self.step()

    def measure(self, ns):
        if self.srtt is None:
            self.srtt, self.var = ns, ns // 2
        else:
            self.var = self.var * 3 // 4 + abs(self.srtt - ns) // 4
            self.srtt = self.srtt * 7 // 8 + ns // 8
        self.rto = self.srtt + max(self.min_rto, 4 * self.var)

    def get_ack(self, packet):
        acked = packet.ack - self.iss
        window = packet.window << (self.peer_scale or 0)
        is_update = window != self.peer_window
        opened = self.peer_window == 0 and window > 0
        self.peer_window = window
        if opened:
            self.persist, self.probe_count = None, 0
        newly = acked > self.una
        if newly:
            sample = None
            for segment in self.queue:
                if segment["end"] <= acked and segment["again"] == 0:
                    sample = self.world.now - segment["time"]
            if sample is not None:
                self.measure(sample)
            advance = acked - self.una
            self.una = acked
            self.backoff = 0
            kept = []
            for segment in self.queue:
                if segment["end"] > acked:
                    segment["start"] = max(segment["start"], acked)
                    kept.append(segment)
            self.queue = kept
            if self.recover is not None and acked >= self.recover:
                self.recover = None
                self.cwnd = max(self.cwnd, self.ssthresh) if self.cwnd > self.mss else self.cwnd
            if self.recover is None or self.cwnd < self.ssthresh:
                self.cwnd += advance if self.cwnd < self.ssthresh else self.mss * advance // max(self.cwnd, 1)
            self.arm()
        for start, end in packet.blocks:
            for segment in self.queue:
                if start <= segment["start"] - 1 and segment["end"] - 1 <= end:
                    segment["sacked"] = True
        highest = max((s["end"] for s in self.queue if s["sacked"]), default=0)
        sacked = sum(s["end"] - s["start"] for s in self.queue if s["sacked"])
        above = sacked
        lost = False
        for segment in self.queue:
            if segment["sacked"]:
                above -= segment["end"] - segment["start"]
            elif above > 2 * self.mss and segment["again"] == 0 and segment["end"] < highest:
                lost |= not segment["lost"]
                segment["lost"] = True
        if lost and self.recover is None:
            self.recover = self.next
            self.ssthresh = self.cwnd = max(self.cwnd // 2, 2 * self.mss)
            self.arm()
        del is_update
        if self.app is not None and self.waits and self.waits[0] == "space":
            self.fill()
            if self.written >= self.wanted:
                self.waits = None
                self.step()
        self.push()

    def get_data(self, packet):
        start = packet.seq - self.peer_iss - 1
        end = start + packet.len
        if packet.len == 0 and start < self.received and not packet.flags & FIN:
            # A keep-alive or a window probe.
            return self.emit(ACK, self.next)
        if packet.len > 0:
            if end <= self.received or any(a <= start and end <= b for a, b in self.later):
                self.duplicate = (start, end)
                return self.emit(ACK, self.next)
            if self.received - self.taken + packet.len > self.receive_buffer + 2 * self.mss:
                return self.emit(ACK, self.next)
            if start > self.received:
                self.later = [b for b in self.later if not (b[1] >= start and b[0] <= end)] + [
                    (
                        min([start] + [b[0] for b in self.later if b[1] >= start and b[0] <= end]),
                        max([end] + [b[1] for b in self.later if b[1] >= start and b[0] <= end]),
                    )
                ]
                return self.emit(ACK, self.next)
            self.received = max(self.received, end)
            had_later = bool(self.later)
            while True:
                block = next((b for b in self.later if b[0] <= self.received), None)
                if block is None:
                    break
                self.later.remove(block)
                self.received = max(self.received, block[1])
            self.take()
            self.unacked_in += 1
            if had_later or self.unacked_in >= self.ack_every or self.quick_acks > 0:
                self.quick_acks -= 1
                if self.unacked_in > 0:
                    self.emit(ACK, self.next)
            elif self.ack_timer is None:
                self.ack_timer = token = object()
                self.world.after(self.delayed_ack, lambda: self.late_ack(token))
        if packet.flags & FIN and end == self.received and not self.peer_fin:
            self.peer_fin = True
            self.emit(ACK, self.next)
            self.check_receive()
        elif packet.flags & FIN and self.peer_fin:
            self.emit(ACK, self.next)

    def late_ack(self, token):
        if self.ack_timer is token and self.unacked_in:
            self.emit(ACK, self.next)

    def take(self):
        if self.reader is None:
            self.taken = self.received
            self.world.after(20_000, self.check_receive)
        elif not getattr(self, "is_reading", False):
            self.is_reading = True
            self.world.after(self.reader[2], self.read)

    def read(self):
        chunk, interval, _ = self.reader
        self.taken = min(self.taken + chunk, self.received)
        self.check_receive()
        offered = self.window()
        shown = max(self.advertised - self.received, 0)
        step = 1 if self.silly else min(2 * self.mss, self.receive_buffer // 2)
        if offered - shown >= step and self.state in ("established", "closing"):
            self.emit(ACK, self.next)
        if not self.peer_fin or self.taken < self.received:
            self.world.after(interval, self.read)

    def get_icmp(self, packet):
        if not self.honours_icmp or packet.mtu is None:
            if packet.mtu is None:
                self.state, self.app = "closed", None
            return
        overhead = (40 if ":" in self.address[0] else 20) + 20 + (12 if self.timestamps else 0)
        self.mss = packet.mtu - overhead
        for segment in self.queue:
            segment["lost"] = not segment["sacked"]
        self.world.after(50_000, self.push)


def connect_path(world, elements, deliver, tap=None):
    """Returns the function that sends a packet through these elements."""

    def entry(index):
        def pass_on(packet):
            if index == len(elements):
                return deliver(packet)
            element = elements[index]
            if element is TAP:
                (tap or world.capture)(packet)
                return entry(index + 1)(packet)
            element.take(world, packet, entry(index + 1))

        return pass_on

    return entry(0)


class Pair:
    """A client and a server with the paths between them."""

    def __init__(
        self,
        world,
        client_app,
        server_app,
        there=(TAP, Delay(5 * MS)),
        back=(Delay(5 * MS), TAP),
        client=None,
        server=None,
        addresses=(("10.1.0.2", 40_000), ("10.2.0.3", 443)),
        start=0,
        answers=True,
    ):
        self.world = world
        iss = 1_000_000 + addresses[0][1] * 977
        self.client = End(world, addresses[0], addresses[1], iss, **(client or {}))
        self.server = End(world, addresses[1], addresses[0], iss * 3 % 2**32, **(server or {}))
        self.server.state = "listen" if answers else "closed"
        self.client.app = client_app
        self.server.app = server_app
        self.client.path = connect_path(world, list(there), self.server.get)
        self.server.path = connect_path(world, list(back), self.client.get)
        world.at(start, self.client.connect)


def write(path, packets, snaplen=200):
    """Writes a pcap with times in nanoseconds, of IP packets without a link layer."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 101))
        for time, packet in packets:
            time += 1_700_000_000 * SECOND
            data = packet if isinstance(packet, bytes) else packet.encoded()
            file.write(struct.pack("<IIII", time // SECOND, time % SECOND, min(len(data), snaplen), len(data)))
            file.write(data[:snaplen])
