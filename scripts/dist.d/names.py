"""A DNS server on 127.0.0.1 with few names, and what Sockeye makes of them, in a network and mount namespace of its own."""

import ipaddress
import os
import socket
import struct
import subprocess
import threading

A, PTR, AAAA = 1, 12, 28
NXDOMAIN, TRUNCATED = 3, 0x0200
DATAGRAM_BYTES = 512
NAMES = {
    "db.packages.test": ["10.77.0.1"],
    "six.packages.test": ["fd77::1"],
    # More addresses than a datagram has room for, and as many as musl returns.
    "many.packages.test": [f"10.78.{number}.1" for number in range(47)] + ["10.77.0.1"],
}
# No answer at all.
SILENT = "10.77.0.9"
NAMELESS = "10.77.0.8"
HOSTS = "10.77.0.2 listed.hosts.test\n127.0.0.1 localhost\n"
ADDRESSES = ["10.77.0.1", "10.77.0.2", NAMELESS, SILENT, "fd77::1"]


def answer(query, is_datagram):
    """The answer to a query, or None."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    kind, _ = struct.unpack_from(">HH", query, at + 1)
    question, name = query[12:at + 5], ".".join(labels).lower()
    if name == ipaddress.ip_address(SILENT).reverse_pointer:
        return None
    records = []
    for known, addresses in NAMES.items():
        for address in map(ipaddress.ip_address, addresses):
            if kind == (A if address.version == 4 else AAAA) and name == known:
                records.append(address.packed)
            elif kind == PTR and name == address.reverse_pointer:
                records.append(b"".join(bytes([len(label)]) + label.encode() for label in known.split(".")) + b"\0")
        if kind == PTR and records:
            break
    is_known = name in NAMES or bool(records)
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(record)) + record for record in records)
    flags = 0x8180 | (0 if is_known else NXDOMAIN)
    if is_datagram and 12 + len(question) + len(body) > DATAGRAM_BYTES:
        flags, records, body = flags | TRUNCATED, [], b""
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question + body


def serve_datagrams(server):
    while True:
        query, client = server.recvfrom(4096)
        if reply := answer(query, True):
            server.sendto(reply, client)


def serve_streams(server):
    while True:
        client, _ = server.accept()
        threading.Thread(target=serve_stream, args=[client], daemon=True).start()


def serve_stream(client):
    """Answers the queries of one connection."""
    with client:
        while len(length := client.recv(2, socket.MSG_WAITALL)) == 2:
            if reply := answer(client.recv(*struct.unpack(">H", length), socket.MSG_WAITALL), False):
                client.sendall(struct.pack(">H", len(reply)) + reply)


def serve():
    datagrams, streams = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
    datagrams.bind(("127.0.0.1", 53))
    streams.bind(("127.0.0.1", 53))
    streams.listen(16)
    threading.Thread(target=serve_datagrams, args=[datagrams], daemon=True).start()
    threading.Thread(target=serve_streams, args=[streams], daemon=True).start()


def replace(path, text, folder):
    """Puts a text in the place of a file, in this mount namespace."""
    copy = folder / path.replace("/", "-")
    copy.write_text(text)
    subprocess.run(["mount", "--bind", copy, os.path.realpath(path)], check=True)


def check(binary, folder):
    """Raises AssertionError where names are wrong. To be called in new namespaces."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ADDRESSES:
        more = ["nodad"] if ":" in address else []
        subprocess.run(["ip", "address", "add", address, "dev", "lo", *more], check=True)
    replace("/etc/resolv.conf", "nameserver 127.0.0.1\nsearch packages.test\noptions timeout:1 attempts:1\n", folder)
    replace("/etc/hosts", HOSTS, folder)
    serve()
    connections = []
    for address in ADDRESSES:
        listener = socket.create_server((address, 7000), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        connections += [listener, socket.create_connection((address, 7000), source_address=(address, 0)), listener.accept()[0]]

    def run(*arguments):
        result = subprocess.run([binary, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
        return result.stdout + result.stderr

    listed = run("sockets", "-tr", "state", "established")
    for text in ("db.packages.test:", "listed.hosts.test:", "six.packages.test:", f"{NAMELESS}:", f"{SILENT}:"):
        assert text in listed, f"{text} is not in\n{listed}"
    numeric = run("sockets", "-tn", "state", "established")
    assert "packages.test" not in numeric and "10.77.0.1:7000" in numeric, numeric
    # By its whole name, by the search list, by /etc/hosts, by an answer that needs TCP, and of IPv6.
    for name, address in (("db.packages.test", "10.77.0.1"), ("db", "10.77.0.1"), ("listed.hosts.test", "10.77.0.2"),
                          ("many.packages.test", "10.77.0.1"), ("six.packages.test", "[fd77::1]")):
        found = run("sockets", "-tnH", f"state established and dst {name}").splitlines()
        assert found and all(f"{address}:" in line for line in found), f"dst {name}: {found}"
    unknown = run("sockets", "-tn", "dst absent.packages.test")
    assert "found 'absent.packages.test'" in unknown, unknown
