"""Runs a virtual machine and reads the results that its guest prints on the console."""

import json
import os
import select
import signal
import subprocess
import time

# The guest prints them, one JSON object a line, among what the kernel prints.
MARK = "@sockeye "
# Longest time without a word from the guest: no check may take so long.
SILENCE_S = 640
QEMU = {
    "x86_64": {
        "program": "qemu-system-x86_64",
        # A processor with what the kernels use, as software can emulate it.
        "machine": ["-M", "q35", "-cpu", "Haswell-v4"],
        "console": "ttyS0",
    },
    "aarch64": {
        "program": "qemu-system-aarch64",
        # Of processors with pages of 16 KiB the simplest to emulate.
        "machine": ["-M", "virt", "-cpu", "neoverse-n1"],
        "console": "ttyAMA0",
    },
}


class Run:
    """What came of one machine: `results` as the guest printed them, `failure` if it did not get to the end."""

    def __init__(self):
        self.results, self.failure, self.seconds = [], None, 0.0


# Its time is then the number of its instructions, one a nanosecond, whatever else this machine does.
COUNTING = ["-icount", "shift=0,sleep=off"]


def run(kernel, tools, initramfs, log, words, options, deadline_s, on_result):
    """Boots the kernel with further words on its command line and options of QEMU, hands each result to `on_result`, and returns
    the run. All of the console goes to the file `log`."""
    kind = QEMU[kernel.architecture]
    share = tools.share
    command = [
        *tools.command(kind["program"]), "-L", share / "qemu", "-L", share / "seabios", *kind["machine"], *options,
        "-smp", "1", "-m", "1024", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        # A network device without a network, at half duplex.
        "-netdev", "hubport,id=net0,hubid=0", "-device", "virtio-net-pci,netdev=net0,duplex=half,speed=100,romfile=",
        "-kernel", kernel.folder / "vmlinuz", "-initrd", initramfs,
        "-append", f"console={kind['console']} quiet loglevel=4 panic=-1 no_timer_check mitigations=off rcupdate.rcu_expedited=1 "
        + " ".join(words),
    ]
    outcome = Run()
    start = last = time.monotonic()
    ended = False
    with open(log, "wb") as console:
        child = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            buffer = b""
            while True:
                now = time.monotonic()
                if now - start > deadline_s:
                    outcome.failure = f"not at its end after {deadline_s:.0f} s"
                    break
                if now - last > SILENCE_S:
                    outcome.failure = f"silent for {SILENCE_S} s"
                    break
                if not select.select([child.stdout], [], [], 1)[0]:
                    continue
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    break
                last = time.monotonic()
                console.write(data)
                console.flush()
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    result = parse(line)
                    if result is None:
                        continue
                    if result.get("end"):
                        ended = True
                    else:
                        outcome.results.append(result)
                        on_result(result)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            child.stdout.close()
    outcome.seconds = time.monotonic() - start
    if not ended and not outcome.failure:
        outcome.failure = f"ended early: {last_words(log)}"
    return outcome


def parse(line):
    """The result in a line of the console, or None."""
    text = line.decode(errors="replace")
    position = text.find(MARK)
    if position < 0:
        return None
    try:
        return json.loads(text[position + len(MARK):])
    except ValueError:
        return {"name": "console", "verdict": "fail", "reason": f"a line that cannot be read: {text[:200]}"}


def last_words(log):
    """The last line of the console that says something."""
    with open(log, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    panics = [line for line in lines if "Kernel panic" in line or "BUG:" in line]
    return (panics or lines or ["the console is empty"])[-1][:200]
