#!/usr/bin/env python3
"""Runs made faults, and healthy hosts that look suspicious, against `sockeye check`, and judges the answers.

    run.py --binary target/debug/sockeye [-j 4] [--json] [--kind listener] [CASE ...]

Exits with 1 if an answer is wrong, with 2 if a case could not be made.
"""

import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import expect
import lab as laboratory

DEADLINE = 75


def load_cases():
    folder = os.path.dirname(os.path.abspath(__file__))
    for file in sorted(os.listdir(folder)):
        if file.startswith("cases_") and file.endswith(".py"):
            __import__(file[:-3])
    return expect.CASES


def one(case, options):
    """Makes a case and judges the answers; returns a list of results, one for each mode."""
    made = laboratory.Lab(os.path.abspath(options.binary), apart=case.apart if case.apart is not None else not options.shared)
    results = []
    start = time.monotonic()
    try:
        answer = case.run(made)
    except BaseException as error:
        detail = str(error) if isinstance(error, laboratory.FaultAbsent) else traceback.format_exc()
        return [{"case": case.name, "mode": mode, "verdict": "not made", "why": detail} for mode in case.modes]
    host, after = answer if isinstance(answer, tuple) else (answer, None)
    prepared = time.monotonic() - start
    for mode in case.modes:
        form = [] if case.stdout else ["--format", "json"]
        argv = [made.binary, "check", "-n", *form, *expect.arguments(mode), *case.filter]
        start = time.monotonic()
        code, out, err = host.run(*argv, uid=case.uid)
        result = {"case": case.name, "mode": mode, "took_s": round(time.monotonic() - start, 1), "prepared_s": round(prepared, 1)}
        if case.stdout:
            verdict, why = expect.judge_statement(case, code, out)
            results.append({**result, "verdict": verdict, "why": why, "printed": out.splitlines(), "exit_code": code, "stderr": err.strip()})
            continue
        try:
            document = expect.documents(out)[-1]
            findings = document["findings"]
        except (ValueError, IndexError, KeyError) as error:
            results.append({**result, "verdict": "not made", "why": f"exit code {code}, {error!r}: {err[:500]} {out[:500]}"})
            continue
        verdict, why = expect.judge(case, findings)
        result |= {"verdict": verdict, "why": why, "findings": findings, "printed": [expect.describe(f) for f in findings],
                   "stderr": err.strip(), "document": {key: value for key, value in document.items() if key != "findings"}}
        results.append(result)
    if after:
        # The fault must still be there after the look, or the answer says nothing.
        try:
            after()
        except laboratory.FaultAbsent as error:
            for result in results:
                result |= {"verdict": "not made", "why": f"gone after the look: {error}"}
    for result in results:
        result["proofs"] = made.proofs
    return results


def child(case, options):
    # The thread that started us waits for our end; if the runner is killed, all of the case ends.
    laboratory.libc.prctl(laboratory.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def run():
        try:
            results = one(case, options)
        except BaseException:
            results = [{"case": case.name, "mode": mode, "verdict": "not made", "why": traceback.format_exc()} for mode in case.modes]
        print(json.dumps(results))
        return 0
    return laboratory.enter_case(run)


running = set()


def start(case, options):
    argv = [sys.executable, os.path.abspath(__file__), "--one", "--binary", options.binary, case.name] + (["--shared"] if options.shared else [])
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.add(process)
    try:
        out, err = process.communicate(timeout=DEADLINE)
        results = json.loads(out)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        results = [{"case": case.name, "mode": mode, "verdict": "not made", "why": f"no end within {DEADLINE} s"} for mode in case.modes]
    except ValueError:
        results = [{"case": case.name, "mode": mode, "verdict": "not made", "why": f"exit code {process.returncode}: {err[-800:]}"}
                   for mode in case.modes]
    finally:
        running.discard(process)
    for result in results:
        result |= {"class": case.kind, "title": case.title, "expected": case.expected,
                   "healthy": case.healthy}
    return results


def table(results):
    rows = [("case", "class", "expected", "got", "verdict")]
    for result in results:
        got = result.get("printed") or ["-"]
        got = " ".join(got[0].split()[:2]) + (f" +{len(got) - 1}" if len(got) > 1 else "")
        verdict = result["verdict"] + (f" ({result['why'].splitlines()[-1]})" if result.get("why") else "")
        rows.append((f"{result['case']} {result['mode']}", result["class"], result["expected"], got, verdict))
    limits = (44, 12, 60, 40, 200)
    widths = [min(limit, max(len(row[i]) for row in rows)) for i, limit in enumerate(limits)]
    for row in rows:
        print("  ".join(cell[:width].ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/debug/sockeye")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--json", action="store_true", help="all results as one JSON document")
    parser.add_argument("--kind", help="only cases of this class")
    parser.add_argument("--shared", action="store_true", help="hosts of a case see each other's processes, as with ip netns")
    parser.add_argument("--host-wide", action="store_true", help="also cases that press on tables which all namespaces share")
    parser.add_argument("--list", action="store_true", help="list the cases and run none")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    cases = load_cases()
    unknown = [name for name in options.cases if name not in cases]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    if options.one:
        return child(cases[options.cases[0]], options)
    chosen = [case for case in cases.values() if (not options.cases or case.name in options.cases)
              and (not options.kind or case.kind == options.kind) and (options.host_wide or not case.host_wide or case.name in options.cases)]
    if options.list:
        for case in chosen:
            print(f"{case.name:40} {case.kind:12} {case.title}")
        return 0
    if os.geteuid() != 0:
        parser.error("namespaces need root")

    def stop(number, _frame):
        for process in list(running):
            process.terminate()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda case: start(case, options), chosen):
            results += found
            if not options.json:
                for result in found:
                    print(f"{result['verdict']:12} {result['case']} {result['mode']}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        table(results)
        count = {}
        for result in results:
            count[result["verdict"]] = count.get(result["verdict"], 0) + 1
        print(", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items())))
    verdicts = {result["verdict"] for result in results}
    return 2 if "not made" in verdicts else 1 if verdicts - {"right"} else 0


if __name__ == "__main__":
    sys.exit(main())
