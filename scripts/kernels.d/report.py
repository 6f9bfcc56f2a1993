"""The table of kernels and what works on them."""

import datetime
import json

# Checks that measure: their reason is the figure.
FIGURE = "figure: "
SIGNS = {"pass": "yes", "absent": "no", "fail": "FAIL", None: ""}


class Row:
    """What one kernel gave: `results` {check: result}, `failure` if it did not come to its end."""

    def __init__(self, name, architecture, version, results, failure=None, made=""):
        self.name, self.architecture, self.version, self.results, self.failure = name, architecture, version, results, failure
        # With which versions, and when.
        self.made = made

    def seconds(self):
        """The time of all its checks."""
        return sum(each["seconds"] for each in self.results.values())

    def save(self, cache, versions):
        """Keeps it in the cache. The results of an earlier run of the same kernel stay, for checks that did not run now."""
        path = cache / "results" / f"{self.architecture}-{self.name}.json"
        path.parent.mkdir(exist_ok=True)
        results = {}
        if path.exists():
            before = json.loads(path.read_text())
            if before["version"] == self.version:
                results = before["results"]
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        kept = {"name": self.name, "architecture": self.architecture, "version": self.version, "failure": self.failure,
                "results": {**results, **self.results}, "made": f"{today}, {versions}"}
        path.write_text(json.dumps(kept, indent=1))


def saved(cache, order):
    """The rows that are kept in the cache, those of x86-64 first, in the order of these names."""
    rows = [Row(**json.loads(path.read_text())) for path in (cache / "results").glob("*.json")]
    return sorted(rows, key=lambda row: (row.architecture != "x86_64", order.index(row.name)))


def checks_of(rows):
    """The names of all checks, in the order in which they ran."""
    names = {}
    for row in rows:
        for name in row.results:
            names.setdefault(name)
    return list(names)


def summary(row):
    count = {verdict: sum(each["verdict"] == verdict for each in row.results.values()) for verdict in ("pass", "absent", "fail")}
    return f"{count['pass']} work, {count['absent']} are not available, {count['fail']} fail"


def text(rows):
    """The table for a terminal."""
    if not any(row.results for row in rows):
        return ""
    names = checks_of(rows)
    width = max(len(name) for name in names)
    widths = [max(len(row.name), 4) for row in rows]
    lines = [" " * width + "  " + "  ".join(row.name.ljust(size) for row, size in zip(rows, widths))]
    for name in names:
        cells = (SIGNS[row.results.get(name, {}).get("verdict")].ljust(size) for row, size in zip(rows, widths))
        lines.append(f"{name.ljust(width)}  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def markdown(rows):
    """The document docs/KERNELS.md."""
    lines = [
        "# What works on which kernel",
        "",
        "`make kernels` boots kernels of Debian, and one of Ubuntu, in virtual machines, runs the same checks in each, and writes this page;",
        "do not edit it. The processor of the machine is emulated in software, 20 times slower than a real one.",
        "A check compares with ss, busybox or the kernel's own answer, or makes a fault and looks for its finding. `scripts/kernels.d/guest_*.py`",
        "are the checks. `cloud` is Debian's flavour for virtual machines, with fewer modules. `arm64` is the other architecture, `16k` has pages of",
        "16 KiB there; the others are x86-64. 5.15 is Ubuntu's (22.04): no suite of Debian has it. `new` is that of Debian sid. No kernel with",
        "pages of 64 KiB could be fetched: Debian has none.",
        "",
        "yes: it works. no: this kernel does not have it; the number is the reason, below. FAIL: a defect. An empty cell: not tried.",
        "",
        "| kernel | version | result | time of the checks | made on, with Sockeye at, in |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {row.name} | {row.version} | {row.failure or summary(row)} | {row.seconds():.0f} s | {row.made} |" for row in rows]
    lines += ["", f"| check | {' | '.join(row.name for row in rows)} |", "|---" * (len(rows) + 1) + "|"]
    notes = {}
    for name in checks_of(rows):
        if name.startswith(FIGURE):
            continue
        cells = []
        for row in rows:
            result = row.results.get(name, {})
            cell = SIGNS[result.get("verdict")]
            if result.get("verdict") in ("absent", "fail"):
                cell += f" {notes.setdefault(result['reason'], len(notes) + 1)}"
            cells.append(cell)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    mechanisms = [
        (name, [(row.name, row.results[name]["reason"]) for row in rows if row.results.get(name, {}).get("verdict") == "pass"])
        for name in checks_of(rows) if name.startswith(("doctor: prof", "prof: functions"))
    ]
    lines += figures(rows)
    lines += ["", "## Reasons", ""]
    lines += [f"{number}. {plain(reason)}" for reason, number in notes.items()]
    lines += ["", "## How it is done", "", "| check | kernel: mechanism |", "|---|---|"]
    lines += [
        f"| {name} | {'; '.join(f'{kernel}: {plain(reason)}' for kernel, reason in found)} |" for name, found in mechanisms if found
    ]
    return "\n".join(lines) + "\n"


def figures(rows):
    """The section of what was measured, or nothing."""
    names = [name for name in checks_of(rows) if name.startswith(FIGURE)]
    if not names:
        return []
    lines = [
        "", "## Figures", "",
        "Instructions, in a machine that counts them as its time: ratio of what each TCP socket costs, from runs with few and with many sockets,",
        "and what the start takes, most of it for the kernel's verifier. `floor` is a TCPDIAG_GETSOCK dump that is thrown away. Instructions are not",
        "time: the floor waits for memory most of its time. docs/BENCHMARKS.md has the times of both kinds of programs on a real machine.", "",
        f"| kernel | {' | '.join(name.removeprefix(FIGURE) for name in names)} |", "|---" * (len(names) + 1) + "|",
    ]
    lines += [f"| {row.name} | {' | '.join(plain(row.results.get(name, {}).get('reason', '')) for name in names)} |" for row in rows]
    return lines


def plain(reason):
    return reason.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
