"""A laboratory of hosts for faults: each host is its own network namespace with its own processes.

A case runs as process 1 of a PID namespace of its own. Whatever ends that process (the end of the case, a failure, SIGTERM, a
deadline, the death of the runner) ends all its processes, and with the last of them go the namespaces, devices and firewalls.
Nothing has a name outside, so nothing can stay behind.

Hosts are `apart` (each has its own PID namespace, as machines or containers have) or share the processes of the case, as
`ip netns` setups do. Programs are functions of `programs.py`, which run in a fork of the host's agent.
"""

import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x4000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
libc = ctypes.CDLL(None, use_errno=True)


class FaultAbsent(Exception):
    """The proof by an independent source failed: the fault is not there, so the case says nothing."""


def call(name, *args):
    if getattr(libc, name)(*args) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{name}: {os.strerror(errno)}")


def mount(source, target, kind, flags=0):
    call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)


def name_process(name):
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def enter_case(run):
    """Runs `run` as process 1 of a new PID namespace, and returns its exit code."""
    call("unshare", CLONE_NEWPID | CLONE_NEWNS)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            mount("none", "/", "none", MS_REC | MS_PRIVATE)
            mount("proc", "/proc", "proc")
            # Namespaces that others have named are none of this case's.
            if os.path.isdir("/run/netns"):
                mount("tmpfs", "/run/netns", "tmpfs")
            code = run()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def stop(number, _frame):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Control:
    """A program's side of the connection with its case."""

    def __init__(self, sock):
        self.sock = sock

    def ready(self, value=None):
        self.report({"ready": value})

    def report(self, value):
        self.sock.send(json.dumps(value).encode())

    def command(self, timeout=None):
        """The next command, or None if none came in time. Ends the program if the case is gone."""
        if not select.select([self.sock], [], [], timeout)[0]:
            return None
        data = self.sock.recv(65536)
        if not data:
            os._exit(0)
        return json.loads(data)

    def forever(self):
        while True:
            self.command(3600)


class Program:
    """A running program of a host, as its case sees it."""

    def __init__(self, host, pid, sock, name):
        self.host, self.pid, self.sock, self.name = host, pid, sock, name

    def receive(self, timeout=20):
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError(f"{self.name} on {self.host.name} reports nothing")
        data = self.sock.recv(1 << 20)
        if not data:
            raise RuntimeError(f"{self.name} on {self.host.name} has ended")
        value = json.loads(data)
        if isinstance(value, dict) and "failed" in value:
            raise RuntimeError(f"{self.name} on {self.host.name}: {value['failed']}")
        return value

    def send(self, value):
        self.sock.send(json.dumps(value).encode())

    def signal(self, number):
        self.host.agent_request({"kill": self.pid, "signal": int(number)})

    def stop(self):
        self.signal(signal.SIGSTOP)

    def kill(self):
        self.signal(signal.SIGKILL)


