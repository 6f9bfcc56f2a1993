"""The table of kernels and what works on them."""

import datetime

SIGNS = {"pass": "yes", "absent": "no", "fail": "FAIL", None: ""}


class Row:
    """What one kernel gave: `results` {check: result}, or why it could not run."""

    def __init__(self, name, title, results, failure=None, skipped=None):
        self.name, self.title, self.results, self.failure, self.skipped = name, title, results, failure, skipped


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
    rows = [row for row in rows if row.results]
    if not rows:
        return ""
    names = checks_of(rows)
    width = max(len(name) for name in names)
    widths = [max(len(row.name), 4) for row in rows]
    lines = [" " * width + "  " + "  ".join(row.name.ljust(size) for row, size in zip(rows, widths))]
    for name in names:
        cells = (SIGNS[row.results.get(name, {}).get("verdict")].ljust(size) for row, size in zip(rows, widths))
        lines.append(f"{name.ljust(width)}  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def markdown(rows, versions):
    """The document docs/KERNELS.md."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    lines = [
        "# What works on which kernel",
        "",
        "`make kernels` boots kernels of Debian in virtual machines, runs the same checks in each, and writes this page; do not edit it.",
        "A check compares with ss, /proc or the kernel's own answer, or makes a fault and looks for its finding.",
        "`cloud` is Debian's small flavour: fewer modules, no kprobes. \"no\" is what a kernel does not have; the number is the reason,",
        "below. \"FAIL\" is a defect.",
        "",
        f"Run on {today}: {versions}.",
        "",
        "| kernel | Debian's version | architecture | result |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.name} | {row.title} | {row.failure or row.skipped or summary(row)} |" for row in rows]
    rows = [row for row in rows if row.results]
    lines += ["", f"| check | {' | '.join(row.name for row in rows)} |", "|---" * (len(rows) + 1) + "|"]
    notes = {}
    for name in checks_of(rows):
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
        for name in checks_of(rows) if name.startswith("doctor: prof")
    ]
    lines += ["", "## Reasons", ""]
    lines += [f"{number}. {plain(reason)}" for reason, number in notes.items()]
    lines += ["", "## How it is done", "", "| check | kernel: mechanism |", "|---|---|"]
    lines += [
        f"| {name} | {'; '.join(f'{kernel}: {plain(reason)}' for kernel, reason in found)} |" for name, found in mechanisms if found
    ]
    return "\n".join(lines) + "\n"


def plain(reason):
    return reason.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
