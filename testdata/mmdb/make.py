#!/usr/bin/env python3
"""Writes lab.mmdb: the country and the autonomous system of 10.77.0.0/16, the addresses of the tests' links.

The format: https://maxmind.github.io/MaxMind-DB/
"""

import pathlib
import struct


def value(of):
    """Encodes texts of up to 284 bytes, numbers, lists and dictionaries with up to 28 entries."""
    if isinstance(of, str):
        data = of.encode()
        size = bytes([2 << 5 | len(data)] if len(data) < 29 else [2 << 5 | 29, len(data) - 29])
        return size + data
    if isinstance(of, dict):
        return bytes([7 << 5 | len(of)]) + b"".join(value(key) + value(of[key]) for key in of)
    if isinstance(of, list):
        return bytes([len(of), 11 - 7]) + b"".join(value(entry) for entry in of)
    kind, number = of
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([kind << 5 | len(data)] if kind < 8 else [len(data), kind - 7]) + data


U16, U32, U64 = 5, 6, 9
prefix, bits = 10 << 8 | 77, 16
tree = b""
for nth in range(bits):
    following = nth + 1 if nth + 1 < bits else bits + 16  # the first record of the data section
    pair = [bits, bits]  # the number of nodes: no data
    pair[prefix >> (bits - 1 - nth) & 1] = following
    tree += b"".join(struct.pack(">I", record)[1:] for record in pair)
record = {
    "country": {"iso_code": "DE"},
    "autonomous_system_number": (U32, 64512),
    "autonomous_system_organization": "Lab network",
}
metadata = {
    "binary_format_major_version": (U16, 2),
    "binary_format_minor_version": (U16, 0),
    "build_epoch": (U64, 1_700_000_000),
    "database_type": "Sockeye-Lab",
    "description": {"en": "Addresses of the lab"},
    "ip_version": (U16, 4),
    "languages": ["en"],
    "node_count": (U32, bits),
    "record_size": (U16, 24),
}
data = tree + bytes(16) + value(record) + b"\xab\xcd\xefMaxMind.com" + value(metadata)
pathlib.Path(__file__).with_name("lab.mmdb").write_bytes(data)
