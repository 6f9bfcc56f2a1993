#!/usr/bin/env python3
"""Runs `sockeye analyze` on each capture of make.py and compares what it says with the label.

    judge.py SOCKEYE            lists what is not right; exit status 1 if anything is not
    judge.py SOCKEYE --table    prints the table of docs/VERDICTS.md
"""

import json
import re
import subprocess
import sys
import tempfile

import make


def judge(label, connections):
    """What is missing, and what is wrong."""
    found = [finding["kind"] for connection in connections for finding in connection["findings"]]
    text = " ".join(connection["verdict"] for connection in connections)
    missing = [kind for kind in label["finds"] if not set(kind.split("|")) & set(found)]
    missing += [f"/{expression}/" for expression in label["says"] if not re.search(expression, text)]
    wrong = [kind for kind in label["lacks"] if kind in found]
    wrong += [f"/{expression}/" for expression in label["never"] if re.search(expression, text)]
    for connection in connections:
        if sum(connection["exchanges"]["times_ns"].values()) != connection["duration_ns"]:
            wrong.append("times that are not the duration")
    return missing, wrong


def main():
    sockeye, is_table = sys.argv[1], "--table" in sys.argv
    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        make.main(folder)
        with open(f"{folder}/labels.json", encoding="utf-8") as file:
            labels = json.load(file)
        counts = {"right": 0, "partly": 0, "wrong": 0}
        rows = []
        for label in labels:
            command = [sockeye, "analyze", f"{folder}/{label['name']}.pcap", "--format", "json"]
            output = subprocess.run(command, check=True, capture_output=True).stdout
            connections = json.loads(output)["connections"]
            missing, wrong = judge(label, connections)
            result = "wrong" if wrong else "partly" if missing else "right"
            counts[result] += 1
            is_right &= result == "right"
            first = connections[0]
            said = re.split(r"(?<=\.) (?=[A-Z0-9])", first["verdict"])
            rows.append(f"| {label['cause']} | {', '.join(label['finds']) or '(no false cause)'} | {said[0]} | {result} |")
            if not is_table and result != "right":
                print(f"{label['name']}: {label['cause']}\n  missing {missing}, wrong {wrong}")
                for connection in connections[:2]:
                    kinds = [finding["kind"] for finding in connection["findings"]]
                    print(f"  {kinds}\n  {connection['verdict']}")
    if is_table:
        print("| capture | expected | said first | result |\n|---|---|---|---|")
        print("\n".join(rows))
    print(f"{counts['right']} right, {counts['partly']} partly, {counts['wrong']} wrong, of {len(labels)}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
