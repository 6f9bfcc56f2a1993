"""Checks of listings: the same sockets as ss, from every source; owners; all namespaces; drop-ins; doctor."""

import collections
import json
import os
import re

from guest import Absent, check, command, document, require, same, sockeye
from guest_world import NETNS, World, tcp_pair

PROTOCOLS = {"tcp": "-t", "udp": "-u", "raw": "-w", "unix": "-x", "packet": "-0", "netlink": "-A netlink", "mptcp": "-M"}
SOURCES = {"tcp": ("bpf", "diag", "diag-v2", "procfs"), "udp": ("bpf", "diag-v2", "procfs"), "mptcp": ("diag-v2",)}
# Sockets of the commands that list: each has others.
# The last are those of netlink: they ask the kernel by protocol 4 and have their pid as address.
OWN = re.compile(r"\b(?:ss|sockeye|python3)/|\b4:[1-9]\d+\b")
# With it ss reads /proc too, which does not know everything, such as a listener's backlog.
FROM_PROC = {"PROC_ROOT": "/proc"}
# Where ss makes something of /proc that the kernel does not say, its netlink listing counts, without what /proc lacks: peers
# and backlogs of UNIX sockets; memory on the way out of PACKET sockets, so that Sockeye prints no queues.
UNKNOWN_TO_PROC = {"unix": r"(?<=\* )\d+$|(?<=LISTEN 0 )\d+", "packet": r"(?<=UNCONN )\d+"}
# Since which kernel BPF may not be absent.
BPF = (5, 10)


def lines_of(done):
    return [line for line in done.lines() if not OWN.search(line)]


def need_source(done, source):
    """Raises Absent if the kernel refuses a source. The best one may not be absent."""
    # As ss, the drop-in exits with 0 if it cannot list.
    if source != "auto" and not done.out.strip() and "no source could" in done.err:
        raise Absent(" ".join(done.err.split())[:300])
    require(done.status == 0, done.words())


def listing(protocol, source):
    def run():
        world = World.shared()
        if protocol == "mptcp" and world.mptcp_error:
            raise Absent(world.mptcp_error)
        flags = f"{PROTOCOLS[protocol]} -anH"
        ours = sockeye(f"ss {flags} --source={source}")
        need_source(ours, source)
        # ss itself has to succeed, or both could be wrong in the same way.
        if source != "procfs":
            return same(lines_of(ours), lines_of(command(f"ss {flags}", status=0)))
        unknown = UNKNOWN_TO_PROC.get(protocol)
        theirs = command(f"ss {flags}", status=0, variables={} if unknown else FROM_PROC)
        return same(lines_of(ours), lines_of(theirs), ignoring=unknown)

    return run


for protocol in PROTOCOLS:
    check(f"{protocol} as ss", core=True)(listing(protocol, "auto"))
    for source in SOURCES.get(protocol, ("diag-v2", "procfs")):
        since = BPF if source == "bpf" else (6, 0) if protocol == "mptcp" else (4, 0)
        check(f"{protocol} as ss, by {source}", since=since, core=protocol in ("tcp", "udp"))(listing(protocol, source))


def owners(flags, source):
    def run():
        World.shared()
        ours = sockeye(f"ss {flags} --source={source}")
        need_source(ours, source)
        theirs = command(f"ss {flags}", status=0)
        require("lab-" in theirs.out, "ss shows no owner")
        return same(lines_of(ours), lines_of(theirs))

    return run


for name, flags in (("tcp", "-tanpH"), ("udp", "-uanpH"), ("unix", "-xanpH")):
    check(f"owners of {name} as ss", core=name == "tcp")(owners(flags, "auto"))
check("owners of tcp as ss, by diag")(owners("-tanpH", "diag"))
check("owners of tcp as ss, by bpf", since=BPF)(owners("-tanpH", "bpf"))


@check("owners: descriptors are read by bpf", since=BPF)
def _():
    World.shared()
    done = sockeye("sockets -tanp --source bpf -v", status=0)
    # Other ways take its place without a word, and give the same rows more slowly.
    require("owners: read by bpf" in done.err, done.err.strip()[-300:])


def every_netns(source):
    def run():
        World.shared()
        done = sockeye(f"sockets -N all -tan --source {source} --format json")
        need_source(done, source)
        found = json.loads(done.out)
        count = collections.Counter(each["netns_inode"] for each in found["sockets"])
        for name in NETNS:
            theirs = len(command(f"ss -N {name} -tanH", status=0).lines())
            ours = count[os.stat(f"/run/netns/{name}").st_ino]
            require(theirs == ours == 7, f"{name}: {ours} sockets, ss {theirs}, made 7; all: {count}")
        return f"{len(found['sockets'])} sockets in {len(count)} namespaces"

    return run


check("all namespaces", core=True)(every_netns("auto"))
check("all namespaces, by bpf", since=BPF)(every_netns("bpf"))
check("all namespaces, by diag")(every_netns("diag"))


@check("ss: filters, states, extended, memory", core=True)
def _():
    World.shared()
    # That of the world may have ended: it lasts a minute.
    listener, client, server = tcp_pair("127.0.0.1", 8088)
    for each in (client, server, listener):
        each.close()
    number = 0
    for words in ("-tanH sport = :8080", "-tanH dst 127.0.0.1", "-tnH state established", "-tlnH", "-tanH ( sport = :8080 or dport = :8081 )",
                  "-tH4an", "-tH6an", "-tanH state time-wait", "-taneH", "-uaneH", "-tanmH", "-xaneH", "-tHn state close-wait"):
        ours, theirs = sockeye(f"ss {words}", status=0), command(f"ss {words}", status=0)
        # Timers run on between the two.
        same(ours.lines(), theirs.lines(), ignoring=r"timer:\([^)]*\)")
        number += 1
    return f"{number} combinations"


