"""Checks of `sockeye prof`."""

import contextlib
import json
import socket
import time

from guest import Absent, check, packed, require, sockeye
from guest_world import Process


# The programs for functions take the verifier a second on a processor, and minutes on one in software.
VERIFIER_S = 600


def busy(ready):
    """Writes to a datagram socket and computes, for ever."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", 9))
    ready()
    while True:
        with contextlib.suppress(OSError):
            sender.send(b"b")
        sum(range(2000))
        time.sleep(0.002)


def profile(words):
    """The profile of a busy process, as JSON. Longer than a second: software emulation is slow, and so is the kernel's verifier there."""
    with Process("lab-busy", busy) as process:
        done = sockeye(f"prof -d 4 -p {process.pid} {words} --format json", timeout=VERIFIER_S)
    if done.status == 1 and "nothing can be looked at" in done.err:
        raise Absent(packed(done.err)[:300])
    require(done.status == 0, done.words())
    return json.loads(done.out)


def part(report, key, name):
    missing = {each["part"]: each.get("reason", "") for each in report.get("missing", [])}
    if name in missing:
        raise Absent(missing[name])
    require(report.get(key), f"nothing of {key}; missing: {missing}")
    return report[key]


@check("prof: system calls", since=(5, 15))
def _():
    calls = part(profile("--only syscalls"), "syscalls", "syscalls")
    sends = sum(each["calls"] for each in calls if each["name"] in ("sendto", "write", "send"))
    require(sends >= 20, f"{sends} calls of sendto; {[each['name'] for each in calls]}")
    return f"{sends} calls of sendto"


@check("prof: waits", since=(5, 15))
def _():
    waits = part(profile("--only waits"), "waits", "waits")
    require(any(each.get("count", 0) >= 20 for each in waits), f"{str(waits)[:200]}")
    return f"{len(waits)} rows"


@check("prof: samples of code", since=(4, 9))
def _():
    report = profile("--only cpu")
    cpu = part(report, "cpu", "cpu")
    require(str(cpu).count("samples") >= 1, f"{str(cpu)[:200]}")


@check("prof: functions of a program", since=(5, 15), slow=True)
def _():
    report = profile("--only functions --functions send --lib libc")
    functions = part(report, "functions", "functions")
    calls = sum(each["calls"] for each in functions["calls"])
    require(calls >= 20, f"{calls} calls; {str(functions)[:200]}")
    return f"{calls} calls, by {', '.join(functions.get('means', [])) or 'uprobes'}"


@check("prof: functions of the kernel", since=(5, 15), slow=True)
def _():
    report = profile("--only functions --kernel-functions udp_sendmsg")
    functions = part(report, "functions", "kernel_functions")
    calls = sum(each["calls"] for each in functions["calls"] if each["name"] == "udp_sendmsg")
    require(calls >= 20, f"{calls} calls; {str(functions)[:200]}")
    return f"{calls} calls, by {', '.join(functions.get('means', [])) or 'kprobes or fentry'}"
