"""Checks of `sockeye events`, `drops` and `path`."""

import contextlib
import json
import signal
import socket
import subprocess
import time

from guest import COMMAND_S, Absent, check, packed, require
from guest_world import tcp_pair


@contextlib.contextmanager
def watching(text):
    """Starts a command that watches until it is interrupted, and yields it once it does. It has `out` then."""
    with subprocess.Popen(
        ["sockeye", *text.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        notes = ""
        while not any(word in notes for word in ("watching", "counted", "are followed")):
            note = child.stderr.readline()
            if not note:
                raise Absent(packed(notes)[:300])
            notes += note
        yield child
        child.send_signal(signal.SIGINT)
        child.out, child.err = child.communicate(timeout=COMMAND_S)


@check("events: opens, closes, bytes and owners", since=(5, 10), core=True)
def _():
    with watching("events -n -v --source bpf --format jsonl") as child:
        held = tcp_pair("127.0.0.1", 0)
        held[1].send(b"x" * 1000)
        held[2].recv(4096)
        port = held[0].getsockname()[1]
        for each in reversed(held):
            each.close()
        time.sleep(1)
    rows = [json.loads(line) for line in child.out.splitlines()]
    rows = [row for row in rows if port in (row.get("local", {}).get("port"), row.get("peer", {}).get("port"))]
    found = {(row["event"], row.get("direction")): row for row in rows}
    for event in ("open", "close"):
        for direction in ("active", "passive"):
            row = found.get((event, direction), {})
            require(row.get("owner", {}).get("pid"), f"no owner of {event} {direction}: {sorted(map(str, found))}; {packed(child.err)[-200:]}")
    sent = found["close", "active"].get("sent_bytes"), found["close", "passive"].get("received_bytes")
    require(sent == (1000, 1000), f"bytes sent and received: {sent}")
    return f"{len(rows)} events"


@check("events: every kind and protocol is watched", since=(5, 10))
def _():
    with watching("events -n -v --source bpf -tuM --kinds all --format jsonl") as child:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.bind(("127.0.0.1", 0))
            sender.sendto(b"x" * 100, receiver.getsockname())
            receiver.recv(200)
            port = receiver.getsockname()[1]
        time.sleep(1)
    rows = [json.loads(line) for line in child.out.splitlines()]
    kinds = {row.get("event") for row in rows if row.get("netid") == "udp" and row.get("local", {}).get("port") == port}
    missing = packed(child.err.replace("sockeye: ", ""))
    require("close" in kinds, f"events of the socket that received: {kinds}; {missing[-600:]}")
    return f"{sorted(kinds)}; {missing[-300:]}"


@check("events without BPF: closes and bytes", since=(4, 19))
def _():
    with watching("events -n --source diag --format jsonl --kinds close") as child:
        held = tcp_pair("127.0.0.1", 0)
        held[1].send(b"x" * 1000)
        held[2].recv(4096)
        ports = held[1].getsockname()[1], held[2].getsockname()[1]
        for each in reversed(held):
            each.close()
        time.sleep(1)
    rows = [json.loads(line) for line in child.out.splitlines()]
    found = {row["local"]["port"]: row for row in rows if row.get("local", {}).get("port") in ports}
    require(len(found) == 2, f"closes: {str(rows)[:300]}; {packed(child.err)[-200:]}")
    sent, received = found[ports[0]].get("sent_bytes"), found[ports[1]].get("received_bytes")
    # A FIN may be among what was received.
    require(sent == 1000 and received in (1000, 1001), f"bytes sent and received: {sent}, {received}")
    return f"{len(found)} closes"


@check("drops: a full receive buffer, its owner and counters", since=(5, 10), core=True)
def _():
    with watching("drops -n -v --format json") as child, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(receiver.getsockname())
            for _ in range(50):
                sender.send(b"x" * 500)
        port = receiver.getsockname()[1]
        child.send_signal(signal.SIGINT)
        # The sockets are read at the end.
        child.wait(COMMAND_S)
    report = json.loads(child.out)
    # Copies for packet sockets are dropped elsewhere, before Linux 6.4 without a reason.
    rows = [row for row in report["drops"] if row.get("local", {}).get("port") == port and "udp" in row.get("function", "")]
    require(rows, f"no drop of the socket: {str(report['drops'])[:300]}; {packed(child.err)[-200:]}")
    moved = sum(each["moved"] for each in report["counters"] if each["counter"] == "UdpRcvbufErrors")
    dropped = sum(row["count"] for row in rows)
    require(dropped == moved >= 10, f"{dropped} drops, the counter moved by {moved}: {str(rows)[:600]}")
    return f"{dropped} drops, {rows[0].get('reason', 'no reasons')}"


@check("path: connections wait until they are accepted", since=(5, 10))
def _():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with watching(f"path -v -d 60 --port {address[1]} --format json") as child:
            for _ in range(3):
                with socket.create_connection(address):
                    time.sleep(0.2)
                    listener.accept()[0].close()
            time.sleep(1)
    report = json.loads(child.out)
    rows = [hop for hop in report["hops"] if hop["hop"] == "accept"]
    require(report["accepts_measured"] and rows, f"accept queues: {str(report)[:600]}; {packed(child.err)[-300:]}")
    require(rows[0]["packets"] == 3 and rows[0]["median_ns"] >= 200_000_000, f"waits: {rows[0]}")
    return f"{rows[0]['median_ns'] // 1_000_000} ms"


@check("path: datagrams are followed until they are read", since=(5, 10))
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        with watching(f"path -v -d 60 --port {port} --format json") as child:
            for _ in range(100):
                sender.sendto(b"x" * 100, receiver.getsockname())
                receiver.recv(200)
            time.sleep(1)
    report = json.loads(child.out)
    read = [hop for hop in report["hops"] if hop["hop"] == "socket" and hop["direction"] == "in"]
    seen = [(hop["direction"], hop["hop"], hop["packets"]) for hop in report["hops"]]
    rest = {key: value for key, value in report.items() if key != "hops"}
    # Where a packet socket has a part of each packet (Linux 7.2), one may be lost sight of, and is counted.
    require(
        read and read[0]["packets"] >= 95 and read[0]["packets"] + report["lost"] == report["followed"] == 100,
        f"packets that were read: {seen}, {str(rest)[:600]}; {packed(child.err)[-200:]}",
    )
    require(read[0]["reader"]["pid"], f"reader: {read[0]}")
    return f"{len(report['hops'])} hops, median in the queue {read[0].get('median_ns')} ns"
