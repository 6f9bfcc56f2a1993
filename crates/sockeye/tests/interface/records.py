"""Reads what sockeye wrote with the programs that people load it into: FOLDER PROGRAM...

FOLDER has NAME.json, NAME.jsonl and NAME.csv, and two samples of the same sockets, before.* and after.*. Each of the programs reads
each file without being helped: types are inferred, the time is a time, and the two samples are joined by it.
"""

import csv
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

folder, programs = Path(sys.argv[1]), sys.argv[2:]
files = sorted(folder.iterdir())
# Columns of sockets, and what they have to become: a number, a truth value, a text.
NUMBERS = ["inode", "cookie", "local_port", "peer_port", "recv_queue_bytes"]
TRUTHS = ["shutdown_receive", "shutdown_send"]
TEXTS = ["host", "netid", "state", "local_ip", "peer_ip"]
JSON_NUMBERS = ["schema_version", "inode", "cookie", "recv_queue_bytes"]
JSON_TEXTS = ["type", "host", "version", "netid", "state"]
# Bytes that were read between the two samples, by their cookie.
READ = {int(cookie): int(count) for cookie, count in json.loads((folder / "read").read_text()).items()}


def check(condition, *what):
    if not condition:
        sys.exit(" ".join(map(str, what)))


def documents_of(path):
    """The objects in a file; a repeated listing has a document for each sample."""
    text, found, at = path.read_text(), [], 0
    while text[at:].strip():
        document, at = json.JSONDecoder().raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found.append(document)
    return found


def rows_of(path):
    """Number of records in a file."""
    if path.suffix == ".csv":
        return len(list(csv.reader(path.read_text().splitlines()))) - 1
    return len(path.read_text().splitlines()) if path.suffix == ".jsonl" else len(documents_of(path))


def check_joined(program, joined):
    """joined: cookie, seconds between the samples, bytes in the queue before and after."""
    joined = list(joined)
    check({cookie for cookie, *_ in joined} >= set(READ), program, "joins", joined)
    for cookie, seconds, before, after in joined:
        check(0 < seconds < 600, program, cookie, seconds, "s")
        check(before - after == READ.get(cookie, 0), program, cookie, before, after)


def jq():
    def ask(path, program):
        done = subprocess.run(["jq", "-cs", program, path], capture_output=True, text=True)
        check(done.returncode == 0, "jq", path.name, done.stderr)
        return json.loads(done.stdout)

    envelope = "([.type, .time, .host, .version] | all(type == \"string\" and . != \"\"))"
    for path in files:
        if path.suffix in (".json", ".jsonl"):
            check(ask(path, f"all(.[]; {envelope} and (.schema_version == 2))"), "jq: no envelope in", path.name)
        if path.suffix == ".jsonl" and not path.name.startswith("doctor"):
            check(ask(path, "last | .type | endswith(\"_summary\")"), "jq: no summary at the end of", path.name)
    # fromdate knows whole seconds.
    both = "map(select(.type == \"socket\") | .time |= (sub(\"\\\\.[0-9]+Z$\"; \"Z\") | fromdate))"
    seconds = ask(folder / "before.jsonl", f"{both} | map(.time) | unique")
    check(len(seconds) == 1 and seconds[0] > 1.7e9, "jq", seconds)


def pandas():
    import pandas

    for path in files:
        if path.suffix == ".csv":
            frame = pandas.read_csv(path, parse_dates=["time"])
        elif path.suffix in (".json", ".jsonl"):
            frame = pandas.json_normalize(documents_of(path))
            frame["time"] = pandas.to_datetime(frame["time"])
        else:
            continue
        check(len(frame) == rows_of(path), "pandas", path.name, len(frame))
        check(str(frame["time"].dtype) == "datetime64[us, UTC]" or not len(frame), "pandas", path.name, frame["time"].dtype)
        # Later samples may fill what the first, with the header, does not. Those of top always have all columns.
        has_all = "-watch" in path.name or path.name.startswith("top-")
        if path.suffix == ".csv" and len(frame) and not has_all:
            empty = frame.columns[frame.isna().all()]
            check(not len(empty), "pandas: no row fills", list(empty), "of", path.name)
    frame = pandas.read_csv(folder / "before.csv", parse_dates=["time"])
    for name in NUMBERS:
        check(pandas.api.types.is_numeric_dtype(frame[name]), "pandas", name, frame[name].dtype)
    for name in TRUTHS:
        check(set(frame[name].dropna()) <= {True, False}, "pandas", name, set(frame[name]))
    lines = pandas.read_json(folder / "before.jsonl", lines=True)
    for name in JSON_NUMBERS:
        check(pandas.api.types.is_numeric_dtype(lines[name]), "pandas", name, lines[name].dtype)
    after = pandas.read_csv(folder / "after.csv", parse_dates=["time"])
    joined = frame.merge(after, on=["host", "cookie"], suffixes=("", "_after"))
    seconds = (joined["time_after"] - joined["time"]).dt.total_seconds()
    check_joined("pandas", zip(joined["cookie"], seconds, joined["recv_queue_bytes"], joined["recv_queue_bytes_after"]))


