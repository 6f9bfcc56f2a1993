"""Small worlds for the examples of the documents, the picture and the samples.

A world is a set of processes, sockets and devices in namespaces of its own (mount, network, PID, host name):
nothing of it is visible outside, and everything ends with its first process, also after SIGKILL. A script runs itself
again by the command that `isolated` returns; inside, it calls `prepare` and one of the functions in `WORLDS`.

Needs root, util-linux's `unshare`, iproute2's `ip`, and `/dev/net/tun` for worlds with a slow path.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

# An empty folder for files of a world; it vanishes with it.
SCRATCH = "/mnt"

HOSTS = """127.0.0.1 localhost
10.0.2.1 www1.example.net www1
10.0.2.5 db1.example.net db1
10.0.2.13 proxy1.example.net proxy1
10.0.2.21 monitor.example.net monitor
203.0.113.7 api.example.com
"""


def die_with_parent():
    """Has the kernel end this process when its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def isolated(command, name):
    """Returns the command line that runs a command as the first process of new namespaces."""
    script = f"hostname {name} && exec \"$@\""
    return ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
            "--propagation", "private", "sh", "-c", script, "sh", *command]


def unavailable(world):
    """Returns why a world cannot be made here, or None."""
    if os.geteuid():
        return "needs root"
    for program in ("unshare", "nsenter", "ip", "ss", "sysctl"):
        if not shutil.which(program):
            return f"needs {program}"
    if world in ("vpn", "demo") and not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    done = subprocess.run(isolated(["true"], "www1"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return f"no namespaces: {done.stdout.strip()}" if done.returncode else None


def prepare():
    """Prepares the namespaces that this process is the first of: names of namespaces and hosts of their own."""
    os.makedirs("/run/netns", exist_ok=True)
    run("mount -t tmpfs tmpfs /run/netns")
    hosts = "/run/netns/.hosts"
    with open(hosts, "w") as file:
        file.write(HOSTS)
    run(f"mount --bind {hosts} /etc/hosts")
    os.unlink(hosts)
    run(f"mount -t tmpfs tmpfs {SCRATCH}")
    run("ip link set lo up")


def run(command, inside=None):
    """Runs a command line of words; fails with what it printed."""
    words = command.split() if isinstance(command, str) else command
    if inside:
        words = ["nsenter", f"--net=/proc/{inside}/ns/net", *words]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout.strip()}")
    return done.stdout


def enter(pid):
    """Moves this process into the network namespace of another."""
    with open(f"/proc/{pid}/ns/net") as file:
        if LIBC.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def spawn(name, work, inside=None, new_net=False):
    """Starts a process with a name; returns its pid when `work` has called the function that it is given."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        # One read: children of the new process may keep the pipe open for longer.
        said = os.read(reader, 4096).decode() if select.select([reader], [], [], 20)[0] else "not ready in time"
        os.close(reader)
        if said != "ready":
            raise RuntimeError(f"{name}: {said or 'ended'}")
        return pid
    try:
        os.close(reader)
        die_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        if inside:
            enter(inside)
        if new_net and LIBC.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)

        def ready():
            os.write(writer, b"ready")
            os.close(writer)

        work(ready)
        signal.pause()
    except BaseException as error:  # reported to the parent if it still waits
        try:
            os.write(writer, repr(error).encode())
        except OSError:
            pass
    os._exit(1)


def peer():
    """Makes a network namespace without a name, which a sleeping process keeps; returns its pid."""
    return spawn("peer", lambda ready: ready(), new_net=True)


def listen(address, port, backlog=128):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((address, port))
    server.listen(backlog)
    return server


def echo(servers, size=400):
    """Answers each request on connections of these listeners with `size` bytes, for ever."""
    sockets = list(servers)
    while True:
        for one in select.select(sockets, [], [])[0]:
            if one in servers:
                try:
                    one.setblocking(False)
                    sockets.append(one.accept()[0])
                except BlockingIOError:
                    pass
                continue
            try:
                if one.recv(65536):
                    one.sendall(b"x" * size)
                    continue
            except OSError:
                pass
            sockets.remove(one)
            one.close()


def clients(plan):
    """Connects as (source, destination, port, count) says, then sends a request over one of them in turn."""

    def work(ready):
        connections = []
        for source, destination, port, count in plan:
            for _ in range(count):
                one = socket.create_connection((destination, port), 5, (source, 0) if source else None)
                connections.append(one)
        for one in connections:
            one.sendall(b"GET")
            one.recv(65536)
        ready()
        while True:
            for one in connections:
                one.sendall(b"GET / HTTP/1.1\r\n\r\n")
                one.recv(65536)
                time.sleep(0.05)

    return work


def holding(make):
    """Keeps what `make` returns, and sleeps."""

    def work(ready):
        kept = make()
        ready()
        while kept:
            signal.pause()

    return work


# The path of packets

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_TUN, IFF_NO_PI = 2, 1, 0x1000


def device(name, kind=IFF_TAP):
    """Opens a TUN or TAP device in the network namespace of this process."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), kind | IFF_NO_PI))
    return fd


class Impairment:
    """Delay, rate limit, queue and loss of one direction of a path."""

    def __init__(self, delay=0.0, rate=0, limit=1000, loss=0.0, seed=1):
        self.delay, self.rate, self.limit, self.loss = delay, rate, limit, loss
        self.random = random.Random(seed)
        self.free = 0.0
        self.waiting = []

    def accept(self, now, size):
        """Returns when a packet arrives, or None if it is dropped."""
        if self.loss and size > 200 and self.random.random() < self.loss:
            return None
        if not self.rate:
            return now + self.delay
        self.waiting = [end for end in self.waiting if end > now]
        if len(self.waiting) >= self.limit:
            return None
        self.free = max(self.free, now) + size * 8 / self.rate
        self.waiting.append(self.free)
        return self.free + self.delay


def tunnel(name, far, near_impairment, far_impairment, addresses, queue=1000, inside=None, dev="tap0"):
    """Starts a program that passes Ethernet frames between two TAP devices, one here and one in `far`."""

    def work(ready):
        ends = [device(dev)]
        near_net = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter(far)
        ends.append(device(dev))
        LIBC.setns(near_net, CLONE_NEWNET)
        impairments = [near_impairment, far_impairment]
        ready()
        due, number = [], 0
        while True:
            timeout = max(0.0, due[0][0] - time.monotonic()) if due else None
            for fd in select.select(ends, [], [], timeout)[0]:
                side = ends.index(fd)
                try:
                    frame = os.read(fd, 65536)
                except BlockingIOError:
                    continue
                at = impairments[side].accept(time.monotonic(), len(frame))
                if at is not None:
                    number += 1
                    heapq.heappush(due, (at, number, ends[1 - side], frame))
            now = time.monotonic()
            while due and due[0][0] <= now:
                _, _, fd, frame = heapq.heappop(due)
                try:
                    os.write(fd, frame)
                except OSError:
                    pass

    pid = spawn(name, work, inside)
    for net, address in ((inside, addresses[0]), (far, addresses[1])):
        run(f"ip link set {dev} txqueuelen {queue}", net)
        # Addresses of IPv6 would add packets of their own at random times.
        run(f"sysctl -qw net.ipv6.conf.{dev}.disable_ipv6=1", net)
        run(f"ip addr add {address} dev {dev}", net)
        run(f"ip link set {dev} up", net)
    return pid


def wire(far, near_address, far_addresses, name="eth0", inside=None):
    """Joins this namespace and another by a veth pair, both ends with the same name."""
    run(f"ip link add {name} type veth peer name {name} netns {far}", inside)
    for net, addresses in ((inside, [near_address]), (far, far_addresses)):
        for address in addresses:
            run(f"ip addr add {address} dev {name} nodad" if ":" in address else f"ip addr add {address} dev {name}", net)
        run(f"ip link set {name} up", net)
        run("ip link set lo up", net)


# The worlds


def web(binary):
    """A web server with clients, a cache, an application, a database far away, and some faults."""
    far = peer()
    wire(far, "10.0.2.1/24", ["10.0.2.5/24", "10.0.2.13/24", "10.0.2.21/24", "10.0.2.254/24", "203.0.113.7/32"])
    run("ip route add default via 10.0.2.254")
    run("ip route add 10.0.2.1/32 dev eth0 src 10.0.2.254", far)

    def nginx(ready):
        # One worker: with several, chance decides which of them accepts.
        servers = [listen("0.0.0.0", 80), listen("::", 80)]
        spawn("nginx", lambda up: (up(), echo(servers, 900)))
        ready()
        while servers:
            signal.pause()

    def postgres(ready):
        server = listen("10.0.2.5", 5432)
        ready()
        echo([server])

    def api(ready):
        server = listen("203.0.113.7", 443)
        ready()
        echo([server])

    spawn("nginx", nginx)
    spawn("redis-server", lambda ready: (lambda server: (ready(), echo([server], 60)))(listen("127.0.0.1", 6379)))
    spawn("postgres", postgres, far)
    spawn("api", api, far)
    spawn("backend", backend)
    spawn("java", clients([(None, "10.0.2.5", 5432, 4), (None, "203.0.113.7", 443, 2)]))
    spawn("proxy", clients([("10.0.2.13", "10.0.2.1", 80, 24), ("10.0.2.21", "10.0.2.1", 80, 2)]), far)
    spawn("leak", leak, far)
    spawn("gunicorn", holding(lambda: listen("0.0.0.0", 8080, 4)))
    spawn("impatient", impatient, far)
    time.sleep(6.5)


def backend(ready):
    """Sixteen connections to the cache; a listener on 7802 whose closed connections are never closed here."""
    server = listen("10.0.2.1", 7802)
    cache = [socket.create_connection(("127.0.0.1", 6379)) for _ in range(16)]
    for one in cache:
        one.sendall(b"PING")
        one.recv(100)
    ready()
    kept = []
    while True:
        kept.append(server.accept()[0])


def leak(ready):
    """Twelve connections to 7802, closed at once on this side."""
    for _ in range(12):
        one = socket.create_connection(("10.0.2.1", 7802), 5, ("10.0.2.13", 0))
        one.close()
    ready()


def impatient(ready):
    """More connections to 8080 than its backlog holds; the listener never accepts."""
    kept = []
    for _ in range(8):
        one = socket.socket()
        one.setblocking(False)
        one.bind(("10.0.2.13", 0))
        one.connect_ex(("10.0.2.1", 8080))
        kept.append(one)
        time.sleep(0.02)
    ready()
    signal.pause()


def demo(binary):
    """The host of `sockeye demo`, once all its faults show."""
    child = subprocess.Popen([binary, "demo"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
    # It prints once everything runs.
    if not select.select([child.stdout], [], [], 30)[0] or not child.stdout.readline():
        raise RuntimeError("sockeye demo does not start")
    time.sleep(6.5)
    enter(child.pid)


def quiet(binary):
    """A host on which nothing runs but sshd and a DNS cache, without traffic."""
    spawn("sshd", holding(lambda: [listen("0.0.0.0", 22), listen("::", 22)]))

    def dns():
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind(("127.0.0.53", 53))
        return one

    spawn("dnscache", holding(dns))


def vpn(binary):
    """A VPN over a TAP device whose queue holds three packets; `bench serve` runs at its other end."""
    far = peer()
    run("ip link set lo up", far)
    tunnel("vpnd", far, Impairment(0.002), Impairment(0.002), ("10.10.0.1/24", "10.10.0.2/24"), queue=3)
    run("ip link set tap0 txqueuelen 1000", far)
    serve(binary, far)


def serve(binary, far):
    """Runs `sockeye bench serve` in another namespace until the world ends."""
    child = subprocess.Popen([binary, "bench", "serve"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, preexec_fn=lambda: (die_with_parent(), enter(far)))
    deadline = time.monotonic() + 10
    while ":5210" not in run("ss -tlnH", far):
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("bench serve does not listen")
        time.sleep(0.05)


def pair(binary):
    """Two hosts joined by a link, 10.0.0.1 and 10.0.0.2; `bench serve` runs at the other one."""
    far = peer()
    wire(far, "10.0.0.1/24", ["10.0.0.2/24"])
    serve(binary, far)


def containers(binary):
    """Named namespaces with a process, without one, and one that only a descriptor keeps."""
    run("ip link add br0 type bridge")
    run("ip link set br0 up")
    for name in ("web1", "web2", "db1"):
        run(f"ip netns add {name}")
        run(f"ip -n {name} link set lo up")

    def serving(name, comm, port):
        def work(ready):
            with open(f"/run/netns/{name}") as file:
                LIBC.setns(file.fileno(), CLONE_NEWNET)
            server = listen("127.0.0.1", port)
            kept = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            kept += [server.accept()[0] for _ in range(3)]
            ready()
            while kept:
                signal.pause()

        spawn(comm, work)

    serving("web2", "nginx", 80)
    serving("db1", "postgres", 5432)

    def leaked(ready):
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        if LIBC.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        kept = os.open("/proc/self/ns/net", os.O_RDONLY)
        LIBC.setns(own, CLONE_NEWNET)
        os.close(own)
        ready()
        while kept:
            signal.pause()

    spawn("vpnd", leaked)


WORLDS = {"web": web, "demo": demo, "quiet": quiet, "vpn": vpn, "pair": pair, "containers": containers}