@check("ss: internal information (-i)")
def _():
    World.shared()
    words = "-tinH state established sport = :8080"
    # Times since the last packet go on; the rates are computed from them.
    moving = r"last(?:snd|rcv|ack):\d+|busy:\d+ms|pacing_rate \S+|send \S+"
    return same(sockeye(f"ss {words}", status=0).lines(), command(f"ss {words}", status=0).lines(), ignoring=moving)


@check("ss: summary (-s)")
def _():
    World.shared()
    return same(sockeye("ss -s", status=0).lines(), command("ss -s", status=0).lines())


@check("netstat as that of busybox", core=True)
def _():
    World.shared()

    def rows(done):
        return [" ".join(line.split()[:6]) for line in done.lines() if line.startswith(("tcp", "udp"))]

    ours = [re.sub(r"^(tcp|udp)6", r"\1", row) for row in rows(sockeye("netstat -tuan", status=0))]
    theirs = [re.sub(r"^(tcp|udp)6", r"\1", row) for row in rows(command("busybox netstat -tuan", status=0))]
    return same(ours, theirs)


@check("lstf and flows", core=True)
def _():
    World.shared()
    flows = document("flows -n --format json", status=0)["flows"]
    found = sum(flow["connections"] for flow in flows if flow.get("local", {}).get("ip") == "127.0.0.1")
    established = [line for line in command("ss -tanH4", status=0).lines() if not line.startswith(("LISTEN", "UNCONN"))]
    require(flows and found, f"no flows: {flows}")
    require(sockeye("lstf -n", status=0).lines(), "lstf prints nothing")
    return f"{len(flows)} flows of {len(established)} connections of IPv4"


def doctor():
    """The answers of `sockeye doctor`: {(sockets, source): (works, reason)}, and of its part about prof."""
    if not doctor.cache:
        answer = document("doctor --format json", status=0, timeout=140)
        lines = {(line["sockets"], line["source"]): (line["works"], line.get("reason", "")) for line in answer["sources"]}
        doctor.cache.append((lines, {line["part"]: line for line in answer["prof"]}))
    return doctor.cache[0]


doctor.cache = []


@check("doctor: every line agrees with a listing")
def _():
    World.shared()
    lines, _ = doctor()
    require(len(lines) >= 20, f"only {len(lines)} lines")
    wrong = []
    for (sockets, source), (works, reason) in lines.items():
        flags = "-N all -t" if sockets == "all netns" else f"-A {sockets}"
        # The second BPF source is used only if the first fails: it cannot be requested.
        if source == "bpf-fd":
            continue
        forced = "diag" if source == "one-pass" else source
        done = sockeye(f"sockets {flags} -an -v --source={forced}")
        # A protocol that a kernel need not have, MPTCP, is no failure if it cannot be listed.
        succeeded = done.status == 0 and "nothing here lists them" not in done.err
        if works not in ("yes", "no") or succeeded != (works == "yes"):
            wrong.append(f"{sockets} {source}: doctor {works} ({reason[:60]}), listing exit status {done.status} {done.err.strip()[:80]}")
    require(not wrong, "; ".join(wrong))
    return f"{len(lines)} lines, {sum(works == 'yes' for works, _ in lines.values())} of them yes"


def line_of(sockets, source):
    def run():
        works, reason = doctor()[0].get((sockets, source), ("no line", ""))
        if works == "no":
            raise Absent(reason)
        require(works == "yes", f"{works}: {reason}")

    return run


for sockets, source, since in (
    ("tcp", "bpf", BPF), ("tcp", "one-pass", (4, 0)), ("udp", "bpf", BPF), ("udplite", "diag-v2", (0, 0)), ("raw", "diag-v2", (4, 10)),
    ("unix", "diag-v2", (4, 0)), ("packet", "diag-v2", (4, 0)), ("netlink", "diag-v2", (4, 0)), ("mptcp", "diag-v2", (6, 0)),
    ("all netns", "bpf", BPF), ("all netns", "bpf-fd", BPF),
):
    check(f"doctor: {sockets} by {source}", since=since)(line_of(sockets, source))


def part_of(part):
    def run():
        line = doctor()[1].get(part)
        require(line, "no line")
        if line["works"] != "yes":
            raise Absent(line.get("reason", line["works"]))
        return line.get("mechanism", "")

    return run


for part, since in (("syscalls", (5, 15)), ("waits", (5, 15)), ("cpu", (0, 0)), ("functions", (5, 15)), ("kernel_functions", (5, 15))):
    check(f"doctor: prof, {part.replace('_', ' ')}", since=since)(part_of(part))


@check("doctor: commands")
def _():
    lines = document("doctor --format json", status=0, timeout=140)["commands"]
    less = [f"{line['command']}: {line['works']}, {line.get('note', '')}" for line in lines if line["works"] != "yes"]
    require(lines, "no lines")
    if less:
        raise Absent("; ".join(less))
    return f"{len(lines)} lines"


@check("doctor: every capability is there", core=True)
def _():
    answer = document("doctor --format json", status=0, timeout=140)
    missing = [each["name"] for each in answer["capabilities"] if not each["effective"]]
    require(answer["kernel"] == os.uname().release and not missing, f"{answer['kernel']}, missing {missing}")
