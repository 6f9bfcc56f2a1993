"""Figures: the walk over TCP's tables against the netlink floor, owners against `ss -p`, in turns in the same machine.

This machine counts its instructions as its time, so that the figures do not depend on what else the real machine does. Two numbers of
sockets are measured, and the difference is what the sockets cost: the kernel's verifier is most of the start of a command.
"""

import functools
import resource
import socket
import struct
import subprocess
import time

from guest import Absent, check, require, sockeye
from guest_world import Process, tcp_pair

NETLINK_SOCK_DIAG, TCPDIAG_GETSOCK, NLM_F_REQUEST_AND_DUMP, NLMSG_DONE, NLMSG_ERROR = 4, 18, 0x301, 3, 2
PROCESSES, CONNECTIONS = 20, 200
ROUNDS = 3
# Limits, in instructions, somewhat above what was measured. The goals are times (docs/BENCHMARKS.md): what waits for memory, as the floor
# does, looks cheap here.
FLOWS_MAX, TABLE_MAX, OWNERS_MAX = 2.0, 4.0, 0.15


def crowd(_ready):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return tcp_pair("127.0.0.1", 0, count=CONNECTIONS)


def floor():
    """Asks the kernel for a dump of all TCP sockets, and throws it away: the netlink floor."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        # inet_diag_req: family, lengths of addresses, extensions, 48 bytes of identity, states, dbs.
        request = struct.pack("=BBBB48xII", socket.AF_INET, 0, 0, 0, 0xFFF, 0)
        netlink.send(struct.pack("=IHHII", 16 + len(request), TCPDIAG_GETSOCK, NLM_F_REQUEST_AND_DUMP, 1, 0) + request)
        buffer = bytearray(1 << 18)
        while True:
            size = netlink.recv_into(buffer)
            kind = struct.unpack_from("=H", buffer, 4)[0]
            require(kind != NLMSG_ERROR, "the kernel refuses the dump")
            if kind == NLMSG_DONE or not size:
                return


def program(text):
    def run():
        subprocess.run(text.split(), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


COMMANDS = {
    "table": program("sockeye sockets -tan --source bpf"),
    "flows": program("sockeye flows -tn --source bpf"),
    "floor": floor,
    "owners": program("sockeye sockets -tanp --source bpf"),
    "ss": program("ss -tanp"),
}


def seconds():
    """The least time of each command, all in turns: that is its instructions, one a nanosecond."""
    times = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, run in COMMANDS.items():
            start = time.monotonic()
            run()
            times[name].append(time.monotonic() - start)
    return {name: min(each) for name, each in times.items()}


@functools.cache
def measured():
    """The times with few sockets, those with many, how many more these are."""
    done = sockeye("sockets -tan --source bpf")
    if done.status != 0:
        raise Absent(done.words())
    few = seconds()
    processes = []
    try:
        for number in range(PROCESSES):
            processes.append(Process(f"crowd-{number}", crowd))
        return few, seconds(), PROCESSES * (2 * CONNECTIONS + 1)
    finally:
        for each in processes:
            each.end()


def compared(ours, theirs, most):
    """The ratio of what the sockets cost, and the numbers behind it."""
    few, many, count = measured()
    cost = {name: many[name] - few[name] for name in (ours, theirs)}
    require(cost[theirs] > 0, f"the time of {theirs} does not grow with the sockets")
    ratio = cost[ours] / cost[theirs]
    text = (
        f"{ratio:.2f}: {cost[ours] / count * 1e9:,.0f} of {cost[theirs] / count * 1e9:,.0f} for each of {count} sockets,"
        f" start {few[ours] * 1e3:.0f} million"
    )
    require(ratio <= most, f"{text}: more than {most}")
    return text


@check("figure: flows by bpf / netlink floor", since=(5, 10), figure=True)
def _():
    return compared("flows", "floor", FLOWS_MAX)


@check("figure: table by bpf / netlink floor", since=(5, 10), figure=True)
def _():
    return compared("table", "floor", TABLE_MAX)


@check("figure: table with owners by bpf / ss -tanp", since=(5, 10), figure=True)
def _():
    return compared("owners", "ss", OWNERS_MAX)