class Host:
    """A network namespace with an agent that starts programs in it."""

    def __init__(self, lab, name, apart=True):
        self.lab, self.name, self.programs = lab, name, []
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self.sock.close()
            self._become_agent(theirs, apart)
        theirs.close()
        hello = json.loads(self.sock.recv(4096))
        if "failed" in hello:
            raise RuntimeError(hello["failed"])
        # With a PID namespace of its own the agent is the child of the process that we forked.
        self.pid = pid
        if apart:
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                self.pid = int(children.read().split()[0])
        self.netns = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        self.ip("link", "set", "lo", "up")

    def _become_agent(self, sock, apart):
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            call("unshare", CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWPID if apart else 0))
            if apart:
                pid = os.fork()
                if pid:
                    sock.close()
                    os.waitpid(pid, 0)
                    os._exit(0)
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            mount("none", "/", "none", MS_REC | MS_PRIVATE)
            if apart:
                mount("proc", "/proc", "proc")
            mount("sysfs", "/sys", "sysfs")
            socket.sethostname(self.name)
            name_process("agent")
            # Programs must not inherit what belongs to the case or to other hosts.
            keep = sock.fileno()
            for number in [int(entry) for entry in os.listdir("/proc/self/fd")]:
                if number > 2 and number != keep:
                    try:
                        os.close(number)
                    except OSError:
                        pass
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            sock.send(b'{"hello": 1}')
        except BaseException as error:
            sock.send(json.dumps({"failed": f"agent: {error!r}"}).encode())
            os._exit(1)
        self._serve(sock)

    @staticmethod
    def _serve(sock):
        import programs

        while True:
            data, fds, _, _ = socket.recv_fds(sock, 65536, 1)
            if not data:
                os._exit(0)
            request = json.loads(data)
            if "kill" in request:
                try:
                    os.kill(request["kill"], request["signal"])
                except ProcessLookupError:
                    pass
                sock.send(b"{}")
                continue
            pid = os.fork()
            if pid == 0:
                sock.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                name_process(request["comm"])
                control = Control(socket.socket(fileno=fds[0]))
                try:
                    getattr(programs, request["program"])(control, **request["options"])
                    os._exit(0)
                except BaseException as error:
                    try:
                        control.report({"failed": f"{error!r}"})
                    except OSError:
                        pass
                    os._exit(1)
            os.close(fds[0])
            sock.send(json.dumps({"pid": pid}).encode())

    def agent_request(self, request, fds=()):
        socket.send_fds(self.sock, [json.dumps(request).encode()], list(fds))
        return json.loads(self.sock.recv(65536))

    def start(self, program, comm=None, ready=True, **options):
        """Starts a program of programs.py under the process name `comm`, and waits until it is ready."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        reply = self.agent_request({"program": program, "comm": comm or program, "options": options}, [theirs.fileno()])
        theirs.close()
        running = Program(self, reply["pid"], ours, comm or program)
        # A program ends when its case lets the connection go.
        self.programs.append(running)
        if ready:
            running.value = running.receive()["ready"]
        return running

    def run(self, *argv, uid=None, timeout=60):
        """Runs a command among the host's processes; returns its exit code, output and errors."""
        running = self.start("execute", comm="shell", ready=False, argv=list(argv), uid=uid, timeout=timeout)
        size = running.receive(timeout + 20)["bytes"]
        data = b""
        while len(data) < size:
            data += running.sock.recv(1 << 20)
        result = json.loads(data)
        return result["code"], result["out"], result["err"]

    def tool(self, *argv, check=True, text=None):
        """Runs a tool in the host's network namespace only, and returns its output."""
        done = subprocess.run(
            argv, input=text, text=True, capture_output=True, timeout=20,
            preexec_fn=lambda: call("setns", self.netns, CLONE_NEWNET),
        )
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def ip(self, *args, check=True):
        return self.tool("ip", *args, check=check)

    def nft(self, rules):
        """Loads a ruleset."""
        self.tool("nft", "-f", "-", text=rules)

    def drop(self, hook, match, verdict="drop"):
        """A firewall rule of the host's own, with a counter."""
        self.nft(f"add table inet host\nadd chain inet host {hook} {{ type filter hook {hook} priority 0; }}\n"
                 f"add rule inet host {hook} {match} counter {verdict}\n")

    def dropped(self, hook):
        """Packets that the rules of `drop` have caught."""
        return sum(int(n) for n in re.findall(r"packets (\d+)", self.tool("nft", "list", "chain", "inet", "host", hook)))

    def sysctl(self, **values):
        """Sets net.* settings; "__" means a dot."""
        for name, value in values.items():
            key = f"net.{name.replace('__', '.')}"
            self.tool("sysctl", "-qw", f"{key}={value}")
            # A setting that only the first namespace may change is refused in silence.
            now = self.tool("sysctl", "-n", key).split()
            if now != str(value).split():
                raise RuntimeError(f"{self.name}: {key} is {' '.join(now)}, not {value}")

    def counter(self, name):
        """A counter of /proc/net/netstat, snmp or snmp6, by nstat's name (TcpExtListenDrops); 0 if it does not exist."""
        for file in ("netstat", "snmp"):
            with open(f"/proc/{self.pid}/net/{file}") as table:
                rows = table.read().splitlines()
            for names, values in zip(rows[::2], rows[1::2]):
                prefix = names.split(":")[0]
                row = dict(zip(names.split()[1:], values.split()[1:]))
                if name.startswith(prefix) and name[len(prefix):] in row:
                    return int(row[name[len(prefix):]])
        with open(f"/proc/{self.pid}/net/snmp6") as table:
            return int(dict(line.split() for line in table).get(name, 0))

    def device(self, device, counter):
        """A counter of /sys/class/net/DEVICE/statistics, read from the link itself."""
        links = json.loads(self.tool("ip", "-j", "-s", "link", "show", "dev", device))
        way, _, what = counter.partition("_")
        return links[0]["stats64"][way][what]

    def ss(self, *args):
        """Lines of the real ss, without its header."""
        return self.tool("ss", "-H", *args).splitlines()

    def waiting(self, port):
        """Connections in the accept queue of a port, as ss shows them."""
        return sum(int(line.split()[1]) for line in self.ss("-tln", f"sport = :{port}"))

    def offloads_off(self, device):
        """Switches checksum and segmentation offloads off, for a wire that copies frames."""
        def off():
            call("setns", self.netns, CLONE_NEWNET)
        code = (
            "import fcntl,socket,struct,ctypes,sys\n"
            "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
            "for c in (0x17,0x1f,0x24,0x2c,0x19,0x15):\n"
            "  v=ctypes.create_string_buffer(struct.pack('II',c,0))\n"
            "  r=struct.pack('16sP',sys.argv[1].encode(),ctypes.addressof(v))+b'\\0'*16\n"
            "  try: fcntl.ioctl(s,0x8946,r)\n"
            "  except OSError: pass\n"
        )
        subprocess.run([sys.executable, "-I", "-c", code, device], check=True, preexec_fn=off, timeout=20)


