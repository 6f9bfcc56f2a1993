"""What a case expects, and how an answer of `sockeye check` is judged."""

import json
import re

RANK = {"info": 0, "notice": 1, "warning": 2, "critical": 3}
CASES = {}


class Cause:
    """A finding that is looked for: by the words of its meaning, or by its rule; and the object it must name.

    Strings of `about` must occur in the finding (process name, address, ":port", device), each of them.
    """

    def __init__(self, words, rules=(), about=()):
        self.words, self.rules, self.about = re.compile(words, re.IGNORECASE), set(rules), about

    def __str__(self):
        return f"/{self.words.pattern}/ about {', '.join(self.about) or 'anything'}"

    def matches(self, finding):
        facts = " ".join(finding.get("facts", {}))
        subject = json.dumps(finding.get("subject", {}))
        text = f"{finding['rule']} {finding['meaning']} {facts} {subject}".replace("_", " ")
        return finding["rule"] in self.rules or bool(self.words.search(text))

    def missing_objects(self, finding):
        shown = json.dumps({key: value for key, value in finding.items() if key != "remedies"})
        missing = []
        for thing in self.about:
            pattern = rf'"port": {thing[1:]}\b' if thing.startswith(":") else rf'"[^"]*(?<![\w.]){re.escape(thing)}(?![\w.])[^"]*"'
            if not re.search(pattern, shown):
                missing.append(thing)
        return missing


class Case:
    def __init__(self, run, kind, cause, never, effects, modes, allowed, host_wide, uid, filter, apart, stdout=None, fails=False):
        self.run, self.kind, self.cause, self.modes = run, kind, cause, modes
        self.stdout, self.fails = stdout and re.compile(stdout, re.IGNORECASE), fails
        self.never, self.effects, self.allowed = set(never), set(effects), set(allowed)
        self.host_wide, self.uid, self.filter, self.apart = host_wide, uid, filter, apart
        self.name = run.__name__
        self.title = " ".join((run.__doc__ or "").split())
        self.healthy = cause is None and stdout is None

    @property
    def expected(self):
        if self.stdout:
            return f"stdout says /{self.stdout.pattern}/" + (", exit code not 0" if self.fails else "")
        return str(self.cause) if self.cause else "nothing"


def fault(kind, cause, never=(), effects=(), modes=("once",), host_wide=False, uid=None, filter=(), apart=None):
    """Registers a fault: `cause` comes first, the rules of `never` do not occur, those of `effects` may follow."""
    def register(run):
        CASES[run.__name__] = Case(run, kind, cause, never, effects, modes, (), host_wide, uid, filter, apart)
        return run
    return register


def healthy(kind, allowed=(), never=(), modes=("once", "watch 2"), uid=None, apart=None):
    """Registers a healthy host: no warning occurs but of `allowed`, and no finding at all of `never`."""
    def register(run):
        CASES[run.__name__] = Case(run, kind, None, never, (), modes, allowed, False, uid, (), apart)
        return run
    return register


def statement(kind, stdout, fails=False, uid=None, filter=(), apart=None, modes=("once",)):
    """Registers a case in which the table on stdout must say something; with `fails`, the exit code must not be 0."""
    def register(run):
        CASES[run.__name__] = Case(run, kind, None, (), (), modes, (), False, uid, filter, apart, stdout, fails)
        return run
    return register


def judge_statement(case, code, out):
    """(verdict, explanation) of an answer in words."""
    if not case.stdout.search(out):
        return "missed", "stdout does not say it"
    return ("partly", "exit code 0") if case.fails and code == 0 else ("right", "")


def nonsense(findings):
    """What cannot be: a part larger than its whole, the same finding twice."""
    seen, wrong = set(), []
    for finding in findings:
        facts = finding["facts"]
        part = facts.get("since_last_sample", facts.get("since_start"))
        if "of" in facts and part is not None and part > facts["of"]:
            wrong.append(f"{part} of {facts['of']} in {finding['rule']}")
        # Owners and peers make the sockets' findings different.
        key = json.dumps([finding["rule"], finding["subject"], finding.get("owners"), finding.get("netns"), finding["examples"][:1]], sort_keys=True)
        if finding["subject"]["kind"] != "sockets" and key in seen:
            wrong.append(f"{finding['rule']} twice")
        seen.add(key)
    return wrong


def arguments(mode):
    """The options of a mode: `once`, or `watch SECONDS`."""
    return [] if mode == "once" else ["--watch", mode.split()[1], "--count", "1"]


def documents(text):
    """The JSON documents of an output, one after the other."""
    decoder, position, found = json.JSONDecoder(), 0, []
    text = text.strip()
    while position < len(text):
        document, end = decoder.raw_decode(text, position)
        found.append(document)
        position = end
        while position < len(text) and text[position].isspace():
            position += 1
    return found


def describe(finding):
    """A finding in one line, as a reader of the table would see it."""
    subject = finding.get("subject", {})
    local, peer = subject.get("local", {}), subject.get("peer", {})
    what = [subject.get("kind", "")]
    what += [f"{end.get('ip', '')}:{end.get('port', '')}" for end in (local, peer) if end]
    what += [str(subject[key]) for key in ("device", "qdisc", "counter", "table", "processor") if key in subject]
    owner = (finding.get("owners") or [{}])[0]
    if owner:
        what.append(f"of {owner.get('comm') or owner.get('name') or owner.get('process') or owner}")
    facts = ", ".join(f"{key} {value}" for key, value in finding.get("facts", {}).items())
    return f"{finding['severity']} {finding['rule']} [{' '.join(what)}] {finding['meaning']} ({facts}; {finding.get('sockets', 0)} sockets)"


def judge(case, findings):
    """(verdict, explanation) of an answer: right, partly, missed, false cause, false alarm."""
    loud = [finding for finding in findings if RANK[finding["severity"]] >= RANK["warning"]]
    forbidden = sorted({finding["rule"] for finding in findings if finding["rule"] in case.never})
    if case.healthy:
        alarms = sorted({finding["rule"] for finding in loud if finding["rule"] not in case.allowed} | set(forbidden))
        return ("false alarm", ", ".join(alarms)) if alarms else ("right", "")
    index = next((i for i, finding in enumerate(findings) if case.cause.matches(finding)), None)
    if index is None:
        effects = [finding["rule"] for finding in findings if finding["rule"] in case.effects]
        others = sorted({finding["rule"] for finding in loud} - set(effects))
        if forbidden or others:
            return "false cause", ", ".join(sorted({*forbidden, *others}))
        return ("partly", "only the effect: " + ", ".join(effects)) if effects else ("missed", "")
    matching = [finding for finding in findings if case.cause.matches(finding)]
    missing = min((case.cause.missing_objects(finding) for finding in matching), key=len)
    if forbidden:
        return ("false cause" if any(f["rule"] in case.never for f in findings[:index]) else "partly"), "also accuses " + ", ".join(forbidden)
    if missing:
        return "partly", "does not name " + ", ".join(missing)
    if index > 0:
        return "partly", f"named as number {index + 1}, after {findings[0]['rule']}"
    extra = sorted({f["rule"] for f in loud if not case.cause.matches(f) and f["rule"] not in case.effects})
    if extra:
        return "partly", "also " + ", ".join(extra)
    wrong = nonsense(findings)
    return ("partly", "; ".join(wrong)) if wrong else ("right", "")