def duckdb():
    import duckdb

    for path in files:
        if path.suffix not in (".json", ".jsonl", ".csv"):
            continue
        types = dict(row[:2] for row in duckdb.sql(f"describe from '{path}'").fetchall())
        count = duckdb.sql(f"select count(*) from '{path}'").fetchall()[0][0]
        check(count == rows_of(path), "duckdb", path.name, count)
        if count:
            check(types["time"] == "TIMESTAMP WITH TIME ZONE", "duckdb", path.name, types["time"])
            check(types["host"] == "VARCHAR", "duckdb", path.name, types["host"])
    for name, numbers, texts in ("before.csv", NUMBERS, TEXTS), ("before.jsonl", JSON_NUMBERS, JSON_TEXTS):
        types = dict(row[:2] for row in duckdb.sql(f"describe from '{folder / name}'").fetchall())
        for column in numbers:
            check(types[column] == "BIGINT", "duckdb", name, column, types[column])
        for column in texts:
            check(types[column] == "VARCHAR", "duckdb", name, column, types[column])
    for column in TRUTHS:
        types = dict(row[:2] for row in duckdb.sql(f"describe from '{folder / 'before.csv'}'").fetchall())
        check(types[column] == "BOOLEAN", "duckdb", column, types[column])
    for kind, condition in ("csv", "true"), ("jsonl", "a.type = 'socket' and b.type = 'socket'"):
        check_joined(f"duckdb {kind}", duckdb.sql(f"""
            select a.cookie, epoch(b.time) - epoch(a.time), a.recv_queue_bytes, b.recv_queue_bytes
            from '{folder}/after.{kind}' b asof join '{folder}/before.{kind}' a
            on a.host = b.host and a.cookie = b.cookie and a.time <= b.time where {condition}""").fetchall())


def sqlite():
    base = sqlite3.connect(":memory:")
    for path in files:
        table = f"\"{path.name}\""
        if path.suffix == ".csv":
            header, *lines = csv.reader(path.read_text().splitlines())
            # Without the affinity a table of text is compared as text.
            names = ",".join(f"\"{name}\" NUMERIC" for name in header)
            base.execute(f"create table {table} ({names})")
            base.executemany(f"insert into {table} values ({','.join('?' * len(header))})", lines)
        elif path.suffix in (".json", ".jsonl"):
            base.execute(f"create table {table} as select null as time, null as line where false")
            lines = [[json.dumps(document)] for document in documents_of(path)]
            base.executemany(f"insert into {table} select json_extract(?1, '$.time'), ?1", lines)
        else:
            continue
        bad = base.execute(f"select time from {table} where julianday(time) is null").fetchall()
        check(not bad, "sqlite", path.name, bad)
    for kinds, columns in (("integer",), NUMBERS), (("text",), ["state", "local_ip", "shutdown_send"]):
        for column in columns:
            found = base.execute(f"select distinct typeof({column}) from \"before.csv\" where {column} <> ''").fetchall()
            check(found == [kinds], "sqlite", column, found)
    joins = {
        "csv": ("cookie", "recv_queue_bytes", "true"),
        "jsonl": ("line ->> '$.cookie'", "line ->> '$.recv_queue_bytes'", "a.line ->> '$.type' = 'socket'"),
    }
    for kind, (cookie, queue, condition) in joins.items():
        a, b = (lambda text, of=of: f"{of}.{text}" for of in "ab")
        check_joined(f"sqlite {kind}", base.execute(f"""
            select {a(cookie)}, (julianday(b.time) - julianday(a.time)) * 86400, {a(queue)}, {b(queue)}
            from "before.{kind}" a join "after.{kind}" b on {a(cookie)} = {b(cookie)} and a.time < b.time
            where {condition}""").fetchall())


def clickhouse():
    import chdb

    def ask(query):
        return [line.split("\t") for line in chdb.query(query, "TSV").data().splitlines()]

    for path in files:
        # Documents have the rows of the lines, in one value.
        form = {".jsonl": ", JSONEachRow", ".csv": ", CSVWithNames"}.get(path.suffix)
        if form is None or not rows_of(path):
            continue
        # Every value is read, not only those that types are inferred from.
        query = f"select count(), any(toTypeName(time)), any(toTypeName(host)), sum(ignore(*)) from file('{path}'{form})"
        count, time, host, _ = ask(query)[0]
        check(count == str(rows_of(path)), "clickhouse", path.name, count)
        check("DateTime64" in time and "String" in host, "clickhouse", path.name, time, host)
    types = dict(row[:2] for row in ask(f"describe file('{folder}/before.csv', CSVWithNames)"))
    for column, kind in [(name, "Int64") for name in NUMBERS] + [(name, "Bool") for name in TRUTHS] + [(name, "String") for name in TEXTS]:
        check(kind in types[column], "clickhouse", column, types[column])
    for kind, form in ("csv", "CSVWithNames"), ("jsonl", "JSONEachRow"):
        joined = ask(f"""
            select a.cookie, dateDiff('microsecond', a.time, b.time) / 1e6, a.recv_queue_bytes, b.recv_queue_bytes
            from (select * from file('{folder}/before.{kind}', {form}) where cookie is not null) a
            join (select * from file('{folder}/after.{kind}', {form}) where cookie is not null) b
            on a.host = b.host and a.cookie = b.cookie where a.time < b.time""")
        check_joined(f"clickhouse {kind}", ((int(c), float(s), int(x), int(y)) for c, s, x, y in joined))


for path in files:
    text = path.read_text()
    # u64::MAX, and what it becomes as a floating-point number.
    check("18446744073709551615" not in text and "1.8446744073709552e+19" not in text, path.name, "has a number in place of unlimited")
for program in programs:
    {"jq": jq, "pandas": pandas, "duckdb": duckdb, "sqlite3": sqlite, "chdb": clickhouse}[program]()
print("read by", *programs)