class Lab:
    """The hosts of one case, and what was proven about them."""

    def __init__(self, binary, apart=True):
        self.binary, self.apart = binary, apart
        self.proofs = []
        self.subnet = 0

    def host(self, name):
        return Host(self, name, self.apart)

    def link(self, a, b, v4=None, names=("eth0", "eth0"), up=True):
        """A veth pair; returns its two IPv4 addresses (10.1.N.1 and 10.1.N.2)."""
        self.subnet += 1
        a.ip("link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", str(b.pid))
        addresses = v4 or (f"10.1.{self.subnet}.1", f"10.1.{self.subnet}.2")
        for host, device, address in zip((a, b), names, addresses):
            if address:
                host.ip("addr", "add", f"{address}/24", "dev", device)
            if up:
                host.ip("link", "set", device, "up")
        return addresses

    def pair(self, left="srv", right="cli"):
        """Two hosts on one cable: 10.1.1.1 and 10.1.1.2."""
        a, b = self.host(left), self.host(right)
        a.addr, b.addr = self.link(a, b)
        return a, b

    def routed(self, left="srv", right="cli"):
        """Two hosts with a router between them: 10.1.1.1 - router - 10.1.2.2."""
        a, router, b = self.host(left), self.host("router"), self.host(right)
        a.addr, _ = self.link(a, router, names=("eth0", "left"))
        _, b.addr = self.link(router, b, names=("right", "eth0"))
        a.ip("route", "add", "default", "via", "10.1.1.2")
        b.ip("route", "add", "default", "via", "10.1.2.1")
        router.sysctl(ipv4__ip_forward=1)
        return a, router, b

    def wired(self, left="srv", right="cli", **impairment):
        """Two hosts with a wire between them that delays, loses, reorders; see programs.wire."""
        a, middle, b = self.host(left), self.host("wire"), self.host(right)
        for host, end, address in ((a, "left", "10.1.1.1"), (b, "right", "10.1.1.2")):
            host.ip("link", "add", "eth0", "type", "veth", "peer", "name", end, "netns", str(middle.pid))
            host.ip("addr", "add", f"{address}/24", "dev", "eth0")
            host.offloads_off("eth0")
            middle.ip("link", "set", end, "addrgenmode", "none", "up")
            host.ip("link", "set", "eth0", "addrgenmode", "none", "up")
            host.addr = address
        a.wire = b.wire = middle.start("wire", ends=["left", "right"], **impairment)
        return a, b

    def until(self, condition, what, timeout=10.0):
        """Waits for a condition, and records it as proven."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                self.proofs.append(f"{what}: {str(value)[:160]}" if value is not True else what)
                return value
            if time.monotonic() > deadline:
                raise FaultAbsent(f"{what}: not within {timeout} s")
            time.sleep(0.1)

    def proof(self, value, what):
        self.until(lambda: value, what, 0)

    @staticmethod
    def pause(seconds):
        time.sleep(seconds)
