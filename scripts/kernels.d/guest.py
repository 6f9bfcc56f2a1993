"""The guest's side: runs the checks, and prints a line for each on the console, which the host reads.

The kernel's command line chooses: `checks=core` runs only those that every kernel ought to pass and that are quick, `checks=all`
also those that take minutes, `checks=figures` only those that measure.
"""

import glob
import json
import os
import re
import subprocess
import sys
import time
import traceback

# A command that takes longer has failed. Software emulation is 20 times slower than a processor, or more on a busy machine.
COMMAND_S = 100


class Absent(Exception):
    """What the check needs is not here; the reason."""


class Check:
    def __init__(self, name, run, since, kind):
        self.name, self.run, self.since, self.kind = name, run, since, kind


CHECKS = []


def check(name, since=(0, 0), core=False, slow=False, figure=False):
    """Registers a check. From the kernel `since` on, absence is a failure, if the kernel is of the full flavour."""

    def register(run):
        CHECKS.append(Check(name, run, since, "core" if core else "slow" if slow else "figure" if figure else "usual"))
        return run

    return register


class Done:
    """What a command printed, and its exit status."""

    def __init__(self, command, status, out, err):
        self.command, self.status, self.out, self.err = " ".join(command), status, out, err

    def lines(self):
        return [line for line in self.out.splitlines() if line.strip()]

    def words(self):
        """Its messages, and how it ended."""
        text = packed(self.err) or packed(self.out) or "no message"
        return f"{self.command}: exit status {self.status}: {text[:300]}"


def packed(text):
    """A text on one line."""
    return " ".join(text.split())


def command(text, netns=None, status=None, timeout=COMMAND_S, variables=None):
    """Runs a command, in a namespace with a name if there is one. Another exit status than `status` is a failure."""
    words = text.split() if isinstance(text, str) else list(text)
    full = ["ip", "netns", "exec", netns, *words] if netns else words
    environment = dict(os.environ, SOCKEYE_CONFIG="", LC_ALL="C", **(variables or {}))
    with subprocess.Popen(
        full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            where = places(child.pid)
            child.kill()
            raise AssertionError(f"{' '.join(words)}: not at its end after {timeout} s, in {where}") from None
    result = Done(words, child.returncode, out, err)
    if status is not None and result.status != status:
        raise AssertionError(result.words())
    return result


def places(pid):
    """Where in the kernel the threads of a process are."""
    found = []
    for stack in glob.glob(f"/proc/{pid}/task/*/stack"):
        with open(stack) as file:
            found.append(" < ".join(re.findall(r"\] (\w+)", file.read())[:5]) or "its own code")
    return "; ".join(found)


def sockeye(text, **options):
    words = text.split() if isinstance(text, str) else list(text)
    return command(["sockeye", *words], **options)


def document(text, **options):
    """The JSON document that a command of Sockeye prints."""
    done = sockeye(text, **options)
    try:
        return json.loads(done.out)
    except ValueError:
        raise AssertionError(f"no JSON: {done.words()}") from None


def require(condition, text):
    """Raises a failure unless the condition holds."""
    if not condition:
        raise AssertionError(text)


def same(ours, theirs, ignoring=None):
    """Compares lines as a set: white space does not count, nor what the expression `ignoring` matches."""

    def plain(lines):
        words = (" ".join(line.split()) for line in lines)
        return sorted(re.sub(ignoring, "", line) if ignoring else line for line in words)

    ours, theirs = plain(ours), plain(theirs)
    require(theirs, "the peer lists nothing: the comparison says nothing")
    if ours != theirs:
        missing, more = [each for each in theirs if each not in ours], [each for each in ours if each not in theirs]
        raise AssertionError(f"{len(ours)} lines, the peer {len(theirs)}; missing: {missing[:2]}, not expected: {more[:2]}")
    return f"{len(ours)} lines"


def wait_until(what, condition, seconds=30):
    """Waits until the condition gives a value, and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        require(time.monotonic() < end, f"waited {seconds} s for {what}")
        time.sleep(0.1)


def module(name):
    """Loads a module, or it is built in; absent if the kernel has none."""
    done = command(["modprobe", name])
    # Packages of newer kernels have no list of what is built in.
    if done.status != 0 and not os.path.exists(f"/sys/module/{name}"):
        raise Absent(f"no module {name}: {packed(done.err)}")


def kernel():
    """((6, 1), whether it is of the cloud flavour)."""
    release = os.uname().release
    return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", release).groups()), "cloud" in release


def report(**result):
    print(f"\n@sockeye {json.dumps(result)}", flush=True)


def run(each):
    """Runs a check: ("pass", what was seen), ("absent", why) or ("fail", why)."""
    release, is_cloud = kernel()
    try:
        return "pass", each.run() or ""
    except Absent as absent:
        if release >= each.since > (0, 0) and not is_cloud:
            return "fail", f"Linux {release[0]}.{release[1]} should have it: {absent}"
        return "absent", str(absent)
    except AssertionError as failure:
        return "fail", str(failure)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "fail", f"{error!r} at line {where.lineno} of {os.path.basename(where.filename)}"


def main():
    import guest_listings, guest_faults, guest_actions, guest_live, guest_prof, guest_figures  # noqa: F401, E401: they register their checks

    arguments = dict(word.split("=", 1) for word in open("/proc/cmdline").read().split() if "=" in word)
    kinds = {"core": ["core"], "all": ["core", "usual", "slow"], "figures": ["figure"]}.get(arguments.get("checks"), ["core", "usual"])
    texts = arguments.get("only", "").replace("_", " ").split(",")
    for each in CHECKS:
        if each.kind not in kinds or not any(text in each.name for text in texts):
            continue
        start = time.monotonic()
        report(begins=each.name)
        verdict, reason = run(each)
        report(name=each.name, verdict=verdict, reason=reason[:600], seconds=round(time.monotonic() - start, 1))
    kernel_text = command("dmesg").out
    bad = re.search(r"^.*(?:BUG:|WARNING:|Oops|general protection).*$", kernel_text, re.MULTILINE)
    report(name="kernel log", verdict="fail" if bad else "pass", reason=bad[0] if bad else "no BUG, WARNING or Oops", seconds=0)
    report(end=True)


if __name__ == "__main__":
    # The modules of the checks import this file by its name.
    sys.modules["guest"] = sys.modules["__main__"]
    main()
