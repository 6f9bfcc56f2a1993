"""Checks of `sockeye prof`."""

import contextlib
import json
import socket
import time

from guest import Absent, check, command, document, kernel, packed, require, sockeye
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


@check("prof: system calls", since=(5, 10))
def _():
    calls = part(profile("--only syscalls"), "syscalls", "syscalls")
    sends = sum(each["calls"] for each in calls if each["name"] in ("sendto", "write", "send"))
    require(sends >= 20, f"{sends} calls of sendto; {[each['name'] for each in calls]}")
    return f"{sends} calls of sendto"


@check("prof: waits", since=(5, 10))
def _():
    waits = part(profile("--only waits"), "waits", "waits")
    require(any(each.get("count", 0) >= 20 for each in waits), f"{str(waits)[:200]}")
    # The call is in the thread's registers: before Linux 5.15 their place is calculated.
    calls = {each.get("syscall") for each in waits} - {None}
    require(calls and not any(name[0].isdigit() for name in calls), f"the calls in which threads wait: {calls}")
    return f"{len(waits)} rows, in {', '.join(sorted(calls))}"


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


def works():
    """Whether doctor says that each part of prof works: {part: "yes" or "no"}, and the reasons."""
    lines = document("doctor --format json", status=0, timeout=140)["prof"]
    return {line["part"]: line["works"] for line in lines}, {line["part"]: line.get("reason", "") for line in lines}


@check("doctor: what it says of prof is so")
def _():
    said, reasons = works()
    tries = {"syscalls": ("--only syscalls", "syscalls"), "waits": ("--only waits", "waits")}
    # Where they are not refused at once, the verifier takes minutes for them here: the slow checks try them.
    if kernel()[0] < (5, 12):
        tries["functions"] = ("--only functions --functions send --lib libc", "functions")
    wrong = []
    for name, (words, key) in tries.items():
        try:
            part(profile(words), key, key)
            seen = "yes"
        except Absent as absent:
            seen, reasons[name] = "no", f"{reasons[name]} {absent}"
        if seen != said[name]:
            wrong.append(f"{name}: doctor {said[name]}, prof {seen}: {reasons[name]}")
    require(not wrong, "; ".join(wrong))
    return f"{', '.join(tries)}: as doctor says"


# 64 KiB, the default of most systems, that cannot be raised: PR_CAPBSET_DROP of CAP_SYS_RESOURCE.
LIMITED = """import ctypes, os, resource, sys
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
ctypes.CDLL(None).prctl(24, 24)
os.execvp(sys.argv[1], sys.argv[1:])"""


@check("doctor: a limit of locked memory is the reason only where the kernel counts")
def _():
    done = command(["python3", "-c", LIMITED, "sockeye", "doctor", "--format", "json"], status=0, timeout=140)
    answer = json.loads(done.out)
    walk = next(line for line in answer["sources"] if (line["sockets"], line["source"]) == ("tcp", "bpf"))
    is_reason = walk["works"] == "no" and "RLIMIT_MEMLOCK" in walk.get("reason", "")
    if kernel()[0] < (5, 11):
        require(is_reason, f"tcp by bpf: {walk['works']}, {walk.get('reason')}")
        said = {line["part"]: line["works"] for line in answer["prof"] if line["part"] != "cpu"}
        require(set(said.values()) == {"no"}, f"prof: {said}")
        return f"it is: {packed(walk['reason'])[:120]}"
    others = [line for line in [*answer["sources"], *answer["prof"]] if "RLIMIT_MEMLOCK" in line.get("reason", "")]
    require(walk["works"] == "yes" and not others, f"tcp by bpf: {walk['works']}, {walk.get('reason')}; {str(others)[:300]}")
    return "this kernel does not count"
